"""A verdict is a status only once it was delivered: what cannot be written is 70, never 0 or 1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STUB = """
import sys
import shadow.cli.commands as commands
import click

def run(arguments):
    click.echo("the verdict" * int(arguments[1]))
    return int(arguments[0])

commands.run = run
from shadow.cli.entry import main
main()
"""
"""The entry, with a command line that says a verdict and returns it."""


def bash(line: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`shadow` in the line is the command with a verdict; the status is the line's."""
    script = f"shadow() {{ {sys.executable} -c '{STUB}' \"$@\"; }}; set -o pipefail; {line}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False,
        env=environment, cwd=ROOT,
    )  # fmt: skip


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("status", ["0", "1", "3"])
def test_what_stdout_does_not_take_is_seventy(status, unbuffered):
    """A full disk, a reader that left, a closed descriptor: whatever the verdict was."""
    lines = [
        f"shadow {status} 1 > /dev/full",
        f"shadow {status} 1 >&-",
        f"shadow {status} 1 >&- 2>&-",
        f"shadow {status} 100000 | head -c 1 > /dev/null",
        f"shadow {status} 1 > /dev/full 2> /dev/full",
    ]
    said = [bash(line, PYTHONUNBUFFERED=unbuffered) for line in lines]
    assert [done.returncode for done in said] == [70] * len(lines)
    assert all(done.stderr.count("\n") <= 1 for done in said), [done.stderr for done in said]
    assert "No space left" in said[0].stderr


@pytest.mark.parametrize("status", ["0", "1", "3"])
def test_a_verdict_that_was_taken_is_its_status(status):
    """A reader that read it all, and a stderr that nobody reads."""
    for line in (
        f"shadow {status} 1",
        f"shadow {status} 1 2> /dev/full",
        f"shadow {status} 1 2>&-",
    ):
        done = bash(line)
        assert (done.returncode, done.stdout) == (int(status), "the verdict\n")


def test_a_mistake_is_two_though_nobody_reads_it():
    """stderr full, closed, or its reader gone: the status is all that is left, and it is right."""
    gate = f"{sys.executable} -m shadow gate -c nofile.yaml"
    for line in (
        f"{gate} 2> /dev/full",
        f"{gate} 2>&-",
        f"{gate} >&- 2>&-",
        f"{gate} 2>&1 | head -c 0",
        f"{gate} 2> >(exit 0)",
    ):
        assert bash(line).returncode == 2, line


def test_what_leaves_by_itself_is_no_verdict():
    """Only the command line's own return is a 0 or a 1."""
    line = f"{sys.executable} -m shadow gate -c nofile.yaml"
    assert bash(line, _SHADOW_COMPLETE="no_such").returncode == 70


def test_a_service_goes_on_without_a_reader_of_its_log():
    """Its stdout is a log: a reader that leaves costs lines, not the service."""
    code = "import sys; sys.argv=['shadow','proxy']; from shadow.cli import entry; entry._open_streams(); print('x', flush=True)"
    for where in ("> /dev/full", ">&-"):
        assert bash(f'{sys.executable} -c "{code}" {where}').returncode == 0
