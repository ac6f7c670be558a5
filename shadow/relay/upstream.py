"""One connection to an upstream: sends one request at a time and times its answer.

The same class serves the primary, with a client behind it, and the arms, with none: both sides of
a pair are stamped by the same lines. `owner` says what the owner is told, and in which order.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from shadow.relay.answer import AnswerHead, BadAnswer
from shadow.relay.fields import UNTIL_CLOSE
from shadow.relay.framing import FramingError, answer_framing
from shadow.relay.link import Link

if TYPE_CHECKING:
    from shadow.capture.capture import Capture
    from shadow.relay.owner import Owner

SLICE_HEADS: Final = 32
"""So many heads of one arrival at a time; all but the last are interim ones."""
BURST_BYTES: Final = 128 * 1024
"""After an arrival of this size it is the others' turn."""


class Upstream(Link):
    """See the module. `data_received` stamps, forwards, appends the mark, and no more."""

    __slots__ = ()

    # what the owner does

    def begin(self, owner: Owner, capture: Capture | None, *, head: bool, upgrade: bool) -> None:
        """Take the next request: `head` says that it is a HEAD, `upgrade` that it asks for 101."""
        self.owner = owner
        self.capture = capture
        self._reader.begin(head=head, upgrade=upgrade)
        self._asked_close = self._head_done = self.answered = self.sent = self.heard = False
        self._slices = 0
        self.first_write_ns = 0

    def send(self, data: bytes | bytearray | memoryview, *, last: bool) -> None:
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

    # what comes

    def data_received(self, data: bytes, at: int = 0, now: int = 0) -> None:
        """Stamp before looking, forward, append the mark: one slice, all of an arrival as a rule.

        `at` and `now` are given when what waited has its turn. One frame, since it runs at every
        arrival.
        """
        if not now:
            now = monotonic_ns()
            if self._rest:  # a transport may have had more in hand when it was told to pause
                self._rest.append((now, data, 0))
                return
        framing = self._framing
        if framing is None:
            self._outside_body(now, data, at)
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

    def _outside_body(self, now: int, data: bytes, at: int) -> None:
        owner = self.owner
        self.heard = True
        if owner is None or self.answered:  # a byte that nobody asked for
            self._asked_close = True
            if owner is None:
                self.transport.abort()
        elif self.tunnel:
            owner.answer_continued(data, [data])
        elif at:
            self._heads(now, data, at)
        elif not self._reader.kept:
            if self.capture is not None:
                self.capture.first_byte_ns = now
            self._heads(now, data, 0)
        else:
            self._more_head(now, data)

    def _more_head(self, now: int, data: bytes) -> None:
        try:
            whole = self._reader.whole(data)
        except BadAnswer as error:
            self._malformed(now, str(error), b"")
            return
        if whole is not None:
            self._heads(now, whole, 0)

    def _heads(self, now: int, data: bytes, at: int) -> None:
        """Read the heads that stand in `data` from `at` on, some at a time, up to the final one."""
        size = len(data)
        try:
            for _ in range(SLICE_HEADS):
                found = self._reader.read(data, at)
                if found is None:
                    return
                head, at = found
                if not 100 <= head.status < 200 or head.status == 101:
                    self._start(now, head, data, at)
                    return
                self._interim(head, last=at == size)
                if at == size or self.owner is None:
                    return
        except BadAnswer as error:
            self._malformed(now, str(error), b"")
        else:
            self._later(now, data, at)

    def _interim(self, head: AnswerHead, *, last: bool) -> None:
        assert self.owner is not None
        self.owner.answer_interim(head)
        if self.capture is not None and last:
            self.capture.first_byte_ns = 0  # the final head's is what counts

    def _start(self, now: int, head: AnswerHead, data: bytes, at: int) -> None:
        """The final head, and the body's bytes from `at` on."""
        owner = self.owner
        assert owner is not None
        self._head_done = True
        if head.status == 101:
            self.tunnel = True
            owner.answer_started(head, data[at:], [data[at:]] if data[at:] else [])
            return
        framing = answer_framing(head.length, self.pool.header_bytes)
        self._asked_close = not head.keep or head.length == UNTIL_CLOSE
        pieces: list[bytes] = []
        end, size = at, len(data)
        if self.capture is not None:
            self.capture.head = head
        if at < size and not framing.done:
            try:
                end = framing.feed(data, pieces, at)
            except FramingError as error:
                owner.answer_started(head, b"", [])  # the head is passed, then the break is told
                self._malformed(now, str(error), data[at:])
                return
        if not framing.done:
            self._framing = framing
        owner.answer_started(head, data[at:end], pieces)
        if pieces and self.capture is not None:
            self._mark(now, pieces)
        if framing.done:
            self._end(now, leftover=end < size)
        elif end < size or size >= BURST_BYTES:
            self._later(now, data, end)
