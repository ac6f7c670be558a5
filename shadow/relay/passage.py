"""One request's way to the primary, and its answer's way back to the client.

What the upstream does, the client sees (status, bytes, a cut, a reset); what the client does, the
upstream sees. The passage owns the upstream's connection while it lasts, and drives the plan.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from shadow.relay.fields import CHUNKED, UNTIL_CLOSE
from shadow.relay.framing import FramingError, request_framing
from shadow.relay.refusal import UNREACHABLE, UNREADABLE, refusal
from shadow.relay.stale import retryable

if TYPE_CHECKING:
    from shadow.relay.answer import AnswerHead
    from shadow.relay.downstream import Downstream
    from shadow.relay.head import RequestHead
    from shadow.relay.relay import Relay
    from shadow.relay.upstream import Upstream

AHEAD_BYTES: Final = 64 * 1024
"""How much of a request waits for its connection, and how much of an upload may follow an answer
that came early; also what a client may send ahead of its turn."""


class Passage:
    """See the module."""

    __slots__ = (
        "_answer_ended",
        "_answer_started",
        "_client",
        "_close_after",
        "_end_unsaid",
        "_head",
        "_late_bytes",
        "_plan",
        "_relay",
        "_retried",
        "_sent",
        "_sent_bytes",
        "_upload",
        "_waiting",
        "connection",
        "tunnel",
    )

    def __init__(self, client: Downstream, relay: Relay, head: RequestHead, now: int) -> None:
        relay.totals.requests += 1
        relay.totals.open_streams += 1
        self._client = client
        self._relay = relay
        self._head = head
        self._plan = (
            relay.plan(head, now) if head.method in relay.mirrored or head.upgrade else None
        )
        self._upload = request_framing(head.length, relay.limits.header_bytes)
        self._answer_started = self._answer_ended = self._close_after = self._retried = False
        self._end_unsaid = False
        self._late_bytes = self._sent_bytes = 0
        self._sent: list[bytes] | None = None
        self._waiting: list[bytes] = []
        self.connection: Upstream | None = None
        self.tunnel = False

    @property
    def takes_bytes(self) -> bool:
        """What the client sends now belongs to this passage: an upload, or a websocket."""
        return self._upload is not None or self.tunnel

    @property
    def full(self) -> bool:
        """Read the client no further: what it sent has not been taken."""
        if self.connection is None:
            return self._sent_bytes > AHEAD_BYTES
        return self.connection.full

    # towards the primary

    def begin(self, rest: bytes) -> None:
        """Send the head, with what came behind it."""
        relay = self._relay
        connection = relay.pool.take()
        if connection is None:
            relay.pool.connect(self)
        else:
            self._use(connection)
            if relay.may_retry(self._head):
                self._sent = []
        first = self._head.encode(relay.pool.authority)
        if self._upload is None:
            self._client.hold(rest)
            self._pass(first, last=True)
        elif rest:
            self.take(rest, first)
        else:
            self._pass(first, last=False)

    def take(self, data: bytes, first: bytes = b"") -> None:
        """More of the upload (`first` is the head, when both came together), or of a websocket."""
        upload = self._upload
        if upload is None:
            if self.connection is not None:
                self.connection.transport.write(data)
            return
        pieces: list[bytes] = []
        try:
            end = upload.feed(data, pieces)
        except FramingError as error:
            self._breach(str(error))
            return
        if self._plan is not None and pieces:
            self._keep(pieces)
        if upload.done:
            self._upload = None
        if end < len(data):
            (self._client.hold if upload.done else self._client.later)(data[end:])
            data = data[:end]
        self._pass(first + data if first else data, last=upload.done)
        if self._answer_ended:
            self._after_early_answer(len(data))

    def _use(self, connection: Upstream) -> None:
        self.connection = connection
        plan, head = self._plan, self._head
        capture = None if plan is None else plan.capture
        connection.begin(self, capture, head=head.method == b"HEAD", upgrade=head.upgrade)
        if self._client.full_since:
            connection.hold()

    def _keep(self, pieces: list[bytes]) -> None:
        assert self._plan is not None
        self._plan = self._relay.keep(self._plan, pieces)
        if self._plan is None and self.connection is not None:
            self.connection.capture = None

    def _pass(self, data: bytes, *, last: bool) -> None:
        """Send on to the primary, or keep until there is a connection."""
        connection = self.connection
        if connection is None:
            self._waiting.append(data)
            self._sent_bytes += len(data)
            self._client.balance()
            return
        if self._sent is not None:
            self._remember(data)
        connection.send(data, last=last)
        if last and self._plan is not None:
            self._relay.sent(self._plan)

    def _remember(self, data: bytes) -> None:
        """For a retry the whole request must be at hand; beyond the bound there is none."""
        assert self._sent is not None
        self._sent_bytes += len(data)
        if self._sent_bytes > self._relay.limits.request_bytes:
            self._sent = None
        else:
            self._sent.append(data)

    def _after_early_answer(self, size: int) -> None:
        """64 KiB of upload may follow a final answer that came early; then both ends close."""
        self._late_bytes += size
        if self._upload is None:
            self._finish()
        elif self._late_bytes > AHEAD_BYTES:
            self._give_up_upload()

    def _breach(self, reason: str) -> None:
        """The upload broke its framing: what was judged good has gone on, nothing else does."""
        self._leave()
        self._over(whole=False)
        if self._answer_started:
            self._client.close()
        else:
            self._client.refuse(400, reason)

    def upload_lasts(self, since: int) -> None:
        """The mirror waits no longer for an upload that began before `since`; the primary does."""
        plan = self._plan
        if plan is None or self._upload is None or plan.capture.start_ns >= since:
            return
        self._plan = None
        if self.connection is not None:
            self.connection.capture = None
        self._relay.dropped(plan)

    # what the client does

    def client_left(self) -> None:
        """It closed or reset inside the passage: the primary learns of it at once."""
        self._relay.totals.client_disconnected += 1
        self._leave()
        plan, whole = self._plan, self._upload is None
        self._over(whole=True, publish=False)
        if plan is not None:
            self._relay.client_gone(plan, whole=whole and plan.settled)

    def client_has_room(self) -> None:
        """It had held the answer back since `full_since`."""
        if self._plan is not None:
            self._plan.capture.client_wait_ns += monotonic_ns() - self._client.full_since
        if self.connection is not None:
            self.connection.read_on()

    def cut(self) -> None:
        """The drain's time is over."""
        self._relay.totals.cut_by_drain += 1
        if self._plan is not None:
            self._plan.capture.end(monotonic_ns(), "cut_by_drain", "the proxy was shut down")
        self._leave()
        settled = self._plan is None or self._plan.settled
        self._over(whole=self._upload is None and settled)
        self._client.reset()

    # what the primary does (see `upstream.Owner`)

    def connected(self, connection: Upstream) -> None:
        """A new connection: send what waited."""
        waited, self._waiting = b"".join(self._waiting), []
        self._sent_bytes = 0
        plan, whole = self._plan, self._upload is None
        if plan is not None:
            plan.capture.connected_ns = monotonic_ns()
        self._use(connection)
        connection.send(waited, last=whole)
        self._client.balance()
        if whole and plan is not None and not plan.settled:
            self._relay.sent(plan)

    def connect_failed(self, reason: str) -> None:
        """No connection to the primary."""
        self._relay.unreachable(reason)
        plan, whole = self._plan, self._upload is None
        self._over(whole=True, publish=False)
        if plan is not None:
            plan.capture.end(monotonic_ns(), "connect_failed", reason)
            self._relay.never_reached(plan, whole=whole)
        self._gateway_error("no connection to the primary", UNREACHABLE)

    def answer_interim(self, head: AnswerHead) -> None:
        """1xx, for clients that know it; the request was read, so it is not tried again."""
        self._sent = None
        if self._head.http11:
            self._client.transport.write(head.encode(http11=True, close=False))

    def answer_started(self, head: AnswerHead, raw: bytes, pieces: list[bytes]) -> None:
        """The final head."""
        self._sent = None
        self._answer_started = True
        if head.status == 101:
            self._switch(head, raw)
            return
        self._relay.totals.by_class[head.status // 100] += 1
        request = self._head
        self._close_after = (
            not request.keep
            or not head.sound
            or head.length == UNTIL_CLOSE
            or self._relay.draining
            or (request.expect and self._upload is not None)
        )
        self._end_unsaid = head.length == CHUNKED and not request.http11
        start = head.encode(http11=request.http11, close=self._close_after)
        self._client.transport.write(start + (raw if request.http11 else b"".join(pieces)))

    def answer_continued(self, raw: bytes, pieces: list[bytes]) -> None:
        """More body: as it came, or decoded for a 1.0 client."""
        self._client.transport.write(raw if self._head.http11 else b"".join(pieces))

    def answer_ended(self) -> None:
        """Whole. The upload may still be under way."""
        self._answer_ended = True
        if self._upload is None:
            self._finish()
        elif self._close_after:
            self._give_up_upload()
        elif self._plan is not None:
            plan, self._plan = self._plan, None
            self._relay.dropped(plan)

    def upstream_lost(self, error: Exception | None) -> None:
        """The upstream closed or reset inside the passage: the client sees the same."""
        connection, self.connection = self.connection, None
        assert connection is not None
        if self._answer_ended:  # the upload has lost its reader
            self._give_up_upload()
            return
        if self._retry(connection):
            return
        self._relay.totals.upstream_lost += not self.tunnel
        self._over(whole=self._upload is None)
        if error is None and not self._end_unsaid:
            self._client.close()
        else:  # undone chunks end by the connection's end: only a reset says that they were cut
            self._client.reset_soon()

    def answer_malformed(self, reason: str, raw: bytes) -> None:
        """No framing: 502 before the head; after it, what came and a reset."""
        self.connection = None
        self._relay.totals.bad_upstream_framing += 1
        self._over(whole=self._upload is None)
        if not self._answer_started:
            self._gateway_error(f"the primary's answer cannot be read: {reason}", UNREADABLE)
            return
        if self._head.http11:
            self._client.transport.write(raw)
        self._client.reset_soon()

    def capture_failed(self, error: Exception) -> None:
        """The stream goes on without its capture."""
        plan, self._plan = self._plan, None
        self._relay.mirror.failed(error, plan)

    def upstream_full(self) -> None:
        """The upstream reads slowly, or has caught up: so is the client read."""
        self._client.balance()

    # the ends

    def _switch(self, head: AnswerHead, raw: bytes) -> None:
        """101: from here on bytes pass both ways as they come; the client's have waited."""
        assert self.connection is not None
        self.tunnel = True
        self._relay.totals.upgrades += 1
        self._client.transport.write(head.encode(http11=True, close=False) + raw)
        self.connection.transport.write(self._client.held())

    def _retry(self, connection: Upstream) -> bool:
        """Once more on a new connection, if the old one was stale (contracts: retry_stale)."""
        sent = self._sent
        if sent is None or self._retried or not retryable(connection, self._head, sent):
            return False
        self._relay.totals.stale_retries += 1
        self._retried = True
        self._waiting, self._sent = sent, None
        if self._plan is not None:
            self._plan.capture.restart()
        self._relay.pool.connect(self)
        return True

    def _finish(self) -> None:
        """Both messages ended."""
        connection, self.connection = self.connection, None
        assert connection is not None
        self._relay.pool.release(connection)
        self._over(whole=True)
        self._client.passed(keep=not self._close_after)

    def _give_up_upload(self) -> None:
        self._leave()
        self._over(whole=False)
        self._client.linger()

    def _gateway_error(self, reason: str, kind: str) -> None:
        """502: the primary cannot be reached, or its answer cannot be read."""
        said = refusal(502, reason, head=self._head.method == b"HEAD", kind=kind)
        self._client.transport.write(said)
        self._client.linger()

    def _leave(self) -> None:
        """Let the upstream see that its client is gone; a websocket's last bytes still go out."""
        connection, self.connection = self.connection, None
        if connection is None:
            self._relay.pool.give_up(self)
        elif self.tunnel:
            connection.close()
        else:
            connection.abort()

    def _over(self, *, whole: bool, publish: bool = True) -> None:
        """The passage has ended; its plan is told, unless the caller does it."""
        self._relay.totals.open_streams -= 1
        plan, self._plan = self._plan, None
        self._client.passage = None
        self._upload = None
        if plan is None:
            return
        if self._client.full_since:
            plan.capture.client_wait_ns += monotonic_ns() - self._client.full_since
        if publish and whole:
            self._relay.primary_ended(plan)
        elif publish:
            self._relay.dropped(plan)
