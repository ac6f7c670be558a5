"""What may stand under `measure`: how the proxy reaches `shadow measure` on its host."""

from __future__ import annotations

from pathlib import Path

from shadow.config.words import Part


class Measure(Part):
    """With `capture: measures` only."""

    folder: Path | None = None
    """Of the socket between the two, made 0700; without it, `measure` in the folder of `state`."""
