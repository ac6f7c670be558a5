"""Real engines' answers, each held against an independent reader; and files that are no captures."""

import base64
import json
from itertools import pairwise
from pathlib import Path

import pytest
from collecting import slow_reader

from collector.capture_file import NotACapture, decode_file

CAPTURES = Path(__file__).parents[1] / "captures"
ENGINES = ("vllm", "llama.cpp", "dynamo")
FILES = sorted(
    path.relative_to(CAPTURES).as_posix()
    for engine in ENGINES
    for path in (CAPTURES / engine).glob("*.json")
)


def test_there_are_captures():
    """The next test is about something."""
    assert len(FILES) == 118


@pytest.mark.parametrize("name", FILES)
def test_ours_and_the_slow_reader_agree(name):
    """Outcome, texts, finish reasons, tokens, and the time of every event."""
    capture = json.loads((CAPTURES / name).read_text())
    ours, slow = decode_file(CAPTURES / name, details=True), slow_reader.read(capture)
    assert ours["outcome"] == slow["outcome"]
    json.dumps(ours, allow_nan=False)
    if "texts" not in slow:
        assert ours["choices"] == []
        assert ours["error"]["message"]
        return
    at = [choice["index"] for choice in ours["details"]["choices"]]
    choices = dict(zip(at, ours["choices"], strict=True))
    texts = {index: choice["text"] for index, choice in choices.items()}
    assert {at: text for at, text in texts.items() if text} == {
        at: text for at, text in slow["texts"].items() if text
    }
    finish = {
        index: choice["finish_reason"]
        for index, choice in choices.items()
        if choice["finish_reason"]
    }
    assert all(finish[at] == reason for at, reason in slow["finish"].items())
    if slow["tokens"] is not None:
        assert ours["tokens"] == {"count": slow["tokens"], "source": "usage"}
    if not ours["streamed"]:
        return
    data, token = slow["data_ms"], slow["token_ms"]
    assert ours["events"] == len(data)
    assert ours["ttft_any_ms"] == pytest.approx(data[0])
    assert ours["events_per_read"] == pytest.approx(len(data) / len(set(data)))
    if token:
        assert ours["ttft_content_ms"] == pytest.approx(token[0])
    if len(token) > 1:
        assert ours["decode_ms"] == pytest.approx(token[-1] - token[0])
        gaps = [b - a for a, b in pairwise(token)]
        assert ours["itl_max_ms"] == pytest.approx(max(gaps))
    complete = capture["response"]["framing_complete"]
    assert ours["e2e_ms"] == (
        pytest.approx(capture["response"]["marks_ms_end"][-1][0]) if complete else None
    )


def capture(**response):
    whole = {
        "status": 200, "headers": [["content-type", "application/json"]], "body": '{"choices":[]}', "body_encoding": "utf-8",
        "framing_complete": True, "ended_by": "", "marks_ms_end": [[1.5, 14]],
    }  # fmt: skip
    return {
        "request": {"method": "POST", "path": "/v1/chat/completions"},
        "response": whole | response,
    }


def test_a_base64_body(tmp_path):
    """Bytes that are no UTF-8 travel as base64."""
    file = tmp_path / "x.json"
    file.write_text(
        json.dumps(capture(body=base64.b64encode(b"\xff{").decode(), body_encoding="base64"))
    )
    assert decode_file(file)["outcome"] == "not_a_completion"


@pytest.mark.parametrize(
    ("ended_by", "transport"),
    [
        ("aborted by client after 3 bytes", "client_disconnected"),
        ("connection reset", "reset"),
        ("closed", "truncated"),
    ],
)
def test_how_it_ended(tmp_path, ended_by, transport):
    """An incomplete framing and its reason become a transport."""
    file = tmp_path / "x.json"
    file.write_text(json.dumps(capture(framing_complete=False, ended_by=ended_by)))
    assert decode_file(file)["transport"] == transport


BROKEN = {
    "no JSON": b"{",
    "no bytes": b"",
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "no response": b'{"request":{"path":"/"}}',
    "status": json.dumps(capture(status="200")).encode(),
    "headers": json.dumps(capture(headers=[["a"]])).encode(),
    "body": json.dumps(capture(body=5)).encode(),
    "base64": json.dumps(capture(body="%", body_encoding="base64")).encode(),
    "encoding": json.dumps(capture(body_encoding="rot13")).encode(),
    "marks": json.dumps(capture(marks_ms_end=[[1]])).encode(),
    "infinite mark": json.dumps(capture(marks_ms_end=[[1e999, 1]])).encode(),
    "surrogate": json.dumps(capture(body="\ud800")).encode(),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_capture_says_so(tmp_path, name):
    """One line with the file's name and the reason."""
    file = tmp_path / "x.json"
    file.write_bytes(BROKEN[name])
    with pytest.raises(NotACapture, match=r"^[^\n]*x\.json: [^\n]+$"):
        decode_file(file)


def test_a_file_that_is_not_there(tmp_path):
    """The system's reason, on one line."""
    with pytest.raises(NotACapture, match="No such file"):
        decode_file(tmp_path / "none.json")
