"""One connection to an upstream: sends one request at a time and times its answer.

The same class serves the primary, with a client behind it, and the arms, with none: both sides of
a pair are stamped by the same lines. `owner` says what the owner is told, and in which order.
"""

from __future__ import annotations

import asyncio
import re
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, cast

from shadow.relay.answer import (
    AnswerHead,
    BadAnswer,
    find_answer_head,
    parse_answer,
    within_bounds,
)
from shadow.relay.fields import UNTIL_CLOSE
from shadow.relay.framing import SLICE_CHUNKS, Framing, FramingError, UntilClose, answer_framing

if TYPE_CHECKING:
    from shadow.capture import Capture
    from shadow.relay.owner import Owner
    from shadow.relay.pool import Pool

_ANSWER_HEAD_FACTOR: Final = 4
"""An answer's head may be this much longer than a request's."""
SLICE_HEADS: Final = 32
"""So many heads of one arrival at a time; all but the last are interim ones."""
SMALL_HEAD_BYTES: Final = 2048
"""Up to here an arm's head is parsed without counting its fields first."""
BURST_BYTES: Final = 128 * 1024
"""After an arrival of this size it is the others' turn."""
MAX_INTERIM: Final = 16
"""An arm that says 1xx more often, for one request, is given up."""
_ABSURD_CHUNKS: Final = 128 * SLICE_CHUNKS
_ABSURD_BYTES: Final = 8
"""So many chunks that hold less than this on average: an arm is given up."""
_BLANK: Final = re.compile(rb"[\r\n]*")


class Upstream(asyncio.Protocol):
    """See the module. `data_received` stamps, forwards, appends the mark, and no more."""

    __slots__ = (
        "_asked_close",
        "_bodyless",
        "_buffer",
        "_framing",
        "_head_done",
        "_held",
        "_interim",
        "_rest",
        "_rest_at",
        "_rest_ns",
        "_slices",
        "_upgrade",
        "_waits",
        "answered",
        "capture",
        "first_write_ns",
        "full",
        "idle_since",
        "owner",
        "pool",
        "reused",
        "sent",
        "transport",
        "tunnel",
    )

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.owner: Owner | None = None
        self.capture: Capture | None = None
        self.idle_since = 0
        self.full = False
        self.reused = False
        self.tunnel = False
        self._framing: Framing | None = None
        self._buffer = bytearray()
        self._held = False
        self._waits = False
        self._rest = b""
        self._rest_at = self._rest_ns = 0

    # what the owner does

    def begin(self, owner: Owner, capture: Capture | None, *, head: bool, upgrade: bool) -> None:
        """Take the next request: `head` says that it is a HEAD, `upgrade` that it asks for 101."""
        self.owner = owner
        self.capture = capture
        self._bodyless = head
        self._upgrade = upgrade
        self._asked_close = False
        self._head_done = False
        self._interim = self._slices = 0
        self.answered = False
        self.sent = False
        self.first_write_ns = 0

    def send(self, data: bytes | bytearray, *, last: bool) -> None:
        """Bytes of the request, as they are."""
        self.transport.write(data)
        now = monotonic_ns()
        if not self.first_write_ns:
            self.first_write_ns = now
        if last:
            self.sent = True
            if self.capture is not None:
                self.capture.sent_ns = now

    @property
    def reusable(self) -> bool:
        """Both messages ended, nothing is left, nobody said close."""
        return self.sent and self.answered and not self._asked_close and not self.tunnel

    def hold(self) -> None:
        """Read no further until `read_on`."""
        self._held = True
        self.transport.pause_reading()

    def read_on(self) -> None:
        """There is room again for what comes."""
        self._held = False
        if not self._waits:
            self.transport.resume_reading()

    def abort(self) -> None:
        """Leave at once: the upstream sees its client go."""
        self.owner = None
        self.capture = None
        self._rest = b""
        self.transport.abort()

    def close(self) -> None:
        """Leave after what was written has been sent."""
        self.owner = None
        self.capture = None
        self._rest = b""
        self.transport.close()

    # what the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes, at: int = 0, now: int = 0) -> None:
        """Stamp before looking, forward, append the mark: one slice, all of an arrival as a rule.

        `at` and `now` are given when it is called again for the rest of an arrival.
        """
        now = now or monotonic_ns()
        framing = self._framing
        if framing is None or self._rest:
            self._outside_body(now, data)
            return
        owner = self.owner
        pieces: list[bytes] = []
        try:
            end = framing.feed(data, pieces, at)
        except FramingError as error:
            self._malformed(now, str(error), data[at:])
            return
        size = len(data)
        if owner is not None:
            owner.answer_continued(data if end - at == size else data[at:end], pieces)
        if self.capture is not None:
            self._mark(now, pieces)
        if framing.done:
            self._end(now, leftover=end < size)
        elif end < size or size >= BURST_BYTES:
            self._later(now, data, end)

    # what is too much for one turn

    def _later(self, now: int, data: bytes, at: int) -> None:
        """Go on with `data[at:]`, which arrived at `now`, in a later turn of the loop."""
        if self.owner is None:  # it left over what was just passed
            return
        if at < len(data):
            self._slices += 1
            if self._absurd():
                self._malformed(now, f"its chunks hold less than {_ABSURD_BYTES} bytes each", b"")
                return
        self._rest, self._rest_at, self._rest_ns = data[:0] if at == len(data) else data, at, now
        if self.transport.is_closing():
            return  # `_lost` goes on at once
        if not self._waits:
            self._waits = True
            self.transport.pause_reading()
        self.pool.turns.wait(self)

    def _absurd(self) -> bool:
        """An arm whose answer is all framing: nobody needs it, and it costs the loop its time."""
        chunks = self._slices * SLICE_CHUNKS
        if self.pool.sacred or chunks < _ABSURD_CHUNKS or self._framing is None:
            return False
        return self.capture is not None and self.capture.total_bytes < chunks * _ABSURD_BYTES

    def go_on(self) -> None:
        """The next slice of what waits; then, unless there is more, read again."""
        data, self._rest = self._rest, b""
        try:
            if data and self._framing is None:
                self._heads(self._rest_ns, data, self._rest_at)
            elif data:
                self.data_received(data, self._rest_at, self._rest_ns)
        except BaseException:
            self.transport.abort()  # as a transport does whose protocol raises: the owner is told
            raise
        if not self._rest and self._waits:
            self._waits = False
            if not self._held and not self.transport.is_closing():
                self.transport.resume_reading()

    def _mark(self, now: int, pieces: list[bytes]) -> None:
        """A fault of the capture's is not the client's: its owner lets go of it."""
        assert self.capture is not None
        try:
            self.capture.append(now, pieces)
        except Exception as error:  # noqa: BLE001 the guard
            self.capture = None
            if self.owner is not None:
                self.owner.capture_failed(error)

    def eof_received(self) -> bool:
        """FIN: an answer without a length ends by it, any other is cut short."""
        self._lost(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; with an error, by reset."""
        self._lost(exc)
        self.pool.forget(self)

    def pause_writing(self) -> None:
        """The upstream reads slowly: the client is read no further."""
        self.full = True
        if self.owner is not None:
            self.owner.upstream_full()

    def resume_writing(self) -> None:
        """There is room again."""
        self.full = False
        if self.owner is not None:
            self.owner.upstream_full()

    # the answer's head

    def _outside_body(self, now: int, data: bytes) -> None:
        if self._rest:  # a transport may have had more in hand when it was told to pause
            self._rest = self._rest[self._rest_at :] + data
            self._rest_at = 0
            return
        owner = self.owner
        if owner is None or self.answered:  # a byte that nobody asked for
            self._asked_close = True
            if owner is None:
                self.transport.abort()
            return
        if self.tunnel:
            owner.answer_continued(data, [data])
            return
        if not self._buffer:
            if self.capture is not None:
                self.capture.first_byte_ns = now
            self._heads(now, data, 0)
            return
        start = max(len(self._buffer) - 2, 0)
        self._buffer += data
        if find_answer_head(self._buffer, start) is not None:
            data, self._buffer = bytes(self._buffer), bytearray()
            self._heads(now, data, 0)
        elif len(self._buffer) > self.pool.header_bytes * _ANSWER_HEAD_FACTOR:
            self._malformed(now, "the answer's head is too long", b"")

    def _heads(self, now: int, data: bytes, at: int) -> None:
        """Read the heads that stand in `data` from `at` on, some at a time, up to the final one."""
        heads, size = SLICE_HEADS, len(data)
        try:
            while heads:
                at = self._head(now, data, at)
                if at >= size or self._head_done:
                    return
                heads -= 1
        except BadAnswer as error:
            self._malformed(now, str(error), b"")
        else:
            self._later(now, data, at)

    def _head(self, now: int, data: bytes, at: int) -> int:
        """Read one head; where what follows an interim one begins."""
        if data[at] in b"\r\n":
            at = cast("re.Match[bytes]", _BLANK.match(data, at)).end()
        found = find_answer_head(data, at)
        if found is None:
            if len(data) - at > self.pool.header_bytes * _ANSWER_HEAD_FACTOR:
                raise BadAnswer("the answer's head is too long")
            self._buffer += data[at:]
            return len(data)
        raw = data[at : found[0]]
        if len(raw) > SMALL_HEAD_BYTES and not self.pool.sacred:
            within_bounds(raw)
        head = parse_answer(raw, bodyless=self._bodyless, upgrade=self._upgrade)
        owner = self.owner
        if owner is None:  # it left at an interim one
            return len(data)
        if head.status == 101:
            self._switch(owner, head, data[found[1] :])
        elif head.status < 200:
            self._count_interim(owner, head, last=found[1] == len(data))
        else:
            self._start(owner, now, head, data, found[1])
        return found[1]

    def _count_interim(self, owner: Owner, head: AnswerHead, *, last: bool) -> None:
        self._interim += 1
        if self._interim > MAX_INTERIM and not self.pool.sacred:
            raise BadAnswer(f"more than {MAX_INTERIM} interim answers")
        owner.answer_interim(head)
        if self.capture is not None and last:
            self.capture.first_byte_ns = 0  # the final head's is what counts

    def _switch(self, owner: Owner, head: AnswerHead, rest: bytes) -> None:
        if not self._upgrade:
            raise BadAnswer("a 101 that nobody asked for")
        self._head_done = self.tunnel = True
        owner.answer_started(head, rest, [rest] if rest else [])

    def _start(self, owner: Owner, now: int, head: AnswerHead, data: bytes, at: int) -> None:
        """The final head, and the body's bytes from `at` on."""
        self._head_done = True
        framing = answer_framing(head.length, self.pool.header_bytes)
        self._asked_close = not head.keep or head.length == UNTIL_CLOSE
        pieces: list[bytes] = []
        end, size = at, len(data)
        if at < size and not framing.done:
            try:
                end = framing.feed(data, pieces, at)
            except FramingError as error:
                self._broken_start(owner, now, head, (data[at:], str(error)))
                return
        if self.capture is not None:
            self.capture.head = head
        if not framing.done:
            self._framing = framing
        owner.answer_started(head, data[at:end], pieces)
        if pieces and self.capture is not None:
            self._mark(now, pieces)
        if framing.done:
            self._end(now, leftover=end < size)
        elif end < size or size >= BURST_BYTES:
            self._later(now, data, end)

    def _broken_start(
        self, owner: Owner, now: int, head: AnswerHead, broken: tuple[bytes, str]
    ) -> None:
        """Head and broken body in one arrival: the head is passed, then the break is told."""
        if self.capture is not None:
            self.capture.head = head
        owner.answer_started(head, b"", [])
        self._malformed(now, broken[1], broken[0])

    # the ends

    def _end(self, now: int, *, leftover: bool) -> None:
        self._framing = None
        self.answered = True
        if leftover:
            self._asked_close = True
        if self.capture is not None:
            self.capture.end(now, "complete")
            self.capture = None
        if self.owner is not None:
            self.owner.answer_ended()

    def _malformed(self, now: int, reason: str, raw: bytes) -> None:
        owner = self._detach(now, "malformed", reason)
        if owner is not None:
            owner.answer_malformed(reason, raw)
        self.transport.abort()

    def _lost(self, error: Exception | None) -> None:
        while self._rest and self.owner is not None:  # what came before the end comes before it
            self.go_on()
        owner = self.owner
        if owner is None:
            return
        now = monotonic_ns()
        if error is None and isinstance(self._framing, UntilClose):
            self._end(now, leftover=False)
            return
        word = "truncated" if error is None else "reset"
        self._detach(now, word, _ended_how(error, started=self._head_done))
        owner.upstream_lost(error)

    def _detach(self, now: int, word: str, reason: str) -> Owner | None:
        owner, self.owner = self.owner, None
        self._framing = None
        self._rest = b""
        if self.capture is not None:
            self.capture.end(now, word, reason)
            self.capture = None
        return owner


def _ended_how(error: Exception | None, *, started: bool) -> str:
    where = "inside the answer" if started else "before the answer"
    if error is None:
        return f"the upstream closed {where}"
    return f"the upstream reset {where}: {error}"
