"""Which arm gets which copies of a request, by what its body says.

Asked once the request's last byte went to the primary. Most requests ask for nothing (`untouched`,
a few microseconds); the rest is read in steps that hold the loop for well under a millisecond.
Where a body cannot be read, whoever needs it is skipped: never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from shadow.body.change import NotServed, Wish, changes, greedy, sought
from shadow.body.coding import Encoded, undone
from shadow.body.conversation import Beginning, Hash, beginning_in, beginning_of
from shadow.body.copy import AS_IT_CAME, EXPANDED, Copy
from shadow.body.edit import Edit, Pieces, applied
from shadow.body.names import NAMES, named, stateful, stateful_path, stateful_tree
from shadow.body.parsed import tree
from shadow.body.quick import located
from shadow.body.scan import NotJson, Object, Scanner, Steps, TooMuch
from shadow.redact import path_of
from shadow.sampling import CONVERSATION
from shadow.selection import field_values, sole_value

if TYPE_CHECKING:
    from shadow.arm import Arm
    from shadow.held import Held
    from shadow.relay.head import RequestHead
    from shadow.request import Request
    from shadow.sampling import Sampler

GREEDY: Final = "greedy"


class NoRoom(Exception):
    """`limits.mirror_bytes` has no room for the body without its coding."""


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
        wishes = [arm.wish for arm in arms]
        self._by_conversation = any(arm.key == CONVERSATION for arm in arms)
        self._reads = (
            probed > 0
            or self._by_conversation
            or any(wish.reads or wish.copies > 1 for wish in wishes)
        )
        self._sampler = sampler
        self._conversations = conversations
        self._held = held
        self.most_bytes = most_bytes
        self._probed = probed
        self._sought, self._scanned = sought(wishes, probed=probed > 0)

    def untouched(self, request: Request) -> bool:
        """Whether every arm gets the request as it came, as far as can be said at once."""
        if self._reads or request.head.coded or stateful_path(path_of(request.head.target)):
            return False
        return not request.body or self._plain(request) is not None

    def _plain(self, request: Request) -> dict[str, Any] | None:
        """The body, where it is quickly parsed, points at no state and steers nothing."""
        body = request.body
        found = tree(body)
        if found is None or not NAMES.isdisjoint(found) or stateful_tree(found):
            return None
        request.parsed(found)
        return found

    def routes(self, request: Request, arms: Sequence[Arm]) -> Steps[list[Route]]:
        """What becomes of each of `arms`.

        Raises:
            NoRoom: the body cannot be kept without its coding.
        """
        path = path_of(request.head.target)
        seen = yield from self._read(request, path)
        if seen.skipped:
            return [Route(arm, seen.skipped, ()) for arm in arms]
        drawn = 0.0
        if self._by_conversation:
            drawn = yield from self._drawn(request, seen)
        rates = request.rates or {arm.name: arm.sample for arm in arms}
        routes = []
        for arm in arms:
            if arm.key == CONVERSATION and drawn >= rates[arm.name]:
                routes.append(Route(arm, "not_sampled", ()))
            else:
                routes.append((yield from _route(arm, path, seen, expanded=request.expanded)))
        if self._probed:
            yield from self._probe(request, path, routes, seen, rates)
        return routes

    def _read(self, request: Request, path: bytes) -> Steps[Seen]:
        if stateful_path(path):
            return Seen(Scanner(b""), "stateful")
        try:
            if request.head.coded:
                yield from self._undo(request)
            return (yield from self._seen(request))
        except Encoded:
            return Seen(Scanner(b""), "encoded")
        except TooMuch:
            return Seen(Scanner(b""), "too_large_to_route")

    def _seen(self, request: Request) -> Steps[Seen]:
        body, scanner = request.body, Scanner(request.body)
        if not body:
            return Seen(scanner)
        plain = self._plain(request)
        if plain is not None and self._scanned.isdisjoint(plain):
            quick = located(body, plain, self._sought)
            if quick is not None:
                return Seen(scanner, "", quick, plain)
        try:
            found = yield from scanner.whole()
        except NotJson:
            return Seen(scanner, "not_json" if (yield from named(body)) else "")
        points = yield from stateful(body, found)
        return Seen(scanner, "stateful" if points else "", found, plain)

    def _undo(self, request: Request) -> Steps[None]:
        codings = field_values(request.head, b"content-encoding")
        plain = yield from undone(codings, request.body, self.most_bytes)
        more = len(plain) - len(request.body)
        if not self._held.room(more):
            raise NoRoom
        self._held.open_bytes += more
        request.body = plain
        request.expanded = True

    def _drawn(self, request: Request, seen: Seen) -> Steps[float]:
        """The conversation's number; the request's own where it belongs to none."""
        begun = None
        if seen.tree is not None:
            begun = beginning_in(seen.tree)
        elif seen.found is not None:
            try:
                begun = yield from beginning_of(Scanner(request.body), seen.found)
            except (NotJson, TooMuch):
                begun = None
        if begun is None:
            return self._sampler.draw(request.pair_id)
        request.conversation = self._conversations.of(request.head, begun)
        return self._sampler.draw(f"{CONVERSATION}:{request.conversation}")

    def _probe(
        self,
        request: Request,
        path: bytes,
        routes: list[Route],
        seen: Seen,
        rates: Mapping[str, float],
    ) -> Steps[None]:
        """Once more without chance, to the control and the candidates, if it is drawn for."""
        more = greedy(path)
        there = {route.arm.role for route in routes if route.copies}
        scanner, found = seen.scanner, seen.found
        if more is None or found is None or there != {"candidate", "control"}:
            return
        if self._sampler.draw(f"{GREEDY}:{request.pair_id}") >= self._probed:
            return
        sent = [route.arm for route in routes if route.copies]
        for n, (arm, skipped, copies) in enumerate(routes):
            if copies:
                made = yield from changes(scanner, found, arm.wish, path, more)
                body, said = _made(scanner.body, made.edits, made.names, expanded=request.expanded)
                probe = Copy(0, GREEDY, body, said, self._probed * _met(arm, sent, rates))
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


def _met(arm: Arm, sent: list[Arm], rates: Mapping[str, float]) -> float:
    """The chance that an arm of the other role got what this arm got: rates nest within a key."""
    mine = rates[arm.name]
    chances = (
        min(1.0, rates[other.name] / mine) if other.key == arm.key else rates[other.name]
        for other in sent
        if other.role != arm.role and rates[other.name] and mine
    )
    return max(chances, default=1.0)


def _route(arm: Arm, path: bytes, seen: Seen, *, expanded: bool) -> Steps[Route]:
    wish, scanner, found = arm.wish, seen.scanner, seen.found
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
    return (applied(body, edits) if edits else None), said
