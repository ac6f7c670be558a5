"""`shadow migrate`: the store's tables, made or brought up to date."""

from __future__ import annotations

import click

from shadow.cli.settings import store_settings
from shadow.cli.store import store, without_store
from shadow.config import Config


def migrate(config: Config) -> int:
    """Bring the store's tables up to date; says what was applied."""
    from collector.migrate import MigrationError, Retention
    from collector.migrate import migrate as apply
    from collector.store_errors import StoreError

    retention = Retention(int(config.retention.bodies), int(config.retention.measures))
    try:
        with store(config, create=True) as client:
            known = store_settings(config)
            database = known.database or "default"
            applied = apply(client, database, retention, cluster=known.cluster)
    except (StoreError, MigrationError) as error:
        raise without_store(error) from None
    for name in applied:
        click.echo(name)
    return 0
