"""`shadow waive`: a person takes a metric out of the verdict for a time; stored, and shown."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import click

from shadow.cli.analysis import analysis_settings
from shadow.cli.store import store, without_store
from shadow.config import Config

FIRST_YEAR, LAST_YEAR = 1971, 2199
"""What the store's times can hold, with room."""


def waive(
    config: Config, metric: str, who: str, reason: str, until: str, candidate: str | None
) -> int:
    """Store the waiver, judge with it, print the verdict's line."""
    from analysis.answers import stored
    from analysis.answers import waive as apply
    from analysis.gate import gate
    from analysis.waivers import Waiver
    from collector.store_errors import StoreError, store_errors

    settings = analysis_settings(config)
    name = _candidate(config, candidate)
    if metric not in settings.policy.metrics:
        known = ", ".join(settings.policy.metrics)
        raise click.UsageError(f"{metric} is not gated; the policy gates {known}")
    who, reason = _stated("--by", who), _stated("--reason", reason)
    waiver = Waiver(metric, who, reason, _instant_ns(until))
    try:
        with store(config) as client, store_errors():
            apply(client, settings, name, waiver)
            line = gate(stored(client, settings), name).line
    except StoreError as error:
        raise without_store(error) from None
    ended = " (that has passed: an earlier waiver is taken back)"
    click.echo(
        f"waived {metric} {waiver.words}{ended if waiver.until_ns <= time.time_ns() else ''}"
    )
    click.echo(line)
    return 0


def _candidate(config: Config, candidate: str | None) -> str:
    names = list(config.candidates)
    if not names:
        raise click.UsageError("no candidate is configured")
    if candidate is None and len(names) != 1:
        raise click.UsageError(
            f"several candidates: say which with --candidate: {', '.join(names)}"
        )
    name = candidate or names[0]
    if name not in names:
        raise click.UsageError(f"no candidate is named {name}; there are: {', '.join(names)}")
    return name


def _instant_ns(text: str) -> int:
    """An ISO 8601 date or time, UTC where it names no zone, in ns since 1970."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"--until {text}: write a date or a time: 2026-12-31 or 2026-12-31T18:00"
        ) from None
    if not FIRST_YEAR <= at.year <= LAST_YEAR:
        raise click.UsageError(f"--until {text}: write a year from {FIRST_YEAR} to {LAST_YEAR}")
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1e9)


def _stated(option: str, text: str) -> str:
    """What a person states, as one printable line that is not empty."""
    words = " ".join(text.split())
    if not words or not words.isprintable():
        raise click.UsageError(f"{option}: must say something, in printable characters")
    return words
