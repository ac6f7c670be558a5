"""What may stand in shadow.yaml. Unknown keys are mistakes.

Its parts: `upstream`, `ends` (stream and store), `operations`, `lifecycle`, `kafka`, `subject`;
`words` and `units` say how values are written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, model_validator

from shadow.config.choice import NETWORKS, PATHS, Inside, MirrorPath, NetworkName, Tenants, outside
from shadow.config.consistency import consistent
from shadow.config.ends import Retention, Store, Stream
from shadow.config.lifecycle import Isolation, IsolationOrOff, StopAt
from shadow.config.measure import Measure
from shadow.config.moments import Moment
from shadow.config.operations import Admin, Limits
from shadow.config.redaction import Redaction
from shadow.config.subject import Subject
from shadow.config.units import Address, Duration, Listen
from shadow.config.upstream import Arm, Primary
from shadow.config.words import Name, Part


def _yaml_bool_off(value: object) -> object:
    """YAML 1.1 reads a bare off as false."""
    return "off" if value is False else value


class Config(Part):
    """One experiment. See docs/configuration.md for each key's meaning and default."""

    experiment: Name
    listen: Listen = Address("127.0.0.1", 8080)
    attach: Literal["inline", "tap"] = "inline"
    """inline: the gateway's upstream is the proxy; tap: the gateway mirrors to it."""
    capture: Literal["full", "text", "measures"]
    """full: raw answers are stored too; text: prompt and decoded answer; measures: figures only,
    and no text leaves `shadow measure`. It has no default."""
    primary: Primary
    arms: dict[Name, Arm] = {}
    stream: Stream
    store: Store
    retention: Retention = Retention()
    subject: Subject | None = None
    """By which header a person's records are found and purged; without it, by none."""
    redaction: Redaction | None = None
    """What is taken out of records before they leave the proxy."""
    measure: Measure = Measure()
    """How the proxy reaches `shadow measure`."""
    policy: Path | None = None
    """Without it, the default policy judges."""
    start_at: Moment | None = None
    """Before it nothing is mirrored."""
    stop_at: StopAt = StopAt()
    """When mirroring ends by itself; unless told otherwise, with a final verdict."""
    kill_switch: Path | None = None
    """While this file says anything but `off`, nothing is mirrored."""
    isolation: IsolationOrOff = Isolation()
    """On unless told otherwise: mirroring that hurts must end before somebody looks."""
    limits: Limits = Limits()
    retry_stale: Annotated[
        Literal["off", "idempotent", "fresh_close"], BeforeValidator(_yaml_bool_off)
    ] = "fresh_close"
    drain: Duration = 150.0
    admin: Admin = Admin()
    workers: int = Field(default=1, ge=1, le=64)
    """Proxy processes that share the port (SO_REUSEPORT)."""
    state: Path = Path("data/state")
    """Counters that survive kill -9."""
    mirror_paths: Annotated[list[MirrorPath], Field(min_length=1)] = list(PATHS)
    """METHOD /PATH, POST where none stands, `*` for one segment; the query does not count."""
    tenants: Tenants | None = None
    """Whose requests are never copied."""
    greedy_probe: float = Field(default=0.0, ge=0, le=1)
    """Of the requests that a candidate and the control got, the share sent to them once more at
    temperature 0."""
    networks: list[NetworkName] = list(NETWORKS)
    """Where arms may live without `allow_external`."""

    @model_validator(mode="after")
    def _names_are_free(self) -> Self:
        if "primary" in self.arms:
            raise ValueError("arms.primary: the name primary is taken by the primary itself")
        if said := self.primary.misplaced(self.attach):
            raise ValueError(f"primary.{said}")
        if urlsplit(self.primary.url).path:
            raise ValueError("primary.url: a path cannot stand in it: requests pass with their own")
        controls = [name for name, arm in self.arms.items() if arm.role == "control"]
        if len(controls) > 1:
            raise ValueError(f"arms: one control at most, not {', '.join(controls)}")
        if self.greedy_probe and not controls:
            raise ValueError("greedy_probe: compares candidates with a control; add such an arm")
        unpriced = [name for name in self.candidates if self.arms[name].price is None]
        if self.stop_at.cost is not None and unpriced:
            raise ValueError(f"stop_at.cost: arms.{unpriced[0]} has no price to reckon it by")
        consistent(self)
        return self

    @model_validator(mode="after")
    def _arms_are_inside(self) -> Self:
        inside = Inside(self.networks)
        arms: dict[str, Arm | Primary] = {f"arms.{name}": arm for name, arm in self.arms.items()}
        if self.attach == "tap":
            arms["primary"] = self.primary
        for name, arm in arms.items():
            if not arm.allow_external and (address := outside(arm.url, inside)):
                raise ValueError(
                    f"{name}.url: {address} is outside of `networks`; name its network there,"
                    f" or say allow_external: true"
                )
        return self

    @property
    def measure_folder(self) -> Path:
        """Of the socket between proxy and `shadow measure`."""
        return self.measure.folder or self.state / "measure"

    @property
    def isolated(self) -> Isolation | None:
        """`isolation` where it says something: production does not pass a tap."""
        return None if self.isolation == "off" or self.attach == "tap" else self.isolation

    @property
    def candidates(self) -> list[str]:
        """Names of the candidate arms, in the file's order."""
        return [name for name, arm in self.arms.items() if arm.role == "candidate"]

    @property
    def control(self) -> str | None:
        """Name of the control arm, where there is one."""
        return next((name for name, arm in self.arms.items() if arm.role == "control"), None)
