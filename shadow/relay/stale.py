"""Whether a request may be sent once more because the connection it went to was stale.

RFC 9110 §9.2.2 forbids a proxy more than this: a prompt that killed one engine must not be sent
to the next. A connection that was idle, and that closed within 100 ms of the first byte written
and before any byte of an answer, was being closed while we wrote.
"""

from __future__ import annotations

import re
import sys
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Literal

from shadow.body.names import ANYWHERE, stateful_path
from shadow.body.parsed import tree
from shadow.relay.fields import CHUNKED
from shadow.relay.framing import request_framing
from shadow.target import path_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from shadow.relay.head import RequestHead
    from shadow.relay.upstream import Upstream

RetryStale = Literal["off", "idempotent", "fresh_close"]

FRESH_NS: Final = 100_000_000
RETRIED_BYTES: Final = 64 * 1024
"""A POST of more is not looked through for state, about a millisecond here, nor tried again."""
_IDEMPOTENT: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"})
_STATEFUL: Final = re.compile(
    rb'"(?i:' + b"|".join(sorted(ANYWHERE)).replace(b"_", b"[_-]?") + rb')"\s*:\s*(?!null|false)\S'
    rb'|"item_reference"|"prompt"\s*:\s*\{'
    rb'|"[^"\\]*\\u[^"]*"\s*:|\x00'
)
"""Fields by which an engine keeps something from one request to the next, or calls others in the
user's name, with any value but null and false; a name that is spelled with escapes may be one of
them, and a NUL is UTF-16, where all would look otherwise."""


def may_be_retried(head: RequestHead, mode: RetryStale, paths: Container[bytes]) -> bool:
    """Whether the request is worth keeping at hand: its method, and where it goes, allow it."""
    if mode == "off" or head.upgrade:
        return False
    if head.method in _IDEMPOTENT:
        return True
    if head.length > RETRIED_BYTES:
        return False
    return mode == "fresh_close" and head.method == b"POST" and path_of(head.target) in paths


def retryable(connection: Upstream, head: RequestHead, sent: Sequence[bytes]) -> bool:
    """Whether the lost connection was stale, and the request keeps no state.

    Args:
        connection: the lost one.
        head: the request's.
        sent: everything that was sent of it, its head first.
    """
    first = connection.first_write_ns
    if not connection.reused or connection.heard:
        return False
    if not first or monotonic_ns() - first > FRESH_NS:
        return False
    return head.method in _IDEMPOTENT or not stateful(head, b"".join(sent))


def stateful(head: RequestHead, sent: bytes) -> bool:
    """Whether a POST asks the engine to keep or take up something; looked for as bytes.

    What cannot be looked into may ask for it: a coded body, a large one. The Responses API stores
    by default, so there only an explicit `store: false` is stateless.

    Args:
        head: the request's.
        sent: what was sent of it, its head first.
    """
    path = path_of(head.target)
    if head.coded or stateful_path(path):
        return True
    framed = sent.partition(b"\r\n\r\n")[2]
    if len(framed) > RETRIED_BYTES:
        return True
    body = _unframed(head.length, framed)
    if _STATEFUL.search(body):
        return True
    return path.endswith(b"/responses") and not _says_not_to_store(body)


def _says_not_to_store(body: bytes) -> bool:
    """By its own member, of which there is no other: not by one of an object within it."""
    said = tree(body)
    return said is not None and said.get("store") is False and body.count(b'"store"') == 1


def _unframed(length: int, body: bytes) -> bytes:
    """Without the framing of chunks, which may stand inside a name."""
    framing = request_framing(length, sys.maxsize)
    if length != CHUNKED or framing is None:
        return body
    pieces: list[bytes] = []
    at = 0
    while at < len(body) and not framing.done:
        some: list[bytes] = []  # a list's length is what bounds a call's work
        at = framing.feed(body, some, at)
        pieces += some
    return b"".join(pieces)
