"""A fault of our own is told by its kind and its places; what it was about stays out of the log."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from shadow import fault

SECRET = "sk-a-secret-that-nobody-may-read"
SOURCES = [
    path
    for part in ("shadow", "collector", "analysis")
    for path in sorted((Path(__file__).parent.parent / part).rglob("*.py"))
]


def deep(prompt: str, depth: int = 0) -> None:
    header = f"Bearer {prompt}"
    if depth < 9:
        deep(prompt, depth + 1)
    raise ValueError(header)


def caught() -> ValueError:
    with pytest.raises(ValueError, match=SECRET) as caught:
        deep(SECRET)
    return caught.value


def test_it_names_kind_and_places_innermost_first():
    said = fault.told(caught())
    first, *others = said.split(" < ")
    assert re.fullmatch(r"ValueError at tests/test_shadow_fault\.py:\d+ deep", first)
    assert len(others) == fault.MOST_PLACES - 1
    assert fault.told(KeyError(SECRET)) == "KeyError"


def test_each_kind_is_said_once_and_kinds_are_bounded(capsys, monkeypatch):
    monkeypatch.setattr(fault, "MOST_KINDS", 2)
    faults = fault.Faults()
    for error in (KeyError(SECRET), KeyError("other"), OSError(SECRET), TypeError(SECRET)):
        faults.say("it failed", error, what="here")
    said = "".join(capsys.readouterr())
    assert said.count("it failed") == 2
    assert SECRET not in said


SPEAKERS = """
import asyncio, logging, sys, threading
from shadow.cli.speaking import speaks_as
from shadow.fault import say_unhandled
speaks_as("proxy 0")
def fails():
    header = "Bearer {secret}"
    raise ValueError(header)
thread = threading.Thread(target=fails)
thread.start(); thread.join()
try:
    fails()
except ValueError:
    logging.getLogger("aiohttp.server").exception("Error handling request")
async def main():
    asyncio.get_running_loop().set_exception_handler(say_unhandled)
    asyncio.get_running_loop().call_soon(fails)
    async def task(): fails()
    held = asyncio.ensure_future(task())
    await asyncio.sleep(0.01)
    del held
    import gc; gc.collect()
    await asyncio.sleep(0)
asyncio.run(main())
"""


def test_threads_loops_and_libraries_tell_no_message():
    """Whatever Python itself prints of an exception goes the same way."""
    ran = subprocess.run(
        [sys.executable, "-c", SPEAKERS.replace("{secret}", SECRET)],
        capture_output=True,
        text=True,
        check=True,
    )
    said = ran.stdout + ran.stderr
    assert said.count("ValueError at ") == 4, said
    assert said.count(" fails") >= 4
    assert SECRET not in said


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_nobody_logs_a_traceback(path):
    """It would hold messages, and with `rich` at hand the variables of every frame."""
    assert not re.search(r"exc_info|\.exception\(|format_exc", path.read_text())
