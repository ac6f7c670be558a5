"""One arm beside the primary: its connections, its open requests, its bounds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from shadow.admission import BREAKER_OPEN, Admission
from shadow.body.change import Wish, json_text
from shadow.capture import Capture, Origin, Request, Side
from shadow.headers import ArmHeaders
from shadow.relay.pool import Pool
from shadow.spending import purse

if TYPE_CHECKING:
    from shadow.body.copy import Copy
    from shadow.body.edit import Pieces
    from shadow.config.choice import Inside
    from shadow.config.operations import Limits
    from shadow.config.subject import Subject
    from shadow.config.upstream import Arm as Settings
    from shadow.counters import Name
    from shadow.held import Held
    from shadow.ports import Ledger, Publisher
    from shadow.redaction.records import Veil
    from shadow.relay.addresses import Lookup
    from shadow.relay.answer import AnswerHead
    from shadow.relay.turns import Turns
    from shadow.relay.upstream import Upstream
    from shadow.spending import Spending

JOINED_BYTES: Final = 64 * 1024
"""A body below this is written together with its head; a larger one that was changed is sent in
pieces, most of them views: while a copy waits, nothing of its body is held twice."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What the arms of a mirror have in common."""

    origin: Origin
    limits: Limits
    ledger: Ledger
    publisher: Publisher
    lookup: Lookup
    turns: Turns
    held: Held
    subject: Subject | None
    inside: Inside
    workers: int
    spending: Spending
    veil: Veil | None = None


class Arm:
    """See the module."""

    def __init__(self, name: str, settings: Settings, shared: Shared) -> None:
        limits = shared.limits
        self.name = name
        self.sample = settings.sample
        self.key = settings.key
        self.pool = Pool(
            f"arms.{name}",
            settings,
            limits.header_bytes,
            shared.lookup,
            shared.turns,
            sacred=False,
            inside=None if settings.allow_external else shared.inside.judge(settings.url),
        )
        self.headers = ArmHeaders(name, self.pool.authority, self.pool.prefix, settings.headers)
        self.ledger = shared.ledger
        self.publisher = shared.publisher
        self.open: dict[ArmRequest, None] = {}
        """In the order of their starts, which is the order of their deadlines."""
        self.sampled = (name, "eligible", ""), (name, "sampled", "")
        self.not_sampled = self.left_out("")
        self.after_primary = settings.start == "after_primary"
        spent = purse(name, settings.limits, settings.price, shared.workers, shared.spending)
        self.admission = Admission(settings, shared.workers, spent)
        self._deadline_ns = int(settings.deadline * 1e9)
        self.role = settings.role
        self.wish = wish(settings)
        self._sides: dict[tuple[int, str], Side] = {}
        self.side = Side(
            shared.origin,
            name,
            settings.role,
            1 / settings.sample if settings.sample else 1.0,
            self.headers,
            limits.answer_bytes,
            limits.answer_tail,
            shared.held,
            shared.subject,
            shared.veil,
        )

    def left_out(self, reason: str) -> tuple[Name, Name]:
        """What is counted of a request that the arm does not get; '': it was not drawn for it."""
        return (self.name, "eligible", ""), (self.name, "skipped", reason or "not_sampled")

    def side_of(self, copy: Copy) -> Side:
        """How the copy's record names it."""
        if copy.replica == 0 and copy.probe == "none":
            return self.side
        which = copy.replica, copy.probe
        side = self._sides.get(which)
        if side is None:
            side = replace(self.side, replica=copy.replica, probe=copy.probe)
            self._sides[which] = side
        return side

    def start(self, request: Request, copy: Copy) -> ArmRequest | None:
        """Send the arm a copy, or drop and count it when the arm has all it may have.

        While its breaker is open the copy is a record of the failure, and nothing is sent.
        """
        open_requests = len(self.open)
        refusal = self.admission.refusal(monotonic_ns(), open_requests, len(request.body))
        if refusal == BREAKER_OPEN:
            self.leave_out(request, copy, BREAKER_OPEN, "the arm's breaker is open")
            return None
        if refusal:
            self.ledger.add(self.name, "dropped", refusal)
            return None
        mirrored = ArmRequest(self, request, copy, open_requests)
        self.ledger.hold(request.token)
        self.open[mirrored] = None
        mirrored.begin()
        return mirrored

    def leave_out(self, request: Request, copy: Copy, transport: str, reason: str) -> None:
        """Record that a copy was never sent, and why; it takes no time."""
        now = monotonic_ns()
        capture = _capture(self.side_of(copy), request, copy, now, len(self.open))
        capture.end(now, transport, reason)
        capture.leave()
        self.ledger.hold(request.token)
        self.ledger.add(self.name, BREAKER_OPEN if transport == BREAKER_OPEN else "unsent")
        self.publisher.offer(capture)

    def expire(self, now: int) -> None:
        """End what is beyond the deadline; called by the proxy's clock."""
        while self.open:
            oldest = next(iter(self.open))
            if now - oldest.capture.start_ns < self._deadline_ns:
                return
            oldest.cut("timed_out", "the arm's deadline has passed")

    def shut_down(self) -> None:
        """Drop what is still open: never a failure of the arm."""
        for request in list(self.open):
            request.drop("shutdown")


def _capture(side: Side, request: Request, copy: Copy, now: int, in_flight: int) -> Capture:
    capture = Capture(side, request, time.time_ns(), now, in_flight)
    capture.changes = copy.changes
    capture.share = copy.share
    return capture


def wish(settings: Settings) -> Wish:
    """What the arm's configuration wants changed in bodies."""
    params = settings.params
    return Wish(
        settings.models,
        {name: json_text(value) for name, value in params.set.items()},
        tuple(params.remove),
        settings.include_usage,
        settings.amplify,
    )


def _wire(headers: ArmHeaders, request: Request, copy: Copy) -> tuple[bytes, Pieces]:
    body: Pieces = [request.body] if copy.body is None else copy.body
    size = len(body[0]) if len(body) == 1 else sum(map(len, body))
    head = request.head
    if request.expanded:
        left = [line for line in head.lines if line[:17].lower() != b"content-encoding:"]
        head = replace(head, lines=left)
    return headers.build(head, size), body


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
        self.capture = _capture(arm.side_of(copy), request, copy, monotonic_ns(), in_flight)
        self._wire: tuple[bytes, Pieces] | None = _wire(arm.headers, request, copy)
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
        if sum(map(len, body)) < JOINED_BYTES:
            connection.send(b"".join((head, *body)), last=True)
        else:
            connection.send(head, last=False)
            for piece in body[:-1]:
                connection.send(piece, last=False)
            connection.send(body[-1], last=True)
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
        """End it now without a record."""
        if not self._ended:
            self._abort()
            self._close()
            self.capture.leave()
            self._arm.ledger.add(self._arm.name, "dropped", reason)
            self._arm.ledger.release(self.capture.token)

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
        self._send(connection)

    def connect_failed(self, reason: str) -> None:
        """No connection: a failure of the arm, recorded."""
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
        raise error

    def upstream_full(self) -> None:
        """The whole request is in the buffer already."""
