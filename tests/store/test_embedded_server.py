"""The HTTP interface as curl, clickhouse-go and broken clients use it, without a client library."""

import gzip
import http.client
import json
import socket
import struct
import threading
import time
import zlib
from base64 import b64encode
from urllib.parse import quote, urlencode, urlsplit

import lz4.frame
import pytest

from collector.embedded import server as server_module
from collector.embedded import threads
from collector.embedded.coding import _ZSTD

zstd = pytest.importorskip(_ZSTD)
PASSWORD = "s3cret:%/ü"
BASIC = "Basic " + b64encode(f"default:{PASSWORD}".encode()).decode()
HELLO = "SELECT displayName(), version(), revision(), timezone()"


@pytest.fixture(scope="module")
def address(store, settings):
    assert settings.password == PASSWORD
    return urlsplit(store.url).netloc


@pytest.fixture
def ask(address):
    """One request: (status, header fields, body). `params` go into the address."""
    opened = []

    def send(body=b"", params=None, *, method="POST", path="/", headers=None, user=True):
        connection = http.client.HTTPConnection(address, timeout=30)
        opened.append(connection)
        fields = ({"Authorization": BASIC} if user else {}) | (headers or {})
        target = path + ("?" + urlencode(params) if params else "")
        connection.request(method, target, body or None, fields)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    yield send
    for connection in opened:
        connection.close()


def test_a_ping_needs_no_password(ask):
    """Health checks and clickhouse-connect's ping."""
    for method, path in (("GET", "/ping"), ("GET", "/"), ("GET", "/replicas_status")):
        assert ask(method=method, path=path, user=False)[::2] == (200, b"Ok.\n")
    assert ask(method="HEAD", path="/ping", user=False)[::2] == (200, b"")


def test_a_statement_may_stand_in_the_body_in_the_address_or_in_both(ask):
    """As ClickHouse reads it: what is in `query` comes first, a new line between."""
    assert ask("SELECT 1")[::2] == (200, b"1\n")
    assert ask(params={"query": "SELECT 2"})[2] == b"2\n"
    assert ask("3 AS x", {"query": "SELECT"})[2] == b"3\n"
    assert ask(method="GET", params={"query": "SELECT 4 FORMAT JSONEachRow"})[2] == b'{"4":4}\n'
    assert ask(method="HEAD", params={"query": "SELECT 4"})[::2] == (200, b"")
    assert (
        ask("SELECT 1", headers={"Content-Type": "application/x-www-form-urlencoded"})[2] == b"1\n"
    )


def test_an_answer_says_what_it_is(ask):
    """The header fields that clients read."""
    _, headers, body = ask(
        "SELECT number FROM numbers(3)", {"query_id": "mine", "default_format": "JSONEachRow"}
    )
    assert body.splitlines()[2] == b'{"number":2}'
    assert headers["X-ClickHouse-Format"] == "JSONEachRow"
    assert headers["X-ClickHouse-Query-Id"] == "mine"
    assert headers["X-ClickHouse-Timezone"] == "UTC"
    assert json.loads(headers["X-ClickHouse-Summary"])["read_rows"] == "3"
    _, headers, _ = ask("SELECT 1 FORMAT TSV", headers={"X-ClickHouse-Format": "CSV"})
    assert headers["X-ClickHouse-Format"] == "TSV"


def test_a_statement_without_rows_has_no_format(ask, table):
    """So clickhouse-connect knows a command's empty answer from a query's."""
    _, headers, body = ask(f"CREATE TABLE shadow.{table} (a UInt8) ENGINE = Memory")
    assert (body, "X-ClickHouse-Format" in headers) == (b"", False)


def test_parameters_settings_and_database_are_of_their_request_alone(ask):
    """Nothing that one request sets is there in the next."""
    params = {"param_a": "7", "param_s": "x\\ty\\'\\\\", "database": "system", "max_threads": "1"}
    read = "SELECT {a:UInt8}, {s:String}, currentDatabase(), getSetting('max_threads')"
    assert ask(read, params)[2] == b"7\tx\\ty\\'\\\\\tsystem\t1\n"
    status, headers, body = ask("SELECT {a:UInt8}")
    assert (status, headers["X-ClickHouse-Exception-Code"], b"UNKNOWN_QUERY_PARAMETER" in body) == (
        500,
        "456",
        True,
    )
    assert (
        ask("SELECT currentDatabase()", headers={"X-ClickHouse-Database": "system"})[2]
        == b"system\n"
    )
    assert ask("SELECT currentDatabase()")[2] == b"default\n"
    ask("SET max_threads = 1")
    assert ask("SELECT getSetting('max_threads') = 1")[2] != b"true\n"


ERRORS = [
    ("SELECT nope", 404, 47), ("SELECT * FROM nope", 404, 60), ("SELECT (1", 400, 62), ("", 400, 62),
    ("SELECT 1; SELECT 2", 400, 62), ("SELECT throwIf(1)", 500, 395), ("SELECT sleep(3) SETTINGS max_execution_time = 0.1", 408, 159),
    ("SELECT 1 INTO OUTFILE '/tmp/no'", 501, 48), ("INSERT INTO t FROM INFILE '/etc/passwd' FORMAT CSV", 501, 48),
    ("SELECT 1 FORMAT Nope", 404, 73), ("SELECT 1 SETTINGS nope = 1", 404, 115),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "status", "code"), ERRORS)
def test_an_error_has_clickhouses_status_code_and_text(ask, statement, status, code):
    """Grafana shows the text, clients go by the code."""
    answered, headers, body = ask(statement)
    assert (answered, headers["X-ClickHouse-Exception-Code"]) == (status, str(code))
    assert body.startswith(b"Code: %d. DB::Exception: " % code)
    assert body.endswith(b")\n")


def test_an_error_in_a_setting_of_the_address(ask):
    """A setting that is none, a name that is none, a database that is none."""
    assert [ask("SELECT 1", {name: "1"})[0] for name in ("nope", "a'b", "database")] == [
        404,
        400,
        404,
    ]


DATA = b'{"a": 1, "s": "x"}\n{"a": 2, "s": "y"}\n'


def test_an_inserts_data_stand_behind_it_or_in_the_body(ask, table):
    """Statement in the address, statement at the head of the body, values within the statement."""
    name = f"shadow.{table}"
    ask(f"CREATE TABLE {name} (a UInt32, s String) ENGINE = MergeTree ORDER BY a")
    _, headers, _ = ask(DATA, {"query": f"INSERT INTO {name} FORMAT JSONEachRow"})
    summary = json.loads(headers["X-ClickHouse-Summary"])
    assert (summary["written_rows"], "X-ClickHouse-Format" in headers) == ("2", False)
    ask(f"INSERT INTO {name} (a, s) FORMAT TSV\n3\tz\n".encode())
    ask(f"/* why */ INSERT INTO {name} -- how\n(s, a) VALUES ('FORMAT (', 4), ('v', 5)")
    ask(b"(6, 'six')", {"query": f"INSERT INTO {name} VALUES"})
    ask(f"INSERT INTO {name} SETTINGS async_insert = 0 FORMAT CSV\n7,seven")
    ask(f"INSERT INTO {name} SELECT number, 'n' FROM numbers(8, 2)")
    ask(f"INSERT INTO {name} (a) FORMAT RowBinary\n".encode() + struct.pack("<I", 10))
    assert (
        ask(f"SELECT groupArray(a) FROM (SELECT a FROM {name} ORDER BY a)")[2]
        == b"[1,2,3,4,5,6,7,8,9,10]\n"
    )
    assert ask(f"SELECT s FROM {name} WHERE a = 4")[2] == b"FORMAT (\n"


def test_an_insert_that_does_not_parse_stores_nothing(ask, table):
    """The row at fault is in the text."""
    name = f"shadow.{table}"
    ask(f"CREATE TABLE {name} (a UInt32) ENGINE = MergeTree ORDER BY a")
    status, headers, body = ask(f"INSERT INTO {name} FORMAT TSV\n1\n2\nx\n")
    assert (status, headers["X-ClickHouse-Exception-Code"]) == (400, "27")
    assert b"row 3" in body
    assert ask(f"SELECT count() FROM {name}")[2] == b"0\n"


def test_what_the_table_itself_refuses_is_an_error(ask, table):
    """A constraint, and a view that fails: never "written"."""
    name = f"shadow.{table}"
    ask(f"CREATE TABLE {name} (a Int32, CONSTRAINT c CHECK a >= 0) ENGINE = MergeTree ORDER BY a")
    for text in (b"FORMAT TSV\n1\n-1\n", b"VALUES (1), (-1)"):
        status, headers, _ = ask(f"INSERT INTO {name} ".encode() + text)
        assert (status, headers["X-ClickHouse-Exception-Code"]) == (500, "469")
    ask(f"CREATE MATERIALIZED VIEW {name}v ENGINE = Memory AS SELECT throwIf(a = 3) FROM {name}")
    assert ask(f"INSERT INTO {name} FORMAT TSV\n3\n")[1]["X-ClickHouse-Exception-Code"] == "395"


def test_native_data_with_any_bytes_behind_the_statement(ask, table):
    """Quotes, semicolons and brackets among the data are data."""
    name = f"shadow.{table}"
    ask(f"CREATE TABLE {name} (s String) ENGINE = MergeTree ORDER BY s")
    value = b"'\"`;--/*\xff\0(FORMAT CSV"
    block = bytes((1, 1, 1)) + b"s" + bytes((6,)) + b"String" + bytes((len(value),)) + value
    assert ask(f"INSERT INTO {name} FORMAT Native\n".encode() + block)[0] == 200
    assert ask(f"SELECT hex(s) FROM {name}")[2].strip() == value.hex().upper().encode()


CODED = {
    "gzip": (gzip.compress, gzip.decompress), "deflate": (zlib.compress, zlib.decompress),
    "lz4": (lz4.frame.compress, lz4.frame.decompress), "zstd": (zstd.compress, zstd.decompress),
}  # fmt: skip


@pytest.mark.parametrize("coding", CODED)
def test_bodies_are_coded_both_ways(ask, table, coding):
    """Two coded parts one after the other too, as clients code block by block."""
    pack, unpack = CODED[coding]
    name = f"shadow.{table}"
    ask(f"CREATE TABLE {name} (a UInt32) ENGINE = MergeTree ORDER BY a")
    sent = {"Content-Encoding": coding}
    statement = f"INSERT INTO {name} FORMAT TSV\n".encode()
    assert ask(pack(statement + b"1\n2\n"), headers=sent)[0] == 200
    if coding != "deflate":
        assert ask(pack(statement) + pack(b"3\n4\n"), headers=sent)[0] == 200
    _, headers, body = ask(
        f"SELECT sum(a) FROM {name}", headers={"Accept-Encoding": f"br;q=0, {coding}"}
    )
    assert headers["Content-Encoding"] == coding
    assert unpack(body) == (b"3\n" if coding == "deflate" else b"10\n")
    plain = ask("SELECT 1", {"enable_http_compression": "0"}, headers={"Accept-Encoding": coding})
    assert plain[2] == b"1\n"


def test_a_body_that_is_not_as_coded_is_refused(ask):
    """Broken, cut short, unknown, and ClickHouse's own block compression."""
    for coding, body in (
        ("gzip", b"no"),
        ("lz4", b"nope"),
        ("zstd", b"nope"),
        ("deflate", zlib.compress(b"SELECT 1")[:5]),
    ):
        assert (
            ask(body, headers={"Content-Encoding": coding})[1]["X-ClickHouse-Exception-Code"]
            == "271"
        )
    assert (
        ask(b"x", headers={"Content-Encoding": "snappy"})[1]["X-ClickHouse-Exception-Code"] == "89"
    )
    assert ask(b"SELECT 1", {"compress": "1"})[0] == 501


def test_a_large_answer_comes_in_pieces(ask):
    """Without wait_end_of_query it is chunked; with it, complete before the first byte."""
    statement = "SELECT number FROM numbers(300000)"
    _, headers, body = ask(statement)
    assert (headers["Transfer-Encoding"], body.count(b"\n")) == ("chunked", 300_000)
    _, _, whole = ask(statement, {"wait_end_of_query": "1"})
    assert whole == body


LATE = "SELECT throwIf(number = 299999), number FROM numbers(300000) SETTINGS max_threads = 1, max_block_size = 10000"


def test_an_error_in_the_middle_is_a_status_when_the_answer_waits(ask):
    """With wait_end_of_query nothing was sent before it."""
    status, headers, _ = ask(LATE, {"wait_end_of_query": "1"})
    assert (status, headers["X-ClickHouse-Exception-Code"]) == (500, "395")


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_an_error_in_the_middle_cuts_the_answer(address, coding):
    """It is never taken for a whole one: its last chunk is missing, its end says why."""
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("POST", "/", LATE, {"Authorization": BASIC, "Accept-Encoding": coding})
    answer = connection.getresponse()
    tag = answer.headers["X-ClickHouse-Exception-Tag"]
    with pytest.raises(http.client.IncompleteRead) as cut:
        answer.read()
    connection.close()
    partial = cut.value.partial
    text = zlib.decompressobj(31).decompress(partial) if coding == "gzip" else partial
    assert f"__exception__\r\n{tag}\r\nCode: 395. ".encode() in text[-3000:]


def test_who_may_enter(ask):
    """Basic, header fields, address; nothing else."""
    key = {"X-ClickHouse-User": "default", "X-ClickHouse-Key": PASSWORD.encode().decode("latin-1")}
    assert ask("SELECT 1", {"user": "default", "password": PASSWORD}, user=False)[0] == 200
    assert ask("SELECT 1", headers=key, user=False)[0] == 200
    assert ask("SELECT 1", {"password": PASSWORD}, user=False)[0] == 200
    status, headers, body = ask("SELECT 1", user=False)
    assert (status, headers["X-ClickHouse-Exception-Code"]) == (401, "194")
    assert headers["WWW-Authenticate"].startswith("Basic")
    wrong = (
        {"user": "default", "password": "no"},
        {"user": "root", "password": PASSWORD},
        {"user": "", "password": ""},
    )
    for params in wrong:
        status, headers, body = ask("SELECT 1", params, user=False)
        assert (status, headers["X-ClickHouse-Exception-Code"]) == (403, "516")
        assert b"Authentication failed" in body
    for value in ("Basic !!", "Basic", "Bearer x", "Basic " + b64encode(b"\xff\xfe").decode()):
        assert ask("SELECT 1", headers={"Authorization": value}, user=False)[0] in {401, 403}


def test_pages_of_other_sites_may_not(ask, address):
    """A visitor's browser is no way around a missing password."""
    assert ask("SELECT 1", headers={"Origin": "http://evil.example"})[0] == 403
    assert ask("SELECT 1", headers={"Origin": f"http://{address}"})[0] == 200


def test_a_get_changes_nothing(ask, table):
    """As with ClickHouse, a GET only reads."""
    status, headers, _ = ask(
        method="GET", params={"query": f"CREATE TABLE shadow.{table} (a Int8) ENGINE = Memory"}
    )
    assert (status, headers["X-ClickHouse-Exception-Code"]) == (500, "164")


def test_what_is_not_there(ask):
    """Other paths and methods."""
    assert ask(path="/nope")[0] == 404
    assert ask(method="DELETE")[0] == 501


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def test_clickhouse_gos_first_question(ask):
    """Its answer is a block of a late protocol, and says that ours is revision 0."""
    _, headers, body = ask(HELLO, {"client_protocol_version": "54460", "default_format": "Native"})
    assert headers["X-ClickHouse-Format"] == "Native"
    assert body[:10] == bytes((1, 0, 2, 255, 255, 255, 255, 0, 4, 1))
    found, at = {}, 10
    for _ in range(4):
        size, at = read_varint(body, at)
        name, at = body[at : at + size].decode(), at + size
        size, at = read_varint(body, at)
        kind, at = body[at : at + size], at + size
        assert body[at] == 0
        at += 1
        if kind == b"UInt32":
            found[name], at = body[at : at + 4], at + 4
        else:
            size, at = read_varint(body, at)
            found[name], at = body[at : at + size].decode(), at + size
    assert at == len(body)
    assert (found["revision()"], found["timezone()"]) == (b"\0\0\0\0", "UTC")
    assert found["version()"] == ask("SELECT version()")[2].decode().strip()


def test_the_same_question_of_someone_else_is_a_question(ask):
    """Without a protocol version, or with more to it, the engine answers."""
    assert ask(HELLO)[2].count(b"\t") == 3
    native = {"client_protocol_version": "54460", "default_format": "Native"}
    _, _, body = ask("SELECT 1 AS a", native)
    assert body == b"\x01\x01\x01a\x05UInt8\x01"


def test_a_long_query_does_not_block_a_ping_or_another_query(ask):
    """The event loop stays free, and queries run side by side."""
    done = []
    slow = threading.Thread(
        target=lambda: done.append(
            ask("SELECT sleepEachRow(0.5) FROM numbers(2) SETTINGS max_block_size = 1")
        )
    )
    slow.start()
    while (
        b"sleepEachRow"
        not in ask("SELECT query FROM system.processes WHERE query NOT LIKE '%processes%'")[2]
    ):
        pass
    assert ask(method="GET", path="/ping")[0] == 200
    assert ask("SELECT 1")[2] == b"1\n"
    assert not done
    slow.join()
    assert done[0][0] == 200


def running(ask, word):
    return int(
        ask(
            f"SELECT count() FROM system.processes WHERE query LIKE '%{word}%' AND query NOT LIKE '%processes%'"
        )[2]
    )


def until(condition, seconds=15):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def leave(address, statement, *, after):
    """Send a statement and close the connection, reset and all, once `after` holds."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port))) as client:
        head = f"POST /?user=default&password={quote(PASSWORD)} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(statement)}\r\n\r\n"
        client.sendall(head.encode() + statement)
        after(client)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_client_that_leaves_stops_its_query(ask, address):
    """Before the first byte and in the middle of an answer; the workers are free again."""
    for _ in range(threads.WORKERS + 1):
        leave(
            address,
            b"SELECT count() FROM numbers(1e15) WHERE NOT ignore('left')",
            after=lambda _: until(lambda: running(ask, "left")),
        )
        until(lambda: not running(ask, "left"))
        leave(
            address,
            b"SELECT number, 'gone' FROM numbers(1e12)",
            after=lambda client: client.recv(100),
        )
        until(lambda: not running(ask, "gone"))
    assert ask("SELECT 1")[2] == b"1\n"


def test_a_client_that_leaves_within_its_upload_stores_nothing(ask, address, table):
    """An insert starts only when its body is complete."""
    name = f"shadow.{table}"
    ask(f"CREATE TABLE {name} (a UInt32) ENGINE = MergeTree ORDER BY a")
    host, port = address.split(":")
    with socket.create_connection((host, int(port))) as client:
        head = f"POST /?user=default&password={quote(PASSWORD)} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
        client.sendall(head.encode() + f"INSERT INTO {name} FORMAT TSV\n1\n2\n".encode())
    assert ask(f"SELECT count() FROM {name}")[2] == b"0\n"


GARBAGE = [
    b"\0\xff\xfe garbage\r\n\r\n", b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00",
    b"POST /?" + b"a" * 2_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_does_not_break_the_server(ask, address, data):
    """It is refused or cut, and the next request is answered."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            answer = client.recv(4096)
        except OSError:
            answer = b""
    assert answer == b"" or (answer.startswith(b"HTTP/1.") and answer[9:10] == b"4")
    assert ask("SELECT 1")[2] == b"1\n"


def test_statements_of_any_bytes_are_refused_or_run(ask):
    """Never a cut connection: an error is ClickHouse's."""
    for statement in (
        b"\xff\xfe",
        b"'",
        b"/*",
        b"$$",
        b"SELECT '\xff'",
        b"INSERT",
        b"INSERT INTO",
        b"FORMAT",
        b";;",
        b"INSERT INTO t FORMAT",
        b"((((",
    ):
        status, headers, _ = ask(statement)
        assert headers.get("X-ClickHouse-Exception-Code", "0" if status == 200 else None) not in {
            None,
            "1001",
        }


FORM = b'--b\r\nContent-Disposition: form-data; name="query"\r\n\r\nSELECT {x:String}\r\n--b\r\nContent-Disposition: form-data; name="param_x"\r\n\r\n%s\r\n--b--\r\n'


def test_a_form_brings_the_statement_and_its_parameters(ask):
    """As clickhouse-connect sends long parameters; bounded, and no form is an error."""
    form = {"Content-Type": "multipart/form-data; boundary=b"}
    assert ask(FORM % b"\xc3\xbc", headers=form)[2] == "ü\n".encode()
    assert ask(FORM % (b"x" * 17 * 2**20), headers=form)[0] == 413
    for body, kind in (
        (b"no form", "multipart/form-data; boundary=b"),
        (b"", "multipart/form-data"),
    ):
        status, headers, _ = ask(body, headers={"Content-Type": kind})
        assert (status, headers["X-ClickHouse-Exception-Code"]) in {(400, "36"), (400, "62")}


def test_external_data_are_refused_by_name(ask):
    """Not silently ignored."""
    form = (
        b'--b\r\nContent-Disposition: form-data; name="t"; filename="t.csv"\r\n\r\n1\r\n--b--\r\n'
    )
    status, _, body = ask(
        form, {"query": "SELECT 1"}, headers={"Content-Type": "multipart/form-data; boundary=b"}
    )
    assert (status, b"External data" in body) == (501, True)


def test_too_many_requests_are_told_so(ask, address, monkeypatch):
    """A bound on what waits, with ClickHouse's code for it."""
    monkeypatch.setattr(server_module, "OPEN_REQUESTS", 0)
    status, headers, _ = ask("SELECT 1")
    assert (status, headers["X-ClickHouse-Exception-Code"]) == (500, "202")
