"""What our tables need of the store is the same in process and over HTTP; failures are of two kinds."""

import math
import re
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import clickhouse_connect
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from collector.store import StoreSettings, connect, open_folder
from collector.store_errors import StoreRefused, StoreUnavailable, store_errors, translated

BYTES = {"String": "bytes"}
NANOSECONDS = {"DateTime64": "int"}


def make(client, table, columns, engine="MergeTree ORDER BY tuple()"):
    client.command(
        f"CREATE TABLE {table} ({columns}) ENGINE = {engine}"
        f"{'' if 'SETTINGS' in engine else ' SETTINGS non_replicated_deduplication_window = 100'}"
    )


def back(client, table, **formats):
    return client.query(f"SELECT * FROM {table}", query_formats=formats).result_rows


TYPES = [
    ("LowCardinality(String)", ["", "a", "a", "ü€"]),
    ("LowCardinality(Nullable(String))", [None, "", "x"]),
    ("Nullable(Float64)", [None, 0.0, -0.0, 1e308, 5e-324]),
    ("Float64", [math.inf, -math.inf, 0.1]),
    ("UInt64", [0, 2**64 - 1]),
    ("Int64", [-(2**63), 2**63 - 1]),
    ("Nullable(UInt64)", [None, 2**64 - 1]),
    ("UInt16", [0, 65535]),
    ("Nullable(UInt16)", [None, 200]),
    ("Bool", [True, False]),
    ("Nullable(Bool)", [None, True, False]),
    ("Nullable(UInt8)", [None, 0, 1]),
    ("Array(LowCardinality(String))", [[], ["a", "b", "a"]]),
    ("Array(Float64)", [[], [math.inf, 0.5]]),
    ("Array(Int32)", [[], [-(2**31), 2**31 - 1]]),
    ("Array(Tuple(UInt64, UInt64))", [[], [(0, 2**64 - 1), (1, 2)]]),
]


@pytest.mark.parametrize(("kind", "values"), TYPES, ids=[kind for kind, _ in TYPES])
def test_every_type_of_our_tables_comes_back_as_it_went(client, table, kind, values):
    """Round trip of each column type's extremes."""
    make(client, table, f"i UInt32, v {kind}", "MergeTree ORDER BY i")
    client.insert(table, list(enumerate(values)), column_names=["i", "v"])
    assert [value for _, value in back(client, table)] == values


def test_a_float_that_is_no_number_comes_back_as_one(client, table):
    """NaN is kept apart from null and infinity."""
    make(client, table, "v Nullable(Float64)")
    client.insert(table, [[math.nan]], column_names=["v"])
    assert math.isnan(back(client, table)[0][0])


INSTANTS = [0, 1, 1_700_000_000_123_456_789, 1_700_000_000_999_999_999, 2_208_988_800_000_000_001]


def test_instants_are_exact_to_the_nanosecond(client, table):
    """Integers in are integers out, and the text in the store is UTC."""
    make(client, table, "v DateTime64(9, 'UTC'), n Nullable(DateTime64(9, 'UTC'))")
    client.insert(table, [[ns, ns] for ns in INSTANTS], column_names=["v", "n"])
    assert back(client, table, **NANOSECONDS) == [(ns, ns) for ns in INSTANTS]
    text = f"SELECT toString(v), toUnixTimestamp64Nano(v) FROM {table} WHERE v = fromUnixTimestamp64Nano({INSTANTS[2]})"
    assert client.query(text).result_rows == [("2023-11-14 22:13:20.123456789", INSTANTS[2])]


def test_instants_are_given_as_parameters(client, table):
    """A range of arrival times is a parameter, not text in a statement."""
    make(client, table, "v DateTime64(9, 'UTC')")
    client.insert(table, [[ns] for ns in INSTANTS], column_names=["v"])
    found = client.query(
        f"SELECT toUnixTimestamp64Nano(v) FROM {table} WHERE v >= fromUnixTimestamp64Nano({{a:Int64}})"
        " AND v < fromUnixTimestamp64Nano({b:Int64}) ORDER BY v",
        parameters={"a": INSTANTS[2], "b": INSTANTS[3]},
    ).result_rows
    assert found == [(INSTANTS[2],)]


def test_any_bytes_are_a_string(client, table):
    """Original bytes of a dead letter survive: every byte, NUL and broken UTF-8 among them."""
    values = [b"", b"\0", bytes(range(256)) * 3, b"\xff\xfe'\\\t\n\r`\"--/*"]
    make(client, table, "i UInt8, v String, c String CODEC(ZSTD(3))", "MergeTree ORDER BY i")
    client.insert(table, [[i, v, v] for i, v in enumerate(values)], column_names=["i", "v", "c"])
    assert [row[1:] for row in back(client, table, **BYTES)] == [(v, v) for v in values]


@bounded(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text(max_size=40),
    number=st.integers(0, 2**64 - 1),
    names=st.lists(st.text(max_size=5), max_size=4),
)
def test_parameters_mean_what_they_say(client, text, number, names):
    """Whatever a parameter holds is a value, never a part of the statement."""
    found = client.query(
        "SELECT {t:String}, {n:UInt64}, {l:Array(String)}, {none:Nullable(String)} IS NULL",
        parameters={"t": text, "n": number, "l": names, "none": None},
    ).result_rows
    assert found == [(text, number, names, 1)]


def test_settings_hold_for_their_statement_alone(client):
    """A setting given with a query is not there in the next one."""
    read = "SELECT getSetting('max_threads'), getSetting('max_result_rows')"
    default = client.query(read).result_rows
    assert client.query(read, settings={"max_threads": 1, "max_result_rows": 7}).result_rows == [
        (1, 7)
    ]
    assert client.query(read).result_rows == default


def test_every_client_speaks_with_our_settings(client):
    """No asynchronous insert, FINAL within a partition, UTC; wherever the client came from."""
    names = ("async_insert", "do_not_merge_across_partitions_select_final")
    asked = ", ".join(f"toString(getSetting('{name}'))" for name in names)
    [(async_insert, within, zone)] = client.query(f"SELECT {asked}, timezone()").result_rows
    assert (async_insert in {"0", "false"}, within in {"1", "true"}, zone) == (True, True, "UTC")


ERRORS = [
    ("SELECT nope", 47),
    ("SELECT * FROM nope", 60),
    ("SELECT * FROM nope.t", 81),
    ("SELECT (1", 62),
    ("SELECT throwIf(1)", 395),
    ("SELECT toUInt8('x')", 6),
    ("SELECT nofunction(1)", 46),
]


@pytest.mark.parametrize(("statement", "code"), ERRORS)
def test_a_wrong_statement_is_refused_with_clickhouses_code(client, statement, code):
    """StoreRefused carries the number and the text on one line."""
    with (
        pytest.raises(StoreRefused, match=rf"Code: {code}\. DB::Exception: ") as refused,
        store_errors(),
    ):
        client.query(statement)
    assert refused.value.code == code
    assert "\n" not in str(refused.value)


def test_an_unknown_setting_is_refused(client):
    """A setting that the store does not know is a mistake, not ignored."""
    with pytest.raises(StoreRefused), store_errors():
        client.query("SELECT 1", settings={"nope_at_all": 1})


def test_replacing_tables_answer_with_the_newest_row(client, table):
    """FINAL over partitions gives one row a key: the highest version."""
    make(
        client,
        table,
        "k UInt32, at DateTime64(9, 'UTC'), v String, version UInt64",
        "ReplacingMergeTree(version) PARTITION BY toYYYYMMDD(at) ORDER BY k",
    )
    day = 86_400 * 10**9
    for version in (2, 1, 3):
        rows = [[k, k * day, f"v{version}", version] for k in range(5)]
        client.insert(table, rows, column_names=["k", "at", "v", "version"])
    assert client.command(f"SELECT count() FROM {table}") == 15
    assert client.query(f"SELECT k, v FROM {table} FINAL ORDER BY k").result_rows == [
        (k, "v3") for k in range(5)
    ]


def test_a_token_makes_an_insert_repeatable(client, table):
    """The same token again stores nothing; another one, or none, stores the same rows again."""
    make(client, table, "v UInt32")
    for token in ("a", "a", "b"):
        client.insert(
            table, [[1], [2]], column_names=["v"], settings={"insert_deduplication_token": token}
        )
    assert client.command(f"SELECT count() FROM {table}") == 4


def test_a_large_insert_and_its_answer_arrive_whole(client, table):
    """200,000 rows in one insert; summed in the store and streamed back in blocks."""
    count = 200_000
    make(
        client,
        table,
        "i UInt32, s LowCardinality(String), t String, f Float64",
        "MergeTree ORDER BY i",
    )
    columns = [
        list(range(count)),
        [f"arm{i % 7}" for i in range(count)],
        [f"text {i}" for i in range(count)],
        [i / 4 for i in range(count)],
    ]
    client.insert(table, columns, column_names=["i", "s", "t", "f"], column_oriented=True)
    read = f"SELECT count(), sum(i), uniqExact(s), uniqExact(t), sum(f) FROM {table}"
    total = count * (count - 1) // 2
    assert client.query(read).result_rows == [(count, total, 7, count, total / 4)]
    with client.query_row_block_stream(f"SELECT i, t FROM {table} ORDER BY i") as blocks:
        rows = [row for block in blocks for row in block]
    assert rows == [(i, f"text {i}") for i in range(count)]


def test_an_error_within_a_streamed_answer_is_seen(client):
    """A query that fails after its first rows were sent fails for the reader too, with its text."""
    statement = (
        "SELECT number, throwIf(number = 999999) FROM numbers(1000000) SETTINGS max_threads = 1"
    )
    with pytest.raises(StoreRefused, match="throwIf"), store_errors():  # noqa: PT012, SIM117
        with client.query_row_block_stream(statement) as blocks:
            for _ in blocks:
                pass


def test_an_answer_without_rows_is_empty(client, table):
    """No rows, no error."""
    make(client, table, "v UInt32")
    assert client.query(f"SELECT v FROM {table}").result_rows == []
    assert list(client.query(f"SELECT v FROM {table} LIMIT 0").column_names) == ["v"]


def test_raw_formats_are_those_of_clickhouse(client):
    """Text formats come through untouched, the default among them."""
    assert client.raw_query("SELECT 1 AS a, 'x\ty' AS b") == b"1\tx\\ty\n"
    assert client.raw_query("SELECT 1 AS a, 'x' AS b", fmt="CSV") == b'1,"x"\n'
    assert client.raw_query("SELECT 1 AS a", fmt="JSONEachRow") == b'{"a":1}\n'
    assert b'"rows": 1' in client.raw_query("SELECT 1 AS a", fmt="JSON")


@pytest.mark.parametrize("compress", [False, True, "lz4", "zstd", "gzip"])
def test_every_compression_of_the_client_is_understood(settings, http_client, table, compress):
    """What the client codes, the interface reads; what it answers in, the client reads."""
    host, port = settings.url.removeprefix("http://").split(":")
    make(http_client, table, "i UInt32, t String", "MergeTree ORDER BY i")
    client = clickhouse_connect.get_client(
        host=host, port=int(port), username=settings.user, password=settings.password,
        database="shadow", compress=compress, autogenerate_session_id=False,
    )  # fmt: skip
    rows = [(i, f"some text {i}" * 5) for i in range(70_000)]
    client.insert(table, rows, column_names=["i", "t"])
    assert client.query(f"SELECT * FROM {table} ORDER BY i").result_rows == rows
    with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
        client.query("SELECT * FROM nope")
    client.close()


def test_parameters_too_long_for_an_address_go_as_a_form(settings, http_client):
    """clickhouse-connect then sends multipart/form-data."""
    host, port = settings.url.removeprefix("http://").split(":")
    client = clickhouse_connect.get_client(
        host=host, port=int(port), username=settings.user, password=settings.password,
        form_encode_query_params=True,
    )  # fmt: skip
    text = "ü\t'" * 100_000
    assert client.query(
        "SELECT length({t:String}), {n:UInt8}", parameters={"t": text, "n": 3}
    ).result_rows == [(len(text.encode()), 3)]
    client.close()


def test_writers_and_readers_at_once_lose_nothing(store, settings, http_client, table):
    """Three write over HTTP, one in process, two read with FINAL meanwhile: every row is there once."""
    make(http_client, table, "k UInt32, v UInt64", "ReplacingMergeTree(v) ORDER BY k")
    done = threading.Event()

    def write(client, part):
        for batch in range(15):
            rows = [(part * 10_000 + batch * 100 + i, 1) for i in range(100)]
            client.insert(
                table,
                rows,
                column_names=["k", "v"],
                settings={"insert_deduplication_token": f"{part}.{batch}"},
            )

    def read(client):
        before = reads = 0
        while not done.is_set() or not reads:
            now = client.command(f"SELECT count() FROM {table} FINAL")
            assert now >= before
            before, reads = now, reads + 1

    clients = [store.client(), *(connect(settings) for _ in range(5))]
    with ThreadPoolExecutor(6) as threads:
        readers = [threads.submit(read, client) for client in clients[4:]]
        writers = [threads.submit(write, client, part) for part, client in enumerate(clients[:4])]
        errors = [writer.exception() for writer in writers]
        done.set()
        errors += [reader.exception() for reader in readers]
    assert errors == [None] * 6
    assert http_client.query(f"SELECT count(), uniqExact(k) FROM {table}").result_rows == [
        (6000, 6000)
    ]
    for client in clients:
        client.close()


def test_one_client_may_be_shared_by_threads(client):
    """Over HTTP it has no session to lock; in process its calls queue."""
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda n: client.command(f"SELECT {n}"), range(40)))
    assert found == list(range(40))


def test_a_wrong_password_is_refused(settings):
    """It says so at once, with ClickHouse's code; no retry helps."""
    with pytest.raises(StoreRefused, match="Authentication failed") as refused:
        connect(StoreSettings(settings.url, "shadow", "default", "wrong"))
    assert refused.value.code == 516


def test_a_missing_database_is_refused(settings, store):
    """Both ways to connect name it."""
    with pytest.raises(StoreRefused, match="nowhere") as over_http:
        connect(StoreSettings(settings.url, "nowhere", settings.user, settings.password))
    with pytest.raises(StoreRefused, match="nowhere") as in_process:
        open_folder(store.folder, "nowhere")
    assert (over_http.value.code, in_process.value.code) == (81, 81)


def test_nobody_there_is_unavailable():
    """A refused connection is the world's fault."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(StoreUnavailable, match="refused"):
        connect(StoreSettings(url))


def test_a_folder_that_is_not_there_is_unavailable_and_not_made(tmp_path):
    """Asking for a report must not create an empty store."""
    with pytest.raises(StoreUnavailable, match="nothing was collected"):
        open_folder(tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("url", ["127.0.0.1:8123", "ftp://h", "http://"])
def test_an_address_that_is_none_is_named(url):
    """A configuration mistake, not a time-out."""
    with pytest.raises(ValueError, match="store url"):
        connect(StoreSettings(url))


def test_foreign_errors_become_two():
    """Overload and transport are the world; codes of values and statements are not."""
    world = [
        DatabaseError("x", code=241), DatabaseError("x", code=202), OperationalError("gone"),
        DatabaseError("HTTP driver received HTTP status 502"), ConnectionResetError("reset"), TimeoutError(),
    ]  # fmt: skip
    assert {type(translated(error)) for error in world} == {StoreUnavailable}
    fault = [
        DatabaseError("x", code=27),
        OperationalError("x", code=60),
        DatabaseError("HTTP status 400"),
        DatabaseError("no"),
    ]
    assert {type(translated(error)) for error in fault} == {StoreRefused}
    with pytest.raises(struct.error), store_errors():
        struct.pack("B", 300)


@pytest.mark.parametrize("module", ["store_errors", "writer"])
def test_the_codes_are_those_that_their_comments_say(http_client, module):
    """Held to the engine's own list, so that no number is another error's."""
    source = (Path(__file__).parents[2] / f"collector/{module}.py").read_text()
    told = re.findall(r"^ +(\d+),  # ([A-Z0-9_]+)$", source, re.MULTILINE)
    assert len(told) > 10
    for code, name in told:
        known = http_client.command(
            "SELECT errorCodeToName({c:Int32})", parameters={"c": int(code)}
        )
        assert known == name
