"""What was said of mirroring while it runs: paused, rates, what has ended; by whom and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

MOST_BYTES = 64 * 1024
"""Of a state's JSON, in a file or from a host."""
_MOST_NS = 2**63
"""A later moment no clock has, and nobody can show."""


class NotSteering(ValueError):
    """What should be a said state is none; one line."""


@dataclass(frozen=True, slots=True)
class Told:
    """The state as it was said last. `rates` stand instead of the configuration's `sample`."""

    paused: bool = False
    rates: Mapping[str, float] = field(default_factory=dict)
    stopped: Mapping[str, str] = field(default_factory=dict)
    """Arm → why the analysis has ended it; holds for `config_hash` alone."""
    config_hash: str = ""
    by: str = ""
    """Who said it last (the analysis' stops do not count)."""
    reason: str = ""
    at_ns: int = 0
    """UTC; 0: nobody has said anything."""

    def rate(self, arm: str, rate: float | None) -> Told:
        """With this rate; None: the configuration's."""
        others = {name: one for name, one in self.rates.items() if name != arm}
        return replace(self, rates=others if rate is None else {**others, arm: rate})

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def later(before: Told, told: Told) -> Told:
    """What holds after another host's word: its ends, and what people said, unless that is older
    than what was heard before: a control port that has lost its file takes no pause back.
    """
    if told.at_ns >= before.at_ns:
        return told
    return replace(before, stopped=told.stopped, config_hash=told.config_hash)


def told_of(document: object) -> Told:
    """From JSON; what it has more is ignored.

    Raises:
        NotSteering: it is none.
    """
    if not isinstance(document, dict):
        raise NotSteering("not a JSON object")
    said = {name: document[name] for name in Told.__dataclass_fields__ if name in document}
    told = Told(**said)
    texts = (told.config_hash, told.by, told.reason)
    if not (
        isinstance(told.paused, bool)
        and all(isinstance(text, str) for text in texts)
        and isinstance(told.at_ns, int)
        and 0 <= told.at_ns < _MOST_NS
        and _named(told.rates, is_rate)
        and _named(told.stopped, lambda why: isinstance(why, str))
    ):
        raise NotSteering("a field has the wrong type")
    return told


def is_rate(value: object) -> bool:
    """A share of requests."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= 1  # no NaN is; and of a whole number as long as a page none asks for more


def _named(value: object, good: Callable[[object], bool]) -> bool:
    return isinstance(value, dict) and all(
        isinstance(key, str) and good(one) for key, one in value.items()
    )


def damaged(error: NotSteering) -> Told:
    """What holds where nobody knows what was said: the safe side."""
    return Told(paused=True, by="shadow", reason=str(error))
