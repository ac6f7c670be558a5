"""One way to reach the store: clickhouse-connect, by HTTP or in process."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import clickhouse_connect
from clickhouse_connect.driver.httpclient import HttpClient
from urllib3 import Timeout

from collector import cluster
from collector.folder import EXTRA, locked_by
from collector.ping import stranger
from collector.store_errors import NotClickHouse, StoreRefused, StoreUnavailable, store_errors

if TYPE_CHECKING:
    from pathlib import Path

    from clickhouse_connect.driver.client import Client

CLIENT_SETTINGS: dict[str, Any] = {
    # An insert is stored when it returns, or the offset could be committed before the row is.
    "async_insert": 0,
    # Rows of one key are always in one partition, so FINAL need not look across them.
    "do_not_merge_across_partitions_select_final": 1,
    # A batch may hold rows of many days; refusing it would refuse good rows.
    "throw_on_max_partitions_per_insert_block": 0,
    # now() and literals mean UTC, wherever the server stands.
    "session_timezone": "UTC",
}

# Whatever the client library logs, it raises too; it is worded once, from the exception.
logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class StoreSettings:
    """Where the store is. `database` None: the server's own default, for creating ours."""

    url: str
    database: str | None = "shadow"
    user: str = "default"
    password: str = field(default="", repr=False)
    ca: Path | None = None
    """PEM file of the authorities to trust for https; without it, the system's."""
    cluster: str | None = None
    """The cluster over which its tables are distributed."""
    connect_timeout_s: int = 10
    greet_timeout_s: int = 10
    """For the first answers, by which a store that is stopped or is none shows itself."""
    timeout_s: int = 300
    """For each later answer."""


def connect(settings: StoreSettings) -> Client:
    """A client of a ClickHouse server, or of the embedded store's HTTP interface.

    Threads may share it: it asks for no session. Close it when done.

    Raises:
        StoreUnavailable, StoreRefused, NotClickHouse: as `store_errors` says.
        ValueError: the URL is none.
    """
    parts = urlsplit(settings.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"store url: not http(s)://HOST[:PORT]: {settings.url}")
    with store_errors(settings.url):
        said = settings.connect_timeout_s, settings.greet_timeout_s
        if other := stranger(settings.url, settings.ca, *said):
            raise NotClickHouse(other)
        client = clickhouse_connect.get_client(
            interface=parts.scheme,
            host=parts.hostname,
            port=parts.port or (8443 if parts.scheme == "https" else 8123),
            proxy_path=parts.path,
            username=settings.user,
            password=settings.password,
            database=settings.database or "__default__",
            settings=CLIENT_SETTINGS | (cluster.SETTINGS if settings.cluster else {}),
            connect_timeout=settings.connect_timeout_s,
            send_receive_timeout=settings.greet_timeout_s,
            autogenerate_session_id=False,
            dedicated_pool=True,
            ca_cert=str(settings.ca) if settings.ca else None,
        )
    assert isinstance(client, HttpClient)
    client.timeout = Timeout(connect=settings.connect_timeout_s, read=settings.timeout_s)
    return client


def open_folder(folder: Path, database: str | None = "shadow") -> Client:
    """A client of the embedded store's folder, in this process, when nothing serves it.

    One folder a process, one process a folder.

    Raises:
        StoreUnavailable: no such folder, another process holds it, or chdb is not installed.
        StoreRefused: the database is not in it.
    """
    if not folder.is_dir():
        raise StoreUnavailable(f"no store at {folder.absolute()}: nothing was collected there yet")
    try:
        with store_errors():
            return clickhouse_connect.get_client(
                interface="chdb",
                path=str(folder),
                database=database or "__default__",
                settings=dict(CLIENT_SETTINGS),
            )
    except ImportError as error:
        raise StoreUnavailable(EXTRA) from error
    except StoreRefused as refused:
        holder = locked_by(folder)
        if holder is None:
            raise
        raise StoreUnavailable(holder) from refused
