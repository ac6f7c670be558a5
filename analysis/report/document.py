"""report.json: one plain tree, from judgements and accounts. NaN and Infinity never stand in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.accounting import BEGAN, Account
from analysis.case import Counted
from analysis.policy import Policy
from analysis.report.definitions import definitions
from analysis.report.factors import factors
from analysis.report.plain import moment
from analysis.settings import Settings

SCHEMA = 1


def document(
    settings: Settings,
    parts: Mapping[str, dict[str, Any]],
    counted: Mapping[str, Counted],
    accounts: Mapping[str, Account],
    answered: Mapping[str, Any] | None = None,
    cost: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The whole report.

    Args:
        settings: the experiment.
        parts: `candidate_part` by candidate.
        counted: pairs by candidate.
        accounts: every arm's accounting.
        answered: `answered.answered`; None where it was not looked at.
        cost: what the measuring itself costs, by what it costs it; None where it was not looked at.
    """
    identities = {name: settings.comparisons[name] for name in settings.candidates}
    alone = next(iter(parts), None) if len(settings.candidates) == 1 else None
    tree: dict[str, Any] = {
        "schema": SCHEMA,
        "experiment": settings.experiment,
        "comparison": identities[alone] if alone else identities,
        "config_hash": settings.config_hash,
        "policy_hash": settings.policy_hash,
        "policy": judged_by(settings.policy),
        "attach": settings.attach,
        "builds": {name: build for name, build in settings.builds.items() if build},
        "window": _window(settings, counted),
        "candidates": dict(parts),
        "accounting": {"arms": {name: _account(account) for name, account in accounts.items()}},
        **({} if answered is None else {"answered": dict(answered)}),
        "factors": factors(settings.factors, parts),
        "cost": {**(cost or {}), "note": "not yet: what an answer costs is not in this version"},
        "definitions": definitions(parts),
    }
    return {"verdict": parts[alone]["verdict"], **tree} if alone else tree


def judged_by(policy: Policy) -> dict[str, Any]:
    """What of the policy a reader must know to read a verdict; its hash has the rest."""
    return {
        "default": policy == Policy(),
        "gated": {
            name: {"margin": one.margin, "goal": one.goal, "critical": one.critical}
            for name, one in policy.metrics.items()
        },
        "min_span_s": policy.min_span,
        "warm_up_pairs": policy.warm_up.pairs,
    }


def _window(settings: Settings, counted: Mapping[str, Counted]) -> dict[str, Any]:
    starts = [c.from_s for c in counted.values() if c.from_s is not None]
    ends = [c.until_s for c in counted.values() if c.until_s is not None]
    return {
        "from": moment(min(starts, default=None)),
        "until": moment(max(ends, default=None)),
        "span_s": max(ends) - min(starts) if starts and ends else None,
        "seconds": settings.window_seconds,
    }


def _account(account: Account) -> dict[str, Any]:
    return {
        "eligible": account.eligible,
        "sampled": account.sampled,
        "skipped": dict(account.skipped),
        "captured": account.captured,
        "dropped": dict(account.dropped),
        "pending": account.pending,
        "lost": account.lost,
        **{name: account.began.get(name, 0) for name in BEGAN},
        "unreadable": account.unreadable,
    }
