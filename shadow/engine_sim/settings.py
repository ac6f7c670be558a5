"""What a simulated engine can be asked for."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

DialectName = Literal["vllm", "sglang", "trtllm", "llama.cpp"]
DIALECT_NAMES: tuple[str, ...] = get_args(DialectName)


def _option(default: Any, help_: str) -> Any:
    return field(default=default, metadata={"help": help_})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One simulated engine. Each field's one-line meaning stands in its metadata under `help`.

    Raises:
        ValueError: a value out of range; the message begins with the field's name.
    """

    host: str = _option("127.0.0.1", "Address to listen on.")
    port: int = _option(8000, "TCP port; 0 takes a free one and prints it.")
    model: str = _option("sim", "The model's name, as clients must spell it.")
    seed: int = _option(0, "This engine's own seed: timing, faults, which answers differ.")
    dialect: DialectName = _option("vllm", "Whose wire format.")  # noqa: RUF009 a field()
    ttft_ms: float = _option(60.0, "Median time to the first token, in ms.")
    ttft_sigma: float = _option(0.2, "Spread of that time: sigma of its lognormal.")
    itl_ms: float = _option(12.0, "Median time between two tokens, in ms.")
    itl_sigma: float = _option(0.2, "Spread of that time: sigma of its lognormal.")
    slowdown: float = _option(1.0, "Factor on every time between two tokens.")
    tokens: int = _option(30, "Mean length of an answer, in tokens; drawn from the prompt's hash.")
    reasoning_tokens: int = _option(
        0, "Reasoning tokens before each answer, in the dialect's field."
    )
    differ: float = _option(0.0, "Share of prompts whose answer differs from the common one.")
    slots: int = _option(0, "Answers generated at once, the others queue; 0 is without bound.")
    fault_http_500: float = _option(0.0, "Share answered with status 500.")
    fault_http_429: float = _option(0.0, "Share answered with status 429 and Retry-After.")
    fault_in_band_error: float = _option(0.0, "Share that fails after status 200 was sent.")
    fault_reset: float = _option(0.0, "Share whose connection is reset mid-answer.")
    fault_truncate: float = _option(0.0, "Share that ends mid-answer without a terminal event.")
    fault_hang: float = _option(0.0, "Share that says nothing for hang_s before its first token.")
    fault_stall: float = _option(0.0, "Share that pauses for stall_s mid-answer.")
    fault_empty: float = _option(0.0, "Share that ends well, without a token.")
    hang_s: float = _option(600.0, "How long a hang lasts, in seconds.")
    stall_s: float = _option(2.0, "How long a stall lasts, in seconds.")

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise ValueError(f"{name}: {value} is not between {low:g} and {high:g}")
        if self.dialect not in DIALECT_NAMES:
            raise ValueError(f"dialect: {self.dialect} is not one of {', '.join(DIALECT_NAMES)}")
        if sum(fault_rates(self).values()) > 1:
            raise ValueError("fault_*: the rates add up to more than 1; an answer has one fault")


def fault_rates(settings: Settings) -> dict[str, float]:
    """Fault name -> rate, in the fields' order: fault_reset is `reset`."""
    names = [f.name for f in dataclasses.fields(settings) if f.name.startswith("fault_")]
    return {name.removeprefix("fault_"): getattr(settings, name) for name in names}


_SHARES = ("differ", *(f.name for f in dataclasses.fields(Settings) if f.name[:6] == "fault_"))
_RANGES: tuple[tuple[str, float, float], ...] = (
    ("port", 0, 65535),
    ("ttft_ms", 0, 600_000),
    ("ttft_sigma", 0, 3),
    ("itl_ms", 0, 60_000),
    ("itl_sigma", 0, 3),
    ("slowdown", 0.01, 1000),
    ("tokens", 1, 100_000),
    ("reasoning_tokens", 0, 100_000),
    ("slots", 0, 1_000_000),
    ("hang_s", 0, 86_400),
    ("stall_s", 0, 86_400),
    *((name, 0, 1) for name in _SHARES),
)
