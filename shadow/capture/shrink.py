"""A record that its stream cannot take becomes smaller, and says so: never an error, never a loss.

Rules:

1. The answer and the request lose their middles by the same share; heads and tails stay, since
   outcome and usage stand at the end.
2. What is missing is counted where a reader looks for it: `truncated_bytes` for the answer, and
   `stream:…` in `request_changes` for whatever was cut.
3. Only when no body is left, headers, marks and measures go too.
"""

from __future__ import annotations

from shadow.exchange import Exchange, MalformedRecord, decode, encode

TAIL_BYTES = 64 * 1024
BODY_CUT, REQUEST_CUT, REST_CUT = "stream:body", "stream:request", "stream:headers"


def shrink(exchange: Exchange, limit_bytes: int) -> Exchange:
    """The exchange as it encodes to at most `limit_bytes`; one that fits is given back as it is.

    A limit below the bare fields (about 2 KiB) cannot be met: the smallest form is given then.
    """
    small = exchange
    while (size_bytes := len(encode(small))) > limit_bytes and (small.body or small.request):
        small = _cut(small, 0.9 * limit_bytes / size_bytes)
    return small if size_bytes <= limit_bytes else _bare(small)


def shrink_value(value: bytes, limit_bytes: int) -> bytes | None:
    """The same for a record's wire form; None: it is no exchange, or cannot become so small."""
    try:
        record = decode(value)
    except MalformedRecord:
        return None
    small = encode(shrink(record, limit_bytes)) if isinstance(record, Exchange) else value
    return small if len(small) <= limit_bytes else None


def middle_cut(body: bytes, tail_bytes: int, share: float) -> tuple[bytes, int]:
    """The kept bytes, about `share` of them, and how many of the last are the tail.

    `tail_bytes` of the body are a tail already, behind a gap: they stay apart from the head.
    """
    kept_bytes = int(len(body) * share) if len(body) > 64 else 0
    tail = min(tail_bytes or TAIL_BYTES, TAIL_BYTES, kept_bytes // 2)
    head = min(kept_bytes - tail, len(body) - (tail_bytes or tail))
    return body[:head] + body[len(body) - tail :], tail


def _cut(exchange: Exchange, share: float) -> Exchange:
    body, tail = middle_cut(exchange.body, exchange.tail_bytes, share)
    request, changes = exchange.request, dict.fromkeys(exchange.request_changes)
    if body != exchange.body:
        changes[BODY_CUT] = None
    if request:
        request, _ = middle_cut(request, 0, share)
        changes[REQUEST_CUT] = None
    return exchange.model_copy(
        update={
            "body": body,
            "captured_bytes": len(body),
            "truncated_bytes": exchange.truncated_bytes + len(exchange.body) - len(body),
            "tail_bytes": tail,
            "request": request,
            "request_changes": list(changes),
        }
    )


def _bare(exchange: Exchange) -> Exchange:
    changes = dict.fromkeys([*exchange.request_changes, REST_CUT])
    gone: dict[str, object] = {"headers": [], "request_headers": [], "marks": [], "measures": None}
    return exchange.model_copy(update={**gone, "request_changes": list(changes)})
