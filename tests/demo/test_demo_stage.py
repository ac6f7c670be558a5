"""What both demos print and return."""

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from shadow.demo import load, stage
from shadow.demo.children import Child
from shadow.demo.failure import DemoFailed


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=100)


def printed(console):
    return console.file.getvalue()


def failing(error):
    def show():
        raise error

    return show


def test_exit_status(tmp_path, capsys):
    """0 when it ran, 1 with one line (and where the logs are), 130 after Ctrl-C."""
    assert stage.guarded(lambda: None, tmp_path) == 0
    assert stage.guarded(failing(DemoFailed("no room")), tmp_path) == 1
    assert capsys.readouterr().err == "demo: no room\n"
    (tmp_path / "logs").mkdir()
    assert stage.guarded(failing(DemoFailed("no room")), tmp_path) == 1
    assert capsys.readouterr().err == f"demo: no room (logs: {tmp_path}/logs)\n"
    assert stage.guarded(failing(KeyboardInterrupt()), tmp_path) == 130
    assert capsys.readouterr().err.count("\n") == 1


def test_a_mistake_in_the_demo_itself_is_not_hidden(tmp_path):
    """Only what was foreseen becomes one line."""
    with pytest.raises(ZeroDivisionError):
        stage.guarded(failing(ZeroDivisionError()), tmp_path)


def test_not_one_answer(console):
    """A demo without an answer stops there, and says what happened to the requests."""
    with pytest.raises(DemoFailed, match="no request was answered"):
        stage.send(console, "http://127.0.0.1:9/", [b"{}"] * 3, [0.0] * 3, 0)
    assert "0 of 3 requests answered" in printed(console)
    assert "3 not connected" in printed(console)


def shown(console, monkeypatch, tmp_path, *, complete, settled=True, verdict="reject"):
    pairs = {"sampled": 40, "complete": complete, "excluded": 0, "pending": 0}
    document = {"candidates": {"fp8": {"pairs": pairs}}}
    monkeypatch.setattr(stage.path, "settle", lambda *_: (document, settled))
    monkeypatch.setattr(
        stage.path,
        "report",
        lambda *_: (
            "| metric | delta |\n|-|-|\n| tpot | +15 % |\n\n## What the figures mean\n\n- tpot: …\n"
        ),
    )
    monkeypatch.setattr(
        stage.path, "gate", lambda *_: (verdict, f"{verdict}: the words of the gate")
    )
    totals = load.Totals(40, 40, {}, 1, 1.0)
    return stage.show(
        console, Path("shadow.yaml"), tmp_path, totals, Child("shadow", None, tmp_path)
    )


@pytest.mark.parametrize("verdict", ["promote", "hold", "reject"])
def test_comparison_and_verdict_are_printed_whatever_they_are(
    console, monkeypatch, tmp_path, verdict
):
    """The demo expects nothing: it passes on what the product says."""
    assert shown(console, monkeypatch, tmp_path, complete=30, verdict=verdict) == verdict
    assert "tpot" in printed(console)
    assert "tpot: …" not in printed(console)
    assert "What each figure means stands in" in printed(console)
    assert f"shadow gate: {verdict}: the words of the gate" in printed(console)


def test_missing_pairs_are_said(console, monkeypatch, tmp_path):
    """Incomplete is not silent; without one pair there is no comparison."""
    shown(console, monkeypatch, tmp_path, complete=30, settled=False)
    assert "some pairs are still missing" in printed(console)
    with pytest.raises(DemoFailed, match="no complete pair"):
        shown(console, monkeypatch, tmp_path, complete=0)


def test_next_steps_can_be_typed(tmp_path, monkeypatch):
    """Paths are relative to where one stands, and the commands are the product's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))
    done = stage.Done(tmp_path / "out/demo/shadow.yaml", tmp_path / "out/demo", "hold")
    steps = stage.next_steps(done, 80.4, {"make demo-engines": "real engines"})
    assert "Done in 80 s. Written: out/demo/report.md and report.json." in steps
    assert "  .venv/bin/shadow gate -c out/demo/shadow.yaml; echo $?" in steps
    assert "make demo-engines" in steps
