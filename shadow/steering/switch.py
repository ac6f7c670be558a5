"""The switch: whether the mirror mirrors now. Read at each request's head, told ten times a second.

What holds it still, the strongest first: the kill switch, a person's pause, the experiment's end,
that it has not begun, the loop's lag, a shadow-off window. Copies that are under way go on, but
for the kill switch's, which the mirror ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog

from shadow.config.lifecycle import AFTER_S, Isolation
from shadow.steering.guard import Guard
from shadow.steering.loop_lag import LoopLag
from shadow.steering.term import Term
from shadow.steering.told import Told
from shadow.steering.windows import Windows

REASONS: Final = ("kill_switch", "paused", "stopped", "not_started", "lag", "shadow_off")
"""Why mirroring stands still; skipped requests have the same words."""
OFF: Final = frozenset({"off", "ending"})
"""What the records of a shadow-off window say of it."""

_log = structlog.get_logger("shadow.switch")


class Switch:
    """See the module. On the loop only."""

    __slots__ = (
        "_back_s",
        "_config_hash",
        "_names",
        "_windows",
        "fault",
        "faults_total",
        "killed",
        "lag",
        "mirroring",
        "skip",
        "stills",
        "stopped",
        "term",
        "told",
        "unseen",
        "version",
    )

    def __init__(
        self,
        experiment: str,
        config_hash: str,
        arms: Iterable[str],
        isolation: Isolation | None,
        term: Term = Term(),  # noqa: B008 it is frozen
    ) -> None:
        self._config_hash, self._names = config_hash, tuple(arms)
        self._windows: Windows | None = None
        self.lag: LoopLag | None = None
        if isolation is not None and self._names:
            window = isolation.window
            self._windows = Windows(experiment, isolation.period_s, window.least, window.most)
            self.lag = LoopLag(int(isolation.pause_lag * 1e9))
        self.told = Told()
        self.killed = ""
        """Why the kill switch holds; '': it does not."""
        self.unseen: Callable[[], str] = str
        """Why the kill switch could not be looked at; '': it was."""
        self.fault: Callable[[], str] = str
        """Which change may not be heard, for a fault of ours; '': each is."""
        self.faults_total: Callable[[], int] = int
        """How often such a fault began."""
        self.stopped: Mapping[str, str] = {}
        """Arm → why it has ended."""
        self.term = term
        """From when to when; a changed configuration may move it."""
        self.version = 0
        """Rises with what arms are given."""
        self.skip = ""
        """Why nothing is mirrored now; '': it is."""
        self.mirroring = "on"
        """What records of requests that arrive now say."""
        self.stills: Counter[str] = Counter()
        """How often mirroring has come to stand still, by reason."""
        self._back_s = 0.0

    def hear(self, told: Told) -> None:
        """What people and the analysis have said holds from now on."""
        if told == self.told:
            return
        self.told = told
        ours = told.config_hash == self._config_hash
        self.stopped = {n: w for n, w in told.stopped.items() if ours and n in self._names}
        self.version += 1

    def rates(self, configured: Mapping[str, float]) -> dict[str, float]:
        """Each arm's share of requests: what was said last, 0 for an arm that has ended."""
        said = {name: self.told.rates.get(name, rate) for name, rate in configured.items()}
        return {name: 0.0 if name in self.stopped else rate for name, rate in said.items()}

    def tick(self, now_ns: int, wall_s: float, open_copies: int, *, busy: bool = True) -> None:
        """Look at the clocks.

        Args:
            now_ns: the monotonic one.
            wall_s: since 1970, by which all hosts have the same windows.
            open_copies: requests of arms that are open.
            busy: whether clients asked for anything since the last call, or wait for an answer.
        """
        since = None if self._windows is None else self._windows.since(wall_s)
        stronger = self._stronger(wall_s)
        window = "" if since is None else "shadow_off"
        if self.lag is not None:
            still = stronger or window
            self.lag.tick(now_ns, open_copies, on=not self.skip, busy=busy, still=still)
        lag = "lag" if self.lag is not None and self.lag.guard.holds else ""
        self._turn(stronger or lag or window, now_ns / 1e9)
        if self.skip:
            self.mirroring = "ending" if open_copies and (since or 0.0) < AFTER_S else "off"
        else:
            self.mirroring = "after" if now_ns / 1e9 < self._back_s + AFTER_S else "on"

    def _stronger(self, wall_s: float) -> str:
        """What holds mirroring still whatever the loop's lag is; '': nothing."""
        if self.killed or self.unseen():
            return "kill_switch"
        if self.told.paused:
            return "paused"
        if self._all_ended:
            return "stopped"
        return self.term.skip(wall_s)

    @property
    def _all_ended(self) -> bool:
        return 0 < len(self._names) == len(self.stopped)

    def _turn(self, reason: str, now_s: float) -> None:
        before = self.skip
        if reason == before:
            return
        self.skip = reason
        if not reason:
            self._back_s = now_s
        else:
            self.stills[reason] += 1
        if {before, reason} - {"", "shadow_off", "lag"}:
            self._say(before, reason)

    def _say(self, before: str, reason: str) -> None:
        why = {
            "kill_switch": self.killed or self.unseen(),
            "paused": f"by {self.told.by or 'somebody'}: {self.told.reason or 'no reason given'}",
            "stopped": "; ".join(dict.fromkeys(self.stopped.values())) if self._all_ended else "",
            "lag": "the loop lags with mirroring on",
        }.get(reason, "") or self.term.why(reason)
        if reason == "lag":  # said where it is decided
            _log.info("mirroring stands still", why=reason, detail=why)
        elif reason and reason != "shadow_off":
            _log.warning("mirroring stands still", why=reason, detail=why)
        elif before not in {"", "shadow_off"}:
            _log.info("mirroring goes on", stood_still_for=before)

    @property
    def guard(self) -> Guard | None:
        """What pauses mirroring for the loop's sake."""
        return None if self.lag is None else self.lag.guard

    def close(self) -> None:
        """End the watching."""
        if self.lag is not None:
            self.lag.close()
