"""docs/tables.md: every table and column as the engine has them after our migrations, every word as
the code has it, and queries that run on a store that was filled as ours are."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import get_args

import pytest

from analysis.events import append
from analysis.look import Memory, look
from analysis.waivers import Waiver, waive
from collector.migrate import Retention, migrate
from shadow.exchange import DROP_REASONS, OUTCOMES, SKIP_REASONS, TRANSPORTS, Counter

from .world import EPOCH_S, World, at

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/tables.md").read_text()
QUERIES = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
MEASURES_S, BODIES_S = 90 * 86_400, 7 * 86_400
LEAVES = {MEASURES_S: "`retention.measures`", BODIES_S: "`retention.bodies`", None: "never"}
OURS = "database = currentDatabase() AND table != 'migrations'"


@pytest.fixture(scope="module")
def made(client):
    """A database as a collector makes it."""
    migrate(client, "page", Retention(bodies_s=BODIES_S, measures_s=MEASURES_S))
    return client


def section(name):
    return re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]


def rows(text):
    """The cells of a section's tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] not in {"column", "table", "word"}]


def code(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_the_tables_are_all_there(made):
    """Each has its row and its section; there are no views."""
    found = made.query(f"SELECT name, engine FROM system.tables WHERE {OURS}").result_rows
    tables = {name for name, _ in found}
    assert not [name for name, engine in found if "View" in engine]
    listed = re.findall(r"^\| \[(\w+)\]\(#(\w+)\)", PAGE, re.MULTILINE)
    assert {name for name, _ in listed} == tables
    assert all(name == anchor for name, anchor in listed)
    assert set(re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)) == tables | {
        "Queries",
        "Words",
    }


def test_every_column_is_listed_with_its_type_and_none_too_many(made):
    """By the engine's own list; a column that a migration adds must be told here."""
    stands = {}
    for table, column, kind in made.query(
        f"SELECT table, name, type FROM system.columns WHERE {OURS}"
    ).result_rows:
        stands.setdefault(table, {})[column] = kind
    for table, columns in stands.items():
        told = {}
        for names, kind, unit, meaning in rows(section(table)):
            assert meaning, names
            for name in code(names):
                assert name not in told, name
                told[name] = kind
                assert (unit == "ms") == name.endswith("_ms"), name
                assert (unit == "bytes") == name.endswith("_bytes"), name
        assert told == columns, table


def test_what_replaces_what_partitions_and_retention_are_told(made):
    """The list at the page's head against the engine's own words."""
    listed = {re.search(r"\w+", row[0])[0]: row[2:] for row in rows(PAGE.split("## Queries")[0])}
    found = made.query(
        f"SELECT name, engine_full, partition_key, sorting_key FROM system.tables WHERE {OURS}"
    ).result_rows
    for name, engine, partition, sorting in found:
        replaced, parts, leaves = listed[name]
        version = re.match(r"ReplacingMergeTree\((\w+)\)", engine)
        assert (code(replaced) or [None])[0] == (version and version[1]), name
        if version and "same" not in replaced:
            keys = re.findall(r"\w+", sorting.replace("toStartOfHour", ""))
            told = re.findall(r"\w+", replaced.split(" one a ")[1])
            # of every key the experiment and the time are left out, and what is always the same
            assert set(told) == set(keys) - {"experiment", "arrived_at"} - (
                {"replica"} if name == "windows" else set()
            ), name
        column = (code(parts) or [""])[0]
        assert (
            partition.replace("`", "")
            == {
                "day": f"toYYYYMMDD({column})",
                "month": f"toYYYYMM({column})",
                "none": "",
            }[parts.split()[0]]
        ), name
        kept = re.search(r"toIntervalSecond\((\d+)\)", engine)
        assert leaves == LEAVES[kept and int(kept[1])], name


def excluded(name):
    """The words of a statement's `excluded`: what its multiIf says."""
    body = re.search(
        r"multiIf\((.*?)\n    \),", (ROOT / f"analysis/queries/{name}.sql").read_text(), re.DOTALL
    )[1]
    return set(re.findall(r"'(\w+)',?$", body, re.MULTILINE))


def test_words_are_those_of_the_code():
    """Outcomes, transports, counters, reasons and what excludes a pair; none is left out."""
    parts = re.split(r"^\*\*`", section("Words"), flags=re.MULTILINE)[1:]
    told = {part.split("`")[0]: part for part in parts}
    words = {name: [code(row[0])[0] for row in rows(text)] for name, text in told.items()}
    assert words["exchanges.transport"] == list(dict.fromkeys(words["exchanges.transport"]))
    assert set(words["exchanges.transport"]) == set(TRANSPORTS)
    assert set(words["exchanges.outcome"]) == {*OUTCOMES, "purged"}
    assert set(words["pairs.excluded"]) == excluded("pairs") | excluded("pairs_probes")
    counters = set(re.findall(r"`(\w+)`\s\(", told["accounting.counter"]))
    assert counters == set(get_args(Counter))
    skipped, dropped = re.split(r"`(?:skipped|dropped)`:", told["accounting.reason"])[1:]
    assert set(code(skipped)) == set(SKIP_REASONS)
    assert set(code(dropped)) == set(DROP_REASONS)
    kinds = {word for row in rows(told["events.kind"]) for word in code(row[0])}
    said = "".join(
        (ROOT / f"analysis/{name}.py").read_text()
        for name in ("comparison", "engines", "stopping", "windows")
    )
    assert kinds == {
        *re.findall(r'^(?:STARTED|WARM|SEEN|ENDED|LATE) = "(\w+)"', said, re.MULTILINE),
        *(f"mirror_{action}" for action in ("pause", "resume", "rate")),
    }


def said(row):
    return f"{row['arm']} of {row['pair_id']}"


@pytest.fixture(scope="module")
def filled(made):
    """A store that holds rows of every table: what two workers left in the last minutes."""
    world = World(made, "llama70b-fp8")
    first = int(time.time()) - EPOCH_S - 600
    world.traffic(30, 5, {"fp8": {"tpot": 1.15, "mismatch": 0.3}, "control": {}}, first=first)
    stored = list(world.pending_rows)
    for row in stored:
        row["model"] = "llama"
    stored[1] |= {"failure": 1, "outcome": "http_error", "status": 500}
    world.store()
    columns = ["experiment", "arrived_at", "pair_id", "arm", "probe", "answer"]
    made.insert(
        "bodies",
        [
            [*(row[name] for name in columns[:-1]), json.dumps([{"text": said(row)}])]
            for row in stored
        ],
        column_names=columns,
    )
    world.count(first + 31, "fp8", "sampled", 150)
    world.count(first + 31, "fp8", "skipped", 7, "not_sampled")
    world.count(first + 31, "fp8", "dropped", 3, "queue_full")
    world.heard(first + 31, None)
    now_ns = (EPOCH_S + first + 90) * 10**9
    look(made, world.settings(), Memory(), now_ns, whole=True)
    append(made, world.experiment, "mirror_pause", "", {"by": "ann", "reason": "a test"}, now_ns)
    waive(made, world.experiment, "fp8", Waiver("e2e.p95", "ann", "known", now_ns), now_ns)
    made.insert(
        "dead_letters",
        [[at(first), "0:1", "no JSON", b"k", b"v"]],
        column_names=["at", "source", "reason", "key", "value"],
    )
    return made


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.splitlines()[0][3:40])
def test_every_query_runs_and_finds_something(filled, query):
    """As it stands, and as one who may only read."""
    result = filled.query(query, settings={"readonly": 2})
    assert result.result_rows
    assert not set(result.column_names) & {""}


def test_differing_answers_are_those_of_one_request(filled):
    """The query of mismatches pairs what differs, with both texts."""
    (query,) = [query for query in QUERIES if "differ" in query.splitlines()[0]]
    found = filled.query(query).result_rows
    assert 1 <= len(found) <= 20
    assert all(row[1:] == (f"fp8 of {row[0]}", f"primary of {row[0]}") for row in found)
    ids = [row[0] for row in found]
    assert filled.query(
        "SELECT min(mismatch), count() FROM pairs FINAL WHERE arm = 'fp8' AND reference_arm = 'primary' AND pair_id IN {ids:Array(String)}",
        parameters={"ids": ids},
    ).result_rows == [(1, len(ids))]


def test_final_is_refused_where_nothing_replaces(filled):
    """As the page says of tables to which rows are only appended."""
    for table in ("verdicts", "waivers", "events", "dead_letters"):
        with pytest.raises(Exception, match="FINAL"):
            filled.query(f"SELECT count() FROM {table} FINAL")
