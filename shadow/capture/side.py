"""One side of a comparison, as its records name it: whose they are, of which arm, within what."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from shadow.capture.arrivals import FIRST_BYTES
from shadow.capture.held import Held
from shadow.capture.wire import fixed_part

if TYPE_CHECKING:
    from shadow.config.subject import Subject
    from shadow.mirror.headers import ArmHeaders
    from shadow.redaction.records import Veil

PRIMARY: Final = "primary"


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose records these are."""

    experiment: str
    config_hash: str
    worker: str
    boot_id: str
    attach: str = "inline"


@dataclass(frozen=True, slots=True)
class Side:
    """One arm as its captures name it."""

    origin: Origin
    arm: str
    role: str
    weight: float
    headers: ArmHeaders | None
    """How the arm's request was altered; None for the primary, whose request was not."""
    answer_bytes: int
    answer_tail: int
    held: Held = field(default_factory=Held, repr=False)
    subject: Subject | None = field(default=None, repr=False)
    """By which field a person's records are found."""
    veil: Veil | None = field(default=None, repr=False)
    """Redacts its records; None: they are as they came."""
    replica: int = 0
    probe: str = "none"
    first_bytes: int = field(init=False, repr=False)
    """What of an answer may be kept unasked."""
    fixed: bytes = field(init=False, repr=False)
    """What its records say alike, in their wire form."""

    def __post_init__(self) -> None:
        origin = asdict(self.origin)
        fixed = fixed_part(
            **origin, arm=self.arm, role=self.role, replica=self.replica, probe=self.probe
        )
        object.__setattr__(self, "fixed", fixed)
        object.__setattr__(self, "first_bytes", min(FIRST_BYTES, self.answer_bytes))
