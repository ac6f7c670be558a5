"""The synthetic exchanges are what the collector's benchmark says they are."""

import json
from itertools import islice

from bench.answers import TOKENS, exchanges


def test_each_answer_is_a_whole_stream_of_100_tokens():
    """Every event ends at its mark, times never go back, the text is [DONE]."""
    for exchange in islice(exchanges(5, 10**18, "bench", "c"), 10):
        ends = [end for _, end in exchange.marks]
        times = [at for at, _ in exchange.marks]
        parts = [exchange.body[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        assert all(part.startswith(b"data: ") and part.endswith(b"\n\n") for part in parts)
        assert times == sorted(times)
        assert parts[-1] == b"data: [DONE]\n\n"
        deltas = [json.loads(part[6:])["choices"] for part in parts[:-1]]
        texts = [c[0]["delta"].get("content") for c in deltas if c]
        assert sum(1 for text in texts if text) == TOKENS
        assert ends[-1] == len(exchange.body) == exchange.captured_bytes


def test_a_pair_has_both_sides_and_one_arrival():
    """Sequences count on; the request is on the primary's only; the same seed, the same pairs."""
    made = list(exchanges(3, 10**18, "bench", "c"))
    assert [e.arm for e in made] == ["primary", "candidate"] * 3
    assert [e.sequence for e in made] == [1, 2, 3, 4, 5, 6]
    assert len({(e.pair_id, e.arrived_at) for e in made}) == 3
    assert [e.request is None for e in made] == [False, True] * 3
    assert made == list(exchanges(3, 10**18, "bench", "c"))
