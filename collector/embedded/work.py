"""One request's statement, run in a worker's thread: what is asked, and the answer in pieces."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from collector.embedded.allowed import refuse_raise, refuse_reach, refuse_verb, whole_text
from collector.embedded.engine import Engine, engine_errors, quoted
from collector.embedded.query import HEAD_BYTES, SPOOL_BYTES, Body, Head, Query
from collector.sql import Statement, read_statement

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

PIECE_BYTES = 1 << 20

# Of these, blocks written one after another are a whole; the others have a head or a foot.
_BLOCKWISE = frozenset(
    "Native TabSeparated TSV TabSeparatedRaw TSVRaw CSV RowBinary JSONEachRow Values".split()  # noqa: SIM905
)


def perform(engine: Engine, query: Query, body: Body) -> Generator[Head | bytes]:
    """Run the statement: first the Head, then the answer's bytes.

    Closing the iterator early stops the statement.

    Raises:
        EngineError: before the Head, or, where the answer is not `whole`, in its middle.
    """
    head = body.read(HEAD_BYTES)
    text = query.text + b"\n" + head if query.text and head else query.text or head
    statement = read_statement(text.decode("latin-1"))
    refuse_verb(statement, query.bounds)
    if statement.data_start is None:
        whole = whole_text(text, body)
        refuse_reach(whole)
        if query.bounds is not None:
            refuse_raise(whole, query.bounds)
        yield from _ask(engine, query, whole, statement)
    else:
        refuse_reach(text[: statement.sql_end])
        yield from _insert(engine, query, text, statement, body)


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
        pieces = _pieces(blocks, first)
        if whole:
            yield from _made_whole(head, pieces)
        else:
            yield head
            yield from pieces
    finally:
        blocks.close()


def _pieces(blocks: Any, block: Any) -> Iterator[bytes]:
    while block is not None:
        yield block.bytes()
        block = _next(blocks)


def _made_whole(head: Head, pieces: Iterable[bytes]) -> Iterator[Head | bytes]:
    with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as spool:
        for piece in pieces:
            spool.write(piece)
        spool.seek(0)
        yield head
        while piece := spool.read(PIECE_BYTES):
            yield piece


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
