"""Pairs as arrays, and the lines of which they are made. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.compare.sample import Floats

SIDES = 3
"""Primary, candidate, control."""


@dataclass(frozen=True, slots=True)
class Tap:
    """How many requests should have come by, and how many did."""

    expected: int
    received: int


@dataclass(frozen=True)
class Pairs:
    """One candidate's pairs in order of arrival.

    Attributes:
        at_s: arrivals, seconds since 1970, shape (P,).
        weight: sampling weights, shape (P,).
        columns: by key, the three sides, shape (P, 3); NaN where null or absent.
        segments: by key, one word a pair, shape (P,); empty where it has none.
        repeated: lines that were left out since their pair_id had come before.
    """

    at_s: Floats
    weight: Floats
    columns: Mapping[str, Floats]
    segments: Mapping[str, Any]
    repeated: int = 0


@dataclass(frozen=True)
class PairFile:
    """A whole file: each candidate's pairs, in the order in which they are first named."""

    candidates: Mapping[str, Pairs]
    tap: Tap | None = None


@dataclass
class Rows:
    """One candidate's lines while they are read."""

    at_s: list[float] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    columns: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    segments: dict[str, dict[int, str]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    repeated: int = 0


def arranged(rows: Rows) -> Pairs:
    """By arrival; pairs that arrived at once by their id, so that the lines' order is nothing."""
    order = np.lexsort((np.asarray(rows.ids), np.asarray(rows.at_s)))
    count = len(order)
    columns = {}
    for key, sides in rows.columns.items():
        table = np.full((count, SIDES), np.nan)
        table[list(sides)] = list(sides.values())
        columns[key] = table[order]
    segments = {}
    for key, words in rows.segments.items():
        column = np.full(count, "", dtype=object)
        column[list(words)] = list(words.values())
        segments[key] = column[order]
    return Pairs(
        np.asarray(rows.at_s)[order],
        np.asarray(rows.weight)[order],
        columns,
        segments,
        rows.repeated,
    )
