"""What one statement may use of this machine, of those who read without the store's secret. Pure.

They may lower a bound, by a setting of their own, and never raise or lift it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from collector.reach import name_of
from collector.sql import tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

_GIB = 2**30
_CGROUP = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class Bounds:
    """Of one reader's statement."""

    memory_bytes: int = _GIB
    seconds: int = 60
    rows: int = 1_000_000
    result_bytes: int = 256 * 2**20
    temporary_bytes: int = _GIB

    @property
    def stated(self) -> dict[str, int]:
        """The engine's settings, which every statement of a reader has."""
        return {
            "max_memory_usage": self.memory_bytes,
            "max_execution_time": self.seconds,
            "max_result_rows": self.rows,
            "max_result_bytes": self.result_bytes,
            "max_temporary_data_on_disk_size_for_query": self.temporary_bytes,
        }

    @property
    def most(self) -> dict[str, int]:
        """All that is bounded: what the engine has low by itself and a setting could raise, too."""
        return self.stated | _BY_ITSELF


_BY_ITSELF = {
    "max_untracked_memory": 4 * 2**20,  # of each thread, which no bound sees
    "max_threads": 16,
    "max_final_threads": 16,
    "max_parser_depth": 1000,
    "max_parser_backtracks": 1_000_000,
    "max_ast_depth": 1000,
    "max_ast_elements": 50_000,
    "max_expanded_ast_elements": 500_000,
}


def readers_bounds() -> Bounds:
    """1 GiB of memory a statement, or an eighth of the machine's where that is less."""
    return Bounds(memory_bytes=min(_GIB, _machine_bytes() // 8))


def _machine_bytes() -> int:
    """The machine's memory, or the container's."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        said = _CGROUP.read_text("ascii").strip()
    except (OSError, ValueError):
        return whole
    return min(whole, int(said)) if said.isdigit() else whole


def bounded(settings: Mapping[str, str], bounds: Bounds) -> dict[str, str]:
    """A reader's settings with the bounds among them; one that is lower stays."""
    stated, most = bounds.stated, bounds.most
    kept = {name: str(value) for name, value in stated.items()}
    for name, value in settings.items():
        cap = most.get(name)
        kept[name] = value if cap is None or _lowers(value, cap) else str(cap)
    return kept


def raised(text: str, bounds: Bounds) -> str | None:
    """The first bounded setting that a statement names but to lower it; None: there is none."""
    most, found = bounds.most, list(tokens(text))
    for at, token in enumerate(found):
        name = name_of(token)
        if name not in most:
            continue
        said = [each.text for each in found[at + 1 : at + 3]]
        if len(said) < 2 or said[0] != "=" or not _lowers(said[1], most[name]):
            return name
    return None


def _lowers(value: str, cap: int) -> bool:
    """0 would lift it; and words, fractions and units are not looked into."""
    return value.isascii() and value.isdigit() and 0 < int(value) <= cap
