"""What arms have used of a day's budget; it lies in a mapped file and survives `kill -9`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from shadow.publish.counters import Counters, NotCounters, read_counters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shadow.choosing.usage import Tokens
    from shadow.config.bounds import ArmLimits, Price
    from shadow.config.model import Config
    from shadow.publish.counters import Name

SUFFIX: Final = ".budgets"
DAY_S: Final = 86400
_SMOOTHING: Final = 16
"""The mean cost of a request goes a sixteenth of the way to each new one."""

_log = structlog.get_logger("shadow.spending")


class Spending:
    """Figures by arm and name, of one worker. Event loop only."""

    def __init__(self, path: Path | None, experiment: str) -> None:
        """Go on with the figures of `path`; without one, or where it cannot be used, in memory."""
        self._values: dict[Name, int] = {}
        self._counters: Counters | None = None
        if path is None:
            return
        self._values = _read(path, experiment)
        try:
            self._counters = _written(path, experiment, self._values)
        except OSError as error:
            _log.warning("budgets are kept in memory alone", file=str(path), why=str(error))

    def get(self, arm: str, what: str) -> int:
        """A figure; 0 at first."""
        return self._values.get((arm, what, ""), 0)

    def put(self, arm: str, what: str, value: int) -> None:
        """Set it, here and in the file."""
        self._values[arm, what, ""] = value
        if self._counters is not None:
            self._counters.view[self._counters.cell((arm, what, ""))] = value

    def close(self) -> None:
        """The file stays."""
        if self._counters is not None:
            self._counters.close()
            self._counters = None


def spending(config: Config, worker: str) -> Spending:
    """The worker's; with a file only where an arm has a budget."""
    budgets = any(_has_budget(arm.limits) for arm in config.arms.values())
    return Spending(config.state / f"{worker}{SUFFIX}" if budgets else None, config.experiment)


class Purse:
    """One arm's budget of a day (UTC), a worker's part of it."""

    def __init__(
        self, arm: str, limits: ArmLimits, price: Price | None, workers: int, spent: Spending
    ) -> None:
        self._arm, self._spent, self._price = arm, spent, price
        self._tokens = (limits.tokens_per_day or 0) / workers
        self._millionths = (limits.cost_per_day or 0.0) / workers * 1e6
        self._mean_tokens = self._mean_millionths = 0.0

    def empty(self, open_requests: int, estimate: Tokens) -> bool:
        """Whether what was spent, and what is under way, leaves nothing of the day's budget.

        Args:
            open_requests: under way; each counts as much as those before it did on average.
            estimate: what one costs, before any has ended.
        """
        self._turn_day()
        tokens = self._mean_tokens or sum(estimate)
        if self._tokens and self._used("tokens") + open_requests * tokens >= self._tokens:
            return True
        cost = self._mean_millionths or self._cost(estimate)
        return bool(
            self._millionths and self._used("millionths") + open_requests * cost >= self._millionths
        )

    def spend(self, used: Tokens) -> None:
        """A request has ended that cost so much."""
        self._turn_day()
        tokens, millionths = sum(used), self._cost(used)
        self._spent.put(self._arm, "tokens", self._used("tokens") + tokens)
        self._spent.put(self._arm, "millionths", self._used("millionths") + millionths)
        self._mean_tokens += (tokens - self._mean_tokens) / (_SMOOTHING if self._mean_tokens else 1)
        self._mean_millionths += (millionths - self._mean_millionths) / (
            _SMOOTHING if self._mean_millionths else 1
        )

    def _used(self, what: str) -> int:
        return self._spent.get(self._arm, what)

    def _cost(self, used: Tokens) -> int:
        """In millionths of the currency: a price is of a million tokens."""
        price = self._price
        if price is None:
            return 0
        per_prompt, per_completion = price.prompt_per_million, price.completion_per_million
        return round(used.prompt * per_prompt + used.completion * per_completion)

    def _turn_day(self) -> None:
        today, day = int(time.time()) // DAY_S, self._used("day")
        if today > day or today < day - 1:  # a clock set back over midnight gives no second budget
            self._spent.put(self._arm, "tokens", 0)
            self._spent.put(self._arm, "millionths", 0)
            self._spent.put(self._arm, "day", today)


def purse(
    arm: str, limits: ArmLimits, price: Price | None, workers: int, spent: Spending
) -> Purse | None:
    """The arm's; None where it has no budget."""
    return Purse(arm, limits, price, workers, spent) if _has_budget(limits) else None


def _has_budget(limits: ArmLimits) -> bool:
    return limits.tokens_per_day is not None or limits.cost_per_day is not None


def _read(path: Path, experiment: str) -> dict[Name, int]:
    try:
        identity, values = read_counters(path)
    except FileNotFoundError:
        return {}
    except (OSError, NotCounters, ValueError) as error:
        _log.warning("what was spent today is not known", file=str(path), why=str(error))
        return {}
    return values if identity.get("experiment") == experiment else {}


def _written(path: Path, experiment: str, values: Mapping[Name, int]) -> Counters:
    """The file with these figures, put in its place once they stand in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f"{SUFFIX}.next")
    counters = Counters(fresh, {"experiment": experiment})
    try:
        for name, value in values.items():
            counters.view[counters.cell(name)] = value
        fresh.replace(path)
    except BaseException:
        counters.close()
        raise
    return counters
