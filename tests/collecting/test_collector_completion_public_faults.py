"""Faults that other tools were publicly reported with, where no other test has their input."""

import json

import pytest
from collecting.answers import DONE, delta, event, finish, marks_of, streamed, text, usage, whole

from collector.completion import Fault
from collector.measures import measure
from collector.tokenizer import token_counter

MS = 1_000_000


def timed(*pieces):
    """Read (ms, piece) pairs, each in a read of its own, with its measures."""
    raw = [(ms, event(piece) if isinstance(piece, dict) else piece) for ms, piece in pieces]
    ends = marks_of([piece for _, piece in raw])
    marks = [(ms * MS, end) for (ms, _), (_, end) in zip(raw, ends, strict=True)]
    done = streamed(*(piece for _, piece in raw), marks=marks)
    return done, measure(done, marks[-1][0])


def test_several_tokens_in_one_event():
    """F22, E17, E18: speculative decoding sends k tokens an event; tokens are counted, not events."""
    done, ours = timed(
        (100, text("a b c")), (140, text(" d e f g")), (150, text(" h")), (150, finish()), (150, usage(8)), (150, DONE)
    )  # fmt: skip
    assert (done.tokens.count, len(done.timeline.token_ns)) == (8, 3)
    assert ours.tpot_ms == pytest.approx(50 / 7)
    assert ours.tokens_per_s == pytest.approx(7 / 0.05)
    assert ours.itl_max_ms == 40


def test_a_stall_with_pings():
    """F23: keep-alives in a pause of a minute are no events; the pause is one gap."""
    pings = [
        (1000 + 10_000 * n, b": ping\n\n" if n % 2 else b"event: ping\ndata: {}\n\n")
        for n in range(6)
    ]
    done, ours = timed((500, text("a")), *pings, (60_500, text("b")), (60_510, DONE))
    assert (done.outcome, len(done.timeline.data_ns)) == ("complete", 3)
    assert (ours.ttft_any_ms, ours.itl_max_ms, ours.e2e_ms) == (500, 60_000, 60_510)


def test_a_keep_alive_before_the_first_event():
    """Some vLLM versions send a comment while they wait: it is no first event."""
    _, ours = timed(
        (5, b": keep-alive\n\n"),
        (900, delta(role="assistant", content="")),
        (910, text("a")),
        (911, DONE),
    )
    assert (ours.ttft_any_ms, ours.ttft_content_ms) == (900, 910)


def test_the_first_wait_is_no_gap():
    """E16: the gaps between tokens do not hold the wait for the first one."""
    _, ours = timed((1000, text("a")), (1010, text("b")), (1021, DONE))
    assert (ours.itl_p50_ms, ours.itl_max_ms) == (10, 10)


def test_an_error_before_any_token_has_no_tokens():
    """E5, E6: no count is made up for a failed answer, whatever was asked for."""
    done, ours = timed((50, {"error": {"message": "out of memory", "code": 500}}), (50, DONE))
    assert (done.outcome, done.fault) == ("in_band_error", Fault("500", "out of memory"))
    assert (done.tokens.count, ours.ttft_content_ms, ours.tpot_ms) == (None, None, None)


def test_a_tokenizer_that_begins_with_a_token_of_its_own(tmp_path):
    """E20: its begin-of-sequence token is none of the answer's."""
    begin = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
             "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
             "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}  # fmt: skip
    model = {"type": "WordLevel", "vocab": {"?": 0, "<s>": 1}, "unk_token": "?"}
    document = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "post_processor": begin,
                "normalizer": None, "decoder": None, "truncation": None, "padding": None, "model": model}  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps(document))
    done = streamed(text("two words"), DONE, count_tokens=token_counter(tmp_path / "t.json"))
    assert (done.tokens.count, done.tokens.source) == (2, "tokenizer")


def test_a_plain_body_under_a_coding_s_name():
    """E36: a proxy that unpacked the body and left Content-Encoding: what a client would see, damage."""
    headers = [("content-type", "application/json"), ("content-encoding", "gzip")]
    done = whole({"choices": [{"message": {"content": "a"}}]}, headers=headers)
    assert (done.outcome, done.fault.type) == ("truncated_upstream", "content_coding")


def test_a_client_that_left_before_the_answer():
    """E37: the client left before the first byte of a whole answer: nobody's failure."""
    done = whole(b"", transport="client_disconnected")
    assert done.outcome == "client_disconnected"
