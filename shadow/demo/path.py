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
COMMAND_S = 60.0
VERDICTS = {0: "promote", 1: "reject", 3: "hold"}


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
    form = output.suffix.removeprefix(".")
    done = _run("report", "-c", str(config), "--format", form, "-o", str(output))
    if done.returncode != 0:
        raise DemoFailed(f"shadow report: {_line(done)}")
    return output.read_text("utf-8")


def gate(config: Path) -> tuple[str, str]:
    """(verdict, the line that `shadow gate` printed).

    Raises:
        DemoFailed: its exit is none of a verdict's.
    """
    done = _run("gate", "-c", str(config))
    if done.returncode not in VERDICTS:
        raise DemoFailed(f"shadow gate: {_line(done)}")
    return VERDICTS[done.returncode], done.stdout.strip()


def settle(config: Path, output: Path, sent: int, up: Child) -> tuple[dict[str, Any], bool]:
    """Wait until the pairs of all `sent` requests are in the store.

    Returns:
        (the last report, whether all were there in time).

    Raises:
        DemoFailed: no report within the time, or `shadow up` ended.
    """
    deadline, seen, why = time.monotonic() + SETTLE_S, None, "no report"
    while time.monotonic() < deadline:
        up.check()
        try:
            seen = json.loads(report(config, output))
        except DemoFailed as error:
            why = str(error)
        if seen is not None and settled(seen, sent):
            return seen, True
        time.sleep(0.5)
    if seen is None:
        raise DemoFailed(why)
    return seen, False


def settled(document: dict[str, Any], sent: int) -> bool:
    """Whether a report has every request's pair, and waits for none."""
    counts = [candidate["pairs"] for candidate in document["candidates"].values()]
    return bool(counts) and all(c["sampled"] >= sent and c["pending"] == 0 for c in counts)


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603 our own command line
            argv(*words), capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise DemoFailed(f"shadow {words[0]} took longer than {COMMAND_S:g} s") from None


def _line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip() or f"exit {done.returncode}").splitlines()
    return lines[-1]
