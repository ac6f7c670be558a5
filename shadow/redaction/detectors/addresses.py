"""Where somebody is reached: addresses of mail, addresses of hosts."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

import regex

from shadow.redaction.detectors.search import DIGIT, Span, found

_LOCAL = regex.compile(r"\w[\w.!#$%'*+^~-]{0,63}$")
_DOMAIN = regex.compile(r"@(?:(?:[\w-]{1,63}\.){1,8}[^\W\d_][\w-]{1,62}|\[[\d.:a-fA-F]{3,45}\])")
_IPV4 = regex.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_IPV6 = regex.compile(
    r"(?<![\w:.])[0-9a-fA-F]{0,4}+:[0-9a-fA-F:]{1,38}+(?:\d{0,3}\.\d+\.\d+\.\d+)?(?![\w:]|\.\w)"
)


def emails(text: str) -> Iterator[Span]:
    """Addresses: a local part, @, a domain with a top level, or an address in brackets."""
    at = text.find("@")
    while at >= 0:
        local = _LOCAL.search(text[max(at - 64, 0) : at], concurrent=False)
        domain = _DOMAIN.match(text, at, concurrent=False) if local else None
        if local and domain:
            yield at - len(local[0]), domain.end()
        at = text.find("@", domain.end() if domain else at + 1)


def ips(text: str) -> Iterator[Span]:
    """Addresses of hosts, version 4 and 6."""
    if text.count(".") >= 3 and DIGIT.search(text, concurrent=False):
        for start, end in found(_IPV4, text):
            if all(int(part) < 256 for part in text[start:end].split(".")):
                yield start, end
    if "::" in text or text.count(":") >= 7:
        for start, end in found(_IPV6, text):
            if _is_ipv6(text[start:end]):
                yield start, end


def _is_ipv6(text: str) -> bool:
    groups = [group for group in text.split(":") if group]
    if not DIGIT.search(text, concurrent=False) or (
        len(groups) < 3 and max(map(len, groups)) < 3 and text != "::1"
    ):
        return False  # std::cout, a::b
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
