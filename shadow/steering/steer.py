"""What people and the analysis say, put to what held before."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from shadow.steering.told import Told, is_rate
from shadow.steering.told_file import change

MOST_CHARACTERS: Final = 500
"""Of a name and of a reason."""

_log = structlog.get_logger("shadow.mirror")


class Unfit(ValueError):
    """What was said cannot hold; one line."""


def steer(told: Told, action: str, said: Mapping[str, object], arms: Mapping[str, float]) -> Told:
    """What holds after `action`: pause, resume, or rate with {arm, rate}. Pure but for the clock.

    Args:
        told: what held before.
        action: which.
        said: `by` (needed), `reason`, and the action's own.
        arms: the configured rates.

    Raises:
        Unfit: nobody says it, or of an arm or rate that is none.
    """
    by, reason = said.get("by"), said.get("reason", "")
    if not isinstance(by, str) or not by.strip():
        raise Unfit("by: say who")
    if not isinstance(reason, str):
        raise Unfit("reason: not a text")
    at_ns = max(time.time_ns(), told.at_ns + 1)  # a clock set back makes no word an older one
    signed = replace(told, by=by[:MOST_CHARACTERS], reason=reason[:MOST_CHARACTERS], at_ns=at_ns)
    if action in {"pause", "resume"}:
        return replace(signed, paused=action == "pause")
    arm, rate = said.get("arm"), said.get("rate")
    if not isinstance(arm, str) or arm not in arms:
        raise Unfit(f"arm: there is no {arm}; there are: {', '.join(arms)}")
    if rate is not None and not is_rate(rate):
        raise Unfit("rate: a share from 0 to 1, or `file` (by the control port null)")
    return signed.rate(arm, rate)  # type: ignore[arg-type]  # is_rate has looked


def tell_ended(file: Path, config_hash: str, ended: Mapping[str, str]) -> bool:
    """Say which arms have ended; whether that is news. What cannot be said is logged: it is tried
    again after the next look.
    """
    news = False

    def how(told: Told) -> Told:
        nonlocal news
        ours = told.stopped if told.config_hash == config_hash else {}
        news = set(ours) != set(ended)
        return replace(told, stopped=dict(ended), config_hash=config_hash) if news else told

    try:
        change(file, how)
    except OSError as error:
        _log.error("the end of mirroring cannot be said", file=str(file), why=str(error))
        return False
    return news
