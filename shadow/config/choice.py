"""What may be mirrored, and where to: paths, tenants, networks, the key of the sampling."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from shadow.config.words import HEADER, HeaderName, Part

PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/messages",
)
NETWORKS = (
    "127.0.0.0/8",
    "::1/128",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "fc00::/7",
    "169.254.0.0/16",
    "fe80::/10",
)
"""Loopback, RFC 1918, unique local (RFC 4193), link-local. No names: a cluster's own name may be an
alias of a public one."""
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SUFFIX = re.compile(r"\*(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)+\.?")


def method_and_path(entry: str) -> tuple[str, str]:
    """An entry of `mirror_paths`; without a method it means POST."""
    method, _, path = entry.rpartition(" ")
    return method or "POST", path


def _path(entry: str) -> str:
    method, path = method_and_path(entry)
    if not _METHOD.fullmatch(method) or method == "CONNECT" or not path.startswith("/"):
        raise ValueError(f"{entry!r} is not METHOD /PATH, such as POST /v1/chat/completions")
    if any(character in path for character in "?#") or not path.isascii() or not path.isprintable():
        raise ValueError(f"{entry!r}: a path has no query and no odd characters")
    if any("*" in segment and segment != "*" for segment in path.split("/")):
        raise ValueError(f"{entry!r}: * stands for one whole segment")
    return entry


def _network(value: str) -> str:
    if _SUFFIX.fullmatch(value):
        return value
    try:
        ip_network(value)
    except ValueError as error:
        raise ValueError(
            f"{value!r} is neither a network such as 10.0.0.0/8 nor names such as *.corp.example"
            f" ({error})"
        ) from None
    return value


def _key(value: str) -> str:
    name = value.removeprefix("header:")
    if value in ("request", "conversation") or (name != value and HEADER.fullmatch(name)):
        return value if name == value else f"header:{name.lower()}"
    raise ValueError(f"{value!r} is none of request, conversation, header:NAME")


MirrorPath = Annotated[str, AfterValidator(_path)]
NetworkName = Annotated[str, AfterValidator(_network)]
SamplingKey = Annotated[str, AfterValidator(_key)]


class Tenants(Part):
    """Whose requests are never copied, by a header that the gateway sets."""

    header: HeaderName
    """The request's header that names the tenant. Repeated or not UTF-8, it is denied."""
    deny: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
    """Names, or patterns with `*`, `?` and `[…]`; compared without case."""
    missing: Literal["deny", "allow"] = "deny"
    """What a request without the header is."""


class Inside:
    """Which addresses and names are inside the named networks."""

    def __init__(self, networks: list[str] | tuple[str, ...]) -> None:
        self._names = tuple(each[1:].lower().rstrip(".") for each in networks if each[0] == "*")
        self._networks: list[IPv4Network | IPv6Network] = [
            ip_network(each) for each in networks if each[0] != "*"
        ]

    def name(self, host: str) -> bool:
        """Whether a name is inside, whatever its addresses."""
        return host.lower().rstrip(".").endswith(self._names) if self._names else False

    def address(self, address: str) -> bool:
        """Whether a literal address is inside; an IPv4 address in IPv6's clothes is itself.

        Raises:
            ValueError: it is none.
        """
        found = ip_address(address)
        mapped = getattr(found, "ipv4_mapped", None)
        return any((mapped or found) in network for network in self._networks)

    def judge(self, url: str) -> Callable[[str], bool] | None:
        """What may be connected to for this URL; None: whatever its name stands for."""
        return None if self.name(urlsplit(url).hostname or "") else self._holds

    def _holds(self, address: str) -> bool:
        try:
            return self.address(address)
        except ValueError:
            return False


def outside(url: str, inside: Inside) -> str:
    """The literal address in `url` that is outside; '' where there is none, or a name."""
    host = urlsplit(url).hostname or ""
    try:
        return "" if inside.address(host) else host
    except ValueError:
        return ""  # a name: its addresses are judged when they are known
