"""What the health port shows: plain integers that the relay counts up, no library on its path."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Totals:
    """One worker's totals since it started; the `open_*` are now."""

    requests: int = 0
    """Heads that were accepted."""
    refused: int = 0
    """Requests answered 4xx or 5xx by the relay itself, for what they were."""
    by_class: list[int] = field(default_factory=lambda: [0] * 10)
    """Final answers of the primary by the first digit of their status."""
    upgrades: int = 0
    """Connections that became websockets."""
    stale_retries: int = 0
    bad_upstream_framing: int = 0
    connect_failed: int = 0
    last_connect_error: str = ""
    upstream_lost: int = 0
    """Answers that the primary's connection cut."""
    client_disconnected: int = 0
    cut_by_drain: int = 0
    mirror_errors: int = 0
    """Exceptions in mirror code, kept from the client's path; any is a fault of ours."""
    last_mirror_error: str = ""
    no_descriptor: int = 0
    """Connections that were answered 503 at once: the process' file descriptors were used up."""
    open_connections: int = 0
    """Clients' connections."""
    open_streams: int = 0
    """Requests whose answer has not ended."""
