"""What the relay says in its own name: an error in the shape of these APIs, and that it closes.

Neither addresses nor the words of an exception stand in it: they are the operator's, in records
and metrics.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

INVALID: Final = "invalid_request_error"
UNREACHABLE: Final = "upstream_unreachable"
OVERLOADED: Final = "overloaded_error"
UNREADABLE: Final = "upstream_unreadable"


def refusal(status: int, reason: str, *, head: bool, kind: str = INVALID) -> bytes:
    """The whole answer; without its body when it answers a HEAD.

    Args:
        status: of HTTP, and the error's `code`.
        reason: one line for a person, of ours.
        head: it answers a HEAD.
        kind: the error's `type`.
    """
    error = {"message": f"shadow: {reason}", "type": kind, "code": status}
    body = json.dumps({"error": error}).encode()
    start = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        f"Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return start.encode() + (b"" if head else body)
