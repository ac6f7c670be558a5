"""A capture: what one arm answered, as bytes and arrival marks, not yet looked at.

On the event loop it only keeps what it is given, within the bounds of `arrivals`; `message`, called
in the sender thread, joins, cuts, redacts and parses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shadow.capture.arrivals import MARK_BYTES, OVERHEAD_BYTES, Arrivals
from shadow.capture.redact import recorded_path, redacted
from shadow.capture.wire import Large, Moving, put_body, put_marks, written
from shadow.stream import Message

if TYPE_CHECKING:
    from shadow.capture.request import Request
    from shadow.capture.side import Side
    from shadow.exchange import Headers
    from shadow.relay.answer import AnswerHead


class Capture(Arrivals):
    """See the module. All `_ns` are readings of the monotonic clock; 0 is 'did not happen'."""

    __slots__ = (
        "arm",
        "changes",
        "client_wait_ns",
        "connected_ns",
        "end_ns",
        "error",
        "first_byte_ns",
        "head",
        "in_flight",
        "request",
        "sent_ns",
        "share",
        "start_ns",
        "started_at",
        "token",
        "transport",
    )

    def __init__(
        self, side: Side, request: Request, started_at: int, start_ns: int, in_flight: int
    ) -> None:
        Arrivals.__init__(self, side)
        self.arm = side.arm
        self.changes: tuple[str, ...] = ()
        self.share = 1.0
        self.request = request
        self.token = request.token
        self.started_at = started_at
        self.start_ns = start_ns
        self.in_flight = in_flight
        self.connected_ns = 0
        self.client_wait_ns = 0
        request.captures += 1

    def restart(self) -> None:
        """Nothing was answered yet (again, when a stale connection is retried)."""
        Arrivals.restart(self)
        self.sent_ns = self.first_byte_ns = self.end_ns = 0
        self.head: AnswerHead | None = None
        self.transport = ""
        self.error: str | None = None

    def leave(self) -> None:
        """The loop is done with it; what it holds is the publisher's to count, if it gets it.

        Called once before it is offered, or instead.
        """
        if self._taken < 0:
            return
        held, request = self._side.held, self.request
        held.open_bytes -= self._taken
        self._taken = -1
        request.captures -= 1
        if not request.captures:
            held.open_bytes -= len(request.body)

    def forget(self) -> None:
        """Nobody wants it any more, though its answer may go on."""
        self.leave()
        self._room = -1
        self._kept, self._tail = bytearray(), None

    def end(self, now: int, transport: str, error: str | None = None) -> None:
        """How it ended; only the first word counts."""
        if not self.end_ns:
            self.end_ns = now
            self.transport = transport
            self.error = error

    @property
    def size_bytes(self) -> int:
        """Bytes that it holds; the request's body is counted with the last of its captures."""
        held = len(self._kept) + len(self._tail or b"") + MARK_BYTES * len(self._times)
        return held + OVERHEAD_BYTES + (0 if self.request.captures else len(self.request.body))

    @property
    def base_ns(self) -> int:
        """What marks count from: the request's last byte, or the answer's first if sooner."""
        if self.sent_ns and self.first_byte_ns:
            return min(self.sent_ns, self.first_byte_ns)
        return self.sent_ns or self.first_byte_ns

    def message(self, sequence: int) -> Message:
        """Its record for the stream. In the sender thread: all that costs time happens here."""
        request, side = self.request, self._side
        body, truncated, tail = self._body()
        primary = side.headers is None
        base = self.base_ns
        moving: Moving = {
            "pair_id": request.pair_id,
            "sequence": sequence,
            "arrived_at": request.arrived_at,
            "started_at": self.started_at,
            "connect_ns": self._offset(self.connected_ns),
            "sent_ns": self._offset(base),
            "first_byte_ns": self._offset(self.first_byte_ns),
            "end_ns": self._offset(self.end_ns),
            "client_wait_ns": self.client_wait_ns,
            "method": request.head.method.decode("latin-1"),
            "path": recorded_path(request.head.target),
            "status": None if self.head is None else self.head.status,
            "headers": [] if self.head is None else redacted(self.head.lines[1:]),
            "request_headers": self._request_headers(redacted(request.head.lines[1:]))
            if primary
            else [],
            "request_facts": request.facts(),
            "request_changes": self._changes(),
            "captured_bytes": len(body),
            "truncated_bytes": truncated,
            "tail_bytes": tail,
            "in_flight": self.in_flight,
            "weight": self._weight(),
            "mirroring": request.mirroring,
            "subject": request.subject(side.subject),
            "transport": self.transport,
            "error": self.error,
        }
        marks, asked = (self._times, self._ends), request.body
        if side.veil is not None:
            body, marks = side.veil.record(moving, request, self.head, body, marks)
            told = side.veil.asked(request)
            asked = told.body or b""
            moving["request_headers"] = self._request_headers(told.headers) if primary else []
        large: dict[str, Large] = {}
        put_marks(moving, large, base, *marks)
        put_body(moving, large, "body", body)
        if primary:
            put_body(moving, large, "request", asked)
        return Message(request.pair_id.encode(), written(side.fixed, moving, large))

    def _request_headers(self, fields: Headers) -> Headers:
        """The client's; what names the person is never among them, were it on the list."""
        by = self._side.subject
        without = {by.header} if by is not None else set()
        if self.request.expanded:  # the recorded body is in no coding
            without.add("content-encoding")
        return [f for f in fields if f[0].lower() not in without] if without else fields

    def _weight(self) -> float:
        known = self.request.weights
        return (self._side.weight if known is None else known[self.arm]) / self.share

    def _changes(self) -> tuple[str, ...]:
        headers = self._side.headers
        made = () if headers is None else headers.changes(self.request.head)
        return made + self.changes

    def _offset(self, stamp: int) -> int | None:
        return stamp - self.start_ns if stamp else None
