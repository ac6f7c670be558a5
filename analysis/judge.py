"""The judge: from readings to a state a family, and one verdict. Pure.

Reject when a lower bound exceeds its margin, pass when an upper bound is within it, else open.
No data is never a pass. One margin serves both ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from analysis.case import Evidence
from analysis.gated import Gated
from analysis.metrics import FAMILIES, Family
from analysis.missing import nothing
from analysis.moments import shown
from analysis.policy import Policy
from analysis.preconditions import FAILURES, preconditions, warnings
from analysis.reading import Reading, State, read
from analysis.waivers import Waiver

Verdict = Literal["promote", "hold", "reject"]


@dataclass(frozen=True, slots=True)
class FamilyState:
    """A family's state and what made it so."""

    state: State
    reason: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """One candidate's verdict with everything that it rests on."""

    verdict: Verdict
    reason: str
    readings: Mapping[str, Reading]
    families: Mapping[Family, FamilyState]
    preconditions: tuple[str, ...]
    warnings: tuple[str, ...]
    waived: Mapping[str, Waiver]


def gated(policy: Policy, evidence: Evidence) -> dict[str, Gated]:
    """What this verdict is the conjunction of, and what shares its alpha."""
    left_out = {*evidence.absent, *evidence.waived}
    return {name: one for name, one in policy.metrics.items() if name not in left_out}


def judge(policy: Policy, evidence: Evidence, reported: tuple[str, ...] = ()) -> Judgement:
    """The verdict.

    Args:
        policy: margins, error levels, blocks.
        evidence: samples and what is known about them.
        reported: further METRIC.STATISTIC that are read and not gated.
    """
    names = (*policy.metrics, *(name for name in reported if name not in policy.metrics))
    judged = gated(policy, evidence)
    readings = {name: read(policy, evidence, name, judged) for name in names}
    broken = preconditions(policy, evidence)
    verdict, reason = next(_conclusions(policy, evidence, [readings[n] for n in judged], broken))
    return Judgement(
        verdict=verdict,
        reason=_silent_first(evidence, verdict, reason),
        readings=readings,
        families={family: _family(family, readings) for family in FAMILIES},
        preconditions=broken,
        warnings=_warnings(policy, evidence, verdict),
        waived={name: why for name, why in evidence.waived.items() if name in policy.metrics},
    )


def _silent_first(evidence: Evidence, verdict: Verdict, reason: str) -> str:
    """Who answers nothing is said before all else, but for a reject, whose reason stays."""
    return reason if verdict == "reject" else "; ".join((*evidence.silent, reason))


def _warnings(policy: Policy, evidence: Evidence, verdict: Verdict) -> tuple[str, ...]:
    """A reject has it here."""
    first = evidence.silent if verdict == "reject" else ()
    return (*first, *warnings(policy, evidence))


def _family(family: Family, readings: Mapping[str, Reading]) -> FamilyState:
    """A fail before an open before a pass; a family without a gated metric is not gated."""
    members = [r for r in readings.values() if r.metric.family == family and r.state != "not_gated"]
    for state in ("fail", "open", "pass"):
        chosen = [r.name for r in members if r.state == state]
        if chosen:
            return FamilyState(state, f"{state}: {', '.join(chosen)}")
    return FamilyState("not_gated", "no metric of this family is gated")


def _conclusions(
    policy: Policy,
    evidence: Evidence,
    judged: list[Reading],
    broken: tuple[str, ...],
) -> Iterator[tuple[Verdict, str]]:
    """Every conclusion that applies with its reason, the strongest first; the first is the verdict.

    A fail of failures rejects whatever the preconditions say: a dead candidate is not held.
    """
    fails = [reading for reading in judged if reading.state == "fail"]
    critical = [r for r in fails if r.critical and (not broken or r.name == FAILURES)]
    why = " ".join(reading.sentence for reading in critical)
    if evidence.rejected not in {None, why}:
        yield "reject", _when(evidence.rejected or "", evidence.rejected_ns)
    if critical:
        yield "reject", why
    anew = f"{evidence.changed}; " if evidence.changed else ""
    if not any(reading.sample for reading in judged):
        yield "hold", f"{anew}{nothing(policy, evidence, gated=bool(judged))}"
    if broken:
        yield "hold", "; ".join(broken)
    if fails:
        yield "hold", "failed, not critical: " + ", ".join(r.name for r in fails)
    undecided = _undecided([reading for reading in judged if reading.state == "open"])
    if undecided:
        yield "hold", f"{anew}undecided: {undecided}"
    if evidence.span_s < policy.min_span:
        yield "hold", f"every metric passes; min_span asks for {policy.min_span:g} s of arrivals"
    yield "promote", "every gated metric is within its margin"


def _undecided(opened: list[Reading]) -> str:
    """Each reason once, behind all that are open for it."""
    names: dict[str, list[str]] = {}
    for reading in opened:
        names.setdefault(reading.reason, []).append(reading.name)
    return "; ".join(f"{', '.join(found)} ({reason})" for reason, found in names.items())


def _when(reason: str, at_ns: int | None) -> str:
    """The reason of an earlier reject: its figures are of then, others stand beside it now."""
    if at_ns is None:
        return f"when it was rejected: {reason}"
    return f"when it was rejected ({shown(at_ns)}): {reason}"
