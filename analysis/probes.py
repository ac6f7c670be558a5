"""Greedy probes in the report: what they tell, and what is said of it. Pure.

A probe is a request that was sent once more at temperature 0 to candidate and control. The two
answers are compared with each other, for quality alone.
"""

from __future__ import annotations

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


def notes(counted: Counted) -> tuple[str, ...]:
    """What a reader of their figures should know."""
    return (ALONE,) if counted.probes else ()


def unprobed(names: list[str], counted: Counted) -> dict[str, str]:
    """Why METRIC.STATISTIC of probes have no data, where there are no probes."""
    return {} if counted.probes else {name: NONE for name in names if of_probes(name)}


def of_probes(name: str) -> bool:
    """Whether nothing but probes tells a METRIC.STATISTIC."""
    metric = name.rpartition(".")[0]
    return metric in metrics() and split(name)[0].probe
