"""The mirror: decides at a request's head, performs when its last byte went to the primary.

Nothing here makes the primary wait, and no exception leaves it: what fails is counted, and the
client's stream goes on.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from shadow.arm import Arm, Shared
from shadow.capture import CAPTURE_BYTES, Origin, Request, Side
from shadow.held import Held
from shadow.plan import PRIMARY, Plan
from shadow.redact import path_of
from shadow.relay.turns import Turns
from shadow.sampling import HEADER, REQUEST, Sampler, new_pair_id
from shadow.selection import Denial, Selection, sole_value

if TYPE_CHECKING:
    from shadow.config.model import Config
    from shadow.ports import Ports
    from shadow.relay.head import RequestHead


class Mirror:
    """All arms of an experiment."""

    def __init__(self, config: Config, config_hash: str, ports: Ports) -> None:
        ledger, publisher = ports.ledger, ports.publisher
        origin = Origin(config.experiment, config_hash, ledger.worker, ledger.boot_id)
        self.ledger = ledger
        self.publisher = publisher
        self.totals = ports.totals
        self.draining = False
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
        )
        self.arms = [Arm(name, arm, shared) for name, arm in config.arms.items()]
        highest = max((arm.sample for arm in self.arms), default=0.0)
        self.primary = Side(
            origin,
            PRIMARY,
            PRIMARY,
            1 / highest if highest else 1.0,
            None,
            config.limits.answer_bytes,
            config.limits.answer_tail,
            self.held,
            subject,
        )
        self.request_bytes = config.limits.request_bytes
        self.selection = Selection(config.mirror_paths)
        self.sampler = Sampler(config.experiment)
        self._denial = None if config.tenants is None else Denial(config.tenants)
        self._by_request = all(arm.key == REQUEST for arm in self.arms)
        self._ready: list[Plan] = []

    def decide(self, head: RequestHead, start_ns: int) -> Plan | None:
        """What the mirror will do with this request; None when nothing, which is then counted."""
        path = path_of(head.target)
        methods = self.selection.exact.get(path)
        if methods is None and self.selection.patterned:
            methods = self.selection.by_path(path)
        if methods is None or self.draining or not (head.method in methods or head.upgrade):
            return None
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
            self.drop(chosen, "memory")
            return None
        arrived_at = time.time_ns()
        request = Request(head, pair_id, arrived_at, self.ledger.opened(arrived_at))
        return Plan(self, request, chosen, start_ns)

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

    def drop(self, chosen: list[Arm], reason: str) -> None:
        """Meant for these arms, and none gets it."""
        self.count_sampled(chosen)
        for name in (PRIMARY, *(arm.name for arm in chosen)):
            self.ledger.add(name, "dropped", reason)

    def perform_soon(self, plan: Plan) -> None:
        """Start the arms once the loop has written what the primary was sent."""
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._perform)
        self._ready.append(plan)

    def _perform(self) -> None:
        ready, self._ready = self._ready, []
        for plan in ready:
            try:
                plan.start_arms()
            except Exception as error:  # noqa: BLE001 the other plans go on; this one is counted
                self.failed(error, plan)

    def failed(self, error: Exception, plan: Plan | None = None) -> None:
        """An exception in mirror code: a fault of ours, kept from the client, shown by metrics."""
        if plan is not None:
            plan.abandon()
        self.totals.mirror_errors += 1
        self.totals.last_mirror_error = f"{type(error).__name__}: {error}"

    def tick(self, now: int) -> None:
        """The proxy's clock: deadlines, idle connections."""
        for arm in self.arms:
            arm.expire(now)
            arm.pool.sweep()

    def shut_down(self) -> None:
        """Drop what is still open."""
        for arm in self.arms:
            arm.shut_down()

    async def close(self) -> None:
        """End the arms' connections."""
        for arm in self.arms:
            await arm.pool.close()
