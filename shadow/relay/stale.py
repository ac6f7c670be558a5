"""Whether a request may be sent once more because the connection it went to was stale.

RFC 9110 §9.2.2 forbids a proxy more than this: a prompt that killed one engine must not be sent
to the next. A connection that was idle, and that closed within 100 ms of the first byte written
and before any byte of an answer, was being closed while we wrote.
"""

from __future__ import annotations

import re
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Literal

from shadow.redact import path_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from shadow.relay.head import RequestHead
    from shadow.relay.upstream import Upstream

RetryStale = Literal["off", "idempotent", "fresh_close"]

FRESH_NS: Final = 100_000_000
_IDEMPOTENT: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"})
_STATEFUL: Final = re.compile(
    rb'"(?:previous_response_id|conversation|session_id|session_params|session_control)"\s*:\s*[^\sn]'
    rb'|"(?:background|store)"\s*:\s*true'
)
"""Fields by which an engine keeps something from one request to the next."""
_NOT_STORED: Final = re.compile(rb'"store"\s*:\s*false')


def may_be_retried(head: RequestHead, mode: RetryStale, paths: Container[bytes]) -> bool:
    """Whether the request is worth keeping at hand: its method, and where it goes, allow it."""
    if mode == "off" or head.upgrade:
        return False
    if head.method in _IDEMPOTENT:
        return True
    return mode == "fresh_close" and head.method == b"POST" and path_of(head.target) in paths


def retryable(connection: Upstream, head: RequestHead, sent: Sequence[bytes]) -> bool:
    """Whether the lost connection was stale, and the request keeps no state.

    Args:
        connection: the lost one; no byte of an answer has come on it.
        head: the request's.
        sent: everything that was sent of it, its head first.
    """
    first = connection.first_write_ns
    if not connection.reused or not first or monotonic_ns() - first > FRESH_NS:
        return False
    return head.method in _IDEMPOTENT or not stateful(head.target, b"".join(sent))


def stateful(target: bytes, request: bytes) -> bool:
    """Whether a POST asks the engine to keep or take up something; looked for as bytes.

    The Responses API stores by default, so there only an explicit `store: false` is stateless.
    """
    if _STATEFUL.search(request):
        return True
    return path_of(target).endswith(b"/responses") and not _NOT_STORED.search(request)
