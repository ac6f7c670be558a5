"""A request's way to the primary: streamed while it comes, kept for a retry, judged on its way."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from shadow.relay.ends import Ends
from shadow.relay.framing import FramingError
from shadow.relay.refusal import UNREACHABLE
from shadow.relay.stale import retryable

if TYPE_CHECKING:
    from shadow.relay.upstream import Upstream

AHEAD_BYTES: Final = 64 * 1024
"""How much of a request waits for its connection, and how much of an upload may follow an answer
that came early; also what a client may send ahead of its turn."""


class Passage:
    """See the module."""


class Upload(Ends):
    """See the module."""

    __slots__ = ()

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
        if relay.forwarding is None:
            first = self._head.encode(relay.pool.authority)
        else:
            pair_id = "" if self._plan is None else self._plan.request.pair_id
            first = relay.forwarding.encode(self._head, self._client.address, pair_id)
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

    # the primary's connection

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
