"""What the primary is told of the client, where the configuration asks for it: `primary.forwarded`
and `primary.host`. As they stand by default, nothing of a request's head is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shadow.config.upstream import Primary
    from shadow.relay.head import RequestHead

_PROTO: Final = b"x-forwarded-proto"
_HOST: Final = b"x-forwarded-host"
_FOR: Final = b"x-forwarded-for"
_FORWARDED: Final = b"forwarded"


class Forwarding:
    """See the module. A hop's own fields (RFC 9110 §7.6.1) are gone before it, whatever it says."""

    def __init__(self, settings: Primary, authority: bytes) -> None:
        self._append = settings.forwarded == "append"
        self._host = authority if settings.host == "url" else b""
        self._authority = authority

    def encode(self, head: RequestHead, peer: str) -> bytes:
        """The head's bytes towards the primary, for a client at the address `peer`."""
        request_line, *lines = head.encode(self._authority)[:-4].split(b"\r\n")
        at = {name(line): n for n, line in enumerate(lines)}
        asked = lines[at[b"host"]].partition(b":")[2].strip(b" \t")
        if self._host:
            lines[at[b"host"]] = b"Host: " + self._host
        if self._append:
            _append(lines, at, peer, asked)
        return b"\r\n".join([request_line, *lines, b"", b""])


def needed(settings: Primary) -> bool:
    """Whether it asks for anything."""
    return settings.forwarded != "pass" or settings.host != "client"


def name(line: bytes) -> bytes:
    """A field's name in small letters."""
    return line.partition(b":")[0].lower()


def _append(lines: list[bytes], at: dict[bytes, int], peer: str, asked: bytes) -> None:
    """This hop at the end of each list; what tells of the first hop only if nobody has told it."""
    address = peer.encode("latin-1", "replace")
    if _FOR in at:
        lines[at[_FOR]] += b", " + address
    else:
        lines.append(b"X-Forwarded-For: " + address)
    if _FORWARDED in at:  # RFC 7239 §4: an IPv6 address stands in brackets and quotes
        node = b'"[%b]"' % address if b":" in address else address
        lines[at[_FORWARDED]] += b", for=" + node
    if _PROTO not in at:
        lines.append(b"X-Forwarded-Proto: http")
    if _HOST not in at:
        lines.append(b"X-Forwarded-Host: " + asked)
