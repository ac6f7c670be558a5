"""Figures that a candidate lacks where the reference has them. Pure.

No data is never a pass, and half of it is none either: what is missing may be what is bad. Failed
answers lack nothing, their times are infinite; nor does an answer whose client was slow, or whose
turns no cache of the candidate's could know: these are not of its making.
"""

from __future__ import annotations

from collections.abc import Mapping

from analysis.policy import Policy

_ALIKE = {
    "itl_p50": "itl_p99",
    "itl_p95": "itl_p99",
    "itl_max": "itl_p99",
    "tokens_per_s": "output_tokens",
    "mismatch": "text",
}
"""Metrics that are missing where another one, or what they are made of, is."""
_OF_TOKENS = frozenset({"tpot", "itl_mean", "tokens_per_s", "output_tokens"})


def lacking(policy: Policy, judged: int, undefined: Mapping[str, int]) -> dict[str, str]:
    """Why a gated METRIC.STATISTIC is of too few of the judged pairs; the others are left out.

    Args:
        policy: its `coverage` is the least share.
        judged: pairs with the reference.
        undefined: how many of them lack something, by reason.
    """
    found = {name: _reasons(name, undefined) for name in policy.metrics}
    return {
        name: _told(policy, judged, reasons)
        for name, reasons in found.items()
        if sum(reasons.values()) > (1 - policy.coverage) * judged
    }


def missing(metric: str) -> str:
    """The reason under which pairs are counted whose candidate alone lacks a metric."""
    return f"{_ALIKE.get(metric, metric)}_missing"


def _reasons(name: str, undefined: Mapping[str, int]) -> dict[str, int]:
    metric = name.rpartition(".")[0]
    wanted = [missing(metric)]
    wanted += ["token_source"] if metric in _OF_TOKENS else []
    return {reason: undefined[reason] for reason in wanted if undefined.get(reason)}


def _told(policy: Policy, judged: int, reasons: Mapping[str, int]) -> str:
    share = max(1 - sum(reasons.values()) / judged, 0.0)
    why = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
    return f"known of {share:.1%} of the pairs, below {policy.coverage:.0%}: {why}"
