"""What is taken out of records before they leave the process: one point, in the sender thread.

README.md says which module does what. Nothing here is imported unless the configuration has
`redaction`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shadow.config.redaction import Redaction
    from shadow.redaction.records import Veil


def veil_of(said: Redaction | None, hurried: Callable[[], bool]) -> Veil | None:
    """The configuration's redaction; None where there is none, which costs nothing."""
    if said is None:
        return None
    from shadow.redaction.breath import Breath  # noqa: PLC0415 telephones' metadata among it
    from shadow.redaction.records import Veil  # noqa: PLC0415
    from shadow.redaction.redactor import Redactor  # noqa: PLC0415
    from shadow.redaction.rules import rules_of  # noqa: PLC0415

    return Veil(Redactor(rules_of(said), Breath(hurried)))
