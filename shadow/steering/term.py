"""The term: from when to when an experiment may mirror, by the wall clock. Pure.

Nothing is remembered: a clock that is set back or forth means what it says then, as for windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from shadow.config.moments import show_moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shadow.config.model import Config


@dataclass(frozen=True, slots=True)
class Term:
    """See the module. None: it has begun; it has no end."""

    start_at: datetime | None = None
    stop_at: datetime | None = None

    def skip(self, wall_s: float) -> str:
        """Why nothing is mirrored at this time (since 1970); '' where it is in the term."""
        if self.stop_at is not None and wall_s >= self.stop_at.timestamp():
            return "stopped"
        if self.start_at is not None and wall_s < self.start_at.timestamp():
            return "not_started"
        return ""

    def why(self, skip: str) -> str:
        """The key that says it."""
        if skip == "not_started" and self.start_at is not None:
            return f"start_at: {show_moment(self.start_at)}"
        if skip == "stopped" and self.stop_at is not None:
            return f"stop_at.time: {show_moment(self.stop_at)}"
        return ""

    def standing(self, wall_s: float) -> Iterator[str]:
        """A line for each end that is set, with how far away it is."""
        ends = (("start_at", self.start_at), ("stop_at.time", self.stop_at))
        now = datetime.fromtimestamp(int(wall_s), UTC)
        for key, moment in ends:
            if moment is not None:
                word = "passed" if moment.timestamp() <= wall_s else f"in {moment - now}"
                yield f"{key}: {show_moment(moment)}, {word}"


def term_of(config: Config) -> Term:
    """As it is configured."""
    return Term(config.start_at, config.stop_at.time)
