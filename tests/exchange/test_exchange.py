"""The wire: golden examples are read for ever, unknown things are tolerated, broken ones refused."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadow.exchange import Accounting, Count, Exchange, MalformedRecord, decode, encode

HERE = Path(__file__).parent
GOLDEN = sorted((HERE / "golden").glob("*.json"))


def example(**changes) -> Exchange:
    facts = {
        "experiment": "e", "config_hash": "c", "pair_id": "p", "arm": "primary", "role": "primary",
        "worker": "0", "boot_id": "b", "sequence": 1, "arrived_at": 1, "started_at": 1,
        "method": "POST", "path": "/v1/chat/completions", "transport": "complete",
    }  # fmt: skip
    return Exchange(**(facts | changes))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_examples_are_read(path):
    """What an older proxy wrote is read, and written again means the same."""
    record = decode(path.read_bytes())
    assert decode(encode(record)) == record
    expected = json.loads(path.read_text())
    written = json.loads(encode(record))
    for key in ("body", "request"):
        expected.pop(key, None)
        written.pop(key, None)
    assert {key: written[key] for key in expected} == expected


def test_there_are_golden_examples():
    """The parametrised test above has something to read."""
    assert len(GOLDEN) >= 3


@given(st.binary(max_size=2000), st.binary(max_size=200))
def test_bodies_survive_the_wire(body, request_body):
    """Any bytes come back as they were."""
    record = decode(encode(example(body=body, request=request_body)))
    assert isinstance(record, Exchange)
    assert (record.body, record.request) == (body, request_body)


def test_the_wire_has_no_line_breaks():
    """One record is one line, whatever is in it."""
    assert b"\n" not in encode(example(body=b"\n\n", error="a\nb", path="/\n"))


def test_unknown_fields_and_words_are_tolerated():
    """A newer proxy's words are stored, not refused."""
    tree = json.loads(encode(example())) | {
        "later": {"x": 1},
        "transport": "teleported",
        "schema_version": 9,
    }
    record = decode(json.dumps(tree).encode())
    assert isinstance(record, Exchange)
    assert record.transport == "teleported"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"record": "parcel"}, "record"),
        ({"sequence": 0}, "sequence"),
        ({"body": "not base64!"}, "body"),
        ({"body": base64.b64encode(b"not deflated").decode()}, "body"),
        ({"body": base64.b64encode(zlib.compress(b"x" * 99)[:-4]).decode()}, "body"),
        ({"arrived_at": "yesterday"}, "arrived_at"),
        ({"marks": [[1]]}, "marks"),
        ({"weight": 0}, "weight"),
        ({"weight": -1.0}, "weight"),
        ({"weight": 1e999}, "weight"),
    ],
)
def test_a_malformed_record_says_where(change, said):
    """It fails the same way however often it is read, in one line that names the field."""
    tree = json.loads(encode(example())) | change
    with pytest.raises(MalformedRecord, match=said) as caught:
        decode(json.dumps(tree).encode())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b"null", b"\xff", b'{"record":"exchange"}', b"[" * 100000]
)
def test_what_is_no_record(value):
    """Nothing but MalformedRecord comes out of bytes that are no record."""
    with pytest.raises(MalformedRecord):
        decode(value)


@given(st.binary(max_size=200))
def test_random_bytes_are_malformed(value):
    """Fuzz: a record or MalformedRecord, never anything else."""
    with pytest.raises(MalformedRecord):
        decode(value)


def test_a_bomb_is_refused(monkeypatch):
    """A deflated body unfolds to a bound, never to all memory."""
    monkeypatch.setattr("shadow.exchange.body.MAX_BODY_BYTES", 1000)
    tree = json.loads(encode(example(body=b"x" * 1001)))
    with pytest.raises(MalformedRecord, match="body"):
        decode(json.dumps(tree).encode())


def test_accounting_travels():
    """Counters and low water come back as they were."""
    record = Accounting(
        experiment="e", config_hash="c", worker="0", boot_id="b", sequence=3, at=5, low_water=4,
        counts=[Count(arm="fp8", counter="dropped", reason="queue_full", value=2)],
    )  # fmt: skip
    assert decode(encode(record)) == record
