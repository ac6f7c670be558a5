"""A refusal of the store for which the configuration is to blame, as one line with its key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shadow.cli.settings import store_settings
from shadow.config import Config, ConfigError
from shadow.config.ends import EmbeddedStore

if TYPE_CHECKING:
    from collector.store_errors import StoreRefused

_NOT_KNOWN = frozenset({192, 193, 194, 516})
"""Of an unknown user, a wrong or a missing password, and either of them."""
_NOT_ALLOWED = 497


@contextmanager
def mistakes(config: Config) -> Iterator[None]:
    """Inside of the block.

    Raises:
        ConfigError: for such a refusal.
    """
    from collector.store_errors import StoreRefused

    try:
        yield
    except StoreRefused as refused:
        mistake = _mistake(config, refused)
        if mistake is None:
            raise
        raise ConfigError(mistake) from None


def _mistake(config: Config, refused: StoreRefused) -> str | None:
    from collector.store_errors import NotClickHouse

    settings = store_settings(config)
    embedded = isinstance(config.store, EmbeddedStore)
    group = "store" if embedded else "store.clickhouse"
    if isinstance(refused, NotClickHouse):
        return f"{group}.{'listen' if embedded else 'url'}: {refused}"
    where = f"store at {settings.url}"
    if refused.code in _NOT_KNOWN:
        way = "is it that user's, and the variable set?"
        return f"{group}.password: {where} does not take it for the user {settings.user}; {way}"
    if refused.code == _NOT_ALLOWED:
        return f"{group}.user: {where}: {settings.user} lacks a right: {refused}"
    return None
