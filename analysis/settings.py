"""What the analysis is told: which experiment, which arms, which policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analysis.policy import Policy, policy_hash


@dataclass(frozen=True)
class Stop:
    """When mirroring ends by itself.

    Attributes:
        pairs, hours, cost: bounds of one candidate; None: no such bound.
        prices: by candidate, what a million prompt and completion tokens cost; needed for `cost`.
        on_verdict: whether a final verdict ends it.
    """

    pairs: int | None = None
    hours: float | None = None
    cost: float | None = None
    prices: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    on_verdict: bool = True


@dataclass(frozen=True)
class Settings:
    """One experiment, as the analysis sees it.

    Attributes:
        experiment: its name.
        config_hash: identity of what is measured; only its exchanges are read.
        candidates: names of the candidate arms, in the configuration's order.
        control: name of the control arm, where there is one.
        comparisons: the comparison's id, for every candidate and the control.
        policy: thresholds and error levels.
        replicas: engine replicas of each arm, where they are stated; loads are told by replica.
        deadlines_s: each arm's deadline; what it cuts off within the slack says nothing.
        copies: how many times each arm gets a request; 1 where it is not stated.
        factors: which options each arm tries out, name to level; the primary's none.
        builds: what each arm runs, in words; the n-th comparison of a build has a smaller alpha.
        off_period_s: each stretch of so many seconds has one shadow-off window; None: none has.
        stop: when mirroring ends by itself.
    """

    experiment: str
    config_hash: str
    candidates: tuple[str, ...]
    comparisons: Mapping[str, str]
    control: str | None = None
    policy: Policy = field(default_factory=Policy)
    builds: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)
    deadlines_s: Mapping[str, float] = field(default_factory=dict)
    copies: Mapping[str, int] = field(default_factory=dict)
    factors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    attach: str = "inline"
    """tap: the primary is a replica that the gateway's copies were sent to."""
    off_period_s: float | None = None
    stop: Stop = Stop()

    @property
    def policy_hash(self) -> str:
        """Identity of the policy."""
        return policy_hash(self.policy)

    @property
    def window_seconds(self) -> int:
        """The grid of windows, in seconds."""
        return self.policy.blocks.window_seconds

    @property
    def arms(self) -> tuple[str, ...]:
        """Every arm beside the primary."""
        return self.candidates if self.control is None else (*self.candidates, self.control)

    def scope(self, arm: str) -> dict[str, str]:
        """Which rows are of one arm's comparison, as queries name it."""
        return {"experiment": self.experiment, "arm": arm, "comparison": self.comparisons[arm]}
