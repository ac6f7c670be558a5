"""The mirror: decides at a request's head, performs when its last byte went to the primary.

Nothing here makes the primary wait, and no exception leaves it: what fails is counted, and the
client's stream goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from shadow.arm import Arm, Shared
from shadow.capture import CAPTURE_BYTES, Origin, Request, Side
from shadow.config.choice import Inside
from shadow.held import Held
from shadow.plan import PRIMARY, Plan
from shadow.redact import path_of
from shadow.relay.turns import Turns
from shadow.routing import Conversations, Route, Router
from shadow.sampling import CONVERSATION, HEADER, REQUEST, Sampler, new_pair_id
from shadow.selection import Denial, Selection, sole_value
from shadow.spending import spending
from shadow.switch import Switch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shadow.config.model import Config
    from shadow.config.operations import Limits
    from shadow.ports import Ports
    from shadow.relay.head import RequestHead

TURN_NS: Final = 500_000
"""So long at a time arms are started; one start takes 0.02 to 0.1 ms."""


class Mirror:
    """All arms of an experiment."""

    def __init__(self, config: Config, config_hash: str, ports: Ports) -> None:
        ledger, publisher = ports.ledger, ports.publisher
        origin = Origin(
            config.experiment, config_hash, ledger.worker, ledger.boot_id, config.attach
        )
        self.ledger = ledger
        self.publisher = publisher
        self.totals = ports.totals
        self.draining = False
        self.switch = Switch(config.experiment, config_hash, config.arms, config.isolated)
        self.held = Held(config.limits.mirror_bytes, publisher)
        subject = config.subject
        shared = Shared(
            origin,
            config.limits,
            ledger,
            publisher,
            ports.lookup,
            Turns(),  # one for all arms: what they cost together is bounded
            self.held,
            subject,
            Inside(config.networks),
            config.workers,
            spending(config, ledger.worker),
            veil=ports.veil,
        )
        self._spending = shared.spending
        self.arms = [Arm(name, arm, shared) for name, arm in config.arms.items()]
        self.samples = {name: arm.sample for name, arm in config.arms.items()}
        """As configured; what was said since stands before it."""
        self.primary = Side(
            origin,
            PRIMARY,
            PRIMARY,
            1.0,
            None,
            config.limits.answer_bytes,
            config.limits.answer_tail,
            self.held,
            subject,
            veil=ports.veil,
        )
        self.request_bytes = config.limits.request_bytes
        self.selection = Selection(config.mirror_paths)
        self._exact, self._patterned = self.selection.exact, self.selection.patterned
        self.sampler = Sampler(config.experiment)
        self._denial = None if config.tenants is None else Denial(config.tenants)
        self._by_request = all(arm.key == REQUEST for arm in self.arms)
        self.router = Router(
            self.arms,
            self.sampler,
            Conversations(config.experiment, config.tenants.header if config.tenants else None),
            self.held,
            config.limits.request_bytes,
            config.greedy_probe,
        )
        self._requests = 0
        self._given = -1
        self.weights: dict[str, float] = {}
        self._rates: Mapping[str, float] = {}
        self._set_rates()
        self._ready: deque[Plan] = deque()
        self._routing: deque[Plan] = deque()

    def decide(self, head: RequestHead, start_ns: int) -> Plan | None:
        """What the mirror will do with this request; None when nothing, which is then counted."""
        path = path_of(head.target)
        methods = self._exact.get(path)
        if methods is None and self._patterned:
            methods = self.selection.by_path(path)
        if methods is None or self.draining or not (head.method in methods or head.upgrade):
            return None
        odd = head.marked or head.opted_out or head.upgrade or head.length > self.request_bytes
        if odd or self._denial is not None or self.switch.skip:  # as a rule, nothing is to be said
            reason = self._skip_reason(head)
            if reason:
                self.skip(self.arms, reason)
                return None
        pair_id = new_pair_id()
        chosen = self._chosen(pair_id) if self._by_request else self._chosen_by_keys(pair_id, head)
        if not chosen:
            self.skip(self.arms, "not_sampled")
            return None
        if not self.held.room(CAPTURE_BYTES + max(head.length, 0)):
            if self.switch.skip:
                self.skip(self.arms, "shadow_off")
            else:
                self.drop(chosen, "memory", pair_id)
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

    def configure(self, samples: Mapping[str, float], limits: Limits) -> None:
        """What of a changed configuration holds at once."""
        self.samples = dict(samples)
        self.request_bytes = self.router.most_bytes = limits.request_bytes
        self.held.limit_bytes = limits.mirror_bytes
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
        if head.marked:
            return "marked"
        if head.opted_out:
            return "opted_out"
        if self._denial is not None and self._denial.denies(head):
            return "denied"
        if head.upgrade:
            return "upgrade"
        if self.switch.skip and self.switch.skip != "shadow_off":
            return self.switch.skip
        return "body_too_large" if head.length > self.request_bytes else ""

    def skip(self, arms: list[Arm], reason: str) -> None:
        """Eligible and not meant for these arms, nor, then, for the primary's record."""
        for name in (PRIMARY, *(arm.name for arm in arms)):
            self.ledger.add(name, "eligible")
            self.ledger.add(name, "skipped", reason)

    def count_sampled(self, chosen: list[Arm]) -> None:
        """Eligible, and meant for these arms."""
        names = [(PRIMARY, "eligible", ""), (PRIMARY, "sampled", "")]
        for arm in self.arms:
            names += arm.sampled if arm in chosen else arm.not_sampled
        self.ledger.add_all(names)

    def count_routes(self, routes: list[Route], *, wanted: bool = False) -> None:
        """Eligible; and each copy of an arm sampled, or the arm skipped. The primary's record is
        wanted while there is one copy, or whatever becomes of the arms.
        """
        if len(routes) == len(self.arms) and all(len(route.copies) == 1 for route in routes):
            self.count_sampled(self.arms)
            return
        copies = {route.arm.name: len(route.copies) for route in routes}
        reasons = {route.arm.name: route.skipped for route in routes if not route.copies}
        said = [reason for reason in reasons.values() if reason != "not_sampled"]
        copies[PRIMARY] = int(wanted or any(copies.values()))
        reasons[PRIMARY] = (*said, "not_sampled")[0]
        names = []
        for name in (PRIMARY, *(arm.name for arm in self.arms)):
            count = copies.get(name, 0)
            skipped = (name, "skipped", reasons.get(name, "not_sampled"))
            names += [(name, "eligible", "")] * max(count, 1)
            names += [(name, "sampled", "")] * count or [skipped]
        self.ledger.add_all(names)

    def meant(self, chosen: list[Arm], pair_id: str) -> list[Arm]:
        """Those of `chosen` that count where nobody will know the conversation."""
        drawn = 0.0 if self._by_request else self.sampler.draw(pair_id)
        return [arm for arm in chosen if arm.key != CONVERSATION or drawn < arm.sample]

    def count_off(self, chosen: list[Arm]) -> None:
        """In a shadow-off window: meant for these arms; the primary's record alone is wanted."""
        names = [(PRIMARY, "eligible", ""), (PRIMARY, "sampled", "")]
        for arm in self.arms:
            names += arm.left_out("shadow_off") if arm in chosen else arm.not_sampled
        self.ledger.add_all(names)

    def drop(self, chosen: list[Arm], reason: str, pair_id: str) -> None:
        """Meant for these arms, and none gets it."""
        meant = self.meant(chosen, pair_id)
        if not meant:
            self.skip(self.arms, "not_sampled")
            return
        self.count_sampled(meant)
        for name in (PRIMARY, *(arm.name for arm in meant)):
            self.ledger.add(name, "dropped", reason)

    def perform_soon(self, plan: Plan) -> None:
        """Start the arms once the loop has written what the primary was sent."""
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._perform)
        self._ready.append(plan)

    def _perform(self) -> None:
        """For half a millisecond: after a burst of requests it is the primary's turn again."""
        ready, until_ns = self._ready, monotonic_ns() + TURN_NS
        while ready:
            plan = ready[0]
            try:
                if not plan.perform():
                    self._look(plan)
            except Exception as error:  # noqa: BLE001 the other plans go on; this one is counted
                self.failed(error, plan)
            ready.popleft()
            if monotonic_ns() > until_ns:
                break
        if ready:
            asyncio.get_running_loop().call_soon(self._perform)

    def _look(self, plan: Plan) -> None:
        """Look at a body: at once for one step, where no other waits; as a rule that is all."""
        if self._routing or not plan.go_on():
            self._routing.append(plan)
            if len(self._routing) == 1:
                asyncio.get_running_loop().call_soon(self._look_on)

    def _look_on(self) -> None:
        """One step of one body a turn of the loop, first come, first served."""
        plan = self._routing[0]
        try:
            done = plan.go_on()
        except Exception as error:  # noqa: BLE001 as above
            self.failed(error, plan)
            done = True
        if done:
            self._routing.popleft()
        if self._routing:
            asyncio.get_running_loop().call_soon(self._look_on)

    def failed(self, error: Exception, plan: Plan | None = None) -> None:
        """An exception in mirror code: a fault of ours, kept from the client, shown by metrics."""
        if plan is not None:
            plan.abandon()
        self.totals.mirror_errors += 1
        self.totals.last_mirror_error = f"{type(error).__name__}: {error}"

    def tick(self, now: int) -> None:
        """The proxy's clock: the switch, deadlines, idle connections."""
        requests, open_copies = self.totals.requests, sum(len(arm.open) for arm in self.arms)
        busy = requests != self._requests or self.totals.open_streams > 0 or open_copies > 0
        self._requests = requests
        self.switch.tick(now, time.time(), open_copies, busy=busy)
        if self._given != self.switch.version:
            self._set_rates()
        for arm in self.arms:
            arm.expire(now)
            arm.pool.sweep()

    def shut_down(self) -> None:
        """Drop what is still open."""
        for plan in (*self._ready, *self._routing):
            plan.give_up("shutdown")
        for arm in self.arms:
            arm.shut_down()

    async def close(self) -> None:
        """End the arms' connections."""
        self.switch.close()
        self._spending.close()
        for arm in self.arms:
            await arm.pool.close()
