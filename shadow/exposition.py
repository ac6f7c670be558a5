"""What /metrics says: the ledger's counts, the relay's totals, the queue; Prometheus text.

Labels come from closed sets: an arm's name from the configuration, a reason from the wire's
vocabularies. Nothing here is counted for the metrics' sake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from shadow.exchange import DROP_REASONS, SKIP_REASONS
from shadow.helps import help_of
from shadow.publish.accounting import Ledger
from shadow.publish.publisher import Publisher

REASONS = frozenset({*SKIP_REASONS, *DROP_REASONS})
COUNTERS = {
    "eligible": "Requests that the arm could have been given.",
    "sampled": "Requests that were meant for the arm.",
    "skipped": "Eligible requests that were not, by reason.",
    "captured": "Exchanges that the stream has acknowledged.",
    "dropped": "Sampled requests without an exchange, by reason.",
    "reached": "Requests that were written to a connection to the arm.",
    "connect_failed": "Requests for which there was no connection to the arm in time.",
    "breaker_open": "Requests that were not sent because the arm's breaker was open.",
    "unsent": "Requests whose client had left before it was the arm's turn.",
}
SEQUENCES = {
    "high_sequence": ("shadow_sequences", "Exchange sequences given."),
    "dropped_sequences": ("shadow_dropped_sequences", "Sequences dropped after they were given."),
}

Gauges = Mapping[str, Callable[[], int]]
"""Further figures by metric name; one that ends in _total only ever rises."""
Families = Callable[[], Iterable[Metric]]


class _Figures(Collector):
    def __init__(
        self,
        ledger: Ledger,
        publisher: Publisher,
        totals: object,
        further: Gauges,
        families: Families,
    ) -> None:
        self._ledger, self._publisher = ledger, publisher
        self._totals, self._further = totals, further
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from _counted(self._ledger)
        yield from _relayed(self._totals)
        yield from self._families()
        for name, read in self._further.items():
            yield _single(name, read())
        yield _single("shadow_queue_bytes", self._publisher.queued_bytes)
        yield _single("shadow_queue_limit_bytes", self._publisher.queue_bytes)
        yield _single("shadow_publisher_ready", int(self._publisher.ready))


def exposition(
    ledger: Ledger,
    publisher: Publisher,
    totals: object,
    further: Gauges | None = None,
    families: Families = tuple,
) -> Callable[[str], tuple[bytes, str]]:
    """A function from a request's Accept to (body, content type).

    Args:
        ledger: its counters become shadow_COUNTER_total by arm and reason.
        publisher: its queue.
        totals: a dataclass with integers (shadow_relay_NAME_total; `open_…` are gauges) and
            `by_class`, answers by their status's first digit.
        further: figures of other parts.
        families: such with labels.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(ledger, publisher, totals, further or {}, families))
    ProcessCollector(registry=registry)
    return renderer(registry)


def renderer(registry: CollectorRegistry) -> Callable[[str], tuple[bytes, str]]:
    """A function from a request's Accept to (body, content type) of what the registry holds."""

    def render(accept: str) -> tuple[bytes, str]:
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type

    return render


def _counted(ledger: Ledger) -> Iterator[Metric]:
    families = {
        counter: CounterMetricFamily(f"shadow_{counter}", text, labels=_labels(counter))
        for counter, text in COUNTERS.items()
    }
    for (arm, counter, reason), value in ledger.values().items():
        if not arm and counter in SEQUENCES:
            name, text = SEQUENCES[counter]
            yield CounterMetricFamily(name, text, value=value)
        elif arm and counter in families:
            known = reason if reason in REASONS else "other"
            families[counter].add_metric((arm, known)[: len(_labels(counter))], value)
    yield from families.values()


def _labels(counter: str) -> tuple[str, ...]:
    return ("arm", "reason") if counter in {"skipped", "dropped"} else ("arm",)


def _relayed(totals: object) -> Iterator[Metric]:
    for name in getattr(totals, "__slots__", ()) or vars(totals):
        value = getattr(totals, name)
        if name == "by_class":
            yield _by_class(value)
        elif isinstance(value, int):
            suffix = "" if name.startswith("open_") else "_total"
            yield _single(f"shadow_relay_{name}{suffix}", value)


def _by_class(counts: list[int]) -> Metric:
    family = CounterMetricFamily(
        "shadow_relay_answers", "The primary's final answers.", labels=("class",)
    )
    for digit, count in enumerate(counts):
        if 1 <= digit <= 5:
            family.add_metric((f"{digit}xx",), count)
    return family


def _single(name: str, value: int) -> Metric:
    text = help_of(name)
    if name.endswith("_total"):
        return CounterMetricFamily(name, text, value=value)
    return GaugeMetricFamily(name, text, value=value)
