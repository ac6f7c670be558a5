"""`shadow config`: what a configuration comes to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from shadow.config import Config, masked
from shadow.config.document import referring
from shadow.config.files import EVERY, files_usable

if TYPE_CHECKING:
    from collections.abc import Iterator


def show_config(path: Path, config: Config) -> int:
    """Print it resolved, as YAML that loads again but for its masked secrets.

    Raises:
        ConfigError: as of `examine`.
    """
    examine(config)
    click.echo(
        yaml.safe_dump(masked(config, referring(path)), sort_keys=False, allow_unicode=True),
        nl=False,
    )
    for line in _parts(config):
        click.echo(f"# {line}")
    return 0


def examine(config: Config) -> None:
    """What can be wrong besides the file itself; warnings go to stderr.

    Raises:
        ConfigError: a mistake in the policy that it names, or a file that cannot be used.
    """
    from shadow.cli.analysis import read_policy
    from shadow.cli.rates import warnings

    read_policy(config)
    files_usable(config, *EVERY)
    for warning in warnings(config):
        click.echo(f"shadow: warning: {warning}", err=True)


def _parts(config: Config) -> Iterator[str]:
    """What each worker may give an arm of its limits."""
    several = f"each of {config.workers} workers gives"
    for name, arm in config.arms.items():
        yield f"{several} arms.{name}: concurrency {arm.concurrency // config.workers}"
        for key, value in arm.limits.model_dump(exclude_none=True).items():
            yield f"{several} arms.{name}: {key} {value / config.workers:.6g}"
    if config.attach == "tap":
        yield f"{several} primary: concurrency {config.primary.concurrency // config.workers}"
