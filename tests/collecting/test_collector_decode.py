"""A record becomes rows or a MalformedRecord, and nothing else."""

import pytest
from collecting.records import accounting, exchange
from hypothesis import given, settings
from hypothesis import strategies as st

from collector import decode
from collector.decode import rows_of
from shadow.exchange import MalformedRecord, encode

GOOD = encode(exchange(body=b"data: [DONE]\n\n"))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=12), st.integers(0, len(GOOD)), st.integers(0, 12))
def test_damaged_records(junk, at, cut):
    """A good record with bytes put in or taken out anywhere."""
    try:
        rows = rows_of(GOOD[:at] + junk + GOOD[at + cut :], "full")
    except MalformedRecord:
        pass
    else:
        assert set(rows) == {"exchanges", "bodies"}


@pytest.mark.parametrize(
    "bad", [b"", b"null", b"[]", b'{"record":"other"}', b'{"record":"exchange"}', b"\xff"]
)
def test_what_is_no_record(bad):
    """One line of reason each."""
    with pytest.raises(MalformedRecord):
        rows_of(bad, "text")


def test_words_of_later_are_stored():
    """Vocabularies are open on the wire: an unknown transport, role or counter is no dead letter."""
    rows = rows_of(encode(exchange(transport="teleported", role="witness", probe="p2")), "text")
    assert rows["exchanges"][0]["transport"] == "teleported"
    late = accounting(counts=[{"arm": "a", "counter": "new", "value": 1}])
    assert rows_of(encode(late), "text")["accounting"][0]["counter"] == "new"


def test_a_mistake_of_ours_costs_one_answer(monkeypatch):
    """An exception of the decoder names itself and is that answer's reason, not a dead letter."""

    def broken(_exchange, _count_tokens):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(decode, "completion_of", broken)
    row = rows_of(GOOD, "text")["exchanges"][0]
    assert (row["outcome"], row["error"]) == ("truncated_capture", "decoder: ZeroDivisionError: oh")


@pytest.mark.parametrize(
    "changes",
    [
        {"client_wait_ns": 10**400},
        {"marks": [(10**400, 1)]},
        {"marks": [], "sent_ns": 1, "end_ns": 10**400},
        {"client_wait_ns": 10**400, "measures": {"failure": 0}},
    ],
)
def test_a_number_beyond_all_columns_is_a_bad_value(changes):
    """Else the collector would end at it, and end at it again after each start."""
    with pytest.raises(MalformedRecord, match="too large"):
        rows_of(encode(exchange(body=b"data: [DONE]\n\n").model_copy(update=changes)), "text")


@pytest.mark.parametrize(
    ("name", "figure"),
    [("tpot_ms", "NaN"), ("ttft_any_ms", "1e999"), ("failure", 7)],
)
def test_figures_that_no_answer_has_are_a_bad_value(name, figure):
    """One NaN in a window would leave its metric without an estimate for ever."""
    good = encode(exchange(measures={name: 0, "events": 3, "later": -1}))
    assert rows_of(good, "measures")["exchanges"][0][name] == 0
    bad = good.replace(f'"{name}":0'.encode(), f'"{name}":{figure}'.encode())
    with pytest.raises(MalformedRecord, match=f"measures.{name}"):
        rows_of(bad, "measures")
