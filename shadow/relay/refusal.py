"""What the relay says in its own name: one line of reason, and that it closes."""

from __future__ import annotations

from http import HTTPStatus


def refusal(status: int, reason: str, *, head: bool) -> bytes:
    """The whole answer; without its body when it answers a HEAD."""
    body = f"shadow: {' '.join(reason.split())}\n".encode("utf-8", "replace")
    start = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        f"Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return start.encode() + (b"" if head else body)
