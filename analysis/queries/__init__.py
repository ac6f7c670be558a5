"""Statements of the analysis, one a file, with {name:Type} parameters that the engine binds."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def sql(name: str) -> str:
    """The text of queries/NAME.sql."""
    return files("analysis.queries").joinpath(f"{name}.sql").read_text("utf-8")
