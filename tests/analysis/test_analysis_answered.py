"""How answers ended, by arm, and how long those were that were cut: exact after any redelivery."""

from __future__ import annotations

from analysis.answered import answered
from analysis.answers import report
from analysis.recorded import unknown


def test_how_answers_ended(world):
    """By outcome, transport and status with counts, the most frequent first; each answer once."""
    settings = world.settings(control=None)
    for i in range(6):
        world.exchange(i, f"p{i}", "primary")
        failed = {"failure": 1, "outcome": "http_error", "status": 503}
        late = {"failure": 1, "outcome": "no_tokens", "transport": "timed_out", "status": None}
        world.exchange(i, f"p{i}", "fp8", **(failed if i < 3 else late if i < 4 else {}))
    rows = list(world.pending_rows)
    world.store()
    world.store(rows[:5])
    found = answered(world.client, settings)
    kinds = [(e["outcome"], e["transport"], e["status"], e["failed"], e["answers"])
             for e in found["fp8"]["ends"]]  # fmt: skip
    assert kinds == [
        ("http_error", "complete", 503, True, 3),
        ("complete", "complete", 200, False, 2),
        ("no_tokens", "timed_out", None, True, 1),
    ]
    assert found["primary"]["ends"][0]["answers"] == 6
    assert "lengths" not in found["fp8"]


def test_lengths_of_what_was_cut_and_what_was_kept(world):
    """Beyond `answer_bytes` the whole length is known: captured and truncated together."""
    settings = world.settings(control=None)
    for i in range(8):
        cut = {"captured_bytes": 1000, "truncated_bytes": 9000, "output_tokens": 400}
        kept = {"captured_bytes": 500, "truncated_bytes": 0, "output_tokens": 20}
        world.exchange(i, f"p{i}", "fp8", **(cut if i < 2 else kept))
    world.store()
    assert answered(world.client, settings)["fp8"]["lengths"] == {
        "kept": {"answers": 6, "bytes_mean": 500, "bytes_p50": 500, "output_tokens_mean": 20},
        "cut": {"answers": 2, "bytes_mean": 10_000, "bytes_p50": 10_000, "output_tokens_mean": 400},
    }
    assert report(world.client, settings)["answered"]["fp8"]["lengths"]["cut"]["answers"] == 2


def test_what_was_cut_before_its_end_counts_among_the_cut(world):
    """An answer without a stream has no end in its tail: it is the one that pairs lack most."""
    settings = world.settings(control=None)
    unknown_end = {"outcome": "truncated_capture", "failure": None, "output_tokens": None}
    for i in range(6):
        cut = {"captured_bytes": 1000, "truncated_bytes": 19_000, **unknown_end}
        kept = {"captured_bytes": 500, "truncated_bytes": 0, "output_tokens": 20}
        world.exchange(i, f"p{i}", "fp8", **(cut if i < 2 else kept))
    world.store()
    lengths = answered(world.client, settings)["fp8"]["lengths"]
    assert lengths["cut"]["answers"] == 2
    assert lengths["cut"]["bytes_mean"] == 20_000
    assert lengths["cut"]["output_tokens_mean"] is None
    assert lengths["kept"]["answers"] == 4


def test_an_experiment_that_nobody_knows_is_named(world):
    """With those that there are; one that has counters but no verdict is said to have none."""
    world.count(1, "fp8", "sampled", 1)
    assert unknown(world.client, world.experiment) == f"{world.experiment} has no verdict yet"
    said = unknown(world.client, "nope")
    assert said.startswith("no experiment is named nope; there are: ")
    assert world.experiment in said
