"""What needs no traffic of one's own: the demo, the simulated engine."""

from __future__ import annotations

from pathlib import Path

import click

from shadow.cli.commands.shape import command
from shadow.cli.simulation import command as engine_sim

_DEMO = command(
    "demo",
    "demonstrating:demo",
    click.Option(
        ["--candidate"],
        type=click.Choice(["slow", "same"]),
        default="slow",
        show_default=True,
        help="The simulated candidate: 15 % slower a token with 10 % other answers, or an equal "
        "one.",
    ),
    click.Option(
        ["--stream"],
        type=click.Choice(["embedded", "kafka"]),
        default="embedded",
        show_default=True,
        help="What carries the exchanges; kafka is the one of KAFKA_BOOTSTRAP_SERVERS.",
    ),
    click.Option(
        ["--engines"], is_flag=True, help="Real llama.cpp servers (or your own), 40 prompts."
    ),
    click.Option(
        ["--primary"], metavar="URL", help="With --engines: your own engine as the primary."
    ),
    click.Option(["--candidate-url"], metavar="URL", help="With --engines: your own candidate."),
    click.Option(["--control-url"], metavar="URL", help="With --engines: your own control."),
    click.Option(
        ["--out"],
        type=click.Path(path_type=Path, file_okay=False),
        help="Where to write.  [default: out/demo, out/demo-same or out/demo-engines]",
    ),
    help="Show the whole path on this machine, with a verdict at its end.",
)

COMMANDS = (_DEMO, engine_sim())
