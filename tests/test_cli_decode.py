"""`shadow decode FILE.json`: one object on stdout, 0 whenever it can say what the answer was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from collector.capture_file import NotACapture, decode_file

CAPTURES = Path(__file__).parent / "captures"


def decode(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shadow", "decode", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=os.environ
    )


@pytest.mark.parametrize(
    "name", ["vllm-chat_n2", "dynamo-err_long_prompt_stream", "vllm-err_method"]
)
def test_what_it_prints_is_the_whole_object(name):
    """An upstream's error, with its status or inside a 200, is an answer too: exit 0."""
    done = decode(str(CAPTURES / f"{name.replace('-', '/', 1)}.json"))
    assert (done.returncode, done.stderr) == (0, "")
    wanted = json.loads((CAPTURES / "expected" / f"{name}.json").read_text())
    printed = json.loads(done.stdout)
    assert list(printed) == list(wanted)
    assert printed["error"] == wanted["error"]
    assert printed["choices"] == wanted["choices"]


def test_text_is_utf8_in_any_locale():
    """JSON is UTF-8; a terminal's locale changes nothing."""
    command = [sys.executable, "-m", "shadow", "decode", str(CAPTURES / "vllm" / "chat_n2.json")]
    env = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, timeout=60, check=True, env=env)
    assert "\ufffd" in json.loads(done.stdout.decode("utf-8"))["choices"][1]["text"]


def test_details():
    """What was read beyond it stands under a key of its own."""
    done = decode("--details", str(CAPTURES / "vllm" / "chat_token_ids.json"))
    assert json.loads(done.stdout)["details"]["choices"][0]["token_ids"][:2] == [612, 2001]


def test_what_is_no_capture(tmp_path):
    """Two, with one line, whatever is wrong with the file."""
    (tmp_path / "a\nb.json").write_text('{"request": {"path": "/"}, "response": {}}')
    (tmp_path / "text").write_text("hello")
    for path in (tmp_path / "a\nb.json", tmp_path / "text", tmp_path / "none", tmp_path):
        done = decode(str(path))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("shadow decode: ")
    assert decode().returncode == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "response is missing"),
        ("[]", "the whole is no group of keys and values"),
        ('{"response": {}}', "response.status is missing"),
        ('{"response": {"status": "x"}}', "response.status is no number"),
        (
            '{"request": [], "response": {"status": 200, "framing_complete": true}}',
            "request is no group of keys and values",
        ),
        (
            '{"request": {"path": "/"}, "response": {"status": 200, "framing_complete": true, "headers": [], "body": "", "marks_ms_end": [["x", 1]]}}',
            "response.marks_ms_end is no list of pairs of numbers",
        ),
    ],
)
def test_what_is_wrong_in_it_is_named_by_its_key(tmp_path, text, said):
    """In a person's words, never an exception's."""
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(NotACapture) as wrong:
        decode_file(tmp_path / "c.json")
    assert str(wrong.value) == f"{tmp_path}/c.json: not a capture: {said}"
