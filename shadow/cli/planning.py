"""`shadow plan`: what a verdict will take, and whether the configured rates give load parity."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from shadow.cli.analysis import analysis_settings
from shadow.cli.rates import drawn_by, warnings
from shadow.cli.store import read_store
from shadow.config import Config

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from analysis.compare.sample import Sample
    from analysis.planning import Stated
    from analysis.settings import Settings


def _judged_share(config: Config, name: str) -> float:
    """The share of requests that give a pair which counts: the control has it too, where one is."""
    from analysis.parity import overlap

    arm = config.arms[name]
    if config.control is None or name == config.control:
        return arm.sample
    control = config.arms[config.control]
    return overlap(arm.sample, control.sample, one_key=drawn_by(arm) == drawn_by(control))


def plan(
    config: Config,
    rate: float | None,
    sigma: float,
    correlation: float,
    bad: float,
    design: float,
    gpus: float,
    form: str,
) -> int:
    """Print it; of the figures that are not measured, `analysis.planning.Stated` says more."""
    from analysis.planning import Stated

    tree = _plan(config, rate, Stated(sigma, correlation, bad, design), gpus)
    click.echo(json.dumps(tree, indent=2) if form == "json" else _text(tree))
    return 0


def _plan(config: Config, rate: float | None, stated: Stated, gpus: float) -> dict[str, Any]:
    from analysis.parity import parity
    from analysis.planning import minutes, needs

    settings = analysis_settings(config)
    sample, why = _control_sample(config, settings)
    policy, found = settings.policy, needs(settings.policy, stated, sample)
    most = max((need.to_pass for need in found.values()), default=0)
    failing = max((need.to_fail for need in found.values()), default=0)
    arms = {}
    for name, arm in config.arms.items():
        judged = _judged_share(config, name)
        paired = rate * judged if rate else None
        takes = minutes(most, policy, paired) if paired else None
        engines = (arm.replicas or 1) * gpus
        arms[name] = {
            "sample": arm.sample,
            "judged_share": judged,
            "parity": parity(arm.replicas, config.primary.replicas),
            "pairs": most,
            "pairs_to_fail": failing,
            "minutes": round(takes, 2) if takes else None,
            "gpu_hours": round(takes / 60 * engines, 4) if takes else None,
        }
    return {
        "metrics": {name: asdict(need) for name, need in found.items()},
        "goals": any(one.improve_fraction is not None for one in policy.metrics.values()),
        "arms": arms,
        "warnings": warnings(config),
        "assumed": asdict(stated),
        "not_measured": why or None,
    }


def _control_sample(config: Config, settings: Settings) -> tuple[dict[str, Sample], str]:
    """The control against the primary, as far as the store has it; and why there is nothing."""
    from analysis.verdicts import samples_against_primary

    control = settings.control
    if control is None:
        return {}, "no arm is a control"
    found, why = read_store(
        config, lambda client: samples_against_primary(client, settings, control)
    )
    if found is None:
        return {}, why
    return found, "" if found else "the control has no pairs yet"


HEAD = "pairs until an equal candidate passes, and one worse by twice the margin fails:"
GOALS = "(with a goal, `to pass` is for one that improves by twice as much)"


def _text(tree: dict[str, Any]) -> str:
    metrics = tree["metrics"]
    lines = [HEAD, f"  {'metric':<22} {'to pass':>9} {'to fail':>9}"]
    for name, need in metrics.items():
        source = "measured on the control" if need["measured"] else "assumed"
        lines.append(f"  {name:<22} {need['to_pass']:>9,} {need['to_fail']:>9,}  ({source})")
    if tree["goals"]:
        lines.append(GOALS)
    if tree["not_measured"]:
        lines.append(f"assumed, not measured: {tree['not_measured']}")
    for name, arm in tree["arms"].items():
        lines += [f"{name}: {_sampled(arm)}", *(f"  {part}" for part in _takes(arm))]
    return "\n".join([*lines, *(f"Warning: {warning}" for warning in tree["warnings"])])


def _sampled(arm: Mapping[str, Any]) -> str:
    share = arm["judged_share"]
    met = "" if share == arm["sample"] else f" ({share:.3g} with the control)"
    return f"sample {arm['sample']:g}{met}"


def _takes(arm: Mapping[str, Any]) -> Iterator[str]:
    """What an arm's verdict takes, a line each; failing may take more pairs than passing."""
    yield f"{arm['pairs']:,} pairs to pass, {arm['pairs_to_fail']:,} to fail"
    if arm["minutes"] is None:
        yield "state --rate for minutes and GPU-hours"
    else:
        cost = f"{_figure(arm['minutes'])} min, {_figure(arm['gpu_hours'])} GPU-hours"
        yield f"about {cost} to pass"
    if arm["parity"] is None:
        yield "state `replicas` on both sides for load parity"
    else:
        yield f"load parity at {arm['parity']:.3g}"


def _figure(value: float) -> str:
    """Two digits below ten, so that little is not nothing."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
