"""What the primary is told of the client, where the configuration asks for it: `primary.forwarded`,
`primary.host`, `primary.request_id` and `primary.traceparent`. As they stand by default, nothing of
a request's head is touched.
"""

from __future__ import annotations

from secrets import randbelow
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container

    from shadow.config.upstream import Primary
    from shadow.relay.head import RequestHead

_PROTO: Final = b"x-forwarded-proto"
_HOST: Final = b"x-forwarded-host"
_FOR: Final = b"x-forwarded-for"
_FORWARDED: Final = b"forwarded"
_REQUEST_ID: Final = b"x-request-id"
_TRACEPARENT: Final = b"traceparent"
_TRACESTATE: Final = b"tracestate"


class Forwarding:
    """See the module. A hop's own fields (RFC 9110 §7.6.1) are gone before it, whatever it says."""

    def __init__(self, settings: Primary, authority: bytes) -> None:
        self._append = settings.forwarded == "append"
        self._host = authority if settings.host == "url" else b""
        self._authority = authority
        self._id_made = settings.request_id == "make"
        self._trace_made = settings.traceparent == "make"
        gone = [_REQUEST_ID] if settings.request_id == "remove" else []
        gone += [_TRACEPARENT, _TRACESTATE] if settings.traceparent == "remove" else []
        self._removed = frozenset(gone)

    def encode(self, head: RequestHead, peer: str, pair_id: str = "") -> bytes:
        """The head's bytes towards the primary.

        Args:
            head: the request's.
            peer: the client's address.
            pair_id: 32 hex digits, what records know the request by; empty: none will be made.
        """
        request_line, *lines = head.encode(self._authority)[:-4].split(b"\r\n")
        if self._removed:
            lines = _without(lines, self._removed)
        at = {name(line): n for n, line in enumerate(lines)}
        asked = lines[at[b"host"]].partition(b":")[2].strip(b" \t")
        if self._host:
            lines[at[b"host"]] = b"Host: " + self._host
        if self._append:
            _append(lines, at, peer, asked)
        if self._id_made or self._trace_made:
            lines = self._identified(lines, at, pair_id)
        return b"\r\n".join([request_line, *lines, b"", b""])

    def _identified(self, lines: list[bytes], at: Container[bytes], pair_id: str) -> list[bytes]:
        """With an id, and a trace, where there was none; one that is there stays, however odd."""
        identity = pair_id.encode() if pair_id.strip("0") else _hex(16)
        if self._id_made and _REQUEST_ID not in at:
            lines.append(b"X-Request-Id: " + identity)
        if self._trace_made and _TRACEPARENT not in at:
            lines = _without(lines, {_TRACESTATE})  # it is of a trace that nobody named
            lines.append(b"traceparent: 00-%b-%b-01" % (identity, _hex(8)))
        return lines


def needed(settings: Primary) -> bool:
    """Whether it asks for anything."""
    told = (settings.forwarded, settings.host, settings.request_id, settings.traceparent)
    return told != ("pass", "client", "pass", "pass")


def name(line: bytes) -> bytes:
    """A field's name in small letters."""
    return line.partition(b":")[0].lower()


def _hex(size: int) -> bytes:
    """So many random bytes in hex, which are not all zero: W3C Trace Context forbids such an id."""
    return b"%0*x" % (2 * size, randbelow((1 << 8 * size) - 1) + 1)


def _without(lines: list[bytes], names: Container[bytes]) -> list[bytes]:
    """Many servers read `_` in a name as `-`."""
    return [line for line in lines if name(line).replace(b"_", b"-") not in names]


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
