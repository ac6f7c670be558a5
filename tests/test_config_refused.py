"""What could only ever fail, or let nothing through, is refused where it is written."""

from __future__ import annotations

import pytest

from shadow.config import Config, ConfigError
from shadow.config.document import check


def refused(**changed: object) -> str:
    tree = {
        "experiment": "x",
        "capture": "full",
        "primary": {"url": "http://127.0.0.1:9"},
        "arms": {"fp8": {"url": "http://127.0.0.1:8", "role": "candidate", "sample": 1}},
        "stream": {"embedded": "stream"},
        "store": {"embedded": "store"},
    } | changed
    with pytest.raises(ConfigError) as error:
        check(tree, Config)
    return str(error.value)


KAFKA = {"bootstrap_servers": "127.0.0.1:1"}


@pytest.mark.parametrize("name", ["request_bytes", "answer_bytes", "queue_bytes", "mirror_bytes"])
def test_a_bound_of_nothing_is_refused(name):
    """It would mirror or capture nothing."""
    assert refused(limits={name: 0}).startswith(f"limits.{name}: ")


@pytest.mark.parametrize("name", ["head_timeout", "client_idle", "upload_wait"])
def test_a_wait_of_nothing_is_refused(name):
    """Every request would be late."""
    assert refused(limits={name: "0s"}).startswith(f"limits.{name}: ")


@pytest.mark.parametrize("said", [float("nan"), float("inf"), -5.0, "9" * 400 + "s"], ids=repr)
def test_a_time_that_no_clock_has_is_refused(said):
    """A drain of -5 would cut every stream at once; of one without an end the loop makes a fault."""
    assert refused(drain=said).startswith("drain: ")


def test_a_size_that_no_machine_has_is_refused():
    """As a mistake, not as a fault of ours."""
    assert "is too large" in refused(limits={"request_bytes": "9" * 400 + "GiB"})


@pytest.mark.parametrize("name", ["deadline", "connect_timeout", "idle_timeout"])
def test_an_arm_without_time_is_refused(name):
    """Every copy would be dropped before it was sent."""
    arm = {"url": "http://127.0.0.1:8", "role": "candidate", "sample": 1, name: "0s"}
    assert refused(arms={"fp8": arm}).startswith(f"arms.fp8.{name}: ")


@pytest.mark.parametrize(
    "stream",
    [{"embedded": "a", "max_bytes": 0}, {"embedded": "a", "max_age": "0s"}],
    ids=["max_bytes", "max_age"],
)
def test_a_stream_that_holds_nothing_is_refused(stream):
    """Everything would be dropped, `log_full`, or be gone before it was read."""
    assert refused(stream=stream).startswith(f"stream.{list(stream)[1]}: ")


def test_nothing_eligible_is_refused():
    """Without a path, or with one that no request has."""
    assert refused(mirror_paths=[]).startswith("mirror_paths: ")
    assert "'v1/x' is not METHOD /PATH" in refused(mirror_paths=["v1/x"])


def test_dead_letters_have_a_topic_of_their_own():
    """Read back as records they would be dead letters again, without an end."""
    both = KAFKA | {"topic": "a", "dead_letter_topic": "a"}
    assert "each needs its own" in refused(stream={"kafka": both})
    one = KAFKA | {"topic": "shadow.dead-letters"}  # the other's default
    assert "dead_letter_topic: shadow.dead-letters is topic too" in refused(stream={"kafka": one})


@pytest.mark.parametrize("name", ["default", "system", "information_schema"])
def test_the_engines_own_databases_are_refused(name):
    """The embedded store cannot serve them, a server lets nobody make tables in the latter two."""
    said = refused(store={"embedded": "store", "database": name})
    assert said.startswith(f"store.database: {name} is the engine's own")
    if name != "default":
        server = {"url": "http://127.0.0.1:1", "database": name}
        assert refused(store={"clickhouse": server}).startswith("store.clickhouse.database: ")
