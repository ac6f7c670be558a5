"""What runs: everything, or one part of it; and what is made before."""

from __future__ import annotations

import click

from shadow.cli.commands.shape import STORE, configured

COMMANDS = (
    configured(
        "up",
        "supervised:up",
        with_path=True,
        help="Run everything on this machine: proxy, collector with its store, analysis.",
    ),
    configured(
        "proxy",
        "services:proxy",
        click.Option(
            ["--worker"],
            type=click.IntRange(0, 63),
            help="Run one worker of several, by number.",
        ),
        with_path=True,
        help="Run the sidecar proxy: relay to the primary, mirror to the arms.",
    ),
    configured(
        "collect",
        "services:collect",
        help="Run the collector: from the stream into the store.",
    ),
    configured(
        "measure",
        "services:measure",
        help="With `capture: measures`: read what the proxies of this host captured, "
        "publish figures.",
    ),
    configured(
        "analyze",
        "services:analyze",
        help="Run the analysis: pair, compare, judge, again and again.",
    ),
    configured(
        "migrate",
        "migrating:migrate",
        secrets=STORE,
        help="Create or update the store's tables; `up` and `collect` do it by themselves.",
    ),
    configured(
        "config",
        "showing:show_config",
        with_path=True,
        help="Check a configuration and print it resolved, secrets masked.",
    ),
)
