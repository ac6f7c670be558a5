"""Numbers that are promised: what holds where nobody configured anything."""

from __future__ import annotations

import pytest

from analysis.policy import Policy
from shadow import proxy
from shadow.cli import supervised
from shadow.config import Config
from shadow.config.lifecycle import AFTER_S
from shadow.publish import publisher
from shadow.relay import addresses, stale, upload
from shadow.steering import guard, watcher

KIB, MIB = 2**10, 2**20
MINIMAL = {
    "experiment": "e",
    "capture": "text",
    "primary": {"url": "http://engine:8000"},
    "arms": {"fp8": {"role": "candidate", "url": "http://candidate:8000", "sample": 0.25}},
    "stream": {"embedded": "./s"},
    "store": {"embedded": "./d"},
}

CONFIGURATION = {
    "listen": "127.0.0.1:8080",
    "attach": "inline",
    "workers": 1,
    "drain": 150.0,
    "retry_stale": "fresh_close",
    "greedy_probe": 0.0,
    "primary.connect_timeout": 5.0,
    "primary.idle_timeout": 4.0,  # uvicorn closes at 5
    "arms.fp8.connect_timeout": 5.0,
    "arms.fp8.idle_timeout": 4.0,
    "arms.fp8.key": "request",
    "arms.fp8.amplify": 1,
    "arms.fp8.deadline": 120.0,
    "arms.fp8.concurrency": 200,
    "arms.fp8.start": "with_primary",
    "arms.fp8.allow_external": False,
    "arms.fp8.limits.requests_per_s": None,
    "arms.fp8.limits.tokens_per_day": None,
    "arms.fp8.limits.cost_per_day": None,
    "limits.request_bytes": 8 * MIB,
    "limits.answer_bytes": 8 * MIB,
    "limits.answer_tail": 64 * KIB,
    "limits.queue_bytes": 64 * MIB,
    "limits.header_bytes": 64 * KIB,
    "retention.bodies": 7 * 86400.0,
    "retention.measures": 90 * 86400.0,
    "isolation.off_share": 0.05,
    "isolation.window.least": 10.0,
    "isolation.window.most": 30.0,
    "isolation.pause_lag": 0.002,
    "stop_at.pairs": None,
    "stop_at.hours": None,
    "stop_at.cost": None,
    "stop_at.on_verdict": "stop",
    "admin.health.port": 9091,
    "admin.control": None,
}

POLICY = {
    "alpha.reject": 0.05,
    "alpha.promote": 0.05,
    "blocks.by": "time",
    "blocks.every": 60.0,
    "blocks.min_pairs": 50,
    "blocks.planned": 100,
    "min_span": 3600.0,
    "warm_up.pairs": 200,
    "coverage": 0.95,
    "blocks.window_seconds": 60,
    "deadline_slack": "20%",
    "tap.expected": 1.0,
    "segments": ("model", "route", "streamed", "prompt_tokens", "output_tokens", "cached"),
}

MARGINS = {
    "ttft_any.p50": "5%",
    "ttft_any.p95": "10%",
    "tpot.mean": "5%",
    "e2e.p95": "10%",
    "failure.rate": "0.5pp",
    "mismatch.rate": "2pp",
}


def said(node: object, path: str) -> object:
    for name in path.split("."):
        node = node[name] if isinstance(node, dict) else getattr(node, name)
    return node


@pytest.mark.parametrize("key", CONFIGURATION)
def test_what_holds_without_being_configured(key):
    """Each number that the configuration's sample and the promises name, key by key."""
    found = said(Config.model_validate(MINIMAL), key)
    assert (str(found) if key == "listen" else found) == CONFIGURATION[key]


@pytest.mark.parametrize("key", POLICY)
def test_what_judges_without_a_policy(key):
    """Levels, blocks, span, warm-up, coverage."""
    assert said(Policy(), key) == POLICY[key]


def test_what_is_gated_without_a_policy():
    """These metrics, by these margins, each not worse and each critical."""
    assert {name: gated.margin for name, gated in Policy().metrics.items()} == MARGINS
    assert {(gated.goal, gated.critical) for gated in Policy().metrics.values()} == {
        ("not_worse", True)
    }


def test_a_window_is_a_second_for_short_blocks_and_counts():
    """The two grids."""
    for blocks in ({"every": "59s"}, {"by": "count", "pairs": 20}):
        assert Policy.model_validate({"blocks": blocks}).blocks.window_seconds == 1


@pytest.mark.parametrize(
    ("what", "found", "promised"),
    [
        ("names are looked up every 30 s", addresses.REFRESH_S, 30.0),
        ("a socket that was stale closes within 100 ms", stale.FRESH_NS, 100_000_000),
        ("an upload may end within 64 KiB of an early answer", upload.AHEAD_BYTES, 64 * KIB),
        ("the loop's p99 lag is over 10 s", guard.ON_S, 10.0),
        ("pairs this long after a shadow-off window are left out", AFTER_S, 5.0),
        ("accounting a second", publisher.ACCOUNTING_SECONDS, 1.0),
        ("after the streams the publisher has 15 s", proxy.PUBLISHER_SECONDS, 15.0),
        ("and before it is killed", supervised.PUBLISHER_GRACE_S, 15.0),
        ("then the collector has 15 s", supervised.COLLECTOR_GRACE_S, 15.0),
    ],
)
def test_what_nobody_configures(what, found, promised):
    """Numbers that stand in the code alone."""
    assert found == promised, what


def test_the_kill_switch_is_looked_at_several_times_within_its_second():
    """Mirroring stops within a second: two looks may fall into it."""
    assert 0 < 2 * watcher.LOOK_S <= 1.0
