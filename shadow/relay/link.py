"""A connection to a server: when it is read, what of an arrival waits for its turn, how it ends.

`upstream` sends the requests and follows the answers.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, cast

from shadow.relay.answer_reader import AnswerReader
from shadow.relay.framing import SLICE_CHUNKS, Framing, UntilClose

if TYPE_CHECKING:
    from shadow.capture.capture import Capture
    from shadow.relay.owner import Owner
    from shadow.relay.pool import Pool

UNREAD_BYTES: Final = 16 * 1024
"""So much is read of what had come when a write failed: all of it goes on in that turn."""
_ABSURD_CHUNKS: Final = 128 * SLICE_CHUNKS
_ABSURD_BYTES: Final = 8
"""So many chunks that hold less than this on average: an arm is given up."""


class Link(asyncio.Protocol):
    """See the module. What is told to the owner, and to the capture, is told once."""

    __slots__ = (
        "_asked_close",
        "_framing",
        "_head_done",
        "_held",
        "_queued",
        "_reader",
        "_rest",
        "_slices",
        "_waits",
        "answered",
        "capture",
        "first_write_ns",
        "full",
        "heard",
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
        self.full = self.reused = self.tunnel = self.heard = False
        self._reader = AnswerReader(pool.header_bytes, sacred=pool.sacred)
        self._framing: Framing | None = None
        self._held = self._waits = self._queued = self._head_done = False
        self._slices = 0
        self._rest: deque[tuple[int, bytes, int]] = deque()
        """Arrivals that were not looked at to their end: when, what, and from where on."""

    # what the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        self.transport = cast("asyncio.Transport", transport)

    def eof_received(self) -> bool:
        """FIN: an answer without a length ends by it, any other is cut short."""
        self._lost(None)
        self.pool.leave(self)  # type: ignore[arg-type]
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; with an error, by reset."""
        try:
            if exc is not None and self.owner is not None and (left := self._unread()):
                self.data_received(left)
        finally:
            self._lost(exc)
            self.pool.forget(self)  # type: ignore[arg-type]

    def _unread(self) -> bytes:
        """What had come when a write failed: who refuses an upload answers and closes, and a write
        may meet the close before the answer was read (RFC 9112 §9.6). Of TLS it is no text.
        """
        sock = self.transport.get_extra_info("socket")
        if sock is None or self.transport.get_extra_info("sslcontext") is not None:
            return b""
        try:
            return os.read(sock.fileno(), UNREAD_BYTES)
        except OSError:  # as a rule: nothing is there
            return b""

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

    # what is read, and when

    def hold(self) -> None:
        """Read no further until `read_on`."""
        self._held = True
        self.transport.pause_reading()

    def read_on(self) -> None:
        """There is room again for what comes."""
        self._held = False
        if not self._waits:
            self.transport.resume_reading()

    def _later(self, now: int, data: bytes, at: int) -> None:
        """Go on with `data[at:]`, which arrived at `now`, in a later turn of the loop."""
        if self.owner is None:  # it left over what was just passed
            return
        if at < len(data):
            self._slices += 1
            if self._absurd():
                self._malformed(now, f"its chunks hold less than {_ABSURD_BYTES} bytes each", b"")
                return
            self._rest.appendleft((now, data, at))
        if self.transport.is_closing():
            return  # `_lost` goes on at once
        if not self._waits:
            self._waits = True
            self.transport.pause_reading()
        if not self._queued:
            self._queued = True
            self.pool.turns.wait(self)

    def _absurd(self) -> bool:
        """An arm whose answer is all framing: nobody needs it, and it costs the loop its time."""
        chunks = self._slices * SLICE_CHUNKS
        if self.pool.sacred or chunks < _ABSURD_CHUNKS or self._framing is None:
            return False
        return self.capture is not None and self.capture.total_bytes < chunks * _ABSURD_BYTES

    def go_on(self) -> None:
        """The next slice of what waits; then, unless there is more, read again."""
        self._queued = False
        rest = self._rest
        if rest:
            now, data, at = rest.popleft()
            try:
                self.data_received(data, at, now)
            except BaseException:
                self.transport.abort()  # as a transport does whose protocol raises: the owner hears
                raise
        if rest and not self._queued and not self.transport.is_closing():
            self._queued = True
            self.pool.turns.wait(self)
        elif not rest and not self._queued and self._waits:
            self._waits = False
            if not self._held and not self.transport.is_closing():
                self.transport.resume_reading()

    def data_received(self, data: bytes, at: int = 0, now: int = 0) -> None:
        """An arrival; `at` and `now` are given for one that waited: `Upstream`."""
        raise NotImplementedError

    # how it ends

    def abort(self) -> None:
        """Leave at once: the upstream sees its client go."""
        self._let_go()
        self.transport.abort()

    def close(self) -> None:
        """Leave after what was written has been sent."""
        self._let_go()
        self.pool.leave(self)  # type: ignore[arg-type]

    def _let_go(self) -> None:
        self.owner = None
        self.capture = None
        self._rest.clear()

    def _mark(self, now: int, pieces: list[bytes]) -> None:
        """A fault of the capture's is not the client's: its owner lets go of it."""
        assert self.capture is not None
        try:
            self.capture.append(now, pieces)
        except Exception as error:  # noqa: BLE001 the guard
            self.capture = None
            if self.owner is not None:
                self.owner.capture_failed(error)

    def _end(self, now: int, *, leftover: bool) -> None:
        self._framing = None
        self.answered = True
        if leftover or self._rest:
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
        self._rest.clear()
        if self.capture is not None:
            self.capture.end(now, word, reason)
            self.capture = None
        return owner


def _ended_how(error: Exception | None, *, started: bool) -> str:
    where = "inside the answer" if started else "before the answer"
    if error is None:
        return f"the upstream closed {where}"
    return f"the upstream reset {where}: {error}"
