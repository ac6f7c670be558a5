"""A file of pairs, JSON a line, as arrays. docs/judge.md is its format."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from analysis.metrics import Kind
from analysis.pair_file.pairs import SIDES, PairFile, Rows, Tap, arranged

ENCLOSED = frozenset({"pair_id", "at", "candidate", "weight", "segment", "tap"})
"""Keys that hold something else than one metric's three values."""
MOST_WEIGHT = 1e6
"""One pair in a million: whoever weighs more than that speaks for all others."""
LEAST_WEIGHT = 1e-9
"""Far below, squares are no numbers any more."""
MOST_VALUE = 1e30
"""Sums of such values, and their squares, are still numbers."""
MOST_COUNT = 10**12
YEAR_2100_S = 4_102_444_800
NOT_NEGATIVE = "wants three values, each a number that is not negative or null"
TWO_COUNTS = "wants expected and received, two counts"
WORDS = {"ok": "true, false or null"}
SHARE = "0, 1 or null"


class Malformed(Exception):
    """A line that cannot be read; says which and why."""


class _Wrong(Exception):
    """What is wrong with a line."""


def read(lines: Iterable[bytes], known: Mapping[str, Kind]) -> PairFile:
    """Read a whole file. White lines are left out.

    Args:
        lines: the file's.
        known: keys that hold a metric's three values, and its kind; other keys are ignored.

    Raises:
        Malformed: the first line that cannot be read, by its number.
    """
    tap: Tap | None = None
    rows: dict[str, Rows] = {}
    first = True
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            tree = _object(line)
            if "tap" in tree:
                tap = _tap(tree["tap"], first=first)
            else:
                _take(tree, rows, known)
        except _Wrong as error:
            raise Malformed(f"line {number}: {error}") from None
        first = False
    return PairFile({name: arranged(one) for name, one in rows.items()}, tap)


def _object(line: bytes) -> dict[str, Any]:
    try:
        tree = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _Wrong(f"is no JSON: {error.msg}") from None
    if not isinstance(tree, dict):
        raise _Wrong("is no JSON object")
    return tree


def _tap(tree: Any, *, first: bool) -> Tap:
    if not first:
        raise _Wrong("tap: belongs into the first line")
    if not isinstance(tree, dict):
        raise _Wrong(f"tap: {TWO_COUNTS}")
    return Tap(_count(tree.get("expected")), _count(tree.get("received")))


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_COUNT:
        raise _Wrong(f"tap: {TWO_COUNTS}")
    return value


def _take(tree: dict[str, Any], rows: dict[str, Rows], known: Mapping[str, Kind]) -> None:
    """Append one pair to its candidate's rows."""
    candidate, pair_id = (_word(tree, key) for key in ("candidate", "pair_id"))
    at_s, weight = _number(tree, "at"), _number(tree, "weight", 1.0)
    if not 0 <= at_s < YEAR_2100_S:
        raise _Wrong("at: wants seconds since 1970, UTC (are these milliseconds?)")
    if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        limits = f"{LEAST_WEIGHT:.9f} at least, and {MOST_WEIGHT:,.0f} at most"
        raise _Wrong(f"weight: must be above 0: {limits}")
    values = {
        key: _sides(key, value, known.get(key))
        for key, value in tree.items()
        if key not in ENCLOSED and (key == "ok" or key in known)
    }
    segment = _segment(tree.get("segment"))
    mine = rows.setdefault(candidate, Rows())
    if pair_id in mine.seen:
        mine.repeated += 1
        return
    mine.seen.add(pair_id)
    row = len(mine.at_s)
    mine.at_s.append(at_s)
    mine.ids.append(pair_id)
    mine.weight.append(weight)
    for key, sides in values.items():
        mine.columns.setdefault(key, {})[row] = sides
    for key, word in segment.items():
        mine.segments.setdefault(key, {})[row] = word


def _word(tree: dict[str, Any], key: str) -> str:
    value = tree.get(key)
    if not isinstance(value, str) or not value:
        raise _Wrong(f"{key}: must be stated, as a text")
    if not value.isprintable():
        raise _Wrong(f"{key}: has characters that cannot be printed")
    return value


def _number(tree: dict[str, Any], key: str, default: float | None = None) -> float:
    value = tree.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Wrong(f"{key}: must be stated, as a number")
    return float(value)


def _sides(key: str, value: Any, kind: Kind | None) -> list[float]:
    if not isinstance(value, list) or len(value) != SIDES:
        raise _Wrong(f"{key}: wants three values: primary, candidate, control (null if none)")
    return [math.nan if side is None else _side(key, side, kind) for side in value]


def _side(key: str, value: Any, kind: Kind | None) -> float:
    if key == "ok" or kind == "share":
        if (
            not isinstance(value, bool | int)
            or value not in {0, 1}
            or (key, type(value)) == ("ok", int)
        ):
            raise _Wrong(f"{key}: wants three values, each {WORDS.get(key, SHARE)}")
    elif isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise _Wrong(f"{key}: {NOT_NEGATIVE}")
    if value > MOST_VALUE:
        raise _Wrong(f"{key}: wants values of {MOST_VALUE:g} at most")
    return float(value)


def _segment(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Wrong("segment: wants an object of names and values")
    return {key: str(word) for key, word in value.items() if word is not None}
