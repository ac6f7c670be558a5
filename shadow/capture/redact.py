"""What of a message's fields is recorded: an allow-list, so that no key or cookie ever is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shadow.target import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shadow.exchange import Headers

VALUE_BYTES: Final = 256
"""A recorded value is cut here."""

PATH_CHARACTERS: Final = 2048
"""A recorded path is cut here."""

RECORDED: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "retry-after",
        "server",
        "transfer-encoding",
        "user-agent",
        "x-request-id",
        "x-shadow-arm",
    }
)
RECORDED_PREFIXES: Final = ("openai-processing-", "openai-version", "openai-model", "x-ratelimit-")


_KNOWN_NAMES: Final = 4096
_KNOWN_BYTES: Final = 64
"""Of each: what clients make up fills no memory."""
_known: dict[bytes, str | None] = {}
"""A field name's spelling if it is recorded, None if it is not; remembered as it came."""


def redacted(
    lines: Iterable[bytes],
    more: frozenset[str] = frozenset(),
    veil: Callable[[str], str] | None = None,
) -> Headers:
    """The fields that may be recorded, in order and spelling; values latin-1, cut at 256 bytes.

    Args:
        lines: a head's field lines.
        more: further names to record, in small letters.
        veil: redacts a value, whole, before it is cut.
    """
    kept: Headers = []
    for line in lines:
        name, _, value = line.partition(b":")
        spelled = _known.get(name, "")
        if spelled == "":
            spelled = _judge(name)
        if spelled is None and more and (plain := name.decode("latin-1")).lower() in more:
            spelled = plain
        if spelled is not None:
            said = value.strip(b" \t").decode("latin-1")
            kept.append((spelled, (veil(said) if veil else said)[:VALUE_BYTES]))
    return kept


def _judge(name: bytes) -> str | None:
    spelled = name.decode("latin-1")
    plain = spelled.lower()
    recorded = plain in RECORDED or plain.startswith(RECORDED_PREFIXES)
    if len(name) <= _KNOWN_BYTES and len(_known) < _KNOWN_NAMES:
        _known[name] = spelled if recorded else None
    return spelled if recorded else None


def recorded_path(target: bytes) -> str:
    """The target's path without its query, which can hold keys; absolute form loses its host."""
    return path_of(target).decode("latin-1")[:PATH_CHARACTERS]
