"""Telephones: numbers that exist by Google's metadata."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Final

import phonenumbers
import regex

from shadow.redaction.detectors.search import DIGITS, Find, Span, found, groups, has_many_digits

_CALLED = regex.compile(r"(?<![\w/+-])(?:\+|00)\d[\d ().\-/]{6,22}\d(?!\w)")
_NATIONAL = regex.compile(
    r"(?<![\w/+-])(?<!\d[.,])(?:1? ?\(\d{2,5}\)|\d{1,5})[ .\-/]?\d[\d .\-/]{4,16}\d(?!\w|[.,]\d)"
)
_MOST_GROUPS: Final = 6

Sizes = Mapping[str, frozenset[int]]
"""Region → how many digits a number of it may have."""


def phones(regions: tuple[str, ...]) -> Find:
    """Numbers that exist by Google's metadata: with + or 00 any country's, without it those of
    `regions` (ISO 3166), where they are written in the groups that are usual there.
    """
    sizes = {region: _sizes(region) for region in regions}

    def find(text: str) -> Iterator[Span]:
        if not has_many_digits(text):
            return
        begins, stops = [], []
        for begin, stop in _international(text):
            yield begin, stop
            if begin < stop:
                begins.append(begin)
                stops.append(stop)
        for start, end in found(_NATIONAL, text) if regions else ():
            yield start, start
            after = bisect_right(stops, start)
            if after == len(stops) or begins[after] >= end:
                yield from _national(text, start, end, sizes)

    return find


def _sizes(region: str) -> frozenset[int]:
    """How many digits a number of the region may have, a prefix of one digit included."""
    known = phonenumbers.PhoneMetadata.metadata_for_region(region, None)
    if known is None or known.general_desc is None:
        raise ValueError(f"{region!r} is no region with telephones")
    lengths = known.general_desc.possible_length
    return frozenset({*lengths, *(length + 1 for length in lengths)})


def _international(text: str) -> Iterator[Span]:
    for start, end in found(_CALLED, text):
        yield start, start
        for stop in _stops(text, start, end):
            if _exists("+" + text[start:stop].removeprefix("+").removeprefix("00"), ""):
                yield start, stop
                break


def _national(text: str, start: int, end: int, sizes: Sizes) -> Iterator[Span]:
    """The first number there: it may have other groups of digits before it and after it."""
    for begin in (start, *(first for first, _ in groups(text, start, end)[1:3])):
        for stop in _stops(text, begin, end):
            digits = sum(map(str.isdigit, text[begin:stop]))
            if any(digits in sizes[r] and _exists(text[begin:stop], r) for r in sizes):
                yield begin, stop
                return


def _stops(text: str, start: int, end: int) -> list[int]:
    """Where the number may end: after each group, the longest first; others may follow it."""
    return [last for _, last in groups(text, start, end)[:_MOST_GROUPS]][::-1]


def _exists(number: str, region: str) -> bool:
    try:
        parsed = phonenumbers.parse(number, region or None)
    except phonenumbers.NumberParseException:
        return False
    if not phonenumbers.is_valid_number(parsed):
        return False
    if not region:
        return True
    usual = phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.NATIONAL)
    written, wanted = DIGITS.findall(number), DIGITS.findall(usual)
    return len(written) > 1 and written[-len(wanted) :] == wanted
