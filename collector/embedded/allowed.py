"""What may not be asked over HTTP, and by whom: refused before anything of it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collector.embedded.bounds import Bounds, raised
from collector.embedded.errors import (
    ACCESS_DENIED,
    NOT_IMPLEMENTED,
    QUERY_IS_TOO_LARGE,
    READONLY,
    SYNTAX_ERROR,
    said,
)
from collector.embedded.query import STATEMENT_BYTES
from collector.reach import reaching
from collector.sql import Statement, forbidden_clause, split_statements

if TYPE_CHECKING:
    from collector.embedded.query import Body


def refuse_verb(statement: Statement, bounds: Bounds | None) -> None:
    """There is a statement; who is bound only reads.

    Raises:
        EngineError: else.
    """
    if not statement.verb:
        raise said(SYNTAX_ERROR, "Empty query", "SYNTAX_ERROR")
    if bounds is not None and not statement.reads:
        message = (
            "who does not show the store's password may only read: "
            f"SELECT, SHOW, DESCRIBE, EXISTS, EXPLAIN, not {statement.verb}"
        )
        raise said(ACCESS_DENIED, message, "ACCESS_DENIED")


def refuse_reach(text: bytes) -> None:
    """Nobody reads this machine's files, or asks others, by way of the store's port.

    Raises:
        EngineError: the text names what does.
    """
    if name := reaching(text.decode("latin-1")):
        raise said(ACCESS_DENIED, f"{name} is not allowed over HTTP", "ACCESS_DENIED")


def refuse_raise(text: bytes, bounds: Bounds) -> None:
    """Who is bound raises no bound.

    Raises:
        EngineError: the text sets one higher.
    """
    if name := raised(text.decode("latin-1"), bounds):
        message = f"{name}: at most {bounds.most[name]} for who does not show the store's password"
        raise said(READONLY, message, "READONLY")


def whole_text(text: bytes, body: Body) -> bytes:
    """The statement with what the body goes on with.

    Raises:
        EngineError: it is too long, or several, or writes a file of its own.
    """
    rest = body.read(STATEMENT_BYTES + 1 - len(text)) if len(text) <= STATEMENT_BYTES else b"x"
    if len(text) + len(rest) > STATEMENT_BYTES:
        message = f"The statement is longer than {STATEMENT_BYTES} bytes"
        raise said(QUERY_IS_TOO_LARGE, message, "QUERY_IS_TOO_LARGE")
    whole = text + rest
    _refuse_clauses(whole.decode("latin-1"))
    return whole


def _refuse_clauses(text: str) -> None:
    if len(split_statements(text)) > 1:
        raise said(SYNTAX_ERROR, "Multi-statements are not allowed", "SYNTAX_ERROR")
    if clause := forbidden_clause(text):
        raise said(NOT_IMPLEMENTED, f"{clause} is not allowed over HTTP", "NOT_IMPLEMENTED")
