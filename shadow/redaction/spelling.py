r"""Strings as JSON spells them: read to text, and written over in place, to the byte as long.

Marks of arrival refer to byte offsets, so nothing that is redacted may change its length. And the
same secret is spelled in several ways (`é`, `\u00e9`), which must not show afterwards: a character
is replaced by one of its own class, and every class has a spelling of each length that its
characters have. Classes: plain ASCII, what has a short escape, and UTF-8 of 2, 3, 4 bytes.
"""

from __future__ import annotations

import re
from array import array
from itertools import groupby, pairwise
from operator import itemgetter
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

_LONGEST_ESCAPE: Final = 12
_BACKSLASH: Final = 0x5C

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
    each = iter(_apart(changes))
    change = next(each, None)
    begin = 0
    for text, offset, length in runs(raw, escaped=escaped):
        end, at, done = begin + len(text), offset, begin
        while change is not None and change[0] < end:
            start, stop, new = change
            low, high = max(start, begin), min(stop, end)
            at += _size(text, done - begin, low - begin, length)
            size, done = _size(text, low - begin, high - begin, length), high
            said = None if new is None else new[low - start : high - start]
            out[at : at + size] = b" " * size if said is None else _spelled(raw, at, size, said)
            at += size
            if stop > end:
                break
            change = next(each, None)
        begin = end
    return bytes(out)


def _apart(changes: Sequence[Change]) -> Sequence[Change]:
    """In order, none over another: of those that overlap the last one counts."""
    ordered = sorted((each for each in changes if each[0] < each[1]), key=itemgetter(0))
    if all(one[1] <= two[0] for one, two in pairwise(ordered)):
        return ordered
    first, end = ordered[0][0], max(stop for _, stop, _ in changes)
    owners = array("i", [-1]) * (end - first)
    for number, (start, stop, _) in enumerate(changes):
        owners[start - first : stop - first] = array("i", [number]) * (stop - start)
    apart: list[Change] = []
    at = first
    for number, same in groupby(owners):
        begin, at = at, at + sum(1 for _ in same)
        if number >= 0:
            start, _, new = changes[number]
            apart.append((begin, at, None if new is None else new[begin - start : at - start]))
    return apart


def _size(text: str, low: int, high: int, length: int) -> int:
    """In how many bytes a run's characters [low:high] stand; an escaped one in all of the run's."""
    if low >= high:
        return 0
    return length if len(text) == 1 else len(_bytes(text[low:high]))


def cut(raw: bytes, size: int, *, escaped: bool) -> Iterator[bytes]:
    """In pieces of at most `size` bytes, none of which ends in a character or an escape."""
    begin = 0
    while len(raw) - begin > size:
        end = _end(raw, begin, begin + size, escaped=escaped)
        yield raw[begin:end]
        begin = end
    yield raw[begin:]


def _end(raw: bytes, begin: int, most: int, *, escaped: bool) -> int:
    last = most - _LONGEST_ESCAPE
    if escaped:
        token = next(t for t in _TOKEN.finditer(raw, begin, most) if t.end() > last)
        if token[0][0] == _BACKSLASH:
            return token.end()
        begin = token.start()
    for end in range(last, max(begin, last - 4), -1):
        if raw[end] & 0xC0 != 0x80:
            return end
    return last if last > begin else last + 1


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
