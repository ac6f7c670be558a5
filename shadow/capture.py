"""A capture: what one arm answered, as bytes and arrival marks, not yet looked at.

On the event loop it only keeps what it is given; `message`, called in the sender thread, joins,
cuts, redacts and parses. Bounded: `answer_bytes` from the answer's beginning, then the last
`answer_tail` bytes, and a million marks (the last one moves on from there).
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from shadow.exchange import deflated
from shadow.facts import request_facts
from shadow.redact import recorded_path, redacted
from shadow.stream import Message
from shadow.wire import Moving, fixed_part, written

if TYPE_CHECKING:
    from shadow.headers import ArmHeaders
    from shadow.relay.answer import AnswerHead
    from shadow.relay.head import RequestHead

MAX_MARKS: Final = 1_000_000
_OVERHEAD_BYTES: Final = 2048
"""What a capture's objects weigh beside its bytes, about."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose records these are."""

    experiment: str
    config_hash: str
    worker: str
    boot_id: str


@dataclass(slots=True)
class Request:
    """One client's request as every arm's record tells it; shared and not changed once whole."""

    head: RequestHead
    pair_id: str
    arrived_at: int
    """UTC, ns."""
    token: int
    """The ledger's."""
    body: bytes = b""
    _facts: dict[str, object] | None = field(default=None, repr=False)

    def facts(self) -> dict[str, object]:
        """Parsed once, in the sender thread."""
        if self._facts is None:
            self._facts = request_facts(self.body)
        return self._facts


@dataclass(frozen=True, slots=True)
class Side:
    """One arm as its captures name it."""

    origin: Origin
    arm: str
    role: str
    weight: float
    headers: ArmHeaders | None
    """How the arm's request was altered; None for the primary, whose request was not."""
    answer_bytes: int
    answer_tail: int
    fixed: bytes = field(init=False, repr=False)
    """What its records say alike, in their wire form."""

    def __post_init__(self) -> None:
        fixed = fixed_part(**asdict(self.origin), arm=self.arm, role=self.role, weight=self.weight)
        object.__setattr__(self, "fixed", fixed)


class Capture:
    """See the module. All `_ns` are readings of the monotonic clock; 0 is 'did not happen'."""

    __slots__ = (
        "_ends",
        "_head_bytes",
        "_pieces",
        "_side",
        "_tail",
        "_tail_bytes",
        "_times",
        "_total",
        "arm",
        "client_wait_ns",
        "connected_ns",
        "end_ns",
        "error",
        "first_byte_ns",
        "head",
        "in_flight",
        "request",
        "sent_ns",
        "start_ns",
        "started_at",
        "token",
        "transport",
    )

    def __init__(
        self, side: Side, request: Request, started_at: int, start_ns: int, in_flight: int
    ) -> None:
        self._side = side
        self.arm = side.arm
        self.request = request
        self.token = request.token
        self.started_at = started_at
        self.start_ns = start_ns
        self.in_flight = in_flight
        self.connected_ns = 0
        self.client_wait_ns = 0
        self.restart()

    def restart(self) -> None:
        """Nothing was answered yet (again, when a stale connection is retried)."""
        self.sent_ns = self.first_byte_ns = self.end_ns = 0
        self.head: AnswerHead | None = None
        self.transport = ""
        self.error: str | None = None
        self._times = array("q")
        self._ends = array("q")
        self._pieces: list[bytes] = []
        self._head_bytes = 0
        self._tail: deque[bytes] | None = None  # made when it is needed: 0.2 µs an answer
        self._tail_bytes = 0
        self._total = 0

    def append(self, now: int, pieces: list[bytes]) -> None:
        """By `now` these bytes of body had arrived. About a microsecond."""
        total = self._total
        for piece in pieces:
            total += len(piece)
        if total == self._total:
            return
        if len(self._times) < MAX_MARKS:
            self._times.append(now)
            self._ends.append(total)
        else:
            self._times[-1], self._ends[-1] = now, total
        self._total = total
        if total <= self._side.answer_bytes:
            self._pieces += pieces
            self._head_bytes = total
        else:
            self._overflow(pieces)

    def _overflow(self, pieces: list[bytes]) -> None:
        """Beyond the head: keep the newest bytes, at least `answer_tail` of them."""
        if self._tail is None:
            self._tail = deque()
        for whole in pieces:
            room = self._side.answer_bytes - self._head_bytes
            if room > 0:
                self._pieces.append(whole[:room])
                self._head_bytes += len(self._pieces[-1])
            rest = whole[room:] if room > 0 else whole
            if rest:
                self._tail.append(rest)
                self._tail_bytes += len(rest)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= self._side.answer_tail:
            self._tail_bytes -= len(self._tail.popleft())

    def end(self, now: int, transport: str, error: str | None = None) -> None:
        """How it ended; only the first word counts."""
        if not self.end_ns:
            self.end_ns = now
            self.transport = transport
            self.error = error

    @property
    def total_bytes(self) -> int:
        """How much of the body has come, kept or not."""
        return self._total

    @property
    def size_bytes(self) -> int:
        """Bytes that it holds; the request's body is counted on the primary's."""
        held = self._head_bytes + self._tail_bytes + 16 * len(self._times) + _OVERHEAD_BYTES
        return held + (len(self.request.body) if self._side.headers is None else 0)

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
            "marks": [(at - base, end) for at, end in zip(self._times, self._ends, strict=True)],
            "method": request.head.method.decode("latin-1"),
            "path": recorded_path(request.head.target),
            "status": None if self.head is None else self.head.status,
            "headers": [] if self.head is None else redacted(self.head.lines[1:]),
            "request_headers": redacted(request.head.lines[1:]) if primary else [],
            "request": deflated(request.body) if primary else None,
            "request_facts": request.facts(),
            "request_changes": side.headers.changes(request.head) if side.headers else [],
            "body": deflated(body),
            "captured_bytes": len(body),
            "truncated_bytes": truncated,
            "tail_bytes": tail,
            "in_flight": self.in_flight,
            "transport": self.transport,
            "error": self.error,
        }
        return Message(request.pair_id.encode(), written(side.fixed, moving))

    def _body(self) -> tuple[bytes, int, int]:
        """(kept bytes, how many are missing before the tail, the tail's length if any are)."""
        head = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        if self._tail is None:
            return head, 0, 0
        spare = len(head) + self._side.answer_tail
        tail = b"".join(self._tail)
        missing = max(self._total - spare, 0)
        if missing:
            tail = tail[len(tail) - self._side.answer_tail :]
        return head + tail, missing, len(tail) if missing else 0

    def _offset(self, stamp: int) -> int | None:
        return stamp - self.start_ns if stamp else None
