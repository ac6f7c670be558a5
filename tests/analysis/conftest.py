"""One engine a module: chDB in a fresh folder with the product's tables."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator

import clickhouse_connect
import pytest

from collector.migrate import FOLDER
from collector.sql import split_statements

from .world import World

_numbers = itertools.count()


@pytest.fixture(scope="module")
def client() -> Iterator[object]:
    pytest.importorskip("chdb")
    with tempfile.TemporaryDirectory() as folder:
        made = clickhouse_connect.get_client(
            interface="chdb",
            path=folder,
            settings={"do_not_merge_across_partitions_select_final": 1},
        )
        for file in sorted(FOLDER.glob("*.sql")):
            for statement in split_statements(file.read_text("utf-8")):
                made.command(statement)
        yield made
        made.close()


@pytest.fixture
def world(client) -> World:
    """A fresh experiment in the module's store."""
    return World(client, f"e{next(_numbers)}")
