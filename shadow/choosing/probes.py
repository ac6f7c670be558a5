"""Greedy probes: some requests once more without chance, to the control and to the candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shadow.body.change import changes
from shadow.body.copy import Copy
from shadow.body.wish import greedy
from shadow.choosing.routes import Route, copied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shadow.body.scan import Steps
    from shadow.capture.request import Request
    from shadow.choosing.routes import Seen
    from shadow.choosing.sampling import Sampler
    from shadow.mirror.arm import Arm

GREEDY: Final = "greedy"


class Probes:
    """See the module. `share` of the requests that both roles get; 0: none."""

    __slots__ = ("_sampler", "share")

    def __init__(self, sampler: Sampler, share: float) -> None:
        self._sampler = sampler
        self.share = share

    def added(
        self,
        request: Request,
        path: bytes,
        routes: list[Route],
        seen: Seen,
        rates: Mapping[str, float],
    ) -> Steps[None]:
        """Add one to each route that has copies, if it is drawn for."""
        more = greedy(path)
        there = {route.arm.role for route in routes if route.copies}
        scanner, found = seen.scanner, seen.found
        if more is None or found is None or there != {"candidate", "control"}:
            return
        if self._sampler.draw(f"{GREEDY}:{request.pair_id}") >= self.share:
            return
        sent = [route.arm for route in routes if route.copies]
        for n, (arm, skipped, copies) in enumerate(routes):
            if copies:
                if seen.many:
                    yield
                made = yield from changes(scanner, found, arm.wish, path, more)
                body, said = copied(scanner.body, made.edits, made.names, expanded=request.expanded)
                probe = Copy(0, GREEDY, body, said, self.share * _met(arm, sent, rates))
                routes[n] = Route(arm, skipped, [*copies, probe])


def _met(arm: Arm, sent: list[Arm], rates: Mapping[str, float]) -> float:
    """The chance that an arm of the other role got what this arm got: rates nest within a key."""
    mine = rates[arm.name]
    chances = (
        min(1.0, rates[other.name] / mine) if other.key == arm.key else rates[other.name]
        for other in sent
        if other.role != arm.role and rates[other.name] and mine
    )
    return max(chances, default=1.0)
