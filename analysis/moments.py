"""Moments (ns since 1970) as the store's client takes them, and as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def instant(at_ns: int) -> datetime:
    """In UTC, to the microsecond."""
    return datetime.fromtimestamp(at_ns / 1e9, UTC)


def shown(at_ns: int) -> str:
    """ISO 8601, UTC, to the second."""
    return datetime.fromtimestamp(at_ns // 10**9, UTC).isoformat()
