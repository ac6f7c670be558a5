"""What /metrics says of the switch: whether it mirrors, why not, the loop's lag with it and not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from shadow.steering.switch import REASONS

if TYPE_CHECKING:
    from shadow.mirror.mirror import Mirror
    from shadow.steering.guard import Guard

QUANTILES = (0.5, 0.99)


def switch_figures(mirror: Mirror) -> Iterator[Metric]:
    """Families for the exposition."""
    switch = mirror.switch
    state = GaugeMetricFamily(
        "shadow_mirroring",
        "1 for what the mirror does now: on, or why it stands still.",
        labels=("state",),
    )
    for word in ("on", *REASONS):
        state.add_metric((word,), float((switch.skip or "on") == word))
    yield state
    stills = CounterMetricFamily(
        "shadow_mirroring_stills", "Times that mirroring came to stand still.", labels=("reason",)
    )
    for reason in REASONS:
        stills.add_metric((reason,), switch.stills[reason])
    yield stills
    rates = GaugeMetricFamily(
        "shadow_arm_rate", "Share of requests for an arm now.", labels=("arm",)
    )
    for arm in mirror.arms:
        rates.add_metric((arm.name,), arm.sample)
    yield rates
    yield CounterMetricFamily(
        "shadow_watch_faults",
        "Faults of shadow in watching what changes mirroring.",
        switch.faults_total(),
    )
    yield GaugeMetricFamily(
        "shadow_watch_fault",
        "1 while a change of mirroring may not be heard for such a fault.",
        int(bool(switch.fault())),
    )
    if switch.guard is not None:
        yield from _lag(switch.guard)


def _lag(guard: Guard) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "shadow_lag_pauses",
        "Times that mirroring paused itself for the loop's lag.",
        guard.pauses_total,
    )
    yield CounterMetricFamily(
        "shadow_lag_probes",
        "Times that it stood still to look whether it is the cause.",
        guard.probes_total,
    )
    lag = GaugeMetricFamily(
        "shadow_loop_lag_seconds",
        "How late the loop is, over the newest seconds with mirroring on, and without.",
        labels=("mirroring", "quantile"),
    )
    for word, known in (("on", guard.on), ("off", guard.off)):
        for p in QUANTILES:
            lag.add_metric((word, str(p)), known.quantile(p) / 1e9)
    yield lag
