"""Statements are cut where ClickHouse cuts them, whatever stands in quotes, comments and data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.migrate import FOLDER
from collector.sql import forbidden_clause, read_statement, split_statements

SPLIT = [
    ("", []),
    (" ; -- x;\n /* ; */ ;", []),
    ("a; b", ["a", "b"]),
    (
        "SELECT ';' ; SELECT \";\", `;`, $t$;$t$, $$;$$",
        ["SELECT ';'", 'SELECT ";", `;`, $t$;$t$, $$;$$'],
    ),
    (r"SELECT 'it''s; \'; x'; b", [r"SELECT 'it''s; \'; x'", "b"]),
    ("a -- b; c\n; d /* e; f */ g; # h; i\n#!j;\nk", ["a", "d /* e; f */ g", "k"]),
    ("SELECT '; never closed", ["SELECT '; never closed"]),
    ("a /* ; never closed", ["a"]),
    (
        "CREATE TABLE t (a Int8 DEFAULT 1 -- one;\n); b",
        ["CREATE TABLE t (a Int8 DEFAULT 1 -- one;\n)", "b"],
    ),
]


@pytest.mark.parametrize(("text", "statements"), SPLIT)
def test_statements_end_at_semicolons_that_are_none_of_quotes_or_comments(text, statements):
    assert split_statements(text) == statements


PIECES = st.sampled_from(
    ["SELECT 1", "'a;b'", "`x;`", "x /* c; */ y", "f(1, ';')", "$$;$$", '"q;"', "y -- z;\n+ 1"]
)


@given(st.lists(PIECES, max_size=6))
def test_what_was_joined_comes_apart_again(pieces):
    """Any statements joined by semicolons are those statements."""
    assert split_statements(";\n".join(pieces)) == pieces


@given(st.text(alphabet="'\"`$/*-#;\\ \nab()", max_size=60))
def test_no_text_is_too_broken(text):
    """Every text is scanned to its end; nothing is invented."""
    assert all(statement in text for statement in split_statements(text))
    read_statement(text)
    forbidden_clause(text)


FORMATS = [
    ("SELECT 1 FORMAT JSON", "JSON"),
    ("SELECT 1 FORMAT Native SETTINGS a = 1, b = 'x'", "Native"),
    ("SELECT 1 SETTINGS a = 1 FORMAT CSV ;", "CSV"),
    ("(SELECT 1) FORMAT TSV -- FORMAT CSV", "TSV"),
    ("SELECT format('{}', 1) AS format FROM t", None),
    ("SELECT format FROM t", None),
    ("SELECT (SELECT 1 FORMAT JSON)", None),
    ("SELECT 'FORMAT JSON'", None),
    ("SHOW TABLES", None),
]


@pytest.mark.parametrize(("text", "name"), FORMATS)
def test_the_answers_format_is_the_clause_at_the_end(text, name):
    statement = read_statement(text)
    assert (statement.format, statement.answers, statement.data_start) == (name, True, None)


INSERTS = [
    ("INSERT INTO t FORMAT Native\n\x00'", "INSERT INTO t ", "Native", "\x00'"),
    ("INSERT INTO t (a, `FORMAT`) FORMAT CSV \r\n1", "INSERT INTO t (a, `FORMAT`) ", "CSV", "1"),
    ("insert into t format TSV 1\t2", "insert into t ", "TSV", "1\t2"),
    ("INSERT INTO t VALUES (1), ('FORMAT')", "INSERT INTO t ", "Values", " (1), ('FORMAT')"),
    ("INSERT INTO FUNCTION f('x FORMAT', 1) SETTINGS a = 'VALUES' FORMAT JSONEachRow\n\n{}", "INSERT INTO FUNCTION f('x FORMAT', 1) SETTINGS a = 'VALUES' ", "JSONEachRow", "\n{}"),
    ("/* FORMAT x */ INSERT INTO t -- FORMAT y\nFORMAT z", "/* FORMAT x */ INSERT INTO t -- FORMAT y\n", "z", ""),
    ("INSERT INTO t", "INSERT INTO t", None, ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sql", "name", "data"), INSERTS)
def test_an_inserts_data_begin_behind_its_format(text, sql, name, data):
    """One new line after the format's name is the statement's, everything else is data."""
    statement = read_statement(text)
    assert (text[: statement.sql_end], statement.format, text[statement.data_start :]) == (
        sql,
        name,
        data,
    )
    assert (statement.verb, statement.answers) == ("INSERT", False)


def test_another_source_of_an_insert_stands_before_its_settings():
    """As ClickHouse's grammar has it."""
    text = "INSERT INTO t (a) SETTINGS a = 1 FORMAT CSV\n1"
    statement = read_statement(text)
    assert text[statement.source_at : statement.sql_end] == "SETTINGS a = 1 "
    assert read_statement("INSERT INTO t VALUES (1)").source_at == 14


def test_an_insert_from_a_query_has_no_data():
    assert read_statement("INSERT INTO t SELECT * FROM u").data_start is None
    assert (
        read_statement("INSERT INTO t (a) WITH x AS (SELECT 1) SELECT * FROM x").data_start is None
    )


def test_data_are_not_looked_at():
    """Scanning stops at the format: megabytes of data that look like SQL cost nothing."""
    text = "INSERT INTO t FORMAT TSV\n" + "'/*(" * 5_000_000
    assert read_statement(text).data_start == 25


@pytest.mark.parametrize("part", ["'", "/*", "$a$", "`", '"', "((", "-- "])
def test_what_is_never_closed_is_scanned_once(part):
    """No quadratic time: a hundred thousand openings end at once."""
    assert len(split_statements(part * 100_000)) <= 1


def test_files_of_the_server_are_forbidden_ground():
    assert forbidden_clause("SELECT 1 INTO OUTFILE 'x'") == "INTO OUTFILE"
    assert forbidden_clause("insert into t from /* */ infile 'x' format CSV") == "FROM INFILE"
    assert forbidden_clause("SELECT 'INTO OUTFILE' FROM `INFILE`") is None


def test_our_migrations_are_statements_one_by_one():
    """Every statement of ours can be run again: it makes what is not there yet."""
    files = sorted(FOLDER.glob("*.sql"))
    statements = [part for file in files for part in split_statements(file.read_text())]
    assert len(statements) >= 10
    for statement in statements:
        first = [part for part in statement.split("ADD COLUMN") if part.strip()]
        added = first[0].startswith("ALTER TABLE") and all(
            part.lstrip().startswith("IF NOT EXISTS") for part in first[1:]
        )
        assert added or statement.startswith("CREATE TABLE IF NOT EXISTS"), statement
