"""Whoever shows nothing may read the store, whoever shows its secret may write, and nobody reads the
machine's files or asks other servers by way of it.
"""

import stat
import urllib.error
import urllib.parse
import urllib.request
from contextlib import closing
from dataclasses import replace

import pytest

from collector.embedded import EmbeddedStore
from collector.folder import Misconfigured, secret_of
from collector.migrate import Retention, migrate
from collector.reach import _reaches, reaching
from collector.store import connect
from collector.store_errors import StoreRefused, store_errors

LOCAL = ("127.0.0.1", 0)
SECRET_TEXT = "nobody is to read this"
HARMLESS = {
    # of the store itself, of nothing, or a server's that is not here
    *["alias", "atomic", "buffer", "embeddedrocksdb", "format", "fuzzjson", "fuzzquery", "generaterandom", "generateseries", "generate_series"],
    *["distributed", "input", "join", "keepermap", "log", "loop", "materializedview", "memory", "merge", "null", "numbers", "numbers_mt", "ordinary"],
    *["primes", "set", "sqlstandardvalues", "stripelog", "timeseries", "timeseriesdata", "timeseriesmetricfamilies", "timeseriesmetrics"],
    *["timeseriessamples", "timeseriesselector", "timeseriestags", "tinylog", "values", "view", "viewexplain", "viewifpermitted", "zeros"],
    *["zeros_mt", "replicated"],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("open") / "store"


@pytest.fixture(scope="module")
def store(folder):
    with EmbeddedStore.open(folder, LOCAL, "shadow", "default", "") as opened:
        with closing(opened.client()) as client:
            migrate(client, "shadow", Retention(10**9, 10**9))
            client.command("CREATE TABLE t (a String) ENGINE = MergeTree ORDER BY a")
            client.command("INSERT INTO t VALUES ('x')")
        yield opened


@pytest.fixture(scope="module")
def secret_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "secret.csv"
    path.write_text(SECRET_TEXT)
    return path


def curl(store, statement, method="POST", **params):
    """What plain curl would get: status and text."""
    query = urllib.parse.urlencode({"database": "shadow", **params})
    data = statement.encode("utf-8", "surrogateescape")
    if method == "GET":
        query, data = f"{query}&query={urllib.parse.quote(data)}", None
    request = urllib.request.Request(f"{store.url}/?{query}", data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT a FROM t", "select a from t settings max_threads = 1", "WITH 1 AS b SELECT a FROM t", "FROM t SELECT a",
        "(SELECT a FROM t)", "SHOW TABLES", "DESCRIBE t", "DESC TABLE t", "EXISTS t", "EXPLAIN SELECT a FROM t",
        "SELECT 'file(', 'DROP TABLE t', a AS url -- file('x')\nFROM t /* url('http://x') */",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_reading_needs_nothing(store, statement, method):
    """As docs/operations.md says: plain curl, settings of its own too."""
    status, text = curl(store, statement, method, max_threads="1")
    assert (status, bool(text)) == (200, True), text


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE t", "INSERT INTO t VALUES ('y')", "INSERT INTO t SELECT 'y'", "ALTER TABLE t DELETE WHERE 1", "TRUNCATE TABLE t",
        "CREATE TABLE u (a Int8) ENGINE = Memory", "KILL QUERY WHERE 1", "SET readonly = 0", "SYSTEM FLUSH LOGS", "USE default",
        "WITH 'y' AS b INSERT INTO t SELECT b", "SELECT a FROM t SETTINGS readonly = 0", "OPTIMIZE TABLE t", "DETACH DATABASE shadow",
        "INSERT INTO verdicts (experiment, candidate, verdict) VALUES ('e', 'fp8', 'promote')", "CHECK TABLE t", "BACKUP TABLE t TO Null",
        "SELECT 1 INTO OUTFILE '/tmp/shadow-should-not-be'", "EXPLAIN AST SELECT 1; DROP TABLE t",
    ],
)  # fmt: skip
@pytest.mark.parametrize("params", [{}, {"readonly": "0"}, {"user": "default", "password": ""}])
def test_writing_needs_the_secret(store, statement, params):
    """Whatever a stranger says, by POST or GET: refused, and nothing has changed."""
    for method in ("POST", "GET"):
        status, text = curl(store, statement, method, **params)
        assert status >= 400
        assert "Exception" in text
    assert curl(store, "SELECT a FROM t") == (200, "x\n")
    assert curl(store, "SELECT count() FROM verdicts") == (200, "0\n")


def test_a_wrong_password_is_no_stranger(store):
    """Who shows another password, or another name, is refused: it is a mistake that should be seen."""
    for params in ({"password": "x"}, {"user": "eve"}):
        assert curl(store, "SELECT 1", **params)[0] == 403


def test_the_secret_writes(store, folder):
    """It stands in the store's folder, for this user alone; who has it does all that he must."""
    path = folder / "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret_of(folder) == path.read_text().strip() == store.settings.password
    assert len(secret_of(folder)) > 40
    assert secret_of(folder) not in repr(store.settings) + repr(store.access)
    with closing(connect(store.settings)) as client:
        client.command("CREATE TABLE w (a UInt8) ENGINE = MergeTree ORDER BY a")
        client.insert("w", [[1], [2]], column_names=["a"])
        assert client.query("SELECT sum(a) FROM w").result_rows == [(3,)]
    with closing(connect(replace(store.settings, password=""))) as client:
        assert client.query("SELECT sum(a) FROM w").result_rows == [(3,)]
        with (
            store_errors(),
            pytest.raises(StoreRefused, match=r"password.*may only read"),
            store_errors(),
        ):
            client.insert("w", [[3]], column_names=["a"])


def test_the_engines_own_database_is_not_served(tmp_path):
    """In chDB's `default` a path is a table; it is one clear line."""
    with pytest.raises(Misconfigured, match=r"store\.database: default .* choose another"):
        EmbeddedStore.open(tmp_path, LOCAL, "default", "default", "")


FILES = [
    "SELECT * FROM file('{}', 'LineAsString')", "SELECT * FROM FILE ('{}', 'LineAsString')", "SELECT * FROM `file`('{}', 'LineAsString')",
    "SELECT * FROM \"file\" /* ( */ ('{}', 'LineAsString')", "SELECT * FROM `\\x66ile`('{}', 'LineAsString')",
    "SELECT * FROM `f\\Nile`('{}', 'LineAsString')", "SELECT file('{}')", "SELECT * APPLY(file) FROM (SELECT '{}')",
    "SELECT arrayMap(file, ['{}'])", "SELECT 1 AS a$b$, file('{}')", "SELECT * FROM \u201cfile\u201d('{}', 'LineAsString')",
    "SELECT * FROM file\u00a0('{}', 'LineAsString')", "SELECT * FROM '{}'", "SELECT * FROM `{}`", "SELECT * FROM default.`{}`",
    "SELECT * FROM fileCluster('default', '{}', 'LineAsString')", "SELECT * FROM eval('SELECT * FROM file(\\'{}\\')')",
    "DESCRIBE file('{}', 'LineAsString')", "SELECT * FROM s3('file://{}', 'LineAsString')", "WITH f AS (SELECT * FROM file('{}')) SELECT * FROM f",
    "SELECT * FROM sqlite('{}', 't')", "SELECT * FROM executable('cat {}', 'LineAsString', 'a String')",
    "SELECT * FROM view(SELECT * FROM file('{}', 'LineAsString'))", "SELECT 1 WHERE 'x' IN (SELECT * FROM file('{}', 'LineAsString'))",
]  # fmt: skip
MORE = [
    "INSERT INTO t SELECT * FROM file('{}', 'LineAsString')", "INSERT INTO FUNCTION file('{}', 'CSV', 'a String') VALUES ('x')",
    "CREATE TABLE f (a String) ENGINE = File(CSV, '{}')", "CREATE TABLE f (a String) ENGINE URL('http://127.0.0.1:1/{}')",
    "CREATE VIEW f AS SELECT * FROM file('{}', 'LineAsString')", "CREATE DATABASE f ENGINE = Filesystem('{}')",
    "CREATE DICTIONARY f (a UInt64, b String) PRIMARY KEY a SOURCE(FILE(path '{}' format 'CSV')) LAYOUT(FLAT()) LIFETIME(1)",
    "ALTER TABLE t UPDATE a = file('{}') WHERE 1", "BACKUP TABLE t TO File('{}')", "INSERT INTO t FROM INFILE '{}' FORMAT CSV",
]  # fmt: skip
NETWORK = [
    f"SELECT * FROM {call}"
    for call in (
        "url('http://127.0.0.1:1/', 'LineAsString', 'a String')", "remote('127.0.0.1:1', 'system', 'one')", "mysql('127.0.0.1:1', 'd', 't', 'u', 'p')",
        "postgresql('127.0.0.1:1', 'd', 't', 'u', 'p')", "hdfs('hdfs://127.0.0.1:1/x', 'CSV')", "mongodb('127.0.0.1:1', 'd', 't', 'u', 'p', 'a String')",
        "clusterAllReplicas('default', 'system.one')", "cluster('default', 'system.one')", "iceberg('http://127.0.0.1:1/')", "python('x')",
    )
]  # fmt: skip


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("statement", FILES + MORE + NETWORK)
def test_nothing_reaches_beyond_the_store(store, secret_file, statement, shown):
    """Neither a stranger nor who has the secret: an error, at once, without a byte of the file."""
    said = {"password": store.settings.password} if shown else {}
    for database in ("shadow", "default"):
        asked = statement.replace("{}", str(secret_file))
        status, text = curl(store, asked, database=database, **said)
        assert status >= 400, text
        assert SECRET_TEXT not in text
    assert secret_file.read_text() == SECRET_TEXT


def test_every_name_of_the_engine_is_known(store):
    """A chDB with table functions or engines that nobody has looked at yet fails here."""
    named = " UNION ALL ".join(
        f"SELECT name FROM system.{each}"
        for each in ("table_functions", "table_engines", "database_engines")
    )
    with closing(store.client()) as client:
        names = {str(row[0]).lower() for row in client.query(named).result_rows}
    unknown = {name for name in names if not _reaches(name) and "mergetree" not in name}
    assert unknown - HARMLESS == set()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'file(''/etc/passwd'')', \"a\" FROM t", "SELECT url, remote FROM t WHERE s3 = 'x'", "SELECT $$file('x')$$",
        "INSERT INTO dead_letters (at, source, url) VALUES", "SELECT URLHash('a'), fileformat, `profile` FROM t -- url('x')",
        "SELECT '\u201cfile\u201d'", "CREATE TABLE x (engine String) ENGINE = MergeTree ORDER BY engine",
    ],
)  # fmt: skip
def test_what_only_speaks_of_it_is_no_reach(text):
    """Texts, comments, columns, and functions of names."""
    assert reaching(text.encode().decode("latin-1")) is None
