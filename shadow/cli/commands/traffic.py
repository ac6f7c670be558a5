"""What is done with requests and their records: mirrored, read, forgotten."""

from __future__ import annotations

from pathlib import Path

import click

from shadow.cli.commands.shape import STORE, command, configured, file

_MIRROR = configured(
    "mirror",
    "steering:mirror",
    click.Argument(["action"], type=click.Choice(["status", "pause", "resume", "rate"])),
    click.Argument(["arm"], required=False),
    click.Argument(["rate"], required=False, metavar="[SHARE]"),
    click.Option(["--by"], help="Who says it.  [default: the user]"),
    click.Option(["--reason"], default="", help="Why."),
    secrets=(*STORE, "admin"),
    help="""Steer mirroring while it runs: {status|pause|resume|rate}; rate takes [ARM] and [SHARE].

    A SHARE of 0 to 1 stands instead of the arm's `sample`; `file` takes the configuration's again.
    """,
)

_PURGE = configured(
    "purge",
    "purging:purge",
    click.Option(
        ["--subject", "value"],
        required=True,
        help="The value of the header that `subject` configures.",
    ),
    click.Option(["--all", "measures"], is_flag=True, help="Measures too, not only texts."),
    secrets=(*STORE, "subject"),
    help="Forget whom a header's value names: in the store, and when records are delivered again.",
)

_DECODE = command(
    "decode",
    "decoding:decode",
    click.Option(
        ["--details"], is_flag=True, help="Add what was read beyond the documented object."
    ),
    file(
        "--tokenizer",
        metavar="FILE",
        meaning="A tokenizer.json that counts output tokens where the engine gives no count.",
    ),
    click.Argument(["path"], metavar="FILE", type=click.Path(path_type=Path)),
    help="Say what one captured answer (FILE.json) was: how it ended, its text, its times, "
    "as JSON.",
)

COMMANDS = (_MIRROR, _PURGE, _DECODE)
