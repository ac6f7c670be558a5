"""Health ports of collector and analysis: /healthz, /readyz, /metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from shadow.control import health_app
from shadow.exposition import renderer

if TYPE_CHECKING:
    from aiohttp import web
    from prometheus_client import Metric

    from analysis.look import Newest
    from analysis.status import Status as AnalysisStatus
    from collector.status import Status as CollectorStatus

VERDICTS = ("promote", "hold", "reject")
Figures = Callable[[], Mapping[str, tuple[str, float]]]
"""name → (help, value); a name that ends in _total is a counter."""


def collector_health(status: CollectorStatus) -> web.Application:
    """The collector's: not ready while the stream or the store is away."""
    return _health(
        lambda: status.reason,
        lambda: {
            "shadow_collector_records_total": ("Records read.", status.records_total),
            "shadow_collector_dead_letters_total": (
                "Records given up, kept as dead letters.",
                status.dead_letters_total,
            ),
            "shadow_collector_unreadable_total": (
                "Answers that could not all be read; their bytes are kept.",
                status.unreadable_total,
            ),
            "shadow_collector_ready": ("1 while it works.", float(status.reason is None)),
        },
    )


def analysis_health(status: AnalysisStatus) -> web.Application:
    """The analysis': not ready while the store is away."""
    return _health(
        lambda: status.reason,
        lambda: {
            "shadow_analysis_looks_total": ("Passes over the store.", status.looks_total),
            "shadow_analysis_look_seconds": ("The last pass took.", status.look_seconds),
            "shadow_analysis_ready": ("1 while it works.", float(status.reason is None)),
        },
        lambda: _verdicts(status.verdicts),
    )


def _verdicts(verdicts: Mapping[str, Newest]) -> Iterator[Metric]:
    """Each candidate's newest verdict and coverage; none before the first look."""
    newest = GaugeMetricFamily(
        "shadow_verdict",
        "1 for what the candidate's newest verdict is.",
        labels=("candidate", "verdict"),
    )
    coverage = GaugeMetricFamily(
        "shadow_coverage",
        "Share of the candidate's sampled requests whose outcome is known on both sides.",
        labels=("candidate",),
    )
    for candidate, one in verdicts.items():
        for word in VERDICTS:
            newest.add_metric((candidate, word), float(one.verdict == word))
        if one.coverage is not None:
            coverage.add_metric((candidate,), one.coverage)
    yield from (newest, coverage)


def _health(
    reason: Callable[[], str | None],
    figures: Figures,
    families: Callable[[], Iterable[Metric]] = tuple,
) -> web.Application:
    """`reason` says why the process does not work now; None: it does."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(figures, families))

    def ready() -> tuple[int, dict[str, object]]:
        why = reason()
        return (200 if why is None else 503), {"ready": why is None, "reason": why}

    return health_app(ready, renderer(registry))


class _Figures:
    """What prometheus-client asks for the values of now."""

    def __init__(self, figures: Figures, families: Callable[[], Iterable[Metric]]) -> None:
        self._figures, self._families = figures, families

    def collect(self) -> Iterable[Metric]:
        for name, (meaning, value) in self._figures().items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield kind(name, meaning, value=value)
        yield from self._families()
