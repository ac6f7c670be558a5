"""What asyncio has no words for: a reset, probes of a silent peer, and an end before it is read."""

from __future__ import annotations

import select
import socket
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

_LINGER_0: Final = struct.pack("ii", 1, 0)


def reset(transport: asyncio.Transport) -> None:
    """End a connection so that the peer sees RST; an abort alone sends FIN, as a whole answer."""
    if transport.is_closing():
        return
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
    transport.abort()


def peer_ended(transport: asyncio.Transport) -> bool:
    """The peer's FIN or reset has come, whatever is still unread before it."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is None or transport.is_closing():
        return False
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


def keep_alive(sock: socket.socket) -> None:
    """Probe a silent peer after a minute, so that one that vanished is noticed in two."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
