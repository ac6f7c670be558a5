"""/metrics says what was counted, in Prometheus's words, with labels from closed sets."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from shadow.exposition import exposition
from shadow.helps import HELPS
from shadow.publish import metrics
from shadow.publish.accounting import Ledger


@dataclass(slots=True)
class Totals:
    requests: int = 3
    last_error: str = "no figure"
    open_streams: int = 2
    by_class: list[int] = field(default_factory=lambda: [9, 0, 7, 0, 1, 0, 9, 9, 9, 9])


@dataclass
class WayOut:
    ready: bool = True
    queued_bytes: int = 10
    queue_bytes: int = 100


@pytest.fixture
def render(tmp_path):
    ledger, _ = Ledger.open(tmp_path, "0", "llama", "c0ffee")
    ledger.add("fp8", "eligible", n=3)
    ledger.add("fp8", "sampled", n=2)
    ledger.add("fp8", "skipped", "not_sampled")
    ledger.add("fp8", "dropped", "made-up-by-someone")
    ledger.add("control", "captured", n=5)
    for n, counter in enumerate(("reached", "connect_failed", "breaker_open", "unsent"), 1):
        ledger.add("fp8", counter, n=n)
    ledger.next_sequence()
    yield exposition(ledger, WayOut(), Totals(), {"shadow_stream_bytes": lambda: 4096})
    ledger.close(published=True)


def samples(text: str, parse=text_string_to_metric_families):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def test_every_figure_has_its_name_and_labels(render):
    """Counts by arm and reason, the relay's integers, the queue, the process."""
    body, content_type = render("")
    found = samples(body.decode())
    assert content_type.startswith("text/plain")
    expected = {
        ("shadow_eligible_total", "fp8"): 3,
        ("shadow_sampled_total", "fp8"): 2,
        ("shadow_skipped_total", "fp8", "not_sampled"): 1,
        ("shadow_captured_total", "control"): 5,
        ("shadow_reached_total", "fp8"): 1,
        ("shadow_connect_failed_total", "fp8"): 2,
        ("shadow_breaker_open_total", "fp8"): 3,
        ("shadow_unsent_total", "fp8"): 4,
        ("shadow_sequences_total",): 1,
        ("shadow_dropped_sequences_total",): 0,
        ("shadow_relay_requests_total",): 3,
        ("shadow_relay_open_streams",): 2,
        ("shadow_relay_answers_total", "2xx"): 7,
        ("shadow_relay_answers_total", "4xx"): 1,
        ("shadow_queue_bytes",): 10,
        ("shadow_queue_limit_bytes",): 100,
        ("shadow_publisher_ready",): 1,
        ("shadow_stream_bytes",): 4096,
    }
    assert expected.items() <= found.items()
    assert ("process_resident_memory_bytes",) in found
    assert not any("last_error" in name for name, *_ in found)


def test_a_reason_outside_the_vocabulary_is_other(render):
    """Labels stay bounded whatever is counted."""
    found = samples(render("")[0].decode())
    assert found["shadow_dropped_total", "fp8", "other"] == 1


def test_openmetrics_is_spoken_to_who_asks(render):
    body, content_type = render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    found = samples(body.decode(), openmetrics.text_string_to_metric_families)
    assert found["shadow_sampled_total", "fp8"] == 2


def test_rendering_is_small_enough_for_the_loop(render):
    """The best of ten stays under 20 ms even on a busy machine; it is about 1."""

    def once() -> float:
        began = time.perf_counter()
        render("")
        return time.perf_counter() - began

    assert min(once() for _ in range(10)) < 0.02


def test_every_figure_says_what_it_is_and_is_documented(tmp_path):
    """One table holds the helps; no help is the name repeated, and docs/operations.md lists all."""
    ledger, _ = Ledger.open(tmp_path, "0", "llama", "c0ffee")
    ledger.add("fp8", "dropped", "queue_full")
    render = exposition(ledger, WayOut(), metrics.Totals(), dict.fromkeys(_further(), int))
    text = render("")[0].decode()
    ledger.close(published=True)
    helps = dict(re.findall(r"^# HELP (shadow_\S+) (.*)$", text, re.MULTILINE))
    page = (Path(__file__).parent.parent / "docs/operations.md").read_text()
    documented = set(re.findall(r"`(shadow_[a-z_]+)", page))
    assert len(helps) > 25
    for name, said in helps.items():
        words = re.sub("^shadow_|_total$", "", name).replace("_", " ")
        assert words not in {said, said.removesuffix(".").lower()}, name
        assert len(said.split()) > 2, name
    assert helps.keys() <= documented
    assert set(HELPS) <= helps.keys()  # and none of the table's is nobody's


def _further():
    """The names that `shadow proxy` adds, of whichever stream and with redaction."""
    source = (Path(__file__).parent.parent / "shadow/proxy.py").read_text()
    return set(re.findall(r'"(shadow_[a-z_]+)":', source))
