"""`shadow engine-sim`: one option a field of the engine's settings, so that the two cannot part."""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

import click

from shadow.engine_sim.settings import DIALECT_NAMES, Settings


def _option(field: dataclasses.Field[Any], kind: Any) -> click.Option:
    choice = click.Choice(DIALECT_NAMES) if field.name == "dialect" else kind
    return click.Option(
        [f"--{field.name.replace('_', '-')}"],
        type=choice,
        default=field.default,
        show_default=True,
        help=field.metadata["help"],
    )


def _start(**values: Any) -> int:
    try:
        settings = Settings(**values)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    from shadow.engine_sim import run

    return run(settings)


def command() -> click.Command:
    """The command, built from `Settings`."""
    kinds = get_type_hints(Settings)
    return click.Command(
        "engine-sim",
        callback=_start,
        help="Run a simulated OpenAI-compatible engine: seeded timings, texts and faults.",
        params=[_option(field, kinds[field.name]) for field in dataclasses.fields(Settings)],
    )
