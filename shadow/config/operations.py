"""What operators set: bounds, and ports of their own."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from shadow.config.units import Address, ByteSize, Listen, SomeBytes, SomeTime
from shadow.config.words import Part, Url


class Limits(Part):
    """Every bound that a user could meet."""

    request_bytes: SomeBytes = 8 * 2**20
    """Larger requests are relayed, not mirrored: skipped `body_too_large`."""
    answer_bytes: SomeBytes = 8 * 2**20
    """An answer's captured head."""
    answer_tail: ByteSize = 64 * 2**10
    """An answer's captured end, beyond `answer_bytes`."""
    queue_bytes: SomeBytes = 64 * 2**20
    """Captures that wait for the stream; beyond it, dropped `queue_full`."""
    mirror_bytes: SomeBytes = 256 * 2**20
    """All that the mirror holds: bodies for arms, open captures, the queue; beyond it `memory`."""
    bad_records: int = Field(default=50, ge=0, le=1000)
    """So many of the last 1,000 records, and over half, being bad stop the collector; 0: never."""
    header_bytes: SomeBytes = 64 * 2**10
    """All fields of one head; beyond it 431."""
    head_timeout: SomeTime = 60.0
    """From a head's first byte to its last; beyond it 408."""
    client_idle: SomeTime = 2 * 3600.0
    """A client's connection without a request is closed after this: beyond Envoy's hour."""
    upload_wait: SomeTime = 60.0
    """A body that comes slower is relayed, and not mirrored: dropped `request_incomplete`."""


class Admin(Part):
    """Ports for operators: health and metrics; reports and control."""

    health: Listen = Address("127.0.0.1", 9091)
    """The proxy's; the n-th of several workers listens n ports above."""
    collector: Listen | None = None
    """The collector's; without it, it has none."""
    analysis: Listen | None = None
    """The analysis'; without it, it has none."""
    control: Listen | None = None
    """Reports and verdicts, served by the analysis; without it, they are not served."""
    follow: Url | None = None
    """The control port of another host: what is said there of pauses and rates holds here too."""
    token: str = ""
    """What callers of the control port must show; needed where that is not on loopback."""

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if self.control and not self.token and not self.control.on_loopback:
            raise ValueError(f"token: needed, since control listens on {self.control}")
        return self
