"""The shape of a command: its options, and which part runs. No logic of the product lives here."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

STORE = ("store",)
"""Whose secrets a command uses, by the configuration's keys."""

CONFIG = click.Option(
    ["-c", "--config", "config_path"],
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The experiment's configuration (YAML).",
)


def command(
    name: str,
    runs: str,
    *options: click.Parameter,
    help: str,  # noqa: A002 click's own word
) -> click.Command:
    """A command whose options are the keyword arguments of the function that it runs.

    Args:
        name: as it is typed.
        runs: `module:function` in shadow.cli, imported when the command runs.
        options: in the order of the help.
        help: one sentence first.
    """

    def start(**said: Any) -> int:
        return _part(runs)(**said)

    return click.Command(name, callback=start, params=list(options), help=help)


def configured(
    name: str,
    runs: str,
    *options: click.Parameter,
    help: str,  # noqa: A002 click's own word
    secrets: Collection[str] | None = None,
    with_path: bool = False,
) -> click.Command:
    """The same of a function that takes the checked configuration first.

    `secrets` are the configuration's keys whose secrets it uses (None: all); `with_path`: it takes
    the configuration's file before that. The others are as of `command`.
    """

    def start(config_path: Path, **said: Any) -> int:
        from shadow.config import Config, load

        config = load(config_path, Config, secrets=secrets)
        before: Sequence[Any] = (config_path, config) if with_path else (config,)
        return _part(runs)(*before, **said)

    return click.Command(name, callback=start, params=[CONFIG, *options], help=help)


def _part(runs: str) -> Callable[..., int]:
    module, function = runs.split(":")
    part: Callable[..., int] = getattr(import_module(f"shadow.cli.{module}"), function)
    return part


def form(words: Sequence[str], meaning: str) -> click.Option:
    """--format, the first of `words` unless said otherwise."""
    return click.Option(
        ["--format", "form"],
        type=click.Choice(words),
        default=words[0],
        show_default=True,
        help=meaning,
    )


def file(*names: str, meaning: str, metavar: str | None = None) -> click.Option:
    """An option that is a file's path."""
    kind = click.Path(path_type=Path, dir_okay=False)
    return click.Option(list(names), type=kind, metavar=metavar, help=meaning)


def candidate() -> click.Option:
    """--candidate of the commands that speak of one."""
    return click.Option(["--candidate"], help="Which candidate; required where there are several.")


def number(
    name: str,
    low: float,
    high: float,
    meaning: str,
    default: float | None = None,
    *,
    inside: bool = False,
) -> click.Option:
    """An option that is a number from `low` to `high`, or strictly `inside` of them."""
    return click.Option(
        [name],
        type=click.FloatRange(low, high, min_open=inside, max_open=inside),
        callback=_finite,
        default=default,
        show_default=default is not None,
        help=meaning,
    )


def _finite(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    """A range lets through what is no number."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number")
    return value


def seconds(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """An option that is a duration: 90s, 30m, 2h."""
    from analysis.amounts import duration

    try:
        return None if value is None else duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
