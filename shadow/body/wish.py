"""What an arm's configuration wants of bodies, and what of one must be read for it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

USAGE: Final = "stream_options.include_usage"
_GREEDY: Final[dict[bytes, Mapping[str, bytes]]] = {
    b"completions": {"temperature": b"0", "seed": b"1"},
    b"responses": {"temperature": b"0"},
    b"messages": {"temperature": b"0"},
}
"""What a greedy probe sets, by the path's last segment; the last two have no seed."""


@dataclass(frozen=True, slots=True)
class Wish:
    """An arm's `models`, `params`, `include_usage` and `amplify`."""

    models: Mapping[str, str]
    values: Mapping[str, bytes]
    """JSON texts by name; a dot leads into an object."""
    removed: tuple[str, ...] = ()
    include_usage: bool = False
    copies: int = 1
    spelled: Mapping[bytes, bytes] = field(init=False)
    """`models` as JSON texts, as most clients spell them."""
    gone: frozenset[bytes] = field(init=False)
    """Top-level names that are taken away."""
    set_here: frozenset[bytes] = field(init=False)
    """Top-level names that are set."""

    def __post_init__(self) -> None:
        texts = {json_text(name): json_text(to) for name, to in self.models.items()}
        gone = frozenset(name.encode() for name in self.removed if "." not in name)
        here = frozenset(name.encode() for name in self.values if "." not in name)
        object.__setattr__(self, "spelled", texts)
        object.__setattr__(self, "gone", gone - here)
        object.__setattr__(self, "set_here", here)

    @property
    def reads(self) -> bool:
        """Whether it can only be met by reading the body."""
        return bool(self.models or self.values or self.removed or self.include_usage)


def greedy(path: bytes) -> Mapping[str, bytes] | None:
    """What makes a request greedy; None where nothing is sampled."""
    return _GREEDY.get(path.rpartition(b"/")[2])


def sought(wishes: Iterable[Wish], *, probed: bool) -> tuple[tuple[str, ...], frozenset[str]]:
    """Top-level names whose values decide or are replaced; and those that need the scanner where
    they are there: objects to change within, and what is taken away.
    """
    values, scanned = {"model"}, set[str]()
    for wish in wishes:
        values |= {name for name in wish.values if "." not in name}
        scanned |= {name.partition(".")[0] for name in (*wish.values, *wish.removed) if "." in name}
        scanned |= {name for name in wish.removed if "." not in name}
        if wish.include_usage:
            values.add("stream")
            scanned.add(USAGE.partition(".")[0])
    if probed:
        values |= {name for more in _GREEDY.values() for name in more}
    return tuple(sorted(values)), frozenset(scanned)


def json_text(value: object) -> bytes:
    """A value as JSON.

    Raises:
        ValueError: it holds NaN, an infinity, or what JSON does not have.
    """
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
