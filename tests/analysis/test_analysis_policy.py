"""policy.yaml: the contract's sample, every refusal as one line, and a hash of what it means."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from analysis.policy import Policy, policy_hash

SAMPLE = {
    "alpha": {"reject": 0.05, "promote": 0.05},
    "blocks": {"by": "time", "every": "60s", "min_pairs": 50, "planned": 100},
    "min_span": "1h",
    "warm_up": {"pairs": 200},
    "coverage": 0.95,
    "deadline_slack": "20%",
    "tap": {"expected": 1.0},
    "segments": ["model", "route", "streamed", "prompt_tokens", "output_tokens", "cached"],
    "metrics": {
        "ttft_any.p50": {"margin": "5%"},
        "ttft_any.p95": {"margin": "10%"},
        "tpot.mean": {"margin": "5%"},
        "e2e.p95": {"margin": "10%"},
        "failure.rate": {"margin": "0.5pp"},
        "mismatch.rate": {"margin": "2pp"},
    },
}


def test_the_sample_is_the_default():
    """What the documentation shows is what judges without a file, to the hash."""
    assert Policy.model_validate(SAMPLE) == Policy()
    assert policy_hash(Policy.model_validate(SAMPLE)) == policy_hash(Policy())


def test_a_resolved_policy_reads_back():
    """What is stored beside a verdict is a policy again, with the same hash."""
    policy = Policy.model_validate({"blocks": {"by": "count", "pairs": 20}, "min_span": "0s"})
    again = Policy.model_validate(policy.model_dump(mode="json", exclude_unset=True))
    assert policy_hash(again) == policy_hash(policy)


def test_spelling_does_not_matter_and_meaning_does():
    """60s is 1m and 5.0% is 5%; another margin is another policy."""
    spelt = Policy.model_validate(
        {
            "blocks": {"every": "1m"},
            "metrics": {**SAMPLE["metrics"], "tpot.mean": {"margin": "5.0 %"}},
        }
    )
    assert policy_hash(spelt) == policy_hash(Policy())
    other = {**SAMPLE["metrics"], "tpot.mean": {"margin": "6%"}}
    assert policy_hash(Policy.model_validate({"metrics": other})) != policy_hash(Policy())


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"metrics": {"tpot.mean": {"margin": "5%", "goal": "improve"}}}, "improve 10%"),
        ({"metrics": {"tpot.mean": {"margin": "5%", "direction": "lower"}}}, "belong to one's own"),
        ({"metrics": {"tpot.mean": {"margin": "5%", "goal": "improve 1pp"}}}, "its margin is in %"),
        ({"metrics": {"tpot.mean": {"margin": 0.05}}}, "write 5% (relative) or 0.5pp"),
        ({"metrics": {"tpot.mean": {"margin": "5pp"}}}, "its margin is in %"),
        ({"metrics": {"failure.rate": {"margin": "5%"}}}, "its margin is in pp"),
        ({"metrics": {"tpot.p42": {"margin": "5%"}}}, "write tpot.p50, tpot.p90"),
        ({"metrics": {"speed.p50": {"margin": "5%"}}}, "no such metric"),
        ({"metrics": {"output_tokens.ratio": {"margin": "5%"}}}, "state direction"),
        ({"segments": ["tenant"]}, "no such segment"),
        ({"tap": {"expected": 1.5}}, "less than or equal to 1"),
        ({"deadline_slack": "0.5pp"}, "write 20%"),
        ({"blocks": {"by": "count"}}, "how many pairs a block"),
        ({"blocks": {"by": "time", "pairs": 20}}, "min_pairs"),
        ({"blocks": {"by": "count", "pairs": 20, "every": "60s"}}, "belong to blocks by time"),
        ({"blocks": {"every": "90s"}}, "whole minutes"),
        ({"blocks": {"every": "60"}}, "duration with its unit"),
        (
            {
                "metrics": {
                    "score.ratio": {"margin": "5%", "direction": "higher", "family": "quality"}
                }
            },
            "one's own metric has",
        ),
        ({"margins": {}}, "Extra inputs"),
    ],
)
def test_refusals(tree, said):
    """A mistake or a later feature is refused with the way out, never ignored."""
    with pytest.raises(ValidationError) as caught:
        Policy.model_validate(tree)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("blocks", "seconds"),
    [({}, 60), ({"every": "1s"}, 1), ({"every": "2m"}, 60), ({"by": "count", "pairs": 9}, 1)],
)
def test_the_grid_of_windows(blocks, seconds):
    """1 s for counts and short blocks, else 60 s."""
    assert Policy.model_validate({"blocks": blocks}).blocks.window_seconds == seconds
