"""`shadow mirror status`: never "on" where nobody mirrors; the proxies' own words decide."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from shadow.cli.mirroring import Worker, standing, workers
from shadow.cli.serving import serving
from shadow.config import Config, config_hash
from shadow.config.units import Address
from shadow.steering.switch import REASONS
from shadow.steering.told import Told


def made(tmp_path: Path, **changes) -> Config:
    tree = {
        "experiment": "e",
        "capture": "text",
        "primary": {"url": "http://127.0.0.1:1"},
        "arms": {"fp8": {"role": "candidate", "url": "http://127.0.0.1:2", "sample": 0.25}},
        "stream": {"embedded": str(tmp_path / "stream")},
        "store": {"embedded": str(tmp_path / "store")},
    }
    return Config.model_validate(tree | changes)


def at(state: str, rate: float = 0.25) -> Worker:
    return Worker("127.0.0.1:9091", state, rates={"fp8": rate})


AWAY = Worker("127.0.0.1:9092", away="Connection refused")


def status(config: Config, told: Told, *seen: Worker) -> list[str]:
    return list(standing(config, told, list(seen)))


@pytest.mark.parametrize("state", REASONS)
def test_what_the_proxy_says_decides(tmp_path, state):
    """A proxy that stands still for whatever reason is not told as `on`, though nobody paused."""
    first, said, _, proxy, _ = status(made(tmp_path), Told(), at(state))
    assert first != "mirroring: on"
    assert first.removeprefix("mirroring: ") == proxy.removeprefix("proxy 0 (127.0.0.1:9091): ")
    assert said == "said: not paused"


def test_nothing_runs(tmp_path):
    """Then nobody mirrors, whatever was said; where all has ended, that is said first."""
    config = made(tmp_path)
    assert status(config, Told(), AWAY)[0] == "mirroring: off: no proxy of this host answers"
    ended = Told(stopped={"fp8": "verdict: promote"}, config_hash=config_hash(config))
    first, *_, proxy, arm = status(config, ended, AWAY)
    assert (first, arm) == ("mirroring: ended", "fp8: ended, verdict: promote")
    assert proxy == "proxy 0 (127.0.0.1:9092): no answer: Connection refused"
    of_another = Told(stopped=ended.stopped, config_hash="another")
    assert status(config, of_another, AWAY)[-1] == "fp8: rate 0.25 (configured)"


def test_workers_that_differ(tmp_path):
    """Each has its line; the first line has every state, and how many do not answer."""
    told = status(made(tmp_path, workers=3), Told(paused=True), at("on"), at("paused"), AWAY)
    assert told[0] == "mirroring: on | paused; 1 of 3 proxies of this host do not answer"
    assert told[1] == "said: paused"
    assert [line[:7] for line in told[3:6]] == ["proxy 0", "proxy 1", "proxy 2"]
    nothing = status(made(tmp_path), Told(), at("on", 0.0))
    assert nothing[0] == "mirroring: on, but every rate is 0"


def test_the_kill_switch_has_a_line(tmp_path):
    """With what the file says, also where no proxy runs; its path is whole."""
    assert status(made(tmp_path), Told())[2] == "kill switch: none is configured"
    path = tmp_path / "kill"
    config = made(tmp_path, kill_switch=str(path))
    assert status(config, Told())[2] == f"kill switch: off ({path})"
    path.write_text("on")
    assert status(config, Told())[2] == f"kill switch: {path} says 'on'"


def test_the_term_has_a_line_each(tmp_path):
    """When it begins and ends, and how far away that is; after the end every arm has ended."""
    now = datetime.now(UTC).replace(microsecond=0)
    begun, over = (now + timedelta(hours=hours) for hours in (-1, 3))
    config = made(tmp_path, start_at=begun, stop_at={"time": over})
    start, stop = status(config, Told(), AWAY)[3:5]
    assert start == f"start_at: {begun:%Y-%m-%dT%H:%M:%SZ}, passed"
    assert stop.startswith(f"stop_at.time: {over:%Y-%m-%dT%H:%M:%SZ}, in ")
    ended = made(tmp_path, stop_at={"time": begun})
    first, *_, arm = status(ended, Told(), AWAY)
    assert (first, arm) == (
        "mirroring: ended",
        f"fp8: ended, stop_at.time: {begun:%Y-%m-%dT%H:%M:%SZ}",
    )
    early = status(made(tmp_path, start_at=over), Told(), at("not_started"))
    assert early[0] == "mirroring: not started yet"


def test_health_ports_are_asked(tmp_path):
    """Worker n at admin.health + n; an answer that is no proxy's, and none, are away."""
    text = 'shadow_mirroring{state="on"} 0.0\nshadow_mirroring{state="lag"} 1.0\n'
    text += 'shadow_arm_rate{arm="fp8"} 0.5\n'

    def health(body: str) -> web.Application:
        async def metrics(_request: web.Request) -> web.Response:
            return web.Response(text=body)

        app = web.Application()
        app.router.add_get("/metrics", metrics)
        return app

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = made(tmp_path, admin={"health": f"127.0.0.1:{port}"})
    address = Address("127.0.0.1", port)
    assert workers(config)[0].away
    with serving(address, lambda: health(text), "admin.health"):
        assert workers(config) == [Worker(str(address), "lag", rates={"fp8": 0.5})]
    with serving(address, lambda: health("up 1.0\n"), "admin.health"):
        assert workers(config)[0].away == "it is no proxy of shadow's that answers there"
    assert workers(made(tmp_path, admin={"health": "127.0.0.1:0"}))[0].away
