"""One connection to an upstream: sends one request at a time and times its answer.

The same class serves the primary, with a client behind it, and the arms, with none: both sides of
a pair are stamped by the same lines. `owner` says what the owner is told, and in which order.
"""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, cast

from shadow.relay.answer import AnswerHead, BadAnswer, find_answer_head, parse_answer
from shadow.relay.fields import UNTIL_CLOSE
from shadow.relay.framing import Framing, FramingError, UntilClose, answer_framing

if TYPE_CHECKING:
    from shadow.capture import Capture
    from shadow.relay.owner import Owner
    from shadow.relay.pool import Pool

_ANSWER_HEAD_FACTOR: Final = 4
"""An answer's head may be this much longer than a request's."""


class Upstream(asyncio.Protocol):
    """See the module. `data_received` stamps, forwards, appends the mark, and no more."""

    __slots__ = (
        "_asked_close",
        "_bodyless",
        "_buffer",
        "_framing",
        "_head_done",
        "_upgrade",
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
        self._buffer = b""

    # what the owner does

    def begin(self, owner: Owner, capture: Capture | None, *, head: bool, upgrade: bool) -> None:
        """Take the next request: `head` says that it is a HEAD, `upgrade` that it asks for 101."""
        self.owner = owner
        self.capture = capture
        self._bodyless = head
        self._upgrade = upgrade
        self._asked_close = False
        self._head_done = False
        self.answered = False
        self.sent = False
        self.first_write_ns = 0

    def send(self, data: bytes, *, last: bool) -> None:
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

    def abort(self) -> None:
        """Leave at once: the upstream sees its client go."""
        self.owner = None
        self.capture = None
        self.transport.abort()

    def close(self) -> None:
        """Leave after what was written has been sent."""
        self.owner = None
        self.capture = None
        self.transport.close()

    # what the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Stamp before looking, forward, append the mark."""
        now = monotonic_ns()
        framing = self._framing
        if framing is None:
            self._outside_body(now, data)
            return
        owner = self.owner
        pieces: list[bytes] = []
        try:
            end = framing.feed(data, pieces)
        except FramingError as error:
            self._malformed(now, str(error), data)
            return
        if owner is not None:
            owner.answer_continued(data if end == len(data) else data[:end], pieces)
        if self.capture is not None:
            self._mark(now, pieces)
        if framing.done:
            self._end(now, leftover=end < len(data))

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
        owner = self.owner
        if owner is None or self.answered:  # a byte that nobody asked for
            self._asked_close = True
            if owner is None:
                self.transport.abort()
            return
        if self.tunnel:
            owner.answer_continued(data, [data])
            return
        if self.capture is not None and not self._buffer:
            self.capture.first_byte_ns = now
        data = self._buffer + data if self._buffer else data
        if data[0] in b"\r\n" and not self._head_done:
            data = data.lstrip(b"\r\n")
        try:
            while data and self._framing is None and not self._head_done:
                data = self._head(owner, now, data)
        except BadAnswer as error:
            self._malformed(now, str(error), b"")

    def _head(self, owner: Owner, now: int, data: bytes) -> bytes:
        """Read one head off `data`; the bytes that follow an interim one are returned."""
        found = find_answer_head(data)
        if found is None:
            self._buffer = data
            if len(data) > self.pool.header_bytes * _ANSWER_HEAD_FACTOR:
                raise BadAnswer("the answer's head is too long")
            return b""
        self._buffer = b""
        head = parse_answer(data[: found[0]], bodyless=self._bodyless, upgrade=self._upgrade)
        rest = data[found[1] :]
        if head.status == 101:
            self._switch(owner, head, rest)
            return b""
        if head.status < 200:
            owner.answer_interim(head)
            if self.capture is not None and not rest:
                self.capture.first_byte_ns = 0  # the final head's is what counts
            return rest
        self._start(owner, now, head, rest)
        return b""

    def _switch(self, owner: Owner, head: AnswerHead, rest: bytes) -> None:
        if not self._upgrade:
            raise BadAnswer("a 101 that nobody asked for")
        self._head_done = self.tunnel = True
        owner.answer_started(head, rest, [rest] if rest else [])

    def _start(self, owner: Owner, now: int, head: AnswerHead, rest: bytes) -> None:
        self._head_done = True
        framing = answer_framing(head.length, self.pool.header_bytes)
        self._asked_close = not head.keep or head.length == UNTIL_CLOSE
        pieces: list[bytes] = []
        end = 0
        if rest and not framing.done:
            try:
                end = framing.feed(rest, pieces)
            except FramingError as error:
                self._broken_start(owner, now, head, (rest, str(error)))
                return
        if self.capture is not None:
            self.capture.head = head
        if not framing.done:
            self._framing = framing
        owner.answer_started(head, rest[:end], pieces)
        if pieces and self.capture is not None:
            self._mark(now, pieces)
        if framing.done:
            self._end(now, leftover=end < len(rest))

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
        if self.capture is not None:
            self.capture.end(now, word, reason)
            self.capture = None
        return owner


def _ended_how(error: Exception | None, *, started: bool) -> str:
    where = "inside the answer" if started else "before the answer"
    if error is None:
        return f"the upstream closed {where}"
    return f"the upstream reset {where}: {error}"
