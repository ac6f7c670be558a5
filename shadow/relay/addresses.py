"""Where an upstream lives: looked up in a thread of its own, never on a request's path."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

import structlog

from shadow.fault import Faults

REFRESH_S: Final = 30.0
RETRY_S: Final = 1.0
"""How soon a first look-up that failed is tried again."""
SHUN_S: Final = 10.0
"""So long an address that took no connection comes last."""
MOST_TRIED: Final = 8
"""So many addresses share the time of one connection: a share must do for a far TLS handshake."""
MAX_TOLD: Final = 100
"""So many addresses of one host are warned of."""

Lookup = Callable[[str, int], list[str]]
Judge = Callable[[str], bool]

_log = structlog.get_logger("shadow.relay")


def look_up(host: str, port: int) -> list[str]:
    """The host's addresses in the resolver's order; blocking.

    Raises:
        OSError: the name is not known now.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class Addresses:
    """The last good addresses of one host, refreshed every 30 s; an IP literal needs no thread."""

    def __init__(
        self, host: str, port: int, lookup: Lookup = look_up, inside: Judge | None = None
    ) -> None:
        """Begin to look up. Addresses that are not `inside` are as if there were none."""
        self.host = host
        self.port = port
        self.refused = ""
        """Why there is none, where the resolver knew some."""
        self._lookup = lookup
        self._inside = inside
        self._told: set[str] = set()
        self._known: list[str] = []
        self._turn = 0
        self._shunned: dict[str, float] = {}
        """Until when, by the monotonic clock; of addresses that took no connection."""
        self._faults = Faults()
        self._stop = threading.Event()
        self.first = threading.Event()
        """Set once the first look-up has ended, well or not."""
        with contextlib.suppress(ValueError):
            self._known = self._judged([str(ipaddress.ip_address(host))])
        if self._known or self.refused:
            self.first.set()
        else:
            # a daemon: a look-up that hangs must not hold the process's end
            threading.Thread(target=self._refresh, name=f"names {host}", daemon=True).start()

    def rotation(self) -> list[str]:
        """Which addresses to try, each time beginning with the next one; empty before the first."""
        known = self._known
        if len(known) < 2:
            return known
        self._turn = (self._turn + 1) % len(known)
        turned = known[self._turn :] + known[: self._turn]
        if self._shunned:
            now = monotonic()
            turned.sort(key=lambda address: self._shunned.get(address, now) > now)
        return turned[:MOST_TRIED]

    def shun(self, address: str) -> None:
        """It took no connection: others go before it for a while. In the thread of `rotation`."""
        now = monotonic()
        self._shunned = {one: until for one, until in self._shunned.items() if until > now}
        self._shunned[address] = now + SHUN_S

    def close(self) -> None:
        """Stop refreshing."""
        self._stop.set()

    def _refresh(self) -> None:
        while not self._stop.is_set():
            try:
                found = self._lookup(self.host, self.port)
                self._known = self._judged(found) if found else self._known
            except (OSError, UnicodeError):
                pass  # the last good ones serve meanwhile
            except Exception as error:  # noqa: BLE001 or no name would be looked up ever again
                self._faults.say("looking up failed", error, host=self.host)
            self.first.set()
            self._stop.wait(REFRESH_S if self._known else RETRY_S)

    def _judged(self, found: list[str]) -> list[str]:
        """Those that are inside; each other one is told once."""
        if self._inside is None:
            return found
        inside = [address for address in found if self._inside(address)]
        outside = [address for address in found if address not in inside]
        for address in outside:
            if address not in self._told and len(self._told) < MAX_TOLD:
                self._told.add(address)
                _log.warning("an address outside of networks", host=self.host, address=address)
        self.refused = (
            ""
            if inside
            else f"{self.host} is at {outside[0]}, outside of `networks`: nothing is sent there"
        )
        return inside
