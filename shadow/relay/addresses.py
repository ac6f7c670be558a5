"""Where an upstream lives: looked up in a thread of its own, never on a request's path."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable
from typing import Final

REFRESH_S: Final = 30.0
RETRY_S: Final = 1.0
"""How soon a first look-up that failed is tried again."""

Lookup = Callable[[str, int], list[str]]


def look_up(host: str, port: int) -> list[str]:
    """The host's addresses in the resolver's order; blocking.

    Raises:
        OSError: the name is not known now.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class Addresses:
    """The last good addresses of one host, refreshed every 30 s; an IP literal needs no thread."""

    def __init__(self, host: str, port: int, lookup: Lookup = look_up) -> None:
        self.host = host
        self.port = port
        self._lookup = lookup
        self._known: list[str] = []
        self._turn = 0
        self._stop = threading.Event()
        self.first = threading.Event()
        """Set once the first look-up has ended, well or not."""
        with contextlib.suppress(ValueError):
            self._known = [str(ipaddress.ip_address(host))]
        if self._known:
            self.first.set()
        else:
            # a daemon: a look-up that hangs must not hold the process's end
            threading.Thread(target=self._refresh, name=f"names {host}", daemon=True).start()

    def rotation(self) -> list[str]:
        """All known addresses, each time beginning with the next one; empty before the first."""
        known = self._known
        if len(known) < 2:
            return known
        self._turn = (self._turn + 1) % len(known)
        return known[self._turn :] + known[: self._turn]

    def close(self) -> None:
        """Stop refreshing."""
        self._stop.set()

    def _refresh(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(OSError, UnicodeError):  # the last good ones serve meanwhile
                self._known = self._lookup(self.host, self.port) or self._known
            self.first.set()
            self._stop.wait(REFRESH_S if self._known else RETRY_S)
