"""A capture: what one arm answered, as bytes and arrival marks, not yet looked at.

On the event loop it only keeps what it is given; `message`, called in the sender thread, joins,
cuts, redacts and parses. Bounded: `answer_bytes` from the answer's beginning, then the last
`answer_tail` bytes, and a million marks (the last one moves on from there); bounded sooner where
`limits.mirror_bytes` has no more room.
"""

from __future__ import annotations

from array import array
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from shadow.facts import facts_of, request_facts
from shadow.held import Held
from shadow.redact import recorded_path, redacted
from shadow.stream import Message
from shadow.subject import subject_in
from shadow.wire import Large, Moving, fixed_part, put_body, put_marks, written

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shadow.config.subject import Subject
    from shadow.exchange import Headers
    from shadow.headers import ArmHeaders
    from shadow.redaction.records import Asked, Veil
    from shadow.relay.answer import AnswerHead
    from shadow.relay.head import RequestHead

MAX_MARKS: Final = 1_000_000
_OVERHEAD_BYTES: Final = 2048
"""What a capture's objects weigh beside its bytes, about."""
_MARK_BYTES: Final = 16
_FIRST_BYTES: Final = 8 * 1024
_FIRST_MARKS: Final = 256
"""What every capture may keep; more is asked for in steps, so that a small answer asks never."""
_STEP_BYTES: Final = 64 * 1024
_STEP_MARKS: Final = 4096
CAPTURE_BYTES: Final = _OVERHEAD_BYTES + _FIRST_BYTES + _FIRST_MARKS * _MARK_BYTES
"""What an open capture counts at first."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose records these are."""

    experiment: str
    config_hash: str
    worker: str
    boot_id: str
    attach: str = "inline"


@dataclass(slots=True)
class Request:
    """One client's request as every arm's record tells it; shared and not changed once whole."""

    head: RequestHead
    pair_id: str
    arrived_at: int
    """UTC, ns."""
    token: int
    """The ledger's."""
    body: bytes | bytearray = b""
    """One for all arms; not changed once the first of them was started."""
    expanded: bool = False
    """The client's body was in a coding, which was undone."""
    conversation: str | None = None
    """Salted hash of how it began, where it is known."""
    mirroring: str = "on"
    """What the mirror did when it arrived; see `Exchange`."""
    weights: Mapping[str, float] | None = None
    """1 / the rate of each arm when it was decided on; None: each side's own."""
    rates: Mapping[str, float] | None = None
    """Those rates: what is drawn for later is drawn by them; None: by each arm's of that moment."""
    captures: int = 0
    """How many of it the loop still holds."""
    veiled: Asked | None = field(default=None, repr=False)
    """As records may tell it, where they are redacted."""
    _facts: dict[str, object] | None = field(default=None, repr=False)
    _subject: str | None = field(default=None, repr=False)
    _subject_known: bool = field(default=False, repr=False)

    def facts(self) -> dict[str, object]:
        """Known once; parsed in the sender thread where nobody parsed it before."""
        if self._facts is None:
            self._facts = request_facts(self.body)
        if self.conversation is not None:
            self._facts["conversation"] = self.conversation
        return self._facts

    def parsed(self, tree: dict[str, Any]) -> None:
        """The body, parsed for another reason: what it says is not parsed again."""
        self._facts = facts_of(tree, len(self.body))

    def subject(self, by: Subject | None) -> str | None:
        """Whose it is, hashed once, in the sender thread; None where nothing says it."""
        if by is not None and not self._subject_known:
            self._subject = subject_in(self.head.lines[1:], by.header.encode(), by.salt)
            self._subject_known = True
        return self._subject


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
    held: Held = field(default_factory=Held, repr=False)
    subject: Subject | None = field(default=None, repr=False)
    """By which field a person's records are found."""
    veil: Veil | None = field(default=None, repr=False)
    """Redacts its records; None: they are as they came."""
    replica: int = 0
    probe: str = "none"
    first_bytes: int = field(init=False, repr=False)
    """What of an answer may be kept unasked."""
    fixed: bytes = field(init=False, repr=False)
    """What its records say alike, in their wire form."""

    def __post_init__(self) -> None:
        origin = asdict(self.origin)
        fixed = fixed_part(
            **origin, arm=self.arm, role=self.role, replica=self.replica, probe=self.probe
        )
        object.__setattr__(self, "fixed", fixed)
        object.__setattr__(self, "first_bytes", min(_FIRST_BYTES, self.answer_bytes))


class Capture:
    """See the module. All `_ns` are readings of the monotonic clock; 0 is 'did not happen'."""

    __slots__ = (
        "_ends",
        "_kept",
        "_mark_room",
        "_room",
        "_side",
        "_tail",
        "_taken",
        "_times",
        "_total",
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
        self._side = side
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
        self._room = side.first_bytes
        self._mark_room = _FIRST_MARKS
        self._taken = CAPTURE_BYTES
        side.held.open_bytes += CAPTURE_BYTES
        request.captures += 1
        self.restart()

    def restart(self) -> None:
        """Nothing was answered yet (again, when a stale connection is retried)."""
        self.sent_ns = self.first_byte_ns = self.end_ns = 0
        self.head: AnswerHead | None = None
        self.transport = ""
        self.error: str | None = None
        self._times = array("q")
        self._ends = array("q")
        self._kept = bytearray()
        self._tail: bytearray | None = None
        self._total = 0

    def append(self, now: int, pieces: list[bytes]) -> None:
        """By `now` these bytes of body had arrived. About a microsecond."""
        total = self._total
        for piece in pieces:
            total += len(piece)
        if total == self._total:
            return
        self._total = total
        times = self._times
        if len(times) < self._mark_room or self._more_marks():
            times.append(now)
            self._ends.append(total)
        else:
            times[-1], self._ends[-1] = now, total
        if total <= self._room or (self._tail is None and self._more_room(total)):
            kept = self._kept
            for piece in pieces:
                kept += piece
        else:
            self._overflow(pieces)

    def _take(self, more_bytes: int) -> bool:
        """Ask for more to keep."""
        held = self._side.held
        if self._taken < 0 or not held.room(more_bytes):
            return False
        held.open_bytes += more_bytes
        self._taken += more_bytes
        return True

    def _more_room(self, total: int) -> bool:
        """Whether the answer's first `total` bytes may be kept."""
        most = self._side.answer_bytes
        target = min(-(-total // _STEP_BYTES) * _STEP_BYTES, most)
        if target > self._room and self._take(target - self._room):
            self._room = target
        return total <= self._room

    def _more_marks(self) -> bool:
        """Whether another mark may be kept."""
        more = min(_STEP_MARKS, MAX_MARKS - self._mark_room)
        if more <= 0 or not self._take(more * _MARK_BYTES):
            return False
        self._mark_room += more
        return True

    def _overflow(self, pieces: list[bytes]) -> None:
        """Beyond the head: keep the newest bytes, at least `answer_tail` of them."""
        most = 2 * self._side.answer_tail
        if self._room < 0:
            return  # forgotten
        if self._tail is None:
            self._tail = bytearray()
            if self._taken >= 0:  # without asking: the end of an answer says what became of it
                self._side.held.open_bytes += most
                self._taken += most
        tail = self._tail
        for whole in pieces:
            room = self._room - len(self._kept)
            if room > 0:
                self._kept += whole[:room]
            tail += whole[room:] if room > 0 else whole
            if len(tail) > most:
                del tail[: len(tail) - self._side.answer_tail]

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

    def ends(self, first: int, last: int) -> tuple[bytes, bytes]:
        """So many bytes at most of the body's beginning and of its end, as far as they are kept."""
        kept, tail = self._kept, self._tail
        end = kept if tail is None else tail
        return bytes(kept[:first]), bytes(end[max(len(end) - last, 0) :])

    @property
    def total_bytes(self) -> int:
        """How much of the body has come, kept or not."""
        return self._total

    @property
    def size_bytes(self) -> int:
        """Bytes that it holds; the request's body is counted with the last of its captures."""
        held = len(self._kept) + len(self._tail or b"") + _MARK_BYTES * len(self._times)
        return held + _OVERHEAD_BYTES + (0 if self.request.captures else len(self.request.body))

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

    def _changes(self) -> list[str]:
        headers = self._side.headers
        made = [] if headers is None else headers.changes(self.request.head)
        return [*made, *self.changes]

    def _body(self) -> tuple[bytes | bytearray, int, int]:
        """(kept bytes, how many are missing before the tail, the tail's length if any are)."""
        head, tail = self._kept, self._tail
        if tail is None:
            return head, 0, 0
        missing = max(self._total - len(head) - self._side.answer_tail, 0)
        if missing:
            tail = tail[len(tail) - self._side.answer_tail :]
        return head + tail, missing, len(tail) if missing else 0

    def _offset(self, stamp: int) -> int | None:
        return stamp - self.start_ns if stamp else None
