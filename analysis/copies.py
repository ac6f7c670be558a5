"""Greedy probes and further copies of a request: what a reader should know of them. Pure.

A probe is a request that was sent once more at temperature 0 to candidate and control. The two
answers are compared with each other, for quality alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.case import Counted
from analysis.metrics import metrics, split

PROBED = ("probe_mismatch.rate", "probe_cut_at_length.rate", "probe_output_tokens.ratio")
"""Read where there are greedy probes."""
ALONE = (
    "greedy probes compare the candidate with the control alone; engines that batch differ from "
    "themselves at temperature 0 too, and how often was not probed: probe_mismatch has no noise "
    "floor, and is gated only where the policy lists it"
)
NONE = "no greedy probe was compared: it takes `greedy_probe` and a control"


def notes(candidate: str, reference: str, copies: Mapping[str, int], probes: int) -> Iterator[str]:
    """What to know beside the figures.

    Args:
        candidate: an arm.
        reference: what it is compared with.
        copies: how many of each request an arm gets, where it is more than one.
        probes: greedy probes that were compared.
    """
    here, there = copies.get(candidate, 1), copies.get(reference, 1)
    if here != there:
        yield (
            f"{candidate} gets {here} of each request and {reference} {there}: a further copy may "
            "find its prompt in the cache, which shortens the time to the first token"
        )
    if probes:
        yield ALONE


def unprobed(names: list[str], counted: Counted) -> dict[str, str]:
    """Why METRIC.STATISTIC of probes have no data, where there are no probes."""
    return {} if counted.probes else {name: NONE for name in names if of_probes(name)}


def of_probes(name: str) -> bool:
    """Whether nothing but probes tells a METRIC.STATISTIC."""
    metric = name.rpartition(".")[0]
    return metric in metrics() and split(name)[0].probe
