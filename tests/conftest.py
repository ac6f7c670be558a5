"""What every test shares: a real Kafka broker for those that need one, asked for by `-m kafka`."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest


def _broker_module() -> ModuleType:
    """tests/kafka/broker.py, which is no test and stands in no package."""
    name = "shadow_tests_kafka_broker"
    if name not in sys.modules:
        path = Path(__file__).parent / "kafka" / "broker.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


REAL = ("kafka", "gateway", "whole")
"""Markers of what `make test-real` runs, and `make test` does not."""


def _asked_for(config: pytest.Config, marker: str = "kafka") -> bool:
    expression = config.getoption("-m") or ""
    return marker in expression and f"not {marker}" not in expression


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `-m kafka` no broker is started, and so on."""
    for item in items:  # kafka-python leaves the socket of a failed attempt to the collector
        if item.get_closest_marker("kafka"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
    unasked = [marker for marker in REAL if not _asked_for(config, marker)]
    left_out = {item for item in items if any(map(item.get_closest_marker, unasked))}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say loudly why the real broker's tests will not run."""
    if not _asked_for(config):
        return None
    module = _broker_module()
    if module.existing():
        return f"kafka: {','.join(module.existing())}, by KAFKA_BOOTSTRAP_SERVERS"
    try:
        module.jars()
    except module.NoBroker as none:
        return f"kafka: SKIPPED, {none}"
    return "kafka: an own broker on loopback"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The sockets above end quietly, before the interpreter's own last look. And who asks for what
    failed last is content where none of it is among the chosen: another run has it.
    """
    if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.getoption("lf"):
        session.exitstatus = pytest.ExitCode.OK
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def _without(none: Exception) -> NoReturn:
    """No broker: a skip, or a failure where one is required."""
    if os.environ.get("SHADOW_REQUIRE_KAFKA") == "1":
        pytest.fail(f"SHADOW_REQUIRE_KAFKA=1, but {none}", pytrace=False)
    pytest.skip(str(none))


@pytest.fixture(scope="session")
def own_broker() -> Callable:
    """`own_broker(folder, nodes)` starts a cluster of our own; the caller closes it."""
    module = _broker_module()

    def start(folder: Path, nodes: int = 1) -> Any:
        try:
            return module.start(folder, nodes)
        except module.NoBroker as none:
            _without(none)

    return start


@pytest.fixture(scope="session")
def cluster(own_broker: Callable, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """One node of our own for the whole session, with its SASL and TLS doors."""
    started = own_broker(tmp_path_factory.mktemp("kafka"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Addresses of a broker without a password: the named one, or our own."""
    return _broker_module().existing() or request.getfixturevalue("cluster").bootstrap
