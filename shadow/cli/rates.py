"""What of rates, keys and replicas would keep a comparison from its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shadow.config import Config
    from shadow.config.upstream import Arm


def parity_warnings(config: Config) -> list[str]:
    """A line for each arm whose rate breaks load parity, as far as replicas are stated."""
    from analysis.parity import off_parity, parity

    found = [
        off_parity(name, arm.sample, parity(arm.replicas, config.primary.replicas))
        for name, arm in config.arms.items()
    ]
    return [line for line in found if line is not None]


def overlap_warnings(config: Config) -> list[str]:
    """A line for each candidate most of whose pairs would have no answer of the control."""
    from analysis.parity import off_overlap

    name = config.control
    if name is None:
        return []
    control = config.arms[name]
    found = [
        off_overlap(each, arm.sample, name, control.sample, {drawn_by(arm), drawn_by(control)})
        for each in config.candidates
        for arm in [config.arms[each]]
    ]
    return [line for line in found if line is not None]


def load_warnings(config: Config) -> list[str]:
    """A line for each candidate whose load differs from the control's: that holds every verdict.

    Not for those of which `overlap_warnings` says to give both one `sample`, nor where all
    replicas are stated: there `parity_warnings` judges.
    """
    from analysis.parity import off_load

    name = config.control
    if name is None:
        return []
    control = config.arms[name]
    found = [
        off_load(each, _load(arm), name, _load(control))
        for each in config.candidates
        for arm in [config.arms[each]]
        if arm.sample <= control.sample
        and None in {arm.replicas, control.replicas, config.primary.replicas}
    ]
    return [line for line in found if line is not None]


def _load(arm: Arm) -> float:
    """The share of requests that the analysis reckons with: a replica's, where that is known."""
    return arm.sample / (arm.replicas or 1)


def drawn_by(arm: Arm) -> str:
    """An arm's `key`; the names of fields have no case."""
    return arm.key.lower()


def warnings(config: Config) -> list[str]:
    """What of rates and keys would keep a comparison from its verdict, a line each."""
    return [*parity_warnings(config), *overlap_warnings(config), *load_warnings(config)]
