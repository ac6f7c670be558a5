"""Deltas that repeat what was said: an engine that sends the whole text so far in their place."""

from __future__ import annotations

_LEAST_CUMULATIVE = 32  # characters: what repeats less than this may be the model's own words


def undo_cumulative(parts: list[str]) -> tuple[str, bool]:
    """The text of deltas, some of which may repeat everything before them.

    An engine that does so is recognised where each of three or more deltas begins with the one
    before it and goes on, or where one delta begins with all of the four or more before it and goes
    on; in both cases the text that is repeated has 32 characters or more. "1", "10", "100" may be
    what a model says.
    """
    if (
        len(parts) > 2
        and len(parts[-2]) >= _LEAST_CUMULATIVE
        and all(map(_goes_on, parts, parts[1:]))
    ):
        return parts[-1], True
    kept: list[str] = []
    size, cumulative = 0, False
    for part in parts:
        if (
            len(part) > size >= _LEAST_CUMULATIVE
            and len(kept) > 3
            and _goes_on("".join(kept), part)
        ):
            kept, size, cumulative = [part], 0, True
        else:
            kept.append(part)
        size += len(part)
    return "".join(kept), cumulative


def _goes_on(before: str, part: str) -> bool:
    return len(part) > len(before) and part.startswith(before)
