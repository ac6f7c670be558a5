"""A tapped request's way to the baseline replica, which stands for the primary: see `tap`."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from shadow.body.copy import AS_IT_CAME
from shadow.mirror.arm_request import send, wire

if TYPE_CHECKING:
    from shadow.mirror.plan import Plan
    from shadow.mirror.tap import Tap
    from shadow.relay.answer import AnswerHead
    from shadow.relay.upstream import Upstream


class Baseline:
    """One request of the replica, the owner of its connection. The plan has it begun once the body
    was looked at, and is driven by it from then on.
    """

    __slots__ = ("_asked", "_tap", "connection", "plan")

    def __init__(self, tap: Tap, plan: Plan) -> None:
        self._tap = tap
        self.plan = plan
        self.connection: Upstream | None = None
        self._asked = False

    def begin(self) -> None:
        """Use an idle connection, or ask for a new one; or, counted, neither, where the replica has
        all it may have.
        """
        if self._tap.full:
            self.plan.refused("concurrency")
            return
        self._asked = True
        self._tap.asked += 1
        pool = self._tap.relay.pool
        connection = pool.take()
        if connection is None:
            pool.connect(self)
        else:
            self._send(connection)

    def give_up(self) -> None:
        """Leave the connection, if there is one, and tell nobody: the plan knows."""
        if self.connection is not None:
            self.connection.abort()
        else:
            self._tap.relay.pool.give_up(self)
        self._close()

    def _send(self, connection: Upstream) -> None:
        self.connection = connection
        request, capture = self.plan.request, self.plan.capture
        copy, headers = request.replica_copy or AS_IT_CAME[0], self._tap.headers
        head, body = wire(headers, request, copy)
        capture.changes = (*headers.changes(request.head), *copy.changes)
        connection.begin(self, capture, head=request.head.method == b"HEAD", upgrade=False)
        send(connection, head, body)
        self._tap.relay.sent(self.plan)

    def cut(self, transport: str, reason: str) -> None:
        """End it now, recorded with this word."""
        self.plan.capture.end(monotonic_ns(), transport, reason)
        if self.connection is None:
            self._tap.relay.pool.give_up(self)
            self._close()
            self._tap.relay.never_reached(self.plan, whole=True)
        else:
            self.connection.abort()
            self._finish()

    def switch_off(self) -> None:
        """The kill switch: end it now, without a record. Production does not pass a tap: what the
        replica is asked is mirroring too.
        """
        if self in self._tap.open:
            self.plan.let_go("switched_off")
        if self in self._tap.open:
            self.give_up()

    def _finish(self) -> None:
        self._close()
        self._tap.relay.primary_ended(self.plan)

    def _close(self) -> None:
        self.connection = None
        self._tap.asked -= self._asked
        self._asked = False
        if self in self._tap.open:  # a fault may end it within its own start
            del self._tap.open[self]
            self._tap.relay.totals.open_streams -= 1

    # what the connection says; the capture has its words and bytes already

    def connected(self, connection: Upstream) -> None:
        """The connection is there: send."""
        self.plan.capture.connected_ns = monotonic_ns()
        try:
            self._send(connection)
        except Exception as error:  # noqa: BLE001 a fault of ours: nothing of it stays open
            self._tap.relay.mirror.failed(error, self.plan)

    def connect_failed(self, reason: str) -> None:
        """The arms get nothing that the replica never got."""
        self._tap.relay.unreachable(reason)
        self.plan.capture.end(monotonic_ns(), "connect_failed", reason)
        self._close()
        self._tap.relay.never_reached(self.plan, whole=True)

    def answer_interim(self, head: AnswerHead) -> None:
        """Nobody waits for a 1xx."""

    def answer_started(self, head: AnswerHead, raw: bytes, pieces: list[bytes]) -> None:  # noqa: ARG002 the capture has them
        """The final head."""
        self._tap.relay.totals.by_class[head.status // 100] += 1

    def answer_continued(self, raw: bytes, pieces: list[bytes]) -> None:
        """The capture has it."""

    def answer_ended(self) -> None:
        """Whole: give the connection back."""
        assert self.connection is not None
        self._tap.relay.pool.release(self.connection)
        self._finish()

    def upstream_lost(self, error: Exception | None) -> None:  # noqa: ARG002 the capture has it
        """It closed or reset."""
        self._tap.relay.totals.upstream_lost += 1
        self._finish()

    def answer_malformed(self, reason: str, raw: bytes) -> None:  # noqa: ARG002 the capture has it
        """It cannot be read."""
        self._tap.relay.totals.bad_upstream_framing += 1
        self._finish()

    def capture_failed(self, error: Exception) -> None:
        """Without a capture there is nothing to go on for."""
        if self.connection is not None:
            self.connection.abort()
        self._close()
        self._tap.relay.mirror.failed(error, self.plan)

    def upstream_full(self) -> None:
        """The whole request is in the buffer already."""
