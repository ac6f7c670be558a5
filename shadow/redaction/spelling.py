r"""Strings as JSON spells them: read to text, and written over in place, to the byte as long.

Marks of arrival refer to byte offsets, so nothing that is redacted may change its length. And the
same secret is spelled in several ways (`é`, `\u00e9`), which must not show afterwards: a character
is replaced by one of its own class, and every class has a spelling of each length that its
characters have. Classes: plain ASCII, what has a short escape, and UTF-8 of 2, 3, 4 bytes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PLAIN: Final = "*"
_SHORT: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "\b": "b",
    "\f": "f",
    "\n": "n",
    "\r": "r",
    "\t": "t",
}
_LONG: Final = {escape: character for character, escape in _SHORT.items()}
_TWO, _THREE, _FOUR = "\u00b7", "\u2022", "\U0001f512"  # middle dot, bullet, lock
_TOKEN: Final = re.compile(
    rb"[^\\\x80-\xff]++|[\x80-\xff]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\\u[0-9a-fA-F]{4}|\\[\"\\/bfnrt]|\\",
    re.DOTALL,
)

Run = tuple[str, int, int]
"""(text, offset, bytes): what stands there raw, or one escaped character."""

Change = tuple[int, int, str | None]
"""(start, end, new): these characters become `new`, as many and of the same classes; None: blanks,
one a byte, so that nothing remains once white space is collapsed."""


def read(raw: bytes, *, escaped: bool = True) -> str:
    """The text; what is no UTF-8 as lone surrogates, what is no escape as it stands."""
    if not escaped or b"\\" not in raw:
        return raw.decode("utf-8", "surrogateescape")
    return "".join(text for text, _, _ in runs(raw))


def runs(raw: bytes, *, escaped: bool = True) -> Iterator[Run]:
    """The text in order."""
    if not escaped or b"\\" not in raw:
        yield raw.decode("utf-8", "surrogateescape"), 0, len(raw)
        return
    for token in _TOKEN.finditer(raw):
        piece = token[0]
        yield _meant(piece), token.start(), len(piece)


def _meant(piece: bytes) -> str:
    if piece[0] != 0x5C or len(piece) == 1:
        return piece.decode("utf-8", "surrogateescape")
    if len(piece) == 2:
        return _LONG[piece[1:].decode("ascii")]
    if len(piece) == 6:
        return chr(int(piece[2:].decode("ascii"), 16))
    high, low = int(piece[2:6], 16), int(piece[8:], 16)
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def class_of(character: str) -> str:
    """The character that stands for its class: the mask."""
    if character in _SHORT:
        return "/"
    point = ord(character)
    if point < 0x80 or 0xDC80 <= point <= 0xDCFF:  # a stray byte is one byte
        return PLAIN
    return _TWO if point < 0x800 else _THREE if point < 0x10000 else _FOUR


_ASCII_CLASSES: Final = {point: class_of(chr(point)) for point in range(128)}


def masked(text: str) -> str:
    """Every character as its class."""
    if text.isascii():
        return text.translate(_ASCII_CLASSES)
    return "".join(map(class_of, text))


def changed(raw: bytes, changes: Sequence[Change], *, escaped: bool = True) -> bytes:
    """`raw` with the changes, as long as before. They may overlap: the last one counts.

    Args:
        raw: what stands between a JSON string's quotes, or any text that is not `escaped`.
        changes: in characters of `read(raw)`.
        escaped: whether `raw` is in JSON's spelling.
    """
    out = bytearray(raw)
    begin = 0
    for text, offset, length in runs(raw, escaped=escaped):
        end = begin + len(text)
        for start, stop, new in changes:
            if start < end and stop > begin:
                low, high = max(start, begin), min(stop, end)
                said = None if new is None else new[low - start : high - start]
                at, size = _place((text, offset, length), low - begin, high - begin)
                out[at : at + size] = b" " * size if said is None else _spelled(raw, at, size, said)
        begin = end
    return bytes(out)


def _place(run: Run, low: int, high: int) -> tuple[int, int]:
    """Where a run's characters [low:high] stand, and in how many bytes."""
    text, offset, length = run
    if len(text) == 1:
        return offset, length
    return offset + len(_bytes(text[:low])), len(_bytes(text[low:high]))


def _spelled(raw: bytes, at: int, size: int, new: str) -> bytes:
    if size == 1 or raw[at] != 0x5C or len(new) > 1:
        return _bytes(new)
    if size == 2:
        return b"\\" + _SHORT.get(new, "t").encode()  # a blank is a tab
    if size == 6:
        return b"\\u%04x" % ord(new)
    point = ord(new) - 0x10000
    return b"\\u%04x\\u%04x" % (0xD800 + (point >> 10), 0xDC00 + (point & 0x3FF))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
