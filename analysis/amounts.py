"""Amounts as people write them: durations with their unit, margins in percent or points."""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*", re.ASCII)
_MARGIN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%|pp)\s*", re.ASCII)


def duration(value: object) -> float:
    """`60s`, `5m`, `1h` in seconds.

    Raises:
        ValueError: it is no duration with its unit.
    """
    if isinstance(value, float) and 0 <= value < math.inf:  # a resolved policy is read again
        return value
    match = _DURATION.fullmatch(str(value))
    seconds = float(match[1]) * _SECONDS[match[2]] if match else math.inf
    if math.isinf(seconds):
        raise ValueError(f"{value!r} is not a duration with its unit, such as 60s or 1h")
    return seconds


def margin(value: object) -> str:
    """`5%` or `0.5pp`, in one spelling.

    Raises:
        ValueError: it is neither, or not between 0 and 100.
    """
    match = _MARGIN.fullmatch(str(value))
    if match is None or not 0 < float(match[1]) < 100:
        raise ValueError(f"{value!r} is not a margin: write 5% (relative) or 0.5pp (absolute)")
    return f"{float(match[1]):g}{match[2]}"


def goal(value: object) -> str:
    """`not_worse` or `improve 10%`, in one spelling.

    Raises:
        ValueError: it is neither.
    """
    words = str(value).split(maxsplit=1)
    if words == ["not_worse"]:
        return "not_worse"
    if len(words) != 2 or words[0] != "improve":
        raise ValueError("write not_worse, or improve with its size: improve 10%")
    return f"improve {margin(words[1])}"


def slack(value: object) -> str:
    """`20%`, also 0 and more than 100.

    Raises:
        ValueError: it is no percentage.
    """
    match = _MARGIN.fullmatch(str(value))
    if match is None or match[2] != "%":
        raise ValueError(f"{value!r} is not a share of the primary's time: write 20%")
    return f"{float(match[1]):g}%"


Duration = Annotated[float, BeforeValidator(duration), PlainSerializer(lambda s: f"{s:g}s")]
Margin = Annotated[str, BeforeValidator(margin)]
Goal = Annotated[str, BeforeValidator(goal)]
Slack = Annotated[str, BeforeValidator(slack)]


def fraction(amount: str) -> float:
    """5% -> 0.05; 0.5pp -> 0.005."""
    return float(amount.rstrip("%p")) / 100
