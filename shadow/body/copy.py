"""What is sent of a request: once as it came, or changed, or several times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shadow.body.edit import Pieces


@dataclass(frozen=True, slots=True)
class Copy:
    """One request of an arm."""

    replica: int = 0
    probe: str = "none"
    body: Pieces | None = None
    """None: the client's own."""
    changes: tuple[str, ...] = ()
    """What was altered, as the record says it: `body:model`."""
    share: float = 1.0
    """The chance that an arm which gets the request gets this copy too."""


AS_IT_CAME: Final = [Copy()]
EXPANDED: Final = "header:content-encoding"
"""The change of a request whose coding was undone."""
