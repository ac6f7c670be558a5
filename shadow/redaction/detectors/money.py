"""Numbers of money: payment cards, bank accounts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import regex
from stdnum import iban, luhn

from shadow.redaction.detectors.search import DIGIT, Span, found, groups, has_many_digits

_GROUPED = regex.compile(r"(?<![\w])(?<!\d[.,])\d(?:[ -]?\d){12,}+(?![\w]|[.,]\d)")
_CARD_GROUPS: Final = 6
_IBAN = regex.compile(r"(?<=(?<![^\W_])[A-Za-z]{2})\d{2}(?=[ -]?[A-Za-z0-9])")
_IBAN_REST = regex.compile(r"[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}")


def cards(text: str) -> Iterator[Span]:
    """13 to 19 digits, in groups or not, that begin as a card's do and pass Luhn."""
    if not has_many_digits(text):
        return
    for start, end in found(_GROUPED, text):
        stretches = groups(text, start, end)
        for first, (begin, _) in enumerate(stretches):
            yield begin, begin
            for _, stop in reversed(stretches[first : first + _CARD_GROUPS]):
                if _is_card(_joined(text[begin:stop])):
                    yield begin, stop
                    break


def _is_card(number: str) -> bool:
    likely = 13 <= len(number) <= 19 and "2" <= number[0] <= "6" and len(set(number)) > 1
    return likely and number.isascii() and bool(luhn.is_valid(number))


def ibans(text: str) -> Iterator[Span]:
    """International bank account numbers, grouped or not, by country, length and mod 97."""
    if not DIGIT.search(text, concurrent=False):
        return
    for digits, _ in found(_IBAN, text):
        start = digits - 2
        yield start, start
        rest = _IBAN_REST.match(text, start, concurrent=False)
        stops = [n + 1 for n in range(start, rest.end()) if text[n].isalnum()] if rest else []
        for stop in stops[14:34]:  # what follows may look like more of it
            number = _joined(text[start:stop]).upper()
            if _mod_97(number) and iban.is_valid(number, check_country=False):
                yield start, stop


def _mod_97(number: str) -> bool:
    """ISO 13616: letters as two digits, the first four characters last."""
    moved = number[4:] + number[:4]
    return moved.isascii() and int("".join(str(int(c, 36)) for c in moved)) % 97 == 1


def _joined(grouped: str) -> str:
    return grouped.replace(" ", "").replace("-", "")
