"""What becomes of one arm by what a body says: why it is skipped, or which copies it gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from shadow.body.change import NotServed, changes
from shadow.body.copy import AS_IT_CAME, EXPANDED, Copy
from shadow.body.edit import Edit, Pieces, applied
from shadow.body.scan import NotJson, Object, Scanner, Steps, TooMuch
from shadow.body.staying import A_STEP

if TYPE_CHECKING:
    from shadow.body.wish import Wish
    from shadow.mirror.arm import Arm


class Route(NamedTuple):
    """What becomes of one arm: why it is skipped, or what it gets."""

    arm: Arm
    skipped: str
    copies: Sequence[Copy]


class Seen(NamedTuple):
    """A body as far as it was looked at."""

    scanner: Scanner
    skipped: str = ""
    """Why no arm may have it."""
    found: Object | None = None
    """What it says, if it is an object."""
    tree: dict[str, Any] | None = None
    """The same parsed, where that was quick."""

    @property
    def many(self) -> bool:
        """Whether it has so many members that each arm's changes are steps of their own."""
        return self.found is not None and len(self.found.members) > A_STEP


def routed(arm: Arm, path: bytes, seen: Seen, *, expanded: bool) -> Steps[Route]:
    """What becomes of `arm`, by its wish and what was seen of the body."""
    reason, copies = yield from wished(arm.wish, path, seen, expanded=expanded)
    return Route(arm, reason, copies)


def wished(
    wish: Wish, path: bytes, seen: Seen, *, expanded: bool
) -> Steps[tuple[str, Sequence[Copy]]]:
    """(why there is no copy, or the copies) of a body that is changed by `wish`."""
    scanner, found = seen.scanner, seen.found
    edits: list[Edit] = []
    names: list[str] = []
    if found is None:
        reason = "model_not_served" if wish.models and not scanner.body else ""
        if wish.reads and scanner.body:
            reason = "not_json"
    else:
        reason, edits, names = yield from _changed(scanner, found, wish, path)
    if reason:
        return reason, ()
    body, said = copied(scanner.body, edits, names, expanded=expanded)
    if body is None and not said and wish.copies == 1:
        return "", AS_IT_CAME
    return "", [Copy(n, "none", body, said) for n in range(wish.copies)]


def _changed(
    scanner: Scanner, found: Object, wish: Wish, path: bytes
) -> Steps[tuple[str, list[Edit], list[str]]]:
    """(why the arm is skipped, or the edits and what they alter)."""
    try:
        made = yield from changes(scanner, found, wish, path)
    except NotServed:
        return "model_not_served", [], []
    except NotJson:
        return "not_json", [], []
    except TooMuch:
        return "too_large_to_route", [], []
    return "", made.edits, made.names


def copied(
    body: bytes | bytearray, edits: list[Edit], names: list[str], *, expanded: bool
) -> tuple[Pieces | None, tuple[str, ...]]:
    """(the copy's body, None: the client's own; what its record says was altered)."""
    said = tuple(f"body:{name}" for name in names)
    if expanded:
        said = (*said, EXPANDED)
    return (applied(body, edits) if edits else None), said
