"""Whether a record's names, and the figures in it, are such as a proxy gives. Pure.

Whoever can write to the stream can write any name into a record, and reports and dashboards show
names as they are stored: one that no configuration could hold makes the record a bad value.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shadow.exchange import Accounting, Exchange

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
"""As a configuration's names are; a test holds the two together."""
MOST_WORD = 200
"""Characters of an identity that a proxy makes itself: a worker, a boot, a hash."""
_WORD = re.compile(rf"[\x21-\x7e]{{1,{MOST_WORD}}}")
_MOST_SHOWN = 40


def misnamed(record: Exchange | Accounting) -> str | None:
    """The first name that is none, as one short line; None: all are."""
    for field, value, pattern in _names(record):
        if not pattern.fullmatch(value):
            return f"{field}: {_shown(value)} is not a name that a proxy gives"
    return None


def misfigured(told: Mapping[str, object]) -> str | None:
    """The first figure that no answer has, as one short line; None: all may be.

    NaN and infinite figures would make every sum over them unknown, and a share's are 0 and 1. A
    time may be negative: an answer can come before its request was sent whole.
    """
    for field, value in told.items():
        if isinstance(value, int | float) and not -math.inf < value < math.inf:
            return f"{field}: {value} is no figure of an answer"
        if field == "failure" and value not in (None, 0, 1):
            return f"{field}: {_shown(str(value))} is neither 0 nor 1"
    return None


def _names(record: Exchange | Accounting) -> Iterator[tuple[str, str, re.Pattern[str]]]:
    yield "experiment", record.experiment, NAME
    for field in ("config_hash", "worker", "boot_id"):
        yield field, getattr(record, field), _WORD
    if record.record == "exchange":
        yield "arm", record.arm, NAME
        for field in ("pair_id", "role", "probe", "attach", "transport"):
            yield field, getattr(record, field), _WORD
        return
    for count in record.counts:
        if count.arm:
            yield "counts.arm", count.arm, NAME
        if count.reason:
            yield "counts.reason", count.reason, _WORD
        yield "counts.counter", count.counter, _WORD


def _shown(value: str) -> str:
    if len(value) > _MOST_SHOWN:
        return f"{value[:_MOST_SHOWN]!r}… ({len(value)} characters)"
    return repr(value)
