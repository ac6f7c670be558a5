"""The product, used as a person does: `shadow up`, `report` and `gate` by their command lines."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from shadow.demo.children import Child, Children, until
from shadow.demo.failure import DemoFailed
from shadow.demo.files import Ports

READY_S = 60.0
SETTLE_S = 45.0
VERDICT_S = 20.0
COMMAND_S = 60.0
VERDICTS = {0: "promote", 1: "reject", 3: "hold"}
PERMANENT = {2, 70}
"""Exits of a command that will end the same way again."""


def argv(*words: str) -> list[str]:
    """`shadow …` by this interpreter."""
    return [sys.executable, "-m", "shadow", *words]


def start(processes: Children, config: Path, ports: Ports) -> Child:
    """`shadow up`, ready to serve.

    Raises:
        DemoFailed: it ended, or was not ready in time.
    """
    child = processes.start("shadow", argv("up", "-c", str(config)))
    until(lambda: answers(f"http://127.0.0.1:{ports.health}/readyz"), child, READY_S)
    return child


def answers(url: str) -> bool:
    """Whether a GET gets a 200 right now."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 our own http URL
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def report(config: Path, output: Path) -> str:
    """`shadow report` into a file, in the format that the file's name says; its text.

    Raises:
        DemoFailed: it did not work; with the line that it said.
    """
    done = _report(config, output)
    if done.returncode != 0:
        raise DemoFailed(f"shadow report: {_line(done)}")
    return output.read_text("utf-8")


def gate(config: Path, up: Child) -> tuple[str, str]:
    """(verdict, the gate's line), once a verdict was written.

    Raises:
        DemoFailed: none was within the time, or the exit is none of a verdict's.
    """
    deadline = time.monotonic() + VERDICT_S
    while True:
        up.check()
        done = _run(config, "gate", "--format", "json")
        if done.returncode not in VERDICTS:
            raise DemoFailed(f"shadow gate: {_line(done)}")
        said = json.loads(done.stdout)
        if said["comparison"] is not None:
            line = f"{said['candidate']}: {said['verdict']}: {said['reason']}"
            return VERDICTS[done.returncode], line
        if time.monotonic() > deadline:
            raise DemoFailed(f"shadow gate: {said['reason']}, after {VERDICT_S:g} s")
        time.sleep(0.5)


def settle(config: Path, output: Path, sent: int, up: Child) -> tuple[dict[str, Any], bool]:
    """Wait until the pairs of all `sent` requests are in the store.

    Returns:
        (the last report, whether all were there in time).

    Raises:
        DemoFailed: `shadow report` cannot work, or did not within the time; `shadow up` ended.
    """
    deadline, seen, done = time.monotonic() + SETTLE_S, None, None
    while time.monotonic() < deadline:
        up.check()
        done = _report(config, output)
        if done.returncode == 0:
            seen = json.loads(output.read_text("utf-8"))
            if settled(seen, sent):
                return seen, True
        elif done.returncode in PERMANENT:
            break
        time.sleep(1.0)
    if seen is None:
        raise DemoFailed(f"shadow report: {_line(done) if done else 'no time for it'}")
    return seen, False


def settled(document: dict[str, Any], sent: int) -> bool:
    """Whether a report has every request's pair, and waits for none."""
    counts = [candidate["pairs"] for candidate in document["candidates"].values()]
    return bool(counts) and all(
        c["sampled"] >= sent and c["pending"] == 0 == c.get("waiting", 0) for c in counts
    )


def _report(config: Path, output: Path) -> subprocess.CompletedProcess[str]:
    form = output.suffix.removeprefix(".")
    return _run(config, "report", "--format", form, "-o", str(output))


def _run(config: Path, command: str, *words: str) -> subprocess.CompletedProcess[str]:
    """One of the product's commands; what it says on stderr goes to a log as well."""
    try:
        done = subprocess.run(  # noqa: S603 our own command line
            argv(command, "-c", str(config), *words),
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DemoFailed(f"shadow {command} took longer than {COMMAND_S:g} s") from None
    if done.stderr:
        (config.parent / "logs" / f"{command}.log").write_text(done.stderr, "utf-8")
    return done


def _line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip() or f"exit {done.returncode}").splitlines()
    return lines[-1]
