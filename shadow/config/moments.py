"""Points in time as people write them: 2026-12-01T09:00:00+01:00 (RFC 3339, with an offset)."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

_WRITTEN = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)?", re.ASCII)


def parse_moment(value: object) -> datetime:
    """2026-12-01T09:00:00Z, or with another offset -> aware; nobody guesses a time zone.

    Raises:
        ValueError: no point in time, or one without an offset.
    """
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    moment = None
    if _WRITTEN.fullmatch(text):
        try:
            moment = datetime.fromisoformat(text.upper())
        except ValueError:  # a thirteenth month
            moment = None
    if moment is None:
        raise ValueError(f"{text!r} is not a point in time such as 2026-12-01T09:00:00+01:00")
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset: write {text}Z for UTC, or such as {text}+01:00")
    return moment


def show_moment(moment: datetime) -> str:
    """As it is read again: with the offset that it was written with, Z for UTC."""
    return moment.isoformat().replace("+00:00", "Z")


Moment = Annotated[datetime, BeforeValidator(parse_moment), PlainSerializer(show_moment)]
