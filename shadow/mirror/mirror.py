"""The mirror: decides at a request's head, performs when its last byte went to the primary.

Nothing here makes the primary wait, and no exception leaves it: what fails is counted, and the
client's stream goes on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from shadow.capture.arrivals import CAPTURE_BYTES
from shadow.capture.request import Request
from shadow.capture.side import PRIMARY
from shadow.choosing.conversations import Conversations
from shadow.choosing.routing import Router
from shadow.choosing.sampling import HEADER, REQUEST, Sampler, new_pair_id
from shadow.choosing.selection import Denial, Selection, sole_value
from shadow.fault import Faults
from shadow.mirror.arm import Arm
from shadow.mirror.books import Books
from shadow.mirror.cuts import Cuts
from shadow.mirror.deadlines import Deadlines
from shadow.mirror.plan import Plan
from shadow.mirror.plans import Plans, Waiting
from shadow.mirror.shared import shared_of
from shadow.steering.switch import Switch
from shadow.steering.term import term_of
from shadow.target import path_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shadow.config.model import Config
    from shadow.config.operations import Limits
    from shadow.ports import Ports
    from shadow.relay import mirrored
    from shadow.relay.head import RequestHead
    from shadow.steering.term import Term

MOST_FIELDS: Final = 256
"""A head of more is not gone through for each arm: 7,000 odd names took 16 ms of the loop."""


class Mirror:
    """All arms of an experiment."""

    def __init__(self, config: Config, config_hash: str, ports: Ports) -> None:
        self.ledger = ports.ledger
        self.publisher = ports.publisher
        self.totals = ports.totals
        self._faults = Faults()
        self.draining = False
        self.switch = Switch(
            config.experiment, config_hash, config.arms, config.isolated, term_of(config)
        )
        shared = shared_of(config, config_hash, ports, self.failed)
        self.held = shared.held
        self._spending = shared.spending
        self.arms = [Arm(name, arm, shared) for name, arm in config.arms.items()]
        self.samples = {name: arm.sample for name, arm in config.arms.items()}
        """As configured; what was said since stands before it."""
        self.primary = shared.side(PRIMARY, PRIMARY)
        self.request_bytes = config.limits.request_bytes
        self.selection = Selection(config.mirror_paths)
        self._exact, self._patterned = self.selection.exact, self.selection.patterned
        self.sampler = Sampler(config.experiment)
        self.books = Books(self.ledger, self.arms, self.sampler)
        self._denial = None if config.tenants is None else Denial(config.tenants)
        self._by_request = all(arm.key == REQUEST for arm in self.arms)
        self.router = Router(
            self.arms,
            self.sampler,
            Conversations(config.experiment, config.tenants.header if config.tenants else None),
            self.held,
            config.limits.request_bytes,
            config.greedy_probe,
            tapped=config.attach == "tap",
        )
        self._requests = 0
        self._given = -1
        self.weights: dict[str, float] = {}
        self._rates: Mapping[str, float] = {}
        self._set_rates()
        self.plans = Plans(self.failed)
        self._deadlines = Deadlines(self.arms, self.failed)
        self.cuts = Cuts([self.plans.late, *(arm.open for arm in self.arms)], self.failed)

    def decide(self, head: RequestHead, start_ns: int) -> Plan | None:
        """What the mirror will do with this request; None when nothing, which is then counted."""
        path = path_of(head.target)
        methods = self._exact.get(path)
        if methods is None and self._patterned:
            methods = self.selection.by_path(path)
        if methods is None or not (head.method in methods or head.upgrade):
            return None
        large = head.length > self.request_bytes or len(head.lines) > MOST_FIELDS
        odd = head.marked or head.opted_out or head.upgrade or large
        if (
            odd or self.draining or self._denial is not None or self.switch.skip
        ):  # as a rule, nothing is to be said
            reason = self._skip_reason(head)
            if reason:
                self.books.skip(reason)
                return None
        pair_id = new_pair_id()
        chosen = self._chosen(pair_id) if self._by_request else self._chosen_by_keys(pair_id, head)
        if not chosen:
            self.books.skip("not_sampled")
            return None
        if not self.held.room(CAPTURE_BYTES + max(head.length, 0)):
            if self.switch.skip:
                self.books.skip("shadow_off")
            else:
                self.books.drop(chosen, "memory", pair_id)
            return None
        arrived_at = time.time_ns()
        request = Request(head, pair_id, arrived_at, self.ledger.opened(arrived_at))
        request.mirroring = self.switch.mirroring
        request.weights, request.rates = self.weights, self._rates
        return Plan(self, request, chosen, start_ns)

    def _set_rates(self) -> None:
        """Give each arm its share from now on. A request keeps the weights of its time."""
        self._given = self.switch.version
        self._rates = rates = self.switch.rates(self.samples)
        for arm in self.arms:
            arm.sample = rates[arm.name]
            arm.not_sampled = arm.left_out("stopped" if arm.name in self.switch.stopped else "")
        highest = max(rates.values(), default=0.0)
        self.weights = {name: 1 / rate if rate else 1.0 for name, rate in rates.items()}
        self.weights[PRIMARY] = 1 / highest if highest else 1.0

    def configure(
        self, samples: Mapping[str, float], limits: Limits, term: Term | None = None
    ) -> None:
        """What of a changed configuration holds at once."""
        self.samples = dict(samples)
        self.request_bytes = self.router.most_bytes = limits.request_bytes
        self.held.limit_bytes = limits.mirror_bytes
        self.switch.term = term or self.switch.term
        self._given = -1

    def _chosen(self, pair_id: str) -> list[Arm]:
        """The arms that get it; drawn for, 1.3 µs, only where a rate stands between 0 and 1."""
        drawn = 0.0
        chosen = []
        for arm in self.arms:
            if not drawn and 0.0 < arm.sample < 1.0:
                drawn = self.sampler.draw(pair_id)
            if drawn < arm.sample:
                chosen.append(arm)
        return chosen

    def _chosen_by_keys(self, pair_id: str, head: RequestHead) -> list[Arm]:
        """The arms that get it, each by its key; by conversation, those that may."""
        drawn: dict[str, float] = {}
        for key in {arm.key for arm in self.arms}:
            if key == REQUEST:
                drawn[key] = self.sampler.draw(pair_id)
            elif key.startswith(HEADER):
                value = sole_value(head, key.removeprefix(HEADER).encode())
                drawn[key] = self.sampler.draw(f"{key}:{value}") if value else 1.0
        return [arm for arm in self.arms if drawn.get(arm.key, 0.0) < arm.sample]

    def _skip_reason(self, head: RequestHead) -> str:
        """Why no arm may have it, the first that holds; '' for none."""
        skip = self.switch.skip
        reasons = (
            (head.marked, "marked"),
            (head.opted_out, "opted_out"),
            (self._denial is not None and self._denial.denies(head), "denied"),
            (head.upgrade, "upgrade"),
            (self.draining, "draining"),
            (skip not in {"", "shadow_off"}, skip),
            (head.length > self.request_bytes, "body_too_large"),
            (len(head.lines) > MOST_FIELDS, "too_large_to_route"),
        )
        return next((word for holds, word in reasons if holds), "")

    def failed(self, error: Exception, plan: Waiting | mirrored.Plan | None = None) -> None:
        """An exception in mirror code: a fault of ours, kept from the client, shown by metrics."""
        self.totals.mirror_errors += 1
        self.totals.last_mirror_error = self._faults.say("mirroring failed, not the client", error)
        if plan is not None:
            try:
                plan.abandon()
            except Exception as again:  # noqa: BLE001 from here it would reach the client
                self.failed(again)

    def tick(self, now: int) -> None:
        """The proxy's clock: switch, what it ends, deadlines, idle connections, arms' lines."""
        requests, open_copies = self.totals.requests, sum(len(arm.open) for arm in self.arms)
        busy = requests != self._requests or self.totals.open_streams > 0 or open_copies > 0
        self._requests = requests
        self.switch.tick(now, time.time(), open_copies, busy=busy)
        if self._given != self.switch.version:
            self._set_rates()
        if self.switch.skip == "kill_switch":
            self.cuts.pass_by()
        self._deadlines.pass_by(now)
        for arm in self.arms:
            arm.pool.sweep()
            arm.plight.look(now)

    def shut_down(self) -> None:
        """Drop what is still open."""
        for plan in self.plans:
            plan.give_up("shutdown")
        for arm in self.arms:
            arm.shut_down()

    async def close(self) -> None:
        """End the arms' connections."""
        self.switch.close()
        self._spending.close()
        for arm in self.arms:
            await arm.pool.close()
