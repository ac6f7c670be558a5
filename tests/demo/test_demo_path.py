"""What the demo reads of the product's own commands."""

import asyncio
import json
import subprocess

import pytest

from shadow.demo import path
from shadow.demo.children import Child
from shadow.demo.failure import DemoFailed


def document(**candidates):
    return {
        "candidates": {
            name: {"pairs": {"sampled": sampled, "complete": 1, "excluded": 0, "pending": pending}}
            for name, (sampled, pending) in candidates.items()
        }
    }


def test_settled():
    """Every request sampled and none pending, for each candidate; an empty report never is."""
    assert path.settled(document(fp8=(40, 0)), 40)
    assert not path.settled(document(fp8=(39, 0)), 40)
    assert not path.settled(document(fp8=(40, 1)), 40)
    assert not path.settled(document(a=(40, 0), b=(40, 3)), 40)
    assert not path.settled({"candidates": {}}, 0)


def commands(monkeypatch, *results):
    """Answer the product's command lines from a list; what was asked is recorded."""
    asked, left = [], list(results)

    def run(words, **_):
        asked.append(words[3:])
        status, out, err, text = left.pop(0) if len(left) > 1 else left[0]
        if "-o" in words:
            from pathlib import Path

            Path(words[words.index("-o") + 1]).write_text(text)
        return subprocess.CompletedProcess(words, status, out, err)

    monkeypatch.setattr(path.subprocess, "run", run)
    return asked


def config_in(folder):
    """A configuration's path, with the folder for logs beside it."""
    (folder / "logs").mkdir(exist_ok=True)
    return folder / "shadow.yaml"


class Running:
    """A process that lives."""

    def poll(self):
        return None


def gate_says(status, *, comparison="c1", reason="why"):
    verdict = path.VERDICTS[status]
    said = {"candidate": "fp8", "verdict": verdict, "reason": reason, "comparison": comparison}
    return (status, json.dumps(said), "", "")


@pytest.mark.parametrize(("status", "verdict"), path.VERDICTS.items())
def test_gate(monkeypatch, tmp_path, status, verdict):
    """The exit code is the verdict; the reason is passed on."""
    commands(monkeypatch, gate_says(status))
    seen = path.gate(config_in(tmp_path), Child("shadow", Running(), tmp_path))
    assert seen == (verdict, f"fp8: {verdict}: why")


def test_gate_waits_for_a_verdict_that_was_written(monkeypatch, tmp_path):
    """A hold because nothing was written yet is no verdict: it is waited for, within a bound."""
    monkeypatch.setattr(path.time, "sleep", lambda _: None)
    child, none = (
        Child("shadow", Running(), tmp_path),
        gate_says(3, comparison=None, reason="none yet"),
    )
    commands(monkeypatch, none, none, gate_says(1))
    assert path.gate(config_in(tmp_path), child)[0] == "reject"
    monkeypatch.setattr(path, "VERDICT_S", 0.02)
    commands(monkeypatch, none)
    with pytest.raises(DemoFailed, match="none yet"):
        path.gate(config_in(tmp_path), child)


def test_gate_that_did_not_work(monkeypatch, tmp_path):
    """Exit 2 and 70 are no verdicts: the last line says why, the whole goes to a log."""
    commands(monkeypatch, (70, "", "Traceback\nshadow: broken install\n", ""))
    with pytest.raises(DemoFailed, match="shadow gate: shadow: broken install"):
        path.gate(config_in(tmp_path), Child("shadow", Running(), tmp_path))
    assert "Traceback" in (tmp_path / "logs/gate.log").read_text()


def test_settle_asks_until_all_is_there(monkeypatch, tmp_path):
    """A report that does not work yet, then one that is early, then the whole."""
    asked = commands(
        monkeypatch,
        (3, "", "no data yet", ""),
        (0, "", "", json.dumps(document(fp8=(30, 10)))),
        (0, "", "", json.dumps(document(fp8=(40, 0)))),
    )
    monkeypatch.setattr(path.time, "sleep", lambda _: None)
    child = Child("shadow", Running(), tmp_path)
    seen, complete = path.settle(config_in(tmp_path), tmp_path / "report.json", 40, child)
    assert (complete, seen["candidates"]["fp8"]["pairs"]["sampled"]) == (True, 40)
    assert [words[0] for words in asked] == ["report"] * 3
    assert asked[0][3:5] == ["--format", "json"]


def test_settle_is_bounded(monkeypatch, tmp_path):
    """What is there by then is returned, and that it is not all; with nothing, the reason."""
    monkeypatch.setattr(path, "SETTLE_S", 0.05)
    monkeypatch.setattr(path.time, "sleep", lambda _: None)
    child = Child("shadow", Running(), tmp_path)
    commands(monkeypatch, (0, "", "", json.dumps(document(fp8=(30, 10)))))
    _, complete = path.settle(config_in(tmp_path), tmp_path / "report.json", 40, child)
    assert not complete
    commands(monkeypatch, (3, "", "no data yet", ""))
    with pytest.raises(DemoFailed, match="no data yet"):
        path.settle(config_in(tmp_path), tmp_path / "report.json", 40, child)


def test_a_broken_command_is_not_asked_again(monkeypatch, tmp_path):
    """A usage error or a broken install ends the wait at once."""
    asked = commands(monkeypatch, (2, "", "shadow: no such option", ""))
    with pytest.raises(DemoFailed, match="no such option"):
        path.settle(
            config_in(tmp_path), tmp_path / "report.json", 40, Child("shadow", Running(), tmp_path)
        )
    assert len(asked) == 1


def test_answers():
    """200 is ready; 503 and nobody are not."""
    from aiohttp import web

    async def run():
        async def say(request):
            return web.Response(status=int(request.match_info["status"]))

        app = web.Application()
        app.router.add_get("/{status}", say)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        seen = [
            await asyncio.to_thread(path.answers, f"http://127.0.0.1:{port}/{s}")
            for s in (200, 503)
        ]
        await runner.cleanup()
        return seen

    assert asyncio.run(run()) == [True, False]
    assert not path.answers("http://127.0.0.1:9/")
