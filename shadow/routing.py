"""Which arm gets which copies of a request, by what its body says.

Asked once the request's last byte went to the primary. Most requests ask for nothing (`untouched`,
a few microseconds); the rest is read in steps that hold the loop for well under a millisecond.
Where a body cannot be read, whoever needs it is skipped: never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from shadow.body.change import NotServed, Wish, changes, greedy
from shadow.body.coding import Encoded, undone
from shadow.body.conversation import Beginning, Hash, beginning_of
from shadow.body.copy import AS_IT_CAME, EXPANDED, Copy
from shadow.body.edit import Edit, Pieces, applied
from shadow.body.names import NAMES, named, stateful, stateful_path, stateful_tree
from shadow.body.parsed import tree
from shadow.body.scan import NotJson, Object, Scanner, Steps, TooMuch
from shadow.redact import path_of
from shadow.sampling import CONVERSATION
from shadow.selection import field_values, sole_value

if TYPE_CHECKING:
    from shadow.arm import Arm
    from shadow.capture import Request
    from shadow.held import Held
    from shadow.relay.head import RequestHead
    from shadow.sampling import Sampler

WHOLE_BYTES: Final = 64 * 1024
"""A changed body up to here is joined; a larger one is sent in pieces, without a copy of it."""
GREEDY: Final = "greedy"


class NoRoom(Exception):
    """`limits.mirror_bytes` has no room for the body without its coding."""


class Route(NamedTuple):
    """What becomes of one arm: why it is skipped, or what it gets."""

    arm: Arm
    skipped: str
    copies: Sequence[Copy]


class Router:
    """See the module."""

    def __init__(
        self,
        arms: Sequence[Arm],
        sampler: Sampler,
        conversations: Conversations,
        held: Held,
        most_bytes: int,
        probed: float = 0.0,
    ) -> None:
        self._reads = probed > 0 or any(
            arm.wish.reads or arm.wish.copies > 1 or arm.key == CONVERSATION for arm in arms
        )
        self._sampler = sampler
        self._conversations = conversations
        self._held = held
        self._most_bytes = most_bytes
        self._probed = probed

    def untouched(self, request: Request) -> bool:
        """Whether every arm gets the request as it came, as far as can be said at once."""
        head, body = request.head, request.body
        if self._reads or head.coded or stateful_path(path_of(head.target)):
            return False
        if not body:
            return True
        found = tree(body)
        if found is None or not NAMES.isdisjoint(found):
            return False
        if stateful_tree(found):
            return False
        request.parsed(found)
        return True

    def routes(self, request: Request, arms: Sequence[Arm]) -> Steps[list[Route]]:
        """What becomes of each of `arms`.

        Raises:
            NoRoom: the body cannot be kept without its coding.
        """
        path = path_of(request.head.target)
        reason, scanner, found = yield from self._read(request, path)
        if reason:
            return [Route(arm, reason, ()) for arm in arms]
        drawn = yield from self._drawn(request, arms, scanner, found)
        routes = []
        for arm in arms:
            if arm.key == CONVERSATION and drawn >= arm.sample:
                routes.append(Route(arm, "not_sampled", ()))
            else:
                routes.append(
                    (yield from _route(arm, path, scanner, found, expanded=request.expanded))
                )
        if self._probed:
            yield from self._probe(request, path, routes, scanner, found)
        return routes

    def _read(self, request: Request, path: bytes) -> Steps[tuple[str, Scanner, Object | None]]:
        """(why no arm may have it, or '', its scanner, what it says if it is an object)."""
        scanner = Scanner(request.body)
        if stateful_path(path):
            return "stateful", scanner, None
        try:
            if request.head.coded:
                yield from self._undo(request)
                scanner = Scanner(request.body)
            if not request.body:
                return "", scanner, None
            found = yield from scanner.whole()
        except Encoded:
            return "encoded", scanner, None
        except TooMuch:
            return "too_large_to_route", scanner, None
        except NotJson:
            return ("not_json" if (yield from named(request.body)) else ""), scanner, None
        points = yield from stateful(request.body, found)
        return ("stateful" if points else ""), scanner, found

    def _undo(self, request: Request) -> Steps[None]:
        codings = field_values(request.head, b"content-encoding")
        plain = yield from undone(codings, request.body, self._most_bytes)
        more = len(plain) - len(request.body)
        if not self._held.room(more):
            raise NoRoom
        self._held.open_bytes += more
        request.body = plain
        request.expanded = True

    def _drawn(
        self, request: Request, arms: Sequence[Arm], scanner: Scanner, found: Object | None
    ) -> Steps[float]:
        """The conversation's number; the request's own where it belongs to none."""
        if not any(arm.key == CONVERSATION for arm in arms):
            return 0.0
        if found is not None:
            try:
                begun = yield from beginning_of(scanner, found)
            except (NotJson, TooMuch):
                begun = None
            if begun is not None:
                request.conversation = self._conversations.of(request.head, begun)
        if not request.conversation:
            return self._sampler.draw(request.pair_id)
        return self._sampler.draw(f"{CONVERSATION}:{request.conversation}")

    def _probe(
        self,
        request: Request,
        path: bytes,
        routes: list[Route],
        scanner: Scanner,
        found: Object | None,
    ) -> Steps[None]:
        """Once more without chance, to the control and the candidates, if it is drawn for."""
        more = greedy(path)
        there = {route.arm.role for route in routes if route.copies}
        if more is None or found is None or there != {"candidate", "control"}:
            return
        if self._sampler.draw(f"{GREEDY}:{request.pair_id}") >= self._probed:
            return
        sent = [route.arm for route in routes if route.copies]
        for n, (arm, skipped, copies) in enumerate(routes):
            if copies:
                made = yield from changes(scanner, found, arm.wish, path, more)
                body, said = _made(scanner.body, made.edits, made.names, expanded=request.expanded)
                probe = Copy(0, GREEDY, body, said, self._probed * _met(arm, sent))
                routes[n] = Route(arm, skipped, [*copies, probe])


class Conversations:
    """Which conversation a request belongs to, by its tenant and its beginning."""

    __slots__ = ("_hash", "_header")

    def __init__(self, experiment: str, header: str | None) -> None:
        self._hash = Hash(experiment)
        self._header = None if header is None else header.encode()

    def of(self, head: RequestHead, begun: Beginning) -> str:
        """Its salted hash."""
        tenant = "" if self._header is None else sole_value(head, self._header)
        return self._hash.of(tenant.encode(), begun)


def _met(arm: Arm, sent: list[Arm]) -> float:
    """The chance that an arm of the other role got what this arm got: rates nest within a key."""
    chances = (
        min(1.0, other.sample / arm.sample) if other.key == arm.key else other.sample
        for other in sent
        if other.role != arm.role and other.sample and arm.sample  # a rate may change meanwhile
    )
    return max(chances, default=1.0)


def _route(
    arm: Arm, path: bytes, scanner: Scanner, found: Object | None, *, expanded: bool
) -> Steps[Route]:
    wish = arm.wish
    edits: list[Edit] = []
    names: list[str] = []
    if found is None:
        reason = "model_not_served" if wish.models and not scanner.body else ""
        if wish.reads and scanner.body:
            reason = "not_json"
    else:
        reason, edits, names = yield from _changed(scanner, found, wish, path)
    if reason:
        return Route(arm, reason, ())
    body, said = _made(scanner.body, edits, names, expanded=expanded)
    if body is None and not said and wish.copies == 1:
        return Route(arm, "", AS_IT_CAME)
    return Route(arm, "", [Copy(n, "none", body, said) for n in range(wish.copies)])


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


def _made(
    body: bytes | bytearray, edits: list[Edit], names: list[str], *, expanded: bool
) -> tuple[Pieces | None, tuple[str, ...]]:
    said = tuple(f"body:{name}" for name in names)
    if expanded:
        said = (*said, EXPANDED)
    if not edits:
        return None, said
    pieces = applied(body, edits)
    if sum(map(len, pieces)) <= WHOLE_BYTES:
        pieces = [b"".join(pieces)]
    return pieces, said
