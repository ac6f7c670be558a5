"""Records of the stream, with everything that a test does not care about filled in."""

from __future__ import annotations

from shadow.exchange import Accounting, Count, Exchange


def exchange(**changes) -> Exchange:
    body = changes.get("body", b"")
    facts = {
        "experiment": "e", "config_hash": "c", "pair_id": "p", "arm": "primary", "role": "primary", "worker": "w",
        "boot_id": "b", "sequence": 1, "arrived_at": 100, "started_at": 101, "method": "POST", "status": 200,
        "path": "/v1/chat/completions", "transport": "complete", "headers": [("content-type", "text/event-stream")],
        "marks": [(5_000_000, len(body))], "captured_bytes": len(body),
    }  # fmt: skip
    return Exchange(**facts | changes)


def accounting(**changes) -> Accounting:
    facts = {
        "experiment": "e", "config_hash": "c", "worker": "w", "boot_id": "b", "sequence": 3, "at": 7, "high_sequence": 9,
        "low_water": None, "final": True,
        "counts": [Count(arm="fp8", counter="eligible", value=5), Count(arm="fp8", counter="dropped", reason="queue_full", value=2)],
    }  # fmt: skip
    return Accounting(**facts | changes)
