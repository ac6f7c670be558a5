"""Samples of many METRIC.STATISTIC at once: of all pairs, and of every part of the traffic."""

from __future__ import annotations

from analysis.compare.sample import Sample
from analysis.pair_file.pairs import Pairs
from analysis.pair_file.samples import Contrast, Mask
from analysis.policy import Policy
from analysis.segments import Part, masks


def parts_of(
    pairs: Pairs, judged: Mask, policy: Policy, names: list[str], sides: tuple[int, int]
) -> list[Part]:
    """Every gated METRIC.STATISTIC in every part of the traffic that fills a block."""
    gated = [name for name in names if name in policy.metrics]
    found = []
    for segment in policy.segments:
        words = pairs.segments.get(segment)
        parts = masks(words, segment) if words is not None else {}
        for value, mask in parts.items() if len(parts) > 1 else ():
            samples = samples_of(pairs, judged & mask, policy, gated, sides)
            found += [Part(segment, value, name, sample) for name, sample in samples.items()]
    return found


def samples_of(
    pairs: Pairs, judged: Mask, policy: Policy, names: list[str], sides: tuple[int, int]
) -> dict[str, Sample]:
    """By METRIC.STATISTIC; what fills no block is absent."""
    contrast = Contrast(pairs, judged, *sides)
    found = {name: contrast.sample(policy, name) for name in names}
    return {name: sample for name, sample in found.items() if sample is not None}
