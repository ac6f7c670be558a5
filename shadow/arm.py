"""One arm beside the primary: its connections, its open requests, its bounds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from time import monotonic_ns
from typing import TYPE_CHECKING

from shadow.capture import Capture, Origin, Request, Side
from shadow.headers import ArmHeaders
from shadow.relay.pool import Pool

if TYPE_CHECKING:
    from shadow.config.operations import Limits
    from shadow.config.subject import Subject
    from shadow.config.upstream import Arm as Settings
    from shadow.held import Held
    from shadow.ports import Ledger, Publisher
    from shadow.relay.addresses import Lookup
    from shadow.relay.answer import AnswerHead
    from shadow.relay.turns import Turns
    from shadow.relay.upstream import Upstream


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


class Arm:
    """See the module."""

    def __init__(self, name: str, settings: Settings, shared: Shared) -> None:
        limits = shared.limits
        self.name = name
        self.sample = settings.sample
        self.key = settings.key
        self.pool = Pool(
            f"arms.{name}", settings, limits.header_bytes, shared.lookup, shared.turns, sacred=False
        )
        self.headers = ArmHeaders(name, self.pool.authority, self.pool.prefix, settings.headers)
        self.ledger = shared.ledger
        self.publisher = shared.publisher
        self.open: dict[ArmRequest, None] = {}
        """In the order of their starts, which is the order of their deadlines."""
        self.sampled = (name, "eligible", ""), (name, "sampled", "")
        self.not_sampled = (name, "eligible", ""), (name, "skipped", "not_sampled")
        self._concurrency = settings.concurrency
        self._deadline_ns = int(settings.deadline * 1e9)
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
        )

    def start(self, request: Request) -> ArmRequest | None:
        """Send the arm its copy, or drop and count it when the arm has all it may have."""
        if len(self.open) >= self._concurrency:
            self.ledger.add(self.name, "dropped", "concurrency")
            return None
        mirrored = ArmRequest(self, request, len(self.open))
        self.ledger.hold(request.token)
        self.open[mirrored] = None
        mirrored.begin()
        return mirrored

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


class ArmRequest:
    """One request of an arm, the owner of its connection; no client waits for it."""

    __slots__ = ("_arm", "_censor_ns", "_cut_timer", "_ended", "_wire", "capture", "connection")

    def __init__(self, arm: Arm, request: Request, in_flight: int) -> None:
        self._arm = arm
        self.connection: Upstream | None = None
        self.capture = Capture(arm.side, request, time.time_ns(), monotonic_ns(), in_flight)
        self._wire: tuple[bytes, bytes | bytearray] | None = (
            arm.headers.build(request.head, len(request.body)),
            request.body,
        )
        self._cut_timer: asyncio.TimerHandle | None = None
        self._censor_ns = -1
        self._ended = False

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
        self.connection = connection
        is_head = self.capture.request.head.method == b"HEAD"
        connection.begin(self, self.capture, head=is_head, upgrade=False)
        connection.send(head + body if len(body) < 65536 else head, last=len(body) < 65536)
        if len(body) >= 65536:
            connection.send(body, last=True)
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
        self._close()
        self.capture.leave()
        self._arm.publisher.offer(self.capture)

    def _close(self) -> None:
        self._ended = True
        self.connection = None
        self._wire = None
        self._arm.open.pop(self, None)
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
