"""shadow gate --wait and --max-age: it waits for a verdict, and trusts none that is old."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analysis.gate import Answer
from shadow.cli import reading
from shadow.config import Config

CONFIG = """
experiment: e
capture: text
primary: {url: "http://127.0.0.1:1"}
arms: {fp8: {role: candidate, url: "http://127.0.0.1:2", sample: 1.0}}
stream: {embedded: ./stream}
store: {embedded: ./store}
"""


@pytest.fixture
def config(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "shadow.yaml"
    path.write_text(CONFIG)
    return path


def gate(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shadow", "gate", "-c", str(path), *options]
    root = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=path.parent,
        env=environment,
        check=False,
    )


def asked(monkeypatch, *answers: Answer) -> list[Answer]:
    """The gate's looks give these answers in turn, the last one for ever; what is left of them."""
    left = list(answers)
    monkeypatch.setattr(reading, "LOOK_AGAIN_S", 0.001)
    monkeypatch.setattr(reading, "_gate", lambda *_: left.pop(0) if len(left) > 1 else left[0])
    return left


HOLD, PROMOTE, REJECT = Answer(3, "hold"), Answer(0, "promote"), Answer(1, "reject")


@pytest.mark.parametrize("final", [PROMOTE, REJECT, Answer(2, "which candidate?")])
def test_it_waits_until_a_verdict_is_final(monkeypatch, capsys, final):
    """0, 1 or a mistake ends it at once; only the last line is printed."""
    asked(monkeypatch, HOLD, HOLD, final, HOLD)
    assert reading.gate(Config.model_construct(), None, "text", wait_s=30) == final.code
    said = capsys.readouterr()
    prefix = "shadow: " if final.code == 2 else ""
    assert (said.out + said.err).splitlines() == [f"{prefix}{final.line}"]


def test_it_holds_when_the_time_is_over(monkeypatch, capsys):
    """3, with the last reason; without --wait it looks once."""
    left = asked(monkeypatch, HOLD)
    begin_s = time.monotonic()
    assert reading.gate(Config.model_construct(), None, "text", wait_s=0.05) == 3
    assert 0.05 <= time.monotonic() - begin_s < 5
    left[:] = [HOLD, PROMOTE]
    assert reading.gate(Config.model_construct(), None, "text") == 3
    assert capsys.readouterr().out == "hold\nhold\n"


def test_durations_have_units(config):
    """A number alone is a mistake of usage, in one line that names the option."""
    done = gate(config, "--wait", "30")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--wait" in done.stderr
    assert "such as 60s or 1h" in done.stderr
    assert gate(config, "--max-age", "soon").returncode == 2


def test_without_a_store_it_waits_and_holds(config):
    """Nothing collected yet: 3 after the wait, with the reason, as JSON too."""
    done = gate(config, "--wait", "100ms", "--max-age", "5m", "--format", "json")
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["verdict"] == "hold"
