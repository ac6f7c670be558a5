"""Without a broker nobody mistakes a skip for a pass, and plain runs start none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.kafka  # no broker is needed; plain runs stay quick without these
ROOT = Path(__file__).parent.parent.parent
ONE = "tests/kafka/test_kafka_topics.py::test_several_processes_may_make_it_at_once"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """pytest on a machine without Java, Maven or an address."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KAFKA_", "SHADOW_"))}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments, ONE]
    return subprocess.run(
        command,
        env=kept | {"PATH": str(ROOT / "no-such-folder")} | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_broker_it_is_a_skip_that_says_how_to_get_one():
    """One line: Java and Maven by name, or the variable; exit 0."""
    done = run("-m", "kafka")
    assert done.returncode == 0, done.stdout
    line = next(line for line in done.stdout.splitlines() if line.startswith("kafka: SKIPPED"))
    for word in ("Java 17", "Maven", "apt-get install", "KAFKA_BOOTSTRAP_SERVERS=host:port"):
        assert word in line
    assert "1 skipped" in done.stdout


def test_where_it_is_required_it_is_a_failure_with_the_same_line():
    """SHADOW_REQUIRE_KAFKA=1 is for continuous integration."""
    done = run("-m", "kafka", SHADOW_REQUIRE_KAFKA="1")
    assert done.returncode == 1
    assert "SHADOW_REQUIRE_KAFKA=1, but no Kafka broker: install Java 17" in done.stdout
    assert "skipped" not in done.stdout.splitlines()[-1]


def test_a_plain_run_starts_no_broker():
    """`make test` leaves them out; `make test-real` is their verb."""
    done = run()
    assert "1 deselected" in done.stdout
    assert "SKIPPED" not in done.stdout


@pytest.mark.parametrize(("word", "status"), [([], 2), (["--or-without"], 7)])
def test_a_command_beside_a_broker_where_none_can_be_had(word, status):
    """It ends with the line and 2; or goes on without, if it may, with its own status."""
    command = [sys.executable, "-c", "print('it ran'); raise SystemExit(7)"]
    done = subprocess.run(
        [sys.executable, "tests/kafka/with_broker.py", *word, *command],
        env={"PATH": str(ROOT / "no-such-folder")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert "install Java 17" in done.stderr
    assert ("it ran" in done.stdout) is bool(word)
