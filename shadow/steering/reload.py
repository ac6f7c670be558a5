"""What of a changed configuration holds at once: rates, bounds, the term; never what is measured.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from shadow.config.identity import config_hash

if TYPE_CHECKING:
    from shadow.config.model import Config

LIVE_LIMITS: Final = ("request_bytes", "mirror_bytes")
TERM: Final = frozenset({"start_at", "stop_at.time"})


class Refused(Exception):
    """The changed configuration is another measurement; one line."""


def accepted(now: Config, changed: Config) -> tuple[Config, list[str]]:
    """(the configuration that holds from here on, the changed keys that wait for the next start).

    Raises:
        Refused: what is measured would change: nothing of it holds.
    """
    paths = list(differences(now.model_dump(mode="json"), changed.model_dump(mode="json")))
    if now.experiment != changed.experiment or config_hash(now) != config_hash(changed):
        keys = ", ".join(path for path in paths if not _live(path)) or ", ".join(paths)
        raise Refused(f"changes what is measured, which needs a start: {keys}")
    arms = {
        name: arm.model_copy(update={"sample": changed.arms[name].sample})
        for name, arm in now.arms.items()
    }
    bounds = {name: getattr(changed.limits, name) for name in LIVE_LIMITS}
    limits = now.limits.model_copy(update=bounds)
    stop_at = now.stop_at.model_copy(update={"time": changed.stop_at.time})
    term = {"start_at": changed.start_at, "stop_at": stop_at}
    merged = now.model_copy(update={"arms": arms, "limits": limits, **term})
    return merged, [path for path in paths if not _live(path)]


def _live(path: str) -> bool:
    if path in TERM:
        return True
    first, _, rest = path.partition(".")
    if first == "limits":
        return rest in LIVE_LIMITS
    return first == "arms" and rest.endswith(".sample")


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """The paths at which two plain trees differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            below = f"{path}.{key}" if path else str(key)
            yield from differences(one.get(key), other.get(key), below)
    elif one != other:
        yield path
