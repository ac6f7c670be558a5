"""What each figure of /metrics says, in one line; docs/operations.md lists the same names.

By the metric's name. Families with labels of their own (`exposition.COUNTERS`, `switch_figures`)
say it where they are made.
"""

from __future__ import annotations

HELPS = {
    "shadow_relay_requests_total": "Requests of clients whose head was accepted.",
    "shadow_relay_refused_total": "Requests answered by the proxy itself, for what they were.",
    "shadow_relay_upgrades_total": "Connections that became websockets.",
    "shadow_relay_stale_retries_total": "Requests sent once more, as a kept connection had gone.",
    "shadow_relay_bad_upstream_framing_total": "Answers of the primary that broke HTTP's framing.",
    "shadow_relay_connect_failed_total": "Requests without a connection to the primary: 502.",
    "shadow_relay_upstream_lost_total": "Answers that the primary's connection cut.",
    "shadow_relay_client_disconnected_total": "Requests whose client left before their end.",
    "shadow_relay_cut_by_drain_total": "Answers that were cut, as the drain's time was over.",
    "shadow_relay_mirror_errors_total": "Faults in mirror code, kept from clients; report any.",
    "shadow_relay_no_descriptor_total": "Connections answered 503: no file descriptor was left.",
    "shadow_relay_open_connections": "Clients' connections that are open now.",
    "shadow_relay_open_streams": "Requests whose answer has not ended yet.",
    "shadow_queue_bytes": "Captures that wait for the stream, in bytes.",
    "shadow_queue_limit_bytes": "What may wait: limits.queue_bytes.",
    "shadow_publisher_ready": "1 while the stream takes records.",
    "shadow_low_water_age_ms": "Age of the oldest request whose records may still come.",
    "shadow_loop_tasks": "Tasks of the proxy's loop now, the one that answers this among them.",
    "shadow_stream_bytes": "What this worker's files of the embedded log hold.",
    "shadow_stream_expired_unread_total": "Records deleted by age before they were read.",
    "shadow_spooled_records": "Records that wait on this machine's disk, or for shadow measure.",
    "shadow_stream_refused_total": "Records too large for the stream, even cut.",
    "shadow_redactions_total": "What was replaced in records.",
    "shadow_withheld_total": "Bodies that could not be looked through, and are missing for that.",
}
"""name → help."""


def help_of(name: str) -> str:
    """The figure's help; its name in words where the table has none (a test finds those)."""
    words = name.removeprefix("shadow_").removesuffix("_total").replace("_", " ")
    return HELPS.get(name, words)
