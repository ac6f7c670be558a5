"""Sizes, durations and addresses as people write them: 8MiB, 120s, 7d, 127.0.0.1:8080."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

_SIZES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)


def parse_bytes(value: object) -> int:
    """8MiB -> 8388608; a bare number counts bytes.

    Raises:
        ValueError: not a size.
    """
    return int(_parse(value, _SIZES, "a size such as 8MiB or 64KiB"))


def parse_duration(value: object) -> float:
    """120s -> 120.0; units ms, s, m, h, d; a bare number is refused, since it has no unit.

    Raises:
        ValueError: not a duration.
    """
    if isinstance(value, float) and 0 <= value < math.inf:  # a resolved one is read again
        return value
    return _parse(value, _SECONDS, "a duration with its unit, such as 30s, 5m or 2ms")


def _parse(value: object, units: dict[str, float] | dict[str, int], wanted: str) -> float:
    match = _QUANTITY.fullmatch(str(value)) if not isinstance(value, bool) else None
    factor = units.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{value!r} is not {wanted}")
    said = float(match[1]) * factor
    if said == math.inf:
        raise ValueError(f"{str(value)[:20]}… is too large")
    return said


def show_bytes(value: int) -> str:
    """The shortest exact spelling: 8388608 -> 8MiB."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value and value % factor == 0:
            return f"{value // factor}{unit}"
    return f"{value}B"


def show_duration(value: float) -> str:
    """The shortest exact spelling: 604800 -> 7d, 0.002 -> 2ms."""
    for unit, factor in (("d", 86400), ("h", 3600), ("m", 60)):
        if value and value % factor == 0:
            return f"{value / factor:g}{unit}"
    return f"{value:g}s" if value >= 1 or value == 0 else f"{value * 1000:g}ms"


ByteSize = Annotated[int, BeforeValidator(parse_bytes), PlainSerializer(show_bytes)]
Duration = Annotated[float, BeforeValidator(parse_duration), PlainSerializer(show_duration)]
SomeBytes = Annotated[ByteSize, Field(gt=0)]
"""A size that means nothing at 0: as a bound it would let nothing through."""
SomeTime = Annotated[Duration, Field(gt=0)]
"""A duration that means nothing at 0: as a deadline it would have passed at once."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: host and TCP port; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def on_loopback(self) -> bool:
        """Only this machine reaches it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_address(value: object) -> Address:
    """127.0.0.1:8080 or [::1]:8080.

    Raises:
        ValueError: no host, no port, or a port out of range.
    """
    if isinstance(value, Address):
        return value
    host, _, port = str(value).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{value!r} is not an address such as 127.0.0.1:8080")
    return Address(host, int(port))


Listen = Annotated[Address, BeforeValidator(parse_address), PlainSerializer(str)]
