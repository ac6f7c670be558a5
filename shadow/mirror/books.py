"""The mirror's books: what becomes of a request is counted once, when it is known.

So the equations of the accounting hold at any moment. The primary's record is counted as an arm's
copy is: wanted while there is one copy of the request, or whatever becomes of the arms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shadow.capture.side import PRIMARY
from shadow.choosing.sampling import CONVERSATION, REQUEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shadow.choosing.routes import Route
    from shadow.choosing.sampling import Sampler
    from shadow.mirror.arm import Arm
    from shadow.ports import Ledger


class Books:
    """See the module."""

    def __init__(self, ledger: Ledger, arms: Sequence[Arm], sampler: Sampler) -> None:
        self._ledger = ledger
        self._arms = arms
        self._sampler = sampler
        self._by_request = all(arm.key == REQUEST for arm in arms)

    def skip(self, reason: str) -> None:
        """Eligible and not meant for any arm, nor, then, for the primary's record."""
        for name in (PRIMARY, *(arm.name for arm in self._arms)):
            self._ledger.add(name, "eligible")
            self._ledger.add(name, "skipped", reason)

    def sampled(self, chosen: Sequence[Arm]) -> None:
        """Eligible, and meant for these arms."""
        names = [(PRIMARY, "eligible", ""), (PRIMARY, "sampled", "")]
        for arm in self._arms:
            names += arm.sampled if arm in chosen else arm.not_sampled
        self._ledger.add_all(names)

    def routed(self, routes: Sequence[Route], *, wanted: bool = False) -> None:
        """Eligible; and each copy of an arm sampled, or the arm skipped. The primary's record is
        wanted while there is one copy, or whatever becomes of the arms.
        """
        if len(routes) == len(self._arms) and all(len(route.copies) == 1 for route in routes):
            self.sampled(self._arms)
            return
        copies = {route.arm.name: len(route.copies) for route in routes}
        reasons = {route.arm.name: route.skipped for route in routes if not route.copies}
        said = [reason for reason in reasons.values() if reason != "not_sampled"]
        copies[PRIMARY] = int(wanted or any(copies.values()))
        reasons[PRIMARY] = (*said, "not_sampled")[0]
        names = []
        for name in (PRIMARY, *(arm.name for arm in self._arms)):
            count = copies.get(name, 0)
            skipped = (name, "skipped", reasons.get(name, "not_sampled"))
            names += [(name, "eligible", "")] * max(count, 1)
            names += [(name, "sampled", "")] * count or [skipped]
        self._ledger.add_all(names)

    def meant(self, chosen: Sequence[Arm], pair_id: str) -> list[Arm]:
        """Those of `chosen` that count where nobody will know the conversation."""
        drawn = 0.0 if self._by_request else self._sampler.draw(pair_id)
        return [arm for arm in chosen if arm.key != CONVERSATION or drawn < arm.sample]

    def off(self, chosen: Sequence[Arm]) -> None:
        """In a shadow-off window: meant for these arms; the primary's record alone is wanted."""
        names = [(PRIMARY, "eligible", ""), (PRIMARY, "sampled", "")]
        for arm in self._arms:
            names += arm.left_out("shadow_off") if arm in chosen else arm.not_sampled
        self._ledger.add_all(names)

    def drop(self, chosen: Sequence[Arm], reason: str, pair_id: str) -> None:
        """Meant for these arms, and none gets it."""
        meant = self.meant(chosen, pair_id)
        if not meant:
            self.skip("not_sampled")
            return
        self.sampled(meant)
        for name in (PRIMARY, *(arm.name for arm in meant)):
            self._ledger.add(name, "dropped", reason)
