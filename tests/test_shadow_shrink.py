"""A record that is too large for its stream becomes smaller and says so, and stays readable."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.capture.shrink import BODY_CUT, REQUEST_CUT, REST_CUT, TAIL_BYTES, middle_cut, shrink
from shadow.capture.shrink import shrink_value as shrunk
from shadow.exchange import Accounting, Exchange, decode, encode

NOISE = random.Random(3).randbytes(3_000_000)
FACTS = {
    "experiment": "e", "config_hash": "c", "pair_id": "p", "arm": "primary", "role": "primary",
    "worker": "0", "boot_id": "b", "sequence": 1, "arrived_at": 1, "started_at": 1,
    "method": "POST", "path": "/v1/chat/completions", "transport": "complete",
}  # fmt: skip


def exchange(**changes) -> Exchange:
    body = changes.get("body", b"")
    return Exchange(**(FACTS | {"captured_bytes": len(body)} | changes))


def test_what_fits_is_left_alone():
    """No byte is given up without need."""
    whole = exchange(body=b"data: x\n\n" * 100_000, request=b"{}")
    assert shrink(whole, 1_000_000) is whole


@pytest.mark.parametrize("limit", [4_000, 100_000, 1_000_000])
def test_a_large_answer_loses_its_middle_and_counts_it(limit):
    """Head and tail stay; what is missing is counted; nothing else changes; it fits."""
    whole = exchange(body=NOISE, request=b"prompt" * 10)
    small = shrink(whole, limit)
    assert limit * 0.5 < len(encode(small)) <= limit
    assert small.truncated_bytes + len(small.body) == len(NOISE)
    assert small.captured_bytes == len(small.body)
    head, tail = small.body[: -small.tail_bytes], small.body[-small.tail_bytes :]
    assert NOISE.startswith(head)
    assert NOISE.endswith(tail)
    assert len(head) >= len(tail) > 0
    assert BODY_CUT in small.request_changes
    cut = {"body", "captured_bytes", "truncated_bytes", "tail_bytes", "request", "request_changes"}
    assert small.model_dump(exclude=cut) == whole.model_dump(exclude=cut)
    assert decode(encode(small)) == small


def test_a_large_request_says_that_it_was_cut():
    """The prompt's cut is visible where an arm's changes stand."""
    small = shrink(exchange(request=NOISE, request_changes=["body:model"]), 200_000)
    assert small.request is not None
    assert 0 < len(small.request) < 200_000
    assert small.request_changes == ["body:model", REQUEST_CUT]
    assert small.truncated_bytes == 0


def test_huge_headers_go_last_and_visibly():
    """Without any body left, the rest goes; the record still stands for its request."""
    field = ("x-large", "v" * 30_000)
    small = shrink(exchange(body=NOISE, headers=[field], request_headers=[field]), 5_000)
    assert len(encode(small)) <= 5_000
    assert (small.headers, small.request_headers) == ([], [])
    assert {BODY_CUT, REST_CUT} <= set(small.request_changes)
    assert small.truncated_bytes == len(NOISE)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 300_000), st.integers(0, 100_000), st.floats(0.0, 0.9), st.integers(0, 100))
def test_a_gap_that_is_there_never_moves_into_the_kept(head, tail, share, more):
    """A body with a gap already keeps a prefix of its head and a suffix of its tail."""
    body = NOISE[:head] + NOISE[-tail - 1 : -1] if tail else NOISE[:head]
    kept, kept_tail = middle_cut(body, tail, share)
    assert len(kept) <= len(body)
    assert kept_tail <= min(TAIL_BYTES, tail or TAIL_BYTES)
    kept_head = len(kept) - kept_tail
    assert kept_head <= len(body) - tail
    assert kept[:kept_head] == body[:kept_head]
    assert not kept_tail or kept[-kept_tail:] == body[-kept_tail:]


def test_the_wire_form_is_shrunk_or_refused():
    """What is no exchange is given back if it fits, and nothing is invented for what cannot."""
    small = shrunk(encode(exchange(body=NOISE)), 50_000)
    assert small is not None
    assert len(small) <= 50_000
    account = encode(
        Accounting(
            **{k: FACTS[k] for k in ("experiment", "config_hash", "worker", "boot_id")},
            sequence=1,
            at=1,
        )
    )
    assert shrunk(account, 10_000) == account
    assert shrunk(account, 10) is None
    assert shrunk(b"no record", 10_000) is None
    assert shrunk(encode(exchange(body=NOISE)), 100) is None
