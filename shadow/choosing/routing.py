"""Which arm gets which copies of a request, by what its body says.

Asked once the request's last byte went to the primary. Most requests ask for nothing (`untouched`,
a few microseconds); the rest is read in steps that hold the loop for well under a millisecond.
Where a body cannot be read, whoever needs it is skipped: never guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shadow.body.change import RESPONSES
from shadow.body.coding import Encoded, undone
from shadow.body.conversation import beginning_in, beginning_of
from shadow.body.names import named, stateful, stateful_path, stateful_tree
from shadow.body.parsed import SMALL_BYTES, tree
from shadow.body.quick import located
from shadow.body.scan import NotJson, Scanner, Steps, TooMuch
from shadow.body.staying import nothing_stays
from shadow.body.wish import Wish, sought
from shadow.choosing.probes import Probes
from shadow.choosing.routes import Route, Seen, routed, wished
from shadow.choosing.sampling import CONVERSATION
from shadow.choosing.selection import field_values
from shadow.target import path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shadow.capture.held import Held
    from shadow.capture.request import Request
    from shadow.choosing.conversations import Conversations
    from shadow.choosing.sampling import Sampler
    from shadow.mirror.arm import Arm


_REPLICA: Final = Wish({}, {})
"""A baseline replica's models and parameters are the client's own."""


class NoRoom(Exception):
    """`limits.mirror_bytes` has no room for the body without its coding."""


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
        *,
        tapped: bool = False,
    ) -> None:
        wishes = [arm.wish for arm in arms]
        self._by_conversation = any(arm.key == CONVERSATION for arm in arms)
        self._reads = (
            probed > 0
            or self._by_conversation
            or any(wish.reads or wish.copies > 1 for wish in wishes)
        )
        self._tapped = tapped
        self._sampler = sampler
        self._conversations = conversations
        self._held = held
        self.most_bytes = most_bytes
        self._probes = Probes(sampler, probed)
        self._sought, self._scanned = sought(wishes, probed=probed > 0)

    def untouched(self, request: Request) -> bool:
        """Whether every arm gets the request as it came, as far as can be said at once."""
        path = path_of(request.head.target)
        if self._reads or request.head.coded or path.endswith(RESPONSES) or stateful_path(path):
            return False
        return not request.body or self._harmless(request) is not None

    def _harmless(self, request: Request) -> dict[str, Any] | None:
        """The body, where it is quickly parsed, points at no state and steers nothing."""
        body = request.body
        found = tree(body)
        if found is None or not nothing_stays(found, body) or stateful_tree(found):
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
            if seen.many:
                yield
            if arm.key == CONVERSATION and drawn >= rates[arm.name]:
                routes.append(Route(arm, "not_sampled", ()))
            else:
                routes.append((yield from routed(arm, path, seen, expanded=request.expanded)))
        if self._probes.share:
            yield from self._probes.added(request, path, routes, seen, rates)
        if self._tapped:
            _, copies = yield from wished(_REPLICA, path, seen, expanded=request.expanded)
            (request.replica_copy,) = copies  # who wishes nothing is refused nothing
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
        parsed = self._harmless(request)
        if parsed is not None and self._scanned.isdisjoint(parsed):
            quick = located(body, parsed, self._sought)
            if quick is not None:
                return Seen(scanner, "", quick, parsed)
        if len(body) > SMALL_BYTES:
            yield  # it was looked at for as long as a step takes
        try:
            found = yield from scanner.whole()
        except NotJson:
            return Seen(scanner, "not_json" if (yield from named(body)) else "")
        try:
            points = yield from stateful(body, found)
        except NotJson:
            return Seen(scanner, "not_json")
        return Seen(scanner, "stateful" if points else "", found, parsed)

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
