"""The command line: every command by its noun, and how a line ends."""

from __future__ import annotations

from collections.abc import Sequence

import click

from shadow import __version__
from shadow.cli.commands import services, traffic, trying, verdicts
from shadow.config import ConfigError

USAGE = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="shadow")
def cli() -> None:
    """Compare a new engine deployment with the one in production, on live traffic."""


for _command in (
    *services.COMMANDS,
    *verdicts.COMMANDS,
    *traffic.COMMANDS,
    *trying.COMMANDS,
):
    cli.add_command(_command)


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Returns:
        Its exit status. A mistake in options or configuration is one line on stderr and 2.
    """
    try:
        result = cli.main(args=list(arguments), prog_name="shadow", standalone_mode=False)
    except ConfigError as error:
        click.echo(f"shadow: {error}", err=True)
        return USAGE
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.ClickException as error:
        click.echo(f"shadow: {' '.join(error.format_message().split())}", err=True)
        return USAGE
    except click.Abort:
        raise KeyboardInterrupt from None
    return result if isinstance(result, int) else 0
