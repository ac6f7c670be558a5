"""Points in time: what is read, what is refused, and that what is shown is read again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadow.config.moments import parse_moment, show_moment

OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=OFFSETS))
def test_what_is_shown_is_read_again(moment):
    """Any moment with any offset, to the microsecond; also where YAML has read it already."""
    read = parse_moment(show_moment(moment))
    assert (read, read.utcoffset()) == (moment, moment.utcoffset())
    assert parse_moment(moment) == moment


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-01T09:00:00Z",
        "2026-12-01t09:00:00z",
        "2026-12-01 10:00:00+01:00",
        "2026-12-01T09:00:00.000-00:00",
        "2026-12-01T09:00:00.0000001Z",
    ],
)
def test_rfc_3339(text):
    """All its spellings of one moment."""
    assert parse_moment(text) == datetime(2026, 12, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "said",
    ["2026-12-01", "2026-W49-2T09:00:00Z", "20261201T090000Z", "2026-12-01T09:00Z", "09:00", True, 1, "2026-12-01T09:00:60Z", "٢026-12-01T09:00:00Z", "2026-12-01T09:00:00+99:00"],
)  # fmt: skip
def test_what_is_none(said):
    """Other spellings of ISO 8601 too; the message shows one that is."""
    with pytest.raises(ValueError, match="is not a point in time such as 2026-12-01T09:00:00"):
        parse_moment(said)


def test_nobody_guesses_an_offset():
    """The message has two ways out that are read."""
    with pytest.raises(ValueError, match=r"has no offset: write (\S+) for UTC, or such as (\S+)$"):
        parse_moment("2026-12-01T09:00:00")
    assert parse_moment("2026-12-01T09:00:00Z") - parse_moment("2026-12-01T09:00:00+01:00")
