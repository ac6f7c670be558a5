"""docs/decode.md and `shadow decode` say the same: keys, types, words, and what a file must have."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from collector.capture_file import NotACapture, decode_file
from collector.completion import Choice, Tokens, Usage
from collector.completion.dialects import DIALECTS
from shadow.exchange import OUTCOMES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "decode.md").read_text()
FILES = sorted(path for path in (ROOT / "tests" / "captures").glob("[!e]*/*.json"))
REST = "every other metric of [metrics.md](metrics.md)"
KINDS = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
    "list": list,
    "object": dict,
}


def rows(heading):
    """The table under a heading: first cell → the others, code marks left off."""
    part = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = [line.strip("|").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return {first.strip().strip("`"): [cell.strip() for cell in more] for first, *more in cells[1:]}


FILE, OBJECT = rows("The file: a capture"), rows("The object")
METRICS = {
    f"{name}_ms" if facts["unit"] == "ms" else name: facts["unit"]
    for name, facts in tomllib.loads((ROOT / "analysis" / "metrics.toml").read_text()).items()
    if not facts.get("probe")  # which are figures of two probes, not of an answer
}


def words(key, cell=1):
    """The vocabulary that a row lists behind its colon or instead of a meaning."""
    text = re.split(r"[:;]", OBJECT[key][cell])
    return {word.strip(" .`") for part in text for word in re.split(r", | or ", part)}


def allowed(said):
    """The Python types of a cell such as `integer or null`."""
    return tuple(
        kind
        for word in re.split(r", | or ", re.sub(r"{[^}]*}", "object", said))
        for kind in (KINDS[word] if isinstance(KINDS[word], tuple) else (KINDS[word],))
    )


def is_of(value, kinds):
    """JSON's types: a boolean is no number."""
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def test_the_documented_keys_are_the_objects_in_their_order():
    """Named ones first, then every other metric of the list; nothing else, and none is missing."""
    named = [key for key in OBJECT if key != REST]
    got = list(decode_file(FILES[0]))
    assert got[: len(named) - 1] == named[:-1]  # events_per_read stands among the metrics
    assert set(got) == {*named, *METRICS}
    assert REST in OBJECT


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_value_is_of_its_documented_type(path):
    """Over all captures: the table's type, down to the keys of nested objects."""
    got = decode_file(path, details=True)
    details = got.pop("details")
    for key, value in got.items():
        said = OBJECT[key if key in OBJECT else REST][0]
        assert is_of(value, allowed(said)), (key, value)
    assert got["dialect"] is None or got["dialect"] in words("dialect", 1)
    assert got["outcome"] in words("outcome")
    assert got["transport"] in words("transport")
    assert got["tokens"]["source"] is None or got["tokens"]["source"] in words("tokens")
    assert (got["error"] is None) == (got["outcome"] == "complete")
    assert got["mismatch"] is got["client_wait_ms"] is None
    told = PAGE.split("`--details`")[1].split("\n## ")[0]
    named = re.findall(r"`([a-z_]+)` \(|`(fingerprint)`", told)
    assert set(details) == {one or other for one, other in named}


def test_the_words_are_the_codes():
    """Dialects, outcomes and token sources: all of them, no more."""
    dialects = {dialect.name for dialect in DIALECTS}
    assert words("dialect") == dialects | {"null on every other path"}
    assert words("outcome") == set(OUTCOMES)
    assert words("tokens") >= {"usage", "token_ids", "logprobs", "tokenizer", "events"}


def test_the_nested_keys_are_the_codes():
    """What stands in braces in the table, against the dataclasses behind it."""
    told = {key: set(re.findall(r"`([a-z_]+)`", " ".join(cells))) for key, cells in OBJECT.items()}
    beyond = {"index", "logprobs", "token_ids"}  # `--details` has them
    assert told["choices"] == {f.name for f in fields(Choice)} - beyond | {
        "id",
        "name",
        "arguments",
    }
    assert told["usage"] == {field.name for field in fields(Usage)}
    assert told["tokens"] == {field.name for field in fields(Tokens)}
    assert told["error"] == {"type", "message"}


OPTIONAL = {"body_encoding", "ended_by"}


@pytest.mark.parametrize("key", FILE)
def test_what_a_file_must_have(tmp_path, key):
    """Each documented key of `response`: without it the file is none, but for the two that may lack."""
    capture = copy.deepcopy(json.loads(FILES[0].read_text()))
    del capture["response"][key]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(capture))
    if key in OPTIONAL:
        assert decode_file(path)["status"] == capture["response"]["status"]
        return
    with pytest.raises(NotACapture, match=key):
        decode_file(path)


def test_other_keys_of_a_file_are_not_read(tmp_path):
    """Only what the page names: a request's path and eight keys of the response at most."""
    capture = json.loads(FILES[0].read_text())
    bare = {
        "request": {"path": capture["request"]["path"]},
        "response": {key: capture["response"][key] for key in FILE if key in capture["response"]},
    }
    path = tmp_path / "x.json"
    path.write_text(json.dumps(bare))
    assert decode_file(path) == decode_file(FILES[0])
