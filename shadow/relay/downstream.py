"""One client's connection: reads its heads, strictly, and lets one request after the other pass.

What a client sends ahead of its turn waits, bounded; a client that reads slowly holds the upstream
back, and the other way round.
"""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, cast

from shadow.relay.head import BadRequest, RequestHead, RequestReader
from shadow.relay.refusal import OVERLOADED, refusal
from shadow.relay.sockets import peer_ended, reset
from shadow.relay.upload import AHEAD_BYTES

if TYPE_CHECKING:
    from shadow.relay.carried import Carried
    from shadow.relay.relay import Relay

LINGER_S: Final = 2.0
"""How long a refused client may go on sending before its connection ends."""


class Downstream(asyncio.Protocol):
    """See the module. Without a `passage` it is idle, or, once `_ending`, not read any more."""

    __slots__ = (
        "_ahead",
        "_ending",
        "_paused",
        "_reader",
        "_relay",
        "_slicing",
        "_timer",
        "full_since",
        "head_since",
        "idle_since",
        "passage",
        "transport",
    )

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._reader = RequestReader(relay.limits.header_bytes)
        self._ahead = b""
        self._ending = False
        self._paused = False
        self._slicing = False
        self._timer: asyncio.TimerHandle | None = None
        self.transport = cast("asyncio.Transport", None)
        self.passage: Carried | None = None
        self.full_since = 0
        """When its write buffer became full (monotonic, ns); 0 while it has room."""
        self.head_since = 0
        """Since when the rest of a request's head is waited for; 0 while none is."""
        self.idle_since = relay.clock_ns
        """By the coarse clock."""

    # what the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client."""
        self.transport = cast("asyncio.Transport", transport)
        self._relay.clients.add(self)
        self._relay.totals.open_connections += 1
        if self._relay.descriptors.used_up(self.transport):
            self._send_away()

    def data_received(self, data: bytes) -> None:
        """Stamp before looking; then the body, the next head, or what comes ahead of its turn."""
        now = monotonic_ns()
        passage = self.passage
        if passage is not None and passage.takes_bytes:
            if self._slicing:  # a transport may have had more in hand when it was told to pause
                self.hold(data)
            else:
                passage.take(data)
        elif self._ending:
            pass
        elif passage is not None or self._ahead:
            self.hold(data)
        else:
            self._next(now, data)

    def eof_received(self) -> bool:
        """A client's FIN is a disconnect, and the primary learns of it at once."""
        if self.passage is not None:
            self.passage.client_left()
            self.transport.abort()
        return False

    def look_for_end(self) -> None:
        """While it is not read, nothing says that it has left: called by the proxy's clock."""
        if self._paused and peer_ended(self.transport):
            self.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        del exc
        if self.passage is not None:
            self.passage.client_left()
        self._ending = True
        if self._timer is not None:
            self._timer.cancel()
        self._relay.clients.discard(self)
        self._relay.totals.open_connections -= 1
        self._relay.client_closed()

    def pause_writing(self) -> None:
        """The client reads slowly: the upstream is read no further."""
        self.full_since = monotonic_ns()
        if self.passage is not None and self.passage.connection is not None:
            self.passage.connection.hold()

    def resume_writing(self) -> None:
        """There is room again."""
        if self.passage is not None:
            self.passage.client_has_room()
        self.full_since = 0
        self._turn()

    # requests

    def _next(self, now: int, data: bytes) -> None:
        try:
            found = self._reader.feed(data)
        except BadRequest as error:
            self.refuse(error.status, error.reason)
            return
        if found is not None:
            self.head_since = 0
            self._begin(now, *found)
        elif not self.head_since and not self._reader.empty:
            self.head_since = now

    def _begin(self, now: int, head: RequestHead, rest: bytes) -> None:
        if head.method == b"CONNECT":
            self.refuse(501, "CONNECT is not spoken here")
            return
        self.passage = self._relay.carry(self, self._relay, head, now)
        self.passage.begin(rest)

    def _turn(self) -> None:
        """What was sent ahead has its turn, unless the client has to read first."""
        idle = self.passage is None and not self._ending and not self.full_since
        if idle and self._ahead and not self.transport.is_closing():
            self._next(monotonic_ns(), self.held())

    def hold(self, data: bytes) -> None:
        """Keep what is not this request's until its turn."""
        if data:
            self._ahead += data
            self.balance()

    def later(self, data: bytes) -> None:
        """More of the upload than one turn of the loop should hold: its turn comes."""
        self._ahead = data
        if not self._slicing:
            self._slicing = True
            self.balance()
        self._relay.pool.turns.wait(self)

    def go_on(self) -> None:
        """The next slice of the upload; what remains when it has ended has its own turn."""
        self._slicing = False
        passage = self.passage
        if passage is not None and passage.takes_bytes:
            data, self._ahead = self._ahead, b""
            try:
                passage.take(data)
            except BaseException:
                self.transport.abort()  # as a transport does whose protocol raises
                raise
        if not self.transport.is_closing():
            self.balance()

    def held(self) -> bytes:
        """What was kept, which is now the caller's."""
        data, self._ahead = self._ahead, b""
        self.balance()
        return data

    @property
    def address(self) -> str:
        """The client's, as text."""
        peer = self.transport.get_extra_info("peername")
        return str(peer[0]) if peer else "unknown"

    def balance(self) -> None:
        """Read on, or not: bounded is what the client sent ahead and what waits to be sent on."""
        passage = self.passage
        full = (
            self._slicing
            or len(self._ahead) > AHEAD_BYTES
            or (passage is not None and passage.full)
        )
        if full != self._paused:
            self._paused = full
            if full:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    # how a passage, and the connection, ends

    def passed(self, *, keep: bool) -> None:
        """Both messages ended: the next one, or a close."""
        self.idle_since = self._relay.clock_ns
        if not keep or self._relay.draining:
            if self._ahead:  # closing over unread bytes would reset, and take the answer along
                self.linger()
            else:
                self.close()
            return
        if self._paused:
            self.balance()
        if self._ahead:
            asyncio.get_running_loop().call_soon(self._turn)

    def refuse(self, status: int, reason: str) -> None:
        """Answer for the request ourselves, and close."""
        self._relay.totals.refused += 1
        self.head_since = 0
        self.transport.write(refusal(status, reason, head=False))
        self.linger()

    def _send_away(self) -> None:
        """Before it asked for anything; lingering would keep the descriptor that is short."""
        self._relay.out_of_descriptors()
        said = "too many connections are open here"
        self.transport.write(refusal(503, said, head=False, kind=OVERLOADED))
        self.close()

    def linger(self) -> None:
        """Close, but let the client read what it was told: what it still sends is read away."""
        self._ending = True
        self.held()
        if not self.transport.is_closing():
            self.transport.write_eof()
            self._lingers()

    def _lingers(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._lingered)

    def _lingered(self) -> None:
        """Unless it has yet to take what it was told: a slow client has its whole answer."""
        if self.transport.get_write_buffer_size():
            self._lingers()
        else:
            self.transport.abort()

    def close(self) -> None:
        """FIN, after what was written."""
        self._ending = True
        self.transport.close()

    def reset(self) -> None:
        """RST, now."""
        self._ending = True
        reset(self.transport)

    def reset_soon(self) -> None:
        """RST, once what was written in this turn of the loop has gone out."""
        self._ending = True
        asyncio.get_running_loop().call_soon(reset, self.transport)

    # drain

    def drain(self) -> None:
        """No new request: idle connections end now, others after the answer that was asked for."""
        if self.passage is None and not self._ending and not self.head_since:
            self.close()

    def cut(self) -> None:
        """The drain's time is over."""
        if self.passage is not None:
            self.passage.cut()
        else:
            self.transport.abort()
