"""Which requests may be mirrored, by what stands in the head: decided before a byte is copied.

An allow-list of methods with paths, never a method alone. A tenant's denial fails closed: who
cannot be told is denied.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from shadow.config.choice import method_and_path

if TYPE_CHECKING:
    from shadow.config.choice import Tenants
    from shadow.relay.head import RequestHead

_SEGMENT: Final = rb"(?!(?:\.|%2[eE]){1,2}(?:/|$))[^/]+"
"""One segment that no server takes for a step up or down."""


class Selection:
    """The paths of `mirror_paths`."""

    def __init__(self, entries: Iterable[str]) -> None:
        pairs = [(m.encode(), p.encode()) for m, p in map(method_and_path, entries)]
        self._patterns = [
            (method, _pattern(path)) for method, path in pairs if b"*" in path.split(b"/")
        ]
        plain = {path for _, path in pairs}
        self.exact: dict[bytes, frozenset[bytes]] = {
            path: frozenset(m for m, p in pairs if p == path) | self._by_pattern(path)
            for path in plain
        }
        """Methods by path, for the paths without `*`: one look-up a request."""
        self.patterned = bool(self._patterns)
        self.methods: frozenset[bytes] = frozenset(method for method, _ in pairs)
        """Whatever has another one is not eligible."""

    def by_path(self, path: bytes) -> frozenset[bytes] | None:
        """The methods that are listed for a path; None for none."""
        return self.exact.get(path) or self._by_pattern(path) or None

    def __contains__(self, path: object) -> bool:
        """Whether a POST to the path is eligible."""
        return isinstance(path, bytes) and b"POST" in (self.by_path(path) or ())

    def _by_pattern(self, path: bytes) -> frozenset[bytes]:
        return frozenset(method for method, matches in self._patterns if matches(path))


def _pattern(path: bytes) -> Callable[[bytes], object]:
    parts = [_SEGMENT if part == b"*" else re.escape(part) for part in path.split(b"/")]
    return re.compile(b"/".join(parts)).fullmatch


class Denial:
    """`tenants`: whose requests are never copied."""

    def __init__(self, tenants: Tenants) -> None:
        self._header = tenants.header.encode()
        self._missing = tenants.missing == "deny"
        self._denied = [
            re.compile(fnmatch.translate(each.casefold())).match for each in tenants.deny
        ]

    def denies(self, head: RequestHead) -> bool:
        """Whether the request's tenant is denied, or cannot be told."""
        if self._header in head.named:  # it was there, and is not the next hop's to see
            return True
        values = field_values(head, self._header)
        if not any(values):
            return self._missing
        if len(values) > 1:
            return True
        try:
            tenant = values[0].decode().casefold()
        except UnicodeDecodeError:
            return True
        parts = {tenant, *(part.strip() for part in tenant.split(","))}  # a hop may join repeats
        return any(matches(part) for matches in self._denied for part in parts)


def field_values(head: RequestHead, name: bytes) -> list[bytes]:
    """The values of a field, in order, without the white space around them.

    Args:
        head: the request's.
        name: in small letters.
    """
    size = len(name)
    return [
        line[size + 1 :].strip(b" \t")
        for line in head.lines[1:]
        if line[size : size + 1] == b":" and line[:size].lower() == name
    ]


def sole_value(head: RequestHead, name: bytes) -> str:
    """The field's value where it stands once; '' where it is missing, empty or repeated."""
    values = field_values(head, name)
    return values[0].decode("latin-1") if len(values) == 1 else ""
