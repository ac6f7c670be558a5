"""A document is split at its strings and put together again; each string has its path."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadow.redaction.breath import Pace
from shadow.redaction.frames import Frames
from shadow.redaction.parts import Parts, offsets_of, split
from shadow.redaction.paths import path_pattern

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(st.binary(max_size=60) | st.text(alphabet='ab"\\{}[]:, \n', max_size=60).map(str.encode))
def test_any_bytes_are_split_and_found_again(document):
    """In both ways of splitting; a string begins where `offsets_of` says."""
    parts, long = split(document), Parts(document, Pace())
    assert parts == list(long) == long[:]
    assert long.bytes_between == len(document) - sum(map(len, parts[1::2]))
    assert list(offsets_of(parts))[: len(parts)] == list(offsets_of(long))
    assert len(parts) % 2 == 1
    for number in range(len(parts) // 2):
        at = offsets_of(parts)[2 * number + 1]
        said = parts[2 * number + 1]
        assert document[at - 1 : at + len(said)] == b'"' + said


def strings_of(value, path=""):
    """(path, text) of a document's strings, as a reader of JSON sees it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for n, each in enumerate(value):
            yield from strings_of(each, f"{path}[{n}]")
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from strings_of(each, f"{path}.{key}")


@given(DOCUMENTS, st.booleans())
def test_every_string_stands_at_its_path(document, ascii_only):
    seen = []
    raw = json.dumps(document, ensure_ascii=ascii_only).encode()
    asked = SimpleNamespace(paths=(1,), of_path=seen.append)
    frame = Frames(asked, lambda raw: raw, lambda part, counts: part).of(split(raw))
    wanted = [path for path, _ in strings_of(document)]
    found, parts = list(frame.found), split(raw)
    assert len(found) == len(wanted)
    texts = [json.loads(b'"' + parts[2 * n + 1] + b'"') for n, _, _ in found]
    assert texts == [text for _, text in strings_of(document)]
    assert set(wanted) <= set(seen)


def test_paths_that_match_and_do_not():
    cases = [
        ("messages[*].content", ".messages[3].content[0].text", True),
        ("messages[*].content", ".messages[3].contents", False),
        ("$.user", ".user", True),
        ("user", ".username", False),
        ("user", ".x.user", False),
        ("**.email", ".email", True),
        ("**.email", ".a.b[0].email.x", True),
        ("**.email", ".a.myemail", False),
        ("**.email", ".a[b].email", True),
        ("**.email", "..email", True),
        ("**.email", ".[a.email", True),
        ("a.**.email", ".a.b.email", True),
        ("a.**.email", ".a.email", True),
        ("a.**.email", ".abc.email", False),
        ("**.a.**.email", ".x.ab.a[0].y.email", True),
        ("**.a.**.email", ".x.ab.y.email", False),
        ("**.a.*.**.email", ".a.a.x.email", True),
        ("**[*].**.email", ".b[x].c[3].email", True),
        ("a.**", ".a", True),
        ("a.*", ".a.", True),
        ("a.*", ".a..b", True),
        ("a.*", ".a.[b", True),
        ("a.*", ".a[0]", False),
        ("a.*", ".a.b.c", True),
        ("a.*", ".a", False),
        ("a[1]", ".a[1]", True),
        ("a[1]", ".a[11]", False),
    ]
    for path, spelled, wanted in cases:
        assert bool(path_pattern(path).match(spelled)) is wanted, (path, spelled)


@pytest.mark.parametrize("path", ["**.ssn", "**.a.**.ssn", "**.a.**.a.**.ssn", "**.*.**.a.*.x"])
def test_a_key_that_a_client_makes_up_is_matched_in_a_time_by_its_length(path):
    """No call holds the interpreter's lock for the square of it: that would stop production's loop."""
    pattern = path_pattern(path)
    began = time.perf_counter()
    assert pattern.match(".a" * 500_000) is None
    assert time.perf_counter() - began < 2
