"""Whether sampling rates fit: load parity, and requests that candidate and control both get."""

from __future__ import annotations

import math

OFF_PARITY = 0.1
"""By more than this a rate is said to be off."""


def parity(replicas: int | None, primary_replicas: int | None) -> float | None:
    """The sampling rate at which an arm's replica sees what a primary's sees; None: unknown."""
    if replicas is None or primary_replicas is None:
        return None
    return min(replicas / primary_replicas, 1.0)


def off_parity(name: str, sample: float, wanted: float | None) -> str | None:
    """One line where a configured rate breaks load parity by more than a tenth."""
    if wanted is None or not sample or abs(math.log(sample / wanted)) <= math.log1p(OFF_PARITY):
        return None
    word = "more" if sample > wanted else "less"
    sees = f"each of its replicas sees {word} than one of the primary's"
    return f"arms.{name}.sample is {sample:g}: {sees}; load parity is at {wanted:.3g}"


def off_load(name: str, load: float, control: str, other: float) -> str | None:
    """One line where a candidate and the control would get loads that the analysis holds for.

    Args:
        name: the candidate.
        load: its rate, a replica where their number is stated.
        control: the control's name.
        other: the control's, likewise.
    """
    if not load or not other or abs(math.log(load / other)) <= math.log1p(OFF_PARITY):
        return None
    return (
        f"arms.{name}: it gets {load:.3g} of the requests and {control} {other:.3g}, each replica "
        "where their number is stated, and unequal loads hold for ever (load mismatch): give both "
        "one `sample`, or state `replicas` of both where their numbers differ"
    )


def overlap(sample: float, control: float, *, one_key: bool) -> float:
    """The share of requests that a candidate and the control both get.

    Args:
        sample: the candidate's rate.
        control: the control's.
        one_key: whether both draw by the same key: then the smaller lies within the larger.
    """
    return min(sample, control) if one_key else sample * control


def off_overlap(name: str, sample: float, control: str, rate: float, keys: set[str]) -> str | None:
    """One line where too many of a candidate's requests have no answer of the control.

    Args:
        name: the candidate.
        sample: its rate.
        control: the control's name.
        rate: its rate.
        keys: by what both draw.
    """
    share = overlap(sample, rate, one_key=len(keys) == 1) / sample if sample else 1.0
    if share >= 1 - OFF_PARITY:
        return None
    way = [f"one `key` (not {' and '.join(sorted(keys))})"] if len(keys) > 1 else []
    way += [f"one `sample` (not {sample:g} and {rate:g})"] if sample != rate else []
    return (
        f"arms.{name}: only {share:.0%} of its requests reach {control} too, and no others are "
        f"judged: give both {' and '.join(way)}"
    )
