"""One client's connection: judges its requests, passes them on, passes the answers back.

What the upstream does, the client sees (status, bytes, a cut, a reset); what the client does, the
upstream sees. One request at a time: what a client sends ahead waits, bounded.
"""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, cast

from shadow.relay.fields import UNTIL_CLOSE
from shadow.relay.framing import Framing, FramingError, request_framing
from shadow.relay.head import BadRequest, RequestHead, RequestReader
from shadow.relay.refusal import refusal
from shadow.relay.stale import retryable
from shadow.relay.upstream import Upstream, reset

if TYPE_CHECKING:
    from shadow.plan import Plan
    from shadow.relay.answer import AnswerHead
    from shadow.relay.relay import Relay

AHEAD_BYTES: Final = 64 * 1024
"""What a client may send ahead of its turn before it is read no further; also how much of an
upload may follow an answer that came early."""
LINGER_S: Final = 2.0
"""How long a refused client may go on sending before its connection ends."""

IDLE, OPEN, TUNNEL, LINGER, CLOSED = range(5)


class Downstream(asyncio.Protocol):
    """See the module."""

    __slots__ = (
        "_ahead",
        "_answer_ended",
        "_answer_started",
        "_close_after",
        "_connection",
        "_full_since",
        "_head",
        "_late",
        "_pending",
        "_plan",
        "_read_paused",
        "_reader",
        "_relay",
        "_retried",
        "_sent",
        "_sent_bytes",
        "_state",
        "_timer",
        "_transport",
        "_upload",
    )

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._transport = cast("asyncio.Transport", None)
        self._reader = RequestReader(relay.limits.header_bytes)
        self._state = IDLE
        self._head = cast("RequestHead", None)
        self._plan: Plan | None = None
        self._connection: Upstream | None = None
        self._upload: Framing | None = None
        self._pending: list[bytes] = []
        self._ahead = b""
        self._sent: list[bytes] | None = None
        self._sent_bytes = 0
        self._full_since = 0
        self._read_paused = False
        self._close_after = False
        self._timer: asyncio.TimerHandle | None = None

    # the client's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client."""
        self._transport = cast("asyncio.Transport", transport)
        self._relay.clients.add(self)
        self._relay.totals.open_connections += 1

    def data_received(self, data: bytes) -> None:
        """Stamp before looking, then the next head, the body, or what comes ahead of its turn."""
        now = monotonic_ns()
        if self._state == IDLE and not self._ahead:
            self._next(now, data)
        elif self._state == OPEN and self._upload is not None:
            self._continue(data)
        elif self._state in {IDLE, OPEN}:
            self._ahead += data
            self._balance()
        elif self._state == TUNNEL and self._connection is not None:
            self._connection.transport.write(data)

    def eof_received(self) -> bool:
        """A client's FIN is a disconnect, and the primary learns of it at once."""
        if self._state in {IDLE, LINGER, CLOSED}:
            return False
        self._client_gone()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        del exc
        if self._state in {OPEN, TUNNEL}:
            self._client_gone()
        self._state = CLOSED
        self._relay.clients.discard(self)
        self._relay.totals.open_connections -= 1
        if self._timer is not None:
            self._timer.cancel()
        self._relay.client_closed()

    def pause_writing(self) -> None:
        """The client reads slowly: the upstream is read no further."""
        self._full_since = monotonic_ns()
        if self._connection is not None:
            self._connection.transport.pause_reading()

    def resume_writing(self) -> None:
        """There is room again."""
        if self._plan is not None:
            self._plan.capture.client_wait_ns += monotonic_ns() - self._full_since
        self._full_since = 0
        if self._connection is not None:
            self._connection.transport.resume_reading()
        elif self._state == IDLE and self._ahead:
            self._turn()

    # a request

    def _next(self, now: int, data: bytes) -> None:
        try:
            found = self._reader.feed(data)
        except BadRequest as error:
            self._refuse(error.status, error.reason)
            return
        if found is not None:
            self._begin(now, *found)

    def _begin(self, now: int, head: RequestHead, rest: bytes) -> None:
        relay = self._relay
        if head.method == b"CONNECT":
            self._refuse(501, "CONNECT is not spoken here")
            return
        relay.totals.requests += 1
        relay.totals.open_streams += 1
        self._state = OPEN
        self._head = head
        self._answer_started = self._answer_ended = self._retried = False
        self._late = 0
        self._upload = request_framing(head.length, relay.limits.header_bytes)
        self._plan = relay.plan(head, now) if head.method == b"POST" else None
        connection = relay.pool.take()
        self._connection = connection
        self._sent_bytes = 0
        self._sent = [] if connection is not None and relay.may_retry(head) else None
        first = head.encode(relay.pool.authority)
        if connection is None:
            relay.pool.connect(self)
        else:
            self._take(connection)
        if self._upload is None:
            self._ahead = rest
            self._pass(first, last=True)
            if rest:
                self._balance()
        elif rest:
            self._continue(rest, first)
        else:
            self._pass(first, last=False)

    def _take(self, connection: Upstream) -> None:
        plan = self._plan
        connection.begin(
            self,
            plan.capture if plan is not None else None,
            head=self._head.method == b"HEAD",
            upgrade=self._head.upgrade,
        )
        if self._full_since:
            connection.transport.pause_reading()

    def _continue(self, data: bytes, first: bytes = b"") -> None:
        """More of the upload; `first` is the head, when both came together."""
        upload = self._upload
        assert upload is not None
        pieces: list[bytes] = []
        try:
            end = upload.feed(data, pieces)
        except FramingError as error:
            self._bad_upload(str(error))
            return
        plan = self._plan
        if plan is not None and pieces:
            self._plan = plan = self._relay.keep(plan, pieces)
            if plan is None and self._connection is not None:
                self._connection.capture = None
        if end < len(data):
            self._ahead = data[end:]
            self._balance()
            data = data[:end]
        if upload.done:
            self._upload = None
        self._pass(first + data if first else data, last=upload.done)
        if self._answer_ended:
            self._after_early_answer(len(data))

    def _pass(self, data: bytes, *, last: bool) -> None:
        """Send on to the primary, or keep until there is a connection."""
        connection = self._connection
        if connection is None:
            self._pending.append(data)
            self._sent_bytes += len(data)
            self._balance()
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

    def _balance(self) -> None:
        """Read the client on or not: bounded is what came ahead, what waits for a connection, and
        what a slow upstream has not taken."""
        connection = self._connection
        if connection is None:
            full = self._sent_bytes > AHEAD_BYTES and self._state == OPEN
        else:
            full = connection.full
        full = full or len(self._ahead) > AHEAD_BYTES
        if full and not self._read_paused:
            self._transport.pause_reading()
        elif self._read_paused and not full:
            self._transport.resume_reading()
        self._read_paused = full

    def _client_gone(self) -> None:
        """It left inside an exchange."""
        self._relay.totals.client_disconnected += 1
        self._leave_upstream(graceful=self._state == TUNNEL)
        whole = self._upload is None
        plan = self._end_stream()
        if plan is not None:
            self._relay.client_gone(plan, whole=whole and plan.settled)
        self._transport.abort()

    def _leave_upstream(self, *, graceful: bool = False) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            self._relay.pool.give_up(self)
        elif graceful:
            connection.close()
        else:
            connection.abort()

    def _end_stream(self) -> Plan | None:
        """The exchange is over for the client; its plan is handed back to be ended."""
        self._relay.totals.open_streams -= 1
        plan, self._plan = self._plan, None
        if plan is not None and self._full_since:
            plan.capture.client_wait_ns += monotonic_ns() - self._full_since
        self._sent = None
        self._pending = []
        self._upload = None
        self._state = CLOSED
        return plan

    # refusals

    def _refuse(self, status: int, reason: str) -> None:
        """Answer for the request ourselves, and close."""
        self._relay.totals.refused += 1
        self._transport.write(refusal(status, reason, head=False))
        self._linger()

    def _bad_upload(self, reason: str) -> None:
        """The upload broke its framing: what was judged good has gone on, nothing else does."""
        answered = self._answer_started
        self._leave_upstream()
        plan = self._end_stream()
        if plan is not None:
            self._relay.dropped(plan)
        if answered:
            self._transport.close()
        else:
            self._refuse(400, reason)

    def _gateway_error(self, reason: str) -> None:
        """502: the primary cannot be reached, or its answer cannot be read."""
        if not self._answer_started:
            self._transport.write(refusal(502, reason, head=self._head.method == b"HEAD"))
        self._linger()

    def _linger(self) -> None:
        """Close, but let the client read what it was told: what it still sends is read away."""
        self._state = LINGER
        self._ahead = b""
        self._balance()
        if not self._transport.is_closing():
            self._transport.write_eof()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LINGER_S, self._transport.abort)

    # what the upstream's connection says

    def connected(self, connection: Upstream) -> None:
        """A new connection: send what waited."""
        self._connection = connection
        waited, self._pending = self._pending, []
        plan = self._plan
        if plan is not None:
            plan.capture.connected_ns = monotonic_ns()
        self._take(connection)
        whole = self._upload is None
        if waited:
            connection.send(b"".join(waited), last=whole)
        self._sent_bytes = 0
        self._balance()
        if whole and plan is not None and not plan.settled:
            self._relay.sent(plan)

    def connect_failed(self, reason: str) -> None:
        """No connection to the primary."""
        self._relay.totals.connect_failed += 1
        whole = self._upload is None
        plan = self._end_stream()
        if plan is not None:
            plan.capture.end(monotonic_ns(), "connect_failed", reason)
            self._relay.never_reached(plan, whole=whole)
        self._gateway_error(f"no connection to the primary: {reason}")

    def answer_interim(self, head: AnswerHead) -> None:
        """1xx, for clients that know it."""
        if self._head.http11:
            self._transport.write(head.encode(http11=True, close=False))
        self._sent = None

    def answer_started(self, head: AnswerHead, raw: bytes, pieces: list[bytes]) -> None:
        """The final head: from here on nothing is tried again."""
        self._sent = None
        self._answer_started = True
        request = self._head
        if head.status == 101:
            self._switch(head, raw)
            return
        self._relay.totals.by_class[head.status // 100] += 1
        self._close_after = not (
            request.keep
            and head.sound
            and head.length != UNTIL_CLOSE
            and not self._relay.draining
            and not (request.expect and self._upload is not None)
        )
        start = head.encode(http11=request.http11, close=self._close_after)
        self._transport.write(start + (raw if request.http11 else b"".join(pieces)))

    def answer_continued(self, raw: bytes, pieces: list[bytes]) -> None:
        """More body: as it came, or decoded for a 1.0 client."""
        self._sent = None
        if self._head.http11:
            self._transport.write(raw)
        else:
            self._transport.write(b"".join(pieces))

    def answer_ended(self) -> None:
        """Whole. The upload may still be under way."""
        self._answer_ended = True
        plan = self._plan
        if self._upload is None:
            self._finish()
        elif self._close_after:
            self._give_up_upload()
        elif plan is not None:
            self._plan = None
            self._relay.dropped(plan)

    def upstream_lost(self, error: Exception | None) -> None:
        """The upstream closed or reset inside the exchange: the client sees the same."""
        connection, self._connection = self._connection, None
        assert connection is not None
        if self._answer_ended:  # the upload has lost its reader
            self._give_up_upload()
            return
        tunnel = self._state == TUNNEL
        if not tunnel and self._retry(connection):
            return
        self._relay.totals.upstream_lost += not tunnel
        self._end_and_publish()
        if error is None:
            self._transport.close()
        else:
            # what was written in this turn of the loop goes out first
            asyncio.get_running_loop().call_soon(reset, self._transport)

    def answer_malformed(self, reason: str, raw: bytes) -> None:
        """No framing: 502 before the head, after it what came and a reset."""
        self._connection = None
        self._relay.totals.bad_upstream_framing += 1
        self._end_and_publish()
        if not self._answer_started:
            self._gateway_error(f"the primary's answer cannot be read: {reason}")
            return
        if self._head.http11:
            self._transport.write(raw)
        asyncio.get_running_loop().call_soon(reset, self._transport)

    def upstream_full(self) -> None:
        """The upstream reads slowly, or has caught up: so is the client read."""
        self._balance()

    # the ends

    def _switch(self, head: AnswerHead, raw: bytes) -> None:
        """101: from here on bytes pass both ways as they come."""
        connection = self._connection
        assert connection is not None
        self._state = TUNNEL
        self._relay.totals.upgrades += 1
        self._transport.write(head.encode(http11=True, close=False) + raw)
        if self._ahead:
            connection.transport.write(self._ahead)
            self._ahead = b""
        self._balance()

    def _retry(self, connection: Upstream) -> bool:
        """Once more on a new connection, if the old one was stale (contracts: retry_stale)."""
        relay = self._relay
        sent = self._sent
        if sent is None or self._retried or not retryable(connection, self._head, sent):
            return False
        relay.totals.stale_retries += 1
        self._retried = True
        self._pending, self._sent = sent, None
        if self._plan is not None:
            self._plan.capture.restart()
        relay.pool.connect(self)
        return True

    def _end_and_publish(self) -> None:
        whole = self._upload is None
        plan = self._end_stream()
        if plan is None:
            return
        if whole:
            self._relay.primary_ended(plan)
        else:
            self._relay.dropped(plan)

    def _after_early_answer(self, size: int) -> None:
        """After a final answer that came early, 64 KiB of upload may follow, then both end."""
        self._late += size
        if self._upload is None:
            self._finish()
        elif self._late > AHEAD_BYTES:
            self._give_up_upload()

    def _give_up_upload(self) -> None:
        self._leave_upstream()
        plan = self._end_stream()
        if plan is not None:
            self._relay.dropped(plan)
        self._linger()

    def _finish(self) -> None:
        """Both messages ended."""
        relay = self._relay
        connection, self._connection = self._connection, None
        assert connection is not None
        relay.pool.release(connection)
        plan = self._plan
        if plan is not None:
            self._plan = None
            if self._full_since:
                plan.capture.client_wait_ns += monotonic_ns() - self._full_since
            relay.primary_ended(plan)
        relay.totals.open_streams -= 1
        if self._close_after or relay.draining:
            self._state = CLOSED
            self._transport.close()
            return
        self._state = IDLE
        if self._read_paused:
            self._balance()
        if self._ahead and not self._full_since:
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """What was sent ahead has its turn."""
        if self._state == IDLE and self._ahead and not self._transport.is_closing():
            ahead, self._ahead = self._ahead, b""
            self._next(monotonic_ns(), ahead)
            self._balance()

    # drain

    def drain(self) -> None:
        """No new request: an idle connection ends now, an open one after its answer."""
        if self._state == IDLE:
            self._state = CLOSED
            self._transport.close()

    def cut(self) -> None:
        """The drain's time is over."""
        if self._state not in {OPEN, TUNNEL}:
            self._transport.abort()
            return
        self._relay.totals.cut_by_drain += 1
        if self._plan is not None:
            self._plan.capture.end(monotonic_ns(), "cut_by_drain", "the proxy was shut down")
        self._leave_upstream()
        self._end_and_publish()
        reset(self._transport)
