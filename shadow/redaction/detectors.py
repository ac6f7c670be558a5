"""What is looked for in texts: each detector finds stretches of characters that are a secret.

A pattern finds candidates, a check keeps what is one: Luhn, mod 97, a real country's numbers, a
token's own shape. `regex` lets go of the interpreter's lock in long texts, which `re` does not.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
from collections.abc import Callable, Iterator
from typing import Final

import phonenumbers
import regex
from stdnum import iban, luhn

Span = tuple[int, int]
"""(start, end) in characters."""

Find = Callable[[str], Iterator[Span]]

LONG_CHARACTERS: Final = 8192
"""From here on a search lets go of the lock; below, the hand-over costs more than the search."""

_LOCAL = regex.compile(r"\w[\w.!#$%'*+^~-]{0,63}$")
_DOMAIN = regex.compile(r"@(?:(?:[\w-]{1,63}\.){1,8}[^\W\d_][\w-]{1,62}|\[[\d.:a-fA-F]{3,45}\])")
_DIGITS = regex.compile(r"(?<![\w])(?<!\d[.,])\d(?:[ -]?\d){12,}+(?![\w]|[.,]\d)")
_GROUP = regex.compile(r"\d+")
_CARD_GROUPS: Final = 6
_CALLED = regex.compile(r"(?<![\w/+-])(?:\+|00)\d[\d ().\-/]{6,22}\d(?!\w)")
_NATIONAL = regex.compile(
    r"(?<![\w/+-])(?<!\d[.,])(?:1? ?\(\d{2,5}\)|\d{1,5})[ .\-/]?\d[\d .\-/]{4,16}\d(?!\w|[.,]\d)"
)
_IBAN = regex.compile(r"(?<=(?<![^\W_])[A-Za-z]{2})\d{2}(?=[ -]?[A-Za-z0-9])")
_IBAN_REST = regex.compile(r"[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}")
_TOKEN = regex.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{2,}\.[\w-]*")
_KEY = regex.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?:ant-|proj-|svcacct-|or-v1-)?[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic and who copied them
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}"  # AWS
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{22,}|glpat-[\w-]{20,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}"  # Slack
    r"|AIza[\w-]{30,}|ya29\.[\w-]{20,}"  # Google
    r"|(?:hf|gsk|nvapi|r8|pplx|dop_v1|shpat|lin_api|npm)[_-][A-Za-z0-9_-]{20,}"
    r"|[rsp]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,}"  # Stripe
    r"|SG\.[\w-]{16,}\.[\w-]{16,}|pypi-[\w-]{40,}"
    r")"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END)[\s\S]){0,6000}"
    r"(?:-----END [A-Z ]*PRIVATE KEY-----)?"
    r"|(?<![A-Za-z])(?i:bearer) +[A-Za-z0-9._~+/-]{16,}=*"
)
_KEY_HINTS: Final = (
    *("sk-", "AKIA", "ASIA", "glpat-", "xox", "AIza", "ya29.", "hf_", "gsk_", "nvapi-"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "r8_"),
    *("pplx-", "dop_v1_", "shpat_", "lin_api_", "npm_", "k_live_", "k_test_", "whsec_", "SG."),
    *("pypi-", "PRIVATE KEY", "earer ", "EARER "),
)
_IPV4 = regex.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_IPV6 = regex.compile(
    r"(?<![\w:.])[0-9a-fA-F]{0,4}+:[0-9a-fA-F:]{1,38}+(?:\d{0,3}\.\d+\.\d+\.\d+)?(?![\w:]|\.\w)"
)
_DIGIT = regex.compile(r"\d")
_MANY_DIGITS = regex.compile(r"\d(?:\D{0,3}\d){6}")


def found(pattern: regex.Pattern[str], text: str, timeout: float | None = None) -> Iterator[Span]:
    """Where the pattern matches, if only once.

    Raises:
        TimeoutError: it took longer than `timeout` seconds.
    """
    free = len(text) > LONG_CHARACTERS
    for match in pattern.finditer(text, concurrent=free, timeout=timeout):
        if match.end() > match.start():
            yield match.span()


def emails(text: str) -> Iterator[Span]:
    """Addresses: a local part, @, a domain with a top level, or an address in brackets."""
    at = text.find("@")
    while at >= 0:
        local = _LOCAL.search(text[max(at - 64, 0) : at])
        domain = _DOMAIN.match(text, at) if local else None
        if local and domain:
            yield at - len(local[0]), domain.end()
        at = text.find("@", domain.end() if domain else at + 1)


def cards(text: str) -> Iterator[Span]:
    """13 to 19 digits, in groups or not, that begin as a card's do and pass Luhn."""
    if not _MANY_DIGITS.search(text, concurrent=len(text) > LONG_CHARACTERS):
        return
    for start, end in found(_DIGITS, text):
        groups = [m.span() for m in _GROUP.finditer(text, start, end)]
        for first, (begin, _) in enumerate(groups):
            for _, stop in reversed(groups[first : first + _CARD_GROUPS]):
                if _is_card(text[begin:stop].replace(" ", "").replace("-", "")):
                    yield begin, stop
                    break


def _is_card(number: str) -> bool:
    likely = 13 <= len(number) <= 19 and "2" <= number[0] <= "6" and len(set(number)) > 1
    return likely and number.isascii() and bool(luhn.is_valid(number))


def phones(regions: tuple[str, ...]) -> Find:
    """Numbers that exist by Google's metadata: with + or 00 any country's, without it those of
    `regions` (ISO 3166), where they are written in the groups that are usual there.
    """
    sizes = {region: _sizes(region) for region in regions}

    def find(text: str) -> Iterator[Span]:
        if not _MANY_DIGITS.search(text, concurrent=len(text) > LONG_CHARACTERS):
            return
        called: list[Span] = []
        for start, end in found(_CALLED, text):
            for stop in _stops(text, start, end):
                if _exists("+" + text[start:stop].removeprefix("+").removeprefix("00"), ""):
                    called.append((start, stop))
                    break
        yield from called
        for start, end in found(_NATIONAL, text) if regions else ():
            if not any(begin < end and start < stop for begin, stop in called):
                yield from _national(text, start, end, sizes)

    return find


def _sizes(region: str) -> frozenset[int]:
    """How many digits a number of the region may have, a prefix of one digit included."""
    known = phonenumbers.PhoneMetadata.metadata_for_region(region, None)
    if known is None or known.general_desc is None:
        raise ValueError(f"{region!r} is no region with telephones")
    lengths = known.general_desc.possible_length
    return frozenset({*lengths, *(length + 1 for length in lengths)})


def _national(text: str, start: int, end: int, sizes: dict[str, frozenset[int]]) -> Iterator[Span]:
    """The first number there: it may have other groups of digits before it and after it."""
    for begin in (start, *(m.start() for m in list(_GROUP.finditer(text, start, end))[1:3])):
        for stop in _stops(text, begin, end):
            digits = sum(map(str.isdigit, text[begin:stop]))
            if any(digits in sizes[r] and _exists(text[begin:stop], r) for r in sizes):
                yield begin, stop
                return


def _stops(text: str, start: int, end: int) -> list[int]:
    """Where the number may end: after each group, the longest first; others may follow it."""
    return [m.end() for m in _GROUP.finditer(text, start, end)][:6][::-1]


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
    groups, wanted = _GROUP.findall(number), _GROUP.findall(usual)
    return len(groups) > 1 and groups[-len(wanted) :] == wanted


def ibans(text: str) -> Iterator[Span]:
    """International bank account numbers, grouped or not, by country, length and mod 97."""
    if not _DIGIT.search(text):
        return
    for digits, _ in found(_IBAN, text):
        start = digits - 2
        rest = _IBAN_REST.match(text, start)
        stops = [n + 1 for n in range(start, rest.end()) if text[n].isalnum()] if rest else []
        for stop in stops[14:34]:  # what follows may look like more of it
            number = text[start:stop].replace(" ", "").replace("-", "").upper()
            if _mod_97(number) and iban.is_valid(number, check_country=False):
                yield start, stop


def _mod_97(number: str) -> bool:
    """ISO 13616: letters as two digits, the first four characters last."""
    moved = number[4:] + number[:4]
    return moved.isascii() and int("".join(str(int(c, 36)) for c in moved)) % 97 == 1


def keys(text: str) -> Iterator[Span]:
    """Keys of providers by their prefixes, private keys, bearer tokens."""
    return found(_KEY, text) if any(hint in text for hint in _KEY_HINTS) else iter(())


def jwts(text: str) -> Iterator[Span]:
    """JSON web tokens: three parts, the first of which says how it was signed."""
    if "eyJ" not in text:
        return
    for start, end in found(_TOKEN, text):
        if _is_header(text[start:end].partition(".")[0]):
            yield start, end


def _is_header(part: str) -> bool:
    try:
        head = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error):
        return False
    return isinstance(head, dict) and ("alg" in head or "enc" in head or "typ" in head)


def ips(text: str) -> Iterator[Span]:
    """Addresses of hosts, version 4 and 6."""
    if text.count(".") >= 3 and _DIGIT.search(text):
        for start, end in found(_IPV4, text):
            if all(int(part) < 256 for part in text[start:end].split(".")):
                yield start, end
    if "::" in text or text.count(":") >= 7:
        for start, end in found(_IPV6, text):
            if _is_ipv6(text[start:end]):
                yield start, end


def _is_ipv6(text: str) -> bool:
    groups = [group for group in text.split(":") if group]
    if not _DIGIT.search(text) or (len(groups) < 3 and max(map(len, groups)) < 3 and text != "::1"):
        return False  # std::cout, a::b
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def builtin(regions: tuple[str, ...]) -> dict[str, Find]:
    """Every detector by its name in the configuration."""
    return {
        "email": emails,
        "phone": phones(regions),
        "card": cards,
        "iban": ibans,
        "key": keys,
        "jwt": jwts,
        "ip": ips,
    }
