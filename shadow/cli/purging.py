"""`shadow purge`: forget a subject, now and when its records are delivered again."""

from __future__ import annotations

import time

import click

from shadow.capture.subject import subject_of
from shadow.cli.settings import store_settings
from shadow.cli.store import store
from shadow.config import Config, ConfigError


def purge(config: Config, value: str, *, measures: bool) -> int:
    """Forget all that has arrived of the person whom `value` of the configured header names.

    Raises:
        ConfigError: no header is configured, or the store cannot be reached.
    """
    from collector.purge import purge as forget
    from collector.store_errors import StoreError
    from collector.tombstones import newest_arrival

    said = config.subject
    if said is None:
        raise ConfigError("subject: not configured, so no record says whose it is")
    subject = subject_of(value.encode(), said.salt)
    cluster = store_settings(config).cluster
    try:
        with store(config) as client:
            until_ns = max(time.time_ns(), newest_arrival(client, subject))
            found = forget(client, subject, until_ns, measures=measures, cluster=cluster)
    except StoreError as error:
        raise ConfigError(f"store: not all is purged, do it again: {error}") from None
    click.echo(
        f"subject {subject}: {found.bodies} texts, {found.dead_letters} dead letters", nl=False
    )
    click.echo(f", {found.exchanges} exchanges with their pairs" if measures else "")
    return 0
