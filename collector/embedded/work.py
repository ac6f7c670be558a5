"""One request's statement, run in a worker's thread: what is asked, and the answer in pieces."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from collector.embedded.bounds import Bounds, raised
from collector.embedded.engine import Engine, Frame, engine_errors, quoted
from collector.embedded.errors import (
    ACCESS_DENIED,
    NOT_IMPLEMENTED,
    QUERY_IS_TOO_LARGE,
    READONLY,
    SYNTAX_ERROR,
    said,
)
from collector.reach import reaching
from collector.sql import Statement, forbidden_clause, read_statement, split_statements

if TYPE_CHECKING:
    from collections.abc import Generator

HEAD_BYTES = 256 * 1024
"""An insert's statement must end within this, as with ClickHouse's max_query_size."""
STATEMENT_BYTES = 16 * 2**20
"""A statement without data may be this long."""
PIECE_BYTES = 1 << 20
SPOOL_BYTES = 4 * 2**20
"""What a request or an answer holds in memory; beyond it, in a temporary file."""

# Of these, blocks written one after another are a whole; the others have a head or a foot.
_BLOCKWISE = frozenset(
    "Native TabSeparated TSV TabSeparatedRaw TSVRaw CSV RowBinary JSONEachRow Values".split()  # noqa: SIM905
)


class Body(Protocol):
    """A request's body, decoded."""

    def read(self, size: int, /) -> bytes: ...  # noqa: D102 - as a file's


@dataclass(frozen=True)
class Query:
    """A statement as it was sent.

    Attributes:
        text: what stood in `query=`; the statement may also go on, or begin, in the body.
        default_format: of an answer or of data that do not say theirs.
        whole: the answer may start only once it is complete, so that an error can be a status.
        bounds: of who did not show the store's password, and may only read; None: who did.
    """

    text: bytes
    frame: Frame
    default_format: str | None = None
    whole: bool = False
    bounds: Bounds | None = None


@dataclass(frozen=True)
class Head:
    """What the answer's header fields say; `format` is None where the statement has no rows."""

    format: str | None
    summary: dict[str, str] = field(default_factory=dict)

    @property
    def summary_json(self) -> str:
        """As in X-ClickHouse-Summary."""
        return json.dumps(self.summary, separators=(",", ":"))


def perform(engine: Engine, query: Query, body: Body) -> Generator[Head | bytes]:
    """Run the statement: first the Head, then the answer's bytes.

    Closing the iterator early stops the statement.

    Raises:
        EngineError: before the Head, or, where the answer is not `whole`, in its middle.
    """
    head = body.read(HEAD_BYTES)
    text = query.text + b"\n" + head if query.text and head else query.text or head
    statement = read_statement(text.decode("latin-1"))
    if not statement.verb:
        raise said(SYNTAX_ERROR, "Empty query", "SYNTAX_ERROR")
    if query.bounds is not None and not statement.reads:
        message = (
            "who does not show the store's password may only read: "
            f"SELECT, SHOW, DESCRIBE, EXISTS, EXPLAIN, not {statement.verb}"
        )
        raise said(ACCESS_DENIED, message, "ACCESS_DENIED")
    if statement.data_start is None:
        whole = _whole_text(text, body)
        _refuse_reach(whole)
        if query.bounds is not None:
            _refuse_raise(whole, query.bounds)
        yield from _ask(engine, query, whole, statement)
    else:
        _refuse_reach(text[: statement.sql_end])
        yield from _insert(engine, query, text, statement, body)


def _refuse_reach(text: bytes) -> None:
    """Nobody reads this machine's files, or asks others, by way of the store's port."""
    if name := reaching(text.decode("latin-1")):
        raise said(ACCESS_DENIED, f"{name} is not allowed over HTTP", "ACCESS_DENIED")


def _refuse_raise(text: bytes, bounds: Bounds) -> None:
    if name := raised(text.decode("latin-1"), bounds):
        message = f"{name}: at most {bounds.most[name]} for who does not show the store's password"
        raise said(READONLY, message, "READONLY")


def _whole_text(text: bytes, body: Body) -> bytes:
    rest = body.read(STATEMENT_BYTES + 1 - len(text)) if len(text) <= STATEMENT_BYTES else b"x"
    if len(text) + len(rest) > STATEMENT_BYTES:
        message = f"The statement is longer than {STATEMENT_BYTES} bytes"
        raise said(QUERY_IS_TOO_LARGE, message, "QUERY_IS_TOO_LARGE")
    whole = text + rest
    readable = whole.decode("latin-1")
    if len(split_statements(readable)) > 1:
        raise said(SYNTAX_ERROR, "Multi-statements are not allowed", "SYNTAX_ERROR")
    if clause := forbidden_clause(readable):
        raise said(NOT_IMPLEMENTED, f"{clause} is not allowed over HTTP", "NOT_IMPLEMENTED")
    return whole


def _ask(
    engine: Engine, query: Query, text: bytes, statement: Statement
) -> Generator[Head | bytes]:
    name = statement.format or query.default_format or "TabSeparated"
    with engine.handle(query.frame) as connection:
        if statement.streams and name in _BLOCKWISE:
            yield from _stream(connection, text, name, whole=query.whole)
            return
        with engine_errors():
            result = connection.query(text, name)
        yield Head(name if statement.answers else None, _summary(result))
        yield result.bytes() or b""


def _stream(connection: Any, text: bytes, name: str, *, whole: bool) -> Generator[Head | bytes]:
    with engine_errors():
        blocks = connection.send_query(text, name)
    try:
        first = _next(blocks)
        head = Head(name, _summary(first) if first is not None else {})
        if first is None or not whole:
            yield head
            while first is not None:
                yield first.bytes()
                first = _next(blocks)
            return
        with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as spool:
            while first is not None:
                spool.write(first.bytes())
                first = _next(blocks)
            spool.seek(0)
            yield head
            while piece := spool.read(PIECE_BYTES):
                yield piece
    finally:
        blocks.close()


def _next(blocks: Any) -> Any:
    with engine_errors():
        return blocks.fetch()


def _insert(
    engine: Engine, query: Query, text: bytes, statement: Statement, body: Body
) -> Generator[Head | bytes]:
    """From a file, not by chDB's own `send_insert`: that says "written" of rows that a constraint,
    a view or a full disk refused.
    """
    name = statement.format or query.default_format or "Values"
    with tempfile.NamedTemporaryFile(prefix="shadow-insert-") as data:
        piece = text[statement.data_start :]
        while piece:
            data.write(piece)
            piece = body.read(PIECE_BYTES)
        data.flush()
        source = f" FROM INFILE {quoted(data.name)} ".encode()
        settings = text[statement.source_at : statement.sql_end]
        sql = text[: statement.source_at] + source + settings + f" FORMAT {name}".encode()
        with engine.handle(query.frame) as connection, engine_errors():
            result = connection.query(sql, "Null")
    yield Head(None, _summary(result))


def _summary(result: Any) -> dict[str, str]:
    return _counts(
        read_rows=result.storage_rows_read(),
        read_bytes=result.storage_bytes_read(),
        written_rows=result.rows_written(),
        written_bytes=result.bytes_written(),
        result_rows=result.rows_read(),
        result_bytes=result.size(),
        elapsed_ns=result.elapsed() * 1e9,
    )


def _counts(**values: float) -> dict[str, str]:
    return {name: str(int(value)) for name, value in values.items()}
