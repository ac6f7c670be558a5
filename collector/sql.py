"""Enough of ClickHouse's lexer to cut statements apart; pure, on str.

Bytes are scanned as Latin-1, so that a position in the text is a position in the bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Every alternative also ends at the text's end, so that what is never closed is scanned once.
_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|\#[\ !][^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<quoted>'(?:[^'\\]|\\.|'')*(?:'|\Z)|"(?:[^"\\]|\\.|"")*(?:"|\Z)|`(?:[^`\\]|\\.|``)*(?:`|\Z)
        |\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z))
    |(?P<word>[A-Za-z_][\w$]*)
    |(?P<number>\d\w*)
    |(?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_DATA_START = re.compile(r"[ \t\f]*\r?\n?")
_ANSWERS = frozenset(
    "SELECT WITH FROM SHOW DESCRIBE DESC EXISTS EXPLAIN CHECK KILL".split()  # noqa: SIM905
)
_READS = _ANSWERS - {"CHECK", "KILL"}
_STREAMS = frozenset({"SELECT", "WITH", "FROM"})


@dataclass(frozen=True)
class Token:
    """A word, number, quoted text or sign, with its place and how many brackets stand around it."""

    kind: str
    text: str
    start: int
    end: int
    depth: int

    def says(self, *words: str) -> bool:
        """Is it one of these key words, outside of brackets?"""
        return self.kind == "word" and self.depth == 0 and self.text.upper() in words


@dataclass(frozen=True)
class Statement:
    """What the head of a request's text turned out to be.

    Attributes:
        verb: its first word in capitals; empty for an empty text.
        sql_end: where the statement ends: before the FORMAT or VALUES of an insert with data.
        source_at: where an insert can be given another source: before its SETTINGS.
        data_start: where an insert's data start; None where there are none.
        format: of the data in an insert, else of the answer; None where it does not say.
    """

    verb: str
    sql_end: int
    source_at: int
    data_start: int | None
    format: str | None

    @property
    def answers(self) -> bool:
        """Does it produce rows?"""
        return self.verb in _ANSWERS

    @property
    def reads(self) -> bool:
        """Does it look at what is there, and nothing else?"""
        return self.verb in _READS

    @property
    def streams(self) -> bool:
        """Can its rows be had block by block?"""
        return self.verb in _STREAMS


def tokens(text: str) -> Iterator[Token]:
    """The text's tokens without blanks and comments, lazily."""
    depth = 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "sign"
        if match["blank"] is not None:
            continue
        if match["quoted"] is not None:
            kind = "quoted"
        value = match[0]
        if value in {")", "]", "}"}:
            depth = max(0, depth - 1)
        yield Token(kind, value, match.start(), match.end(), depth)
        if value in {"(", "[", "{"}:
            depth += 1


def split_statements(text: str) -> list[str]:
    """The statements between the text's semicolons, without those that are blank or comment."""
    statements: list[str] = []
    start: int | None = None
    end = 0
    for token in tokens(text):
        if token.text == ";" and token.kind == "sign":
            if start is not None:
                statements.append(text[start:end])
            start = None
            continue
        start = token.start if start is None else start
        end = token.end
    return statements if start is None else [*statements, text[start:end]]


def read_statement(text: str) -> Statement:
    """Find a statement's verb, format and data.

    Of an insert nothing is looked at behind `FORMAT name` or VALUES: what follows are data.
    """
    found = iter(tokens(text))
    first = next((token for token in found if token.text not in {"(", ";"}), None)
    if first is None:
        return Statement("", len(text), len(text), None, None)
    verb = first.text.upper()
    if verb == "INSERT":
        return _read_insert(text, found)
    return Statement(verb, len(text), len(text), None, _answer_format(found))


def _read_insert(text: str, rest: Iterator[Token]) -> Statement:
    whole = len(text)
    source_at: int | None = None
    for token in rest:
        if token.says("SELECT", "WITH", "FROM", "WATCH"):
            return Statement("INSERT", whole, whole, None, None)
        if token.says("SETTINGS"):
            source_at = token.start
        if token.says("VALUES", "FORMAT"):
            name = token if token.says("VALUES") else next(rest, token)
            return Statement(
                "INSERT",
                sql_end=token.start,
                source_at=token.start if source_at is None else source_at,
                data_start=name.end if name is token else _behind(text, name.end),
                format="Values" if name is token else name.text,
            )
    return Statement("INSERT", whole, whole if source_at is None else source_at, whole, None)


def _behind(text: str, format_end: int) -> int:
    """Where data start behind a format's name: after blanks and one end of line."""
    blank = _DATA_START.match(text, format_end)
    assert blank is not None  # it matches the empty text
    return blank.end()


def _answer_format(rest: Iterator[Token]) -> str | None:
    name: str | None = None
    expected = settings = False
    for token in rest:
        if expected and token.kind == "word":
            name, settings = token.text, False
        elif token.says("SETTINGS"):
            settings = True
        elif not settings and token.text != ";":
            name = None  # something follows: it was a column or function called format
        expected = token.says("FORMAT")
    return name


def forbidden_clause(text: str) -> str | None:
    """INTO OUTFILE and FROM INFILE: files are the client's, and the client is not here."""
    previous: Token | None = None
    for token in tokens(text):
        for first, second in (("INTO", "OUTFILE"), ("FROM", "INFILE")):
            if previous is not None and previous.text.upper() == first and token.says(second):
                return f"{first} {second}"
        previous = token
    return None
