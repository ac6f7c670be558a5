"""The same migrations for a cluster: replicated local tables, distributed ones over them. Pure.

Rules:
1. `exchanges` is what everyone reads and writes, with or without a cluster; the rows stand in
   `exchanges_local`, replicated within a shard.
2. Rows of one key go to one shard, or FINAL would let them stand twice: the sharding key is made
   of a column of the sorting key, `pair_id` where it has one.
3. Paths and names of replicas are the servers' own (`default_replica_path`, `default_replica_name`
   and their macros).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from collector.sql import Token, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

SETTINGS: dict[str, Any] = {
    # An insert is stored when it returns, on its shard too, or the offset is committed too soon.
    "distributed_foreground_insert": 1,
    # 2, the server's default, would let each shard sum up its own part of a window.
    "parallel_distributed_insert_select": 0,
    # Who asks again asks the same replica, so that it sees what it has counted.
    "load_balancing": "in_order",
    "prefer_localhost_replica": 0,
}
"""Of every client of a store on a cluster, beside `collector.store.CLIENT_SETTINGS`."""

LOCAL = "_local"
WINDOW_S = 7 * 86_400
"""How long a replicated table knows an insert's token: as long as a stream keeps its records."""

_SHARD_BY = ("pair_id", "experiment", "source", "subject", "name")
_OWN_WINDOW = "NON_REPLICATED_DEDUPLICATION_WINDOW"
_WINDOW = f"replicated_deduplication_window_seconds = {WINDOW_S}, replicated_deduplication_window"


def render(statement: str, cluster: str, database: str) -> list[str]:
    """The statements that do on a cluster what `statement` does on one server, in order.

    CREATE DATABASE, CREATE TABLE (of the MergeTree family) and ALTER TABLE are rendered; any other
    statement is as it is.

    Raises:
        ValueError: a table that cannot be spread, or an ALTER of columns and of more at once.
    """
    words = list(tokens(statement))
    head = " ".join(word.text.upper() for word in words[:2])
    if head == "CREATE DATABASE":
        return [f"{statement} {_on(cluster)}"]
    if head == "CREATE TABLE":
        return _create(statement, words, cluster, database)
    if head == "ALTER TABLE":
        return _alter(statement, words, cluster, database)
    return [statement]


def quoted(name: str) -> str:
    """As an identifier, whatever stands in it."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _create(statement: str, words: Sequence[Token], cluster: str, database: str) -> list[str]:
    table = _table(words)
    name = _plain(table.text)
    engine = next(words[at + 2] for at, word in enumerate(words) if word.says("ENGINE"))
    if not engine.text.endswith("MergeTree"):
        raise ValueError(f"{name}: {engine.text} cannot be replicated")
    edits = [
        (table, f"{_place(database, name + LOCAL)} {_on(cluster)}"),
        (engine, f"Replicated{engine.text}"),
        *((word, _WINDOW) for word in words if word.says(_OWN_WINDOW)),
    ]
    return [_edited(statement, edits), _spread(name, cluster, database, _shard_by(name, words))]


def _spread(name: str, cluster: str, database: str, column: str) -> str:
    over = ", ".join(_text(part) for part in (cluster, database, name + LOCAL))
    return (
        f"CREATE TABLE IF NOT EXISTS {_place(database, name)} {_on(cluster)}\n"
        f"AS {_place(database, name + LOCAL)}\n"
        f"ENGINE = Distributed({over}, sipHash64({column}))"
    )


def _alter(statement: str, words: Sequence[Token], cluster: str, database: str) -> list[str]:
    """Columns of both tables, or rows, TTL and settings of the local one."""
    table = _table(words)
    name = _plain(table.text)
    starts = [words.index(table) + 1]
    starts += [at + 1 for at, word in enumerate(words) if word.text == "," and word.depth == 0]
    of_columns = {words[at + 1].says("COLUMN") for at in starts}
    if len(of_columns) > 1:
        raise ValueError(f"{name}: columns and other things in one ALTER; write two")
    where = [name + LOCAL, name] if of_columns == {True} else [name + LOCAL]
    return [
        _edited(statement, [(table, f"{_place(database, each)} {_on(cluster)}")]) for each in where
    ]


def _table(words: Sequence[Token]) -> Token:
    """Where the statement names its table: the third word, or behind IF [NOT] EXISTS."""
    named = [word for word in words[2:6] if not word.says("IF", "NOT", "EXISTS")]
    return named[0]


def _shard_by(name: str, words: Sequence[Token]) -> str:
    order = next(
        at for at, word in enumerate(words) if word.says("ORDER") and words[at + 1].says("BY")
    )
    end = next((at for at in range(order, len(words)) if words[at].says("SETTINGS")), len(words))
    sorting = {word.text for word in words[order:end]}
    for column in _SHARD_BY:
        if column in sorting:
            return column
    raise ValueError(f"{name}: none of {', '.join(_SHARD_BY)} stands in its sorting key")


def _edited(text: str, edits: Sequence[tuple[Token, str]]) -> str:
    for token, said in sorted(edits, key=lambda edit: edit[0].start, reverse=True):
        text = text[: token.start] + said + text[token.end :]
    return text


def _plain(name: str) -> str:
    return name.strip('`"')


def _place(database: str, table: str) -> str:
    return f"{quoted(database)}.{quoted(table)}"


def _on(cluster: str) -> str:
    return f"ON CLUSTER {_text(cluster)}"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
