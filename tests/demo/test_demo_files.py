"""The written configuration and policies are what the product accepts, and mean what the demo says."""

import socket

from analysis.policy import Policy
from shadow.config import Config, load
from shadow.demo import real
from shadow.demo.files import POLICY, Engine, Ports, free_ports, write

ENGINES = [
    Engine("primary", "http://127.0.0.1:9001", "a build: with 'odd' \"text\""),
    Engine("fp8", "http://127.0.0.1:9002", "fp8"),
    Engine("control", "http://127.0.0.1:9003", ""),
]


def written(folder, engines=ENGINES, policy=POLICY):
    path = write(folder, "demo-slow", engines, Ports(9004, 9005, 9006), policy)
    config = load(path, Config, {})
    return config, load(config.policy, Policy, {}, overrides=False)


def test_configuration(tmp_path):
    """Every request goes to both arms; ports, builds and folders are the demo's."""
    folder = tmp_path / "a folder, with: odd {characters}"
    folder.mkdir()
    config, _ = written(folder)
    assert config.candidates == ["fp8"]
    assert config.control == "control"
    assert {arm.sample for arm in config.arms.values()} == {1.0}
    assert config.primary.build == ENGINES[0].build
    assert (config.listen.port, config.admin.health.port, config.store.listen.port) == (
        9004,
        9005,
        9006,
    )
    assert all(
        p.is_relative_to(folder)
        for p in (config.stream.embedded, config.store.embedded, config.state)
    )


def test_policy(tmp_path):
    """What is gated and how; the file itself says what is not, and why."""
    _, policy = written(tmp_path)
    assert {name: gated.margin for name, gated in policy.metrics.items()} == {
        "ttft_any.p50": "5%",
        "tpot.mean": "5%",
        "failure.rate": "0.5pp",
        "mismatch.rate": "2pp",
    }
    assert (policy.blocks.every, policy.blocks.min_pairs, policy.blocks.planned) == (1.0, 20, 50)
    assert (policy.warm_up.pairs, policy.min_span) == (100, 0.0)
    assert "Not gated here: ttft_any.p95 and e2e.p95" in (tmp_path / "policy.yaml").read_text()


def test_policy_of_real_engines(tmp_path):
    """The default policy but for blocks and warm-up, which would leave out all forty pairs."""
    _, policy = written(tmp_path, policy=real.POLICY)
    assert policy.metrics == Policy().metrics
    assert (policy.warm_up.pairs, policy.blocks.min_pairs, policy.min_span) == (0, 5, 3600.0)


def test_without_a_control(tmp_path):
    """One's own engines may be two."""
    config, _ = written(tmp_path, ENGINES[:2])
    assert (config.candidates, config.control) == (["fp8"], None)


def test_ports_are_free_and_different():
    """Each can be listened on."""
    ports = free_ports(3)
    assert len(set(ports)) == 3
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()
