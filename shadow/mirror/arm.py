"""One arm beside the primary: its connections, its open requests, its bounds."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic_ns
from typing import TYPE_CHECKING

from shadow.body.wish import Wish, json_text
from shadow.capture.side import Side
from shadow.choosing.admission import BREAKER_OPEN, Admission
from shadow.choosing.spending import purse
from shadow.mirror.arm_request import ArmRequest, capture_of
from shadow.mirror.headers import ArmHeaders
from shadow.mirror.plight import Plight
from shadow.relay.pool import Pool

if TYPE_CHECKING:
    from shadow.body.copy import Copy
    from shadow.capture.request import Request
    from shadow.config.upstream import Arm as Settings
    from shadow.mirror.shared import Shared
    from shadow.publish.counters import Name


class Arm:
    """See the module."""

    def __init__(self, name: str, settings: Settings, shared: Shared) -> None:
        limits = shared.limits
        self.name = name
        self.sample = settings.sample
        self.key = settings.key
        self.pool = Pool(
            f"arms.{name}",
            settings,
            limits.header_bytes,
            shared.lookup,
            shared.turns,
            sacred=False,
            inside=None if settings.allow_external else shared.inside.judge(settings.url),
        )
        self.headers = ArmHeaders(name, self.pool.authority, self.pool.prefix, settings.headers)
        self.ledger = shared.ledger
        self.publisher = shared.publisher
        self.failed = shared.failed
        self.open: dict[ArmRequest, None] = {}
        """In the order of their starts, which is the order of their deadlines."""
        self.sampled = (name, "eligible", ""), (name, "sampled", "")
        self.not_sampled = self.left_out("")
        self.after_primary = settings.start == "after_primary"
        spent = purse(name, settings.limits, settings.price, shared.workers, shared.spending)
        self.admission = Admission(settings, shared.workers, spent)
        where = self.pool.addresses
        self.plight = Plight(name, where.host, where.port, self.admission.breaker)
        self._deadline_ns = int(settings.deadline * 1e9)
        self.role = settings.role
        self.wish = wish(settings)
        self._sides: dict[tuple[int, str], Side] = {}
        weight = 1 / settings.sample if settings.sample else 1.0
        self.side = shared.side(name, settings.role, weight, self.headers)

    def left_out(self, reason: str) -> tuple[Name, Name]:
        """What is counted of a request that the arm does not get; '': it was not drawn for it."""
        return (self.name, "eligible", ""), (self.name, "skipped", reason or "not_sampled")

    def side_of(self, copy: Copy) -> Side:
        """How the copy's record names it."""
        if copy.replica == 0 and copy.probe == "none":
            return self.side
        which = copy.replica, copy.probe
        side = self._sides.get(which)
        if side is None:
            side = replace(self.side, replica=copy.replica, probe=copy.probe)
            self._sides[which] = side
        return side

    def start(self, request: Request, copy: Copy) -> ArmRequest | None:
        """Send the arm a copy, or drop and count it when the arm has all it may have.

        While its breaker is open the copy is a record of the failure, and nothing is sent.
        """
        open_requests = len(self.open)
        refusal = self.admission.refusal(monotonic_ns(), open_requests, len(request.body))
        if refusal == BREAKER_OPEN:
            self.leave_out(request, copy, BREAKER_OPEN, "the arm's breaker is open")
            return None
        if refusal:
            self.ledger.add(self.name, "dropped", refusal)
            return None
        mirrored = ArmRequest(self, request, copy, open_requests)
        self.ledger.hold(request.token)
        self.open[mirrored] = None
        mirrored.begin()
        return mirrored

    def leave_out(self, request: Request, copy: Copy, transport: str, reason: str) -> None:
        """Record that a copy was never sent, and why; it takes no time."""
        now = monotonic_ns()
        capture = capture_of(self.side_of(copy), request, copy, now, len(self.open))
        capture.end(now, transport, reason)
        capture.leave()
        self.ledger.hold(request.token)
        self.ledger.add(self.name, BREAKER_OPEN if transport == BREAKER_OPEN else "unsent")
        self.publisher.offer(capture)

    def expire(self, now: int, until_ns: int) -> bool:
        """End what is beyond the deadline `now`; True where the time until `until_ns` (both
        monotonic) is over before the last of it has ended.
        """
        while self.open:
            oldest = next(iter(self.open))
            if now - oldest.capture.start_ns < self._deadline_ns:
                return False
            oldest.cut("timed_out", "the arm's deadline has passed")
            if monotonic_ns() > until_ns:
                return bool(self.open)
        return False

    def shut_down(self) -> None:
        """Drop what is still open: never a failure of the arm."""
        for request in list(self.open):
            request.drop("shutdown")


def wish(settings: Settings) -> Wish:
    """What the arm's configuration wants changed in bodies."""
    params = settings.params
    return Wish(
        settings.models,
        {name: json_text(value) for name, value in params.set.items()},
        tuple(params.remove),
        settings.include_usage,
        settings.amplify,
    )
