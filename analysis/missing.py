"""Why there is no figure at all: what there is instead. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.case import Evidence
from analysis.policy import Policy


def nothing(policy: Policy, evidence: Evidence, *, gated: bool) -> str:
    """Why no gated metric has a figure, in one line.

    Args:
        policy: how long the warm-up is.
        evidence: what is known.
        gated: whether any metric is.
    """
    return next(_reasons(policy, evidence) if gated else _ungated(evidence))


def _reasons(policy: Policy, evidence: Evidence) -> Iterator[str]:
    """Every reason that applies; the first is said."""
    counted, so_far = evidence.counted, f"{evidence.counted.complete:,} pairs"
    if counted.complete and counted.controlled == 0 and evidence.reference != "primary":
        yield f"none of {so_far} has an answer of {evidence.reference}"
    if counted.complete:
        yield f"no gated metric fills a block yet: {so_far} so far"
    warm_up = counted.excluded.get("warm_up", 0)
    if warm_up and warm_up == sum(counted.excluded.values()):
        seen = warm_up // counted.copies
        yield f"no data yet: warm-up, {seen:,} of {policy.warm_up.pairs:,} pairs"
    if counted.excluded:
        yield f"no pair could be judged: {_told(counted.excluded)}"
    if counted.waiting or counted.pending:
        waiting = counted.waiting + counted.pending
        yield f"no data yet: {waiting:,} requests wait for their window"
    if counted.gaps:
        yield f"no data yet; of what was sampled: {_told(counted.gaps)}"
    yield "no data yet"


def _ungated(evidence: Evidence) -> Iterator[str]:
    if evidence.waived:
        yield "no metric is gated: what the policy gates is waived or was not measured"
    if evidence.absent:
        yield f"no metric is gated: nothing measured {', '.join(sorted(evidence.absent))}"
    yield "no metric is gated"


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {n:,}" for reason, n in counts.items())
