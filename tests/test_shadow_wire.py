"""What is written without the model is the model's record: same fields, same values."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.capture.wire import Moving, fixed_part, written
from shadow.exchange import Exchange, RequestFacts, decode, deflated, encode

NS = st.integers(0, 2**63 - 1)
OFFSET = st.none() | st.integers(-(2**62), 2**62)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FIELDS = st.lists(st.tuples(TEXT, TEXT), max_size=3)
EXCHANGES = st.builds(
    Exchange,
    experiment=TEXT, config_hash=TEXT, pair_id=TEXT, arm=TEXT, role=TEXT, worker=TEXT,
    boot_id=TEXT, sequence=st.integers(1, 2**63 - 1), arrived_at=NS, started_at=NS,
    connect_ns=OFFSET, sent_ns=OFFSET, first_byte_ns=OFFSET, end_ns=OFFSET, client_wait_ns=NS,
    marks=st.lists(st.tuples(NS, NS), max_size=4), method=TEXT, path=TEXT,
    status=st.none() | st.integers(100, 999), headers=FIELDS, request_headers=FIELDS,
    request=st.none() | st.binary(max_size=400),
    request_facts=st.builds(
        RequestFacts,
        model=st.none() | TEXT,
        temperature=st.none() | st.floats(),
        bytes=NS,
    ),
    request_changes=st.lists(TEXT, max_size=3), body=st.binary(max_size=400),
    captured_bytes=NS, truncated_bytes=NS, tail_bytes=NS, in_flight=NS,
    weight=st.floats(1, 1e6), mirroring=TEXT, subject=st.none() | TEXT, transport=TEXT, error=st.none() | TEXT,
)  # fmt: skip
FIXED = ("experiment", "config_hash", "arm", "role", "worker", "boot_id")


def moving(exchange: Exchange) -> Moving:
    plain = {name: getattr(exchange, name) for name in Moving.__annotations__}
    request = None if exchange.request is None else deflated(exchange.request)
    facts = exchange.request_facts.model_dump()
    return Moving(
        **plain | {"request": request, "body": deflated(exchange.body), "request_facts": facts}
    )


@settings(max_examples=200, deadline=None)
@given(EXCHANGES)
def test_it_is_the_models_record(exchange):
    """Whatever an exchange holds: the same document, whatever reads it."""
    fixed = fixed_part(**{name: getattr(exchange, name) for name in FIXED})
    value = written(fixed, moving(exchange))
    assert encode(decode(value)) == encode(exchange)
    assert json.loads(value) == json.loads(encode(exchange))
    assert value.startswith(b'{"record":"exchange"')


def test_a_text_that_is_no_text_is_an_error():
    """As with the model: its record is dropped, the others go on."""
    exchange = Exchange(
        experiment="e", config_hash="c", pair_id="p", arm="a", role="r", worker="w", boot_id="b",
        sequence=1, arrived_at=1, started_at=1, method="M", path="/\ud800", transport="t",
    )  # fmt: skip
    with pytest.raises(orjson.JSONEncodeError):
        written(fixed_part(), moving(exchange))
