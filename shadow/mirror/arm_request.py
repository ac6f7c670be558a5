"""One request of one arm: a copy on its way, and the answer that nobody waits for."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from shadow.capture.capture import Capture

if TYPE_CHECKING:
    from shadow.body.copy import Copy
    from shadow.body.edit import Pieces
    from shadow.capture.request import Request
    from shadow.capture.side import Side
    from shadow.mirror.arm import Arm
    from shadow.mirror.headers import ArmHeaders
    from shadow.relay.answer import AnswerHead
    from shadow.relay.upstream import Upstream

JOINED_BYTES: Final = 64 * 1024
"""A body below this is written together with its head; a larger one that was changed is sent in
pieces, most of them views: while a copy waits, nothing of its body is held twice."""


def capture_of(side: Side, request: Request, copy: Copy, now: int, in_flight: int) -> Capture:
    """A capture of this copy, begun at `now` (monotonic, ns) beside `in_flight` others."""
    capture = Capture(side, request, time.time_ns(), now, in_flight)
    capture.changes = copy.changes
    capture.share = copy.share
    return capture


def wire(headers: ArmHeaders, request: Request, copy: Copy) -> tuple[bytes, Pieces]:
    """(head, body) of the copy as it is sent."""
    body: Pieces = [request.body] if copy.body is None else copy.body
    size = len(body[0]) if len(body) == 1 else sum(map(len, body))
    head = request.head
    if request.expanded:
        left = [line for line in head.lines if line[:17].lower() != b"content-encoding:"]
        head = replace(head, lines=left)
    return headers.build(head, size), body


def send(connection: Upstream, head: bytes, body: Pieces) -> None:
    """Write a whole request."""
    if sum(map(len, body)) < JOINED_BYTES:
        connection.send(b"".join((head, *body)), last=True)
        return
    connection.send(head, last=False)
    for piece in body[:-1]:
        connection.send(piece, last=False)
    connection.send(body[-1], last=True)


class ArmRequest:
    """One request of an arm, the owner of its connection; no client waits for it."""

    __slots__ = (
        "__weakref__",
        "_arm",
        "_censor_ns",
        "_cut_timer",
        "_ended",
        "_era",
        "_reached",
        "_wire",
        "capture",
        "connection",
    )

    def __init__(self, arm: Arm, request: Request, copy: Copy, in_flight: int) -> None:
        self._arm = arm
        self.connection: Upstream | None = None
        self.capture = capture_of(arm.side_of(copy), request, copy, monotonic_ns(), in_flight)
        self._wire: tuple[bytes, Pieces] | None = wire(arm.headers, request, copy)
        self._cut_timer: asyncio.TimerHandle | None = None
        self._censor_ns = -1
        self._ended = self._reached = False
        self._era = arm.admission.begun()

    def begin(self) -> None:
        """Use an idle connection, or ask for a new one."""
        connection = self._arm.pool.take()
        if connection is None:
            self._arm.pool.connect(self)
        else:
            self._send(connection)

    def _send(self, connection: Upstream) -> None:
        assert self._wire is not None
        head, body = self._wire
        self._wire = None
        self._reached = True
        self._arm.ledger.add(self._arm.name, "reached")
        self.connection = connection
        is_head = self.capture.request.head.method == b"HEAD"
        connection.begin(self, self.capture, head=is_head, upgrade=False)
        send(connection, head, body)
        if self._censor_ns >= 0:
            self.censor(self._censor_ns)

    def censor(self, elapsed_ns: int) -> None:
        """The client left `elapsed_ns` after its request was sent: so does this side, then."""
        self._censor_ns = elapsed_ns
        if self._ended or not self.capture.sent_ns:
            return
        delay_s = (self.capture.sent_ns + elapsed_ns - monotonic_ns()) / 1e9
        if delay_s <= 0:
            self._leave()
        else:
            self._cut_timer = asyncio.get_running_loop().call_later(delay_s, self._leave)

    def _leave(self) -> None:
        self.cut("client_disconnected", "cut where the client left the primary")

    def cut(self, transport: str, reason: str) -> None:
        """End it now, recorded with this word."""
        if not self._ended:
            self._abort()
            self._finish(transport, reason)

    def drop(self, reason: str) -> None:
        """End it now without a record; what it was in the midst of says nothing of the arm."""
        if not self._ended:
            self._abort()
            self.capture.head = None  # an error's status neither
            self._close()
            self.capture.leave()
            self._arm.ledger.add(self._arm.name, "dropped", reason)
            self._arm.ledger.release(self.capture.token)

    def switch_off(self) -> None:
        """The kill switch: end it now, never a failure of the arm."""
        self.drop("switched_off")

    def _abort(self) -> None:
        if self.connection is None:
            self._arm.pool.give_up(self)
        else:
            self.connection.abort()

    def _finish(self, transport: str, reason: str | None = None) -> None:
        self.capture.end(monotonic_ns(), transport, reason)
        if not self._reached:
            self._arm.ledger.add(self._arm.name, "connect_failed")
        self._close()
        self.capture.leave()
        self._arm.publisher.offer(self.capture)

    def _close(self) -> None:
        self._ended = True
        self.connection = None
        self._wire = None
        arm, capture = self._arm, self.capture
        arm.open.pop(self, None)
        size = len(capture.request.body)
        arm.admission.ended(self._era, capture, size, reached=self._reached)
        if self._cut_timer is not None:
            self._cut_timer.cancel()

    # what the connection says

    def connected(self, connection: Upstream) -> None:
        """The connection is there: send."""
        self.capture.connected_ns = monotonic_ns()
        self._arm.plight.reason = ""
        self._send(connection)

    def connect_failed(self, reason: str) -> None:
        """No connection: a failure of the arm, recorded, and told by the clock."""
        self._arm.plight.failed(reason)
        self._finish("connect_failed", reason)

    def answer_interim(self, head: AnswerHead) -> None:
        """Nobody waits for a 1xx."""

    def answer_started(self, head: AnswerHead, raw: bytes, pieces: list[bytes]) -> None:
        """The capture has it."""

    def answer_continued(self, raw: bytes, pieces: list[bytes]) -> None:
        """The capture has it."""

    def answer_ended(self) -> None:
        """Whole: give the connection back, publish."""
        connection = self.connection
        assert connection is not None
        self._arm.pool.release(connection)
        self._finish("complete")

    def upstream_lost(self, error: Exception | None) -> None:
        """The connection has written the word into the capture."""
        self._finish("truncated" if error is None else "reset")

    def answer_malformed(self, reason: str, raw: bytes) -> None:  # noqa: ARG002 no client sees it
        """The connection has written the word into the capture."""
        self._finish("malformed", reason)

    def capture_failed(self, error: Exception) -> None:
        """Without a capture there is nothing to go on for: it shows as lost."""
        self._abort()
        self._close()
        self.capture.leave()
        self._arm.ledger.release(self.capture.token)
        self._arm.failed(error)

    def upstream_full(self) -> None:
        """The whole request is in the buffer already."""
