"""What the analysis is told: which experiment, which arms, which policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analysis.policy import Policy, policy_hash


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
        builds: what each arm runs, in words; the n-th comparison of a build has a smaller alpha.
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
