"""Who reads without the store's secret has bounds that no setting raises; who has it has none."""

from __future__ import annotations

import io
import time
import tracemalloc
import urllib.error
import urllib.parse
import urllib.request
from contextlib import closing, contextmanager
from dataclasses import replace

import brotli
import pytest

from collector.embedded import EmbeddedStore
from collector.embedded import bounds as module
from collector.embedded.bounds import Bounds, bounded, raised, readers_bounds
from collector.embedded.coding import Unpacked
from collector.embedded.errors import EngineError
from collector.store import connect

SMALL = Bounds(50_000_000, 1, 5000, 1_000_000, 1_000_000)
HUNGRY = "SELECT length(groupArray(number)) FROM numbers(30000000)"
ENDLESS = "SELECT count() FROM numbers(100000000000) WHERE sipHash64(number) = 1"
LONG = "SELECT number FROM numbers(6000)"
WIDE = "SELECT repeat(toString(number), 1000) FROM numbers(3000)"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("collector.embedded.readers_bounds", lambda: SMALL)
        with EmbeddedStore.open(folder, ("127.0.0.1", 0), "shadow", "default", "") as opened:
            yield opened


def ask(store, statement: str, **params: str) -> tuple[int, str]:
    query = urllib.parse.urlencode({"query": statement, "wait_end_of_query": "1"} | params)
    try:
        with urllib.request.urlopen(f"{store.url}/?{query}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize(
    ("statement", "code"),
    [(HUNGRY, 241), (ENDLESS, 159), (LONG, 396), (WIDE, 396)],
    ids=["memory", "time", "rows", "bytes"],
)
def test_a_strangers_statement_ends_at_its_bound(store, statement, code):
    """Memory, time, rows and bytes of an answer: refused with ClickHouse's code, in any format."""
    for form in ("TabSeparated", "JSON"):
        began = time.monotonic()
        status, said = ask(store, statement, default_format=form)
        assert status >= 400
        assert f"Code: {code}." in said
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("value", ["0", "900000000", "1e9", "5G", "-1", " 0", "DEFAULT", ""])
@pytest.mark.parametrize("form", ["{name} = {value}", "`{name}` = {value}", "{name} = '{value}'"])
def test_no_setting_raises_it(store, value, form):
    """Neither by the address nor in the statement, however it is written."""
    status, said = ask(store, HUNGRY, max_memory_usage=value)
    assert (status >= 400, "Code: 241." in said) == (True, True), said
    clause = form.format(name="max_memory_usage", value=value)
    assert ask(store, f"{HUNGRY} SETTINGS {clause}")[0] >= 400
    assert ask(store, f"SELECT ({HUNGRY} SETTINGS {clause})")[0] >= 400


def test_a_name_written_in_escapes_is_the_same_name(store):
    """As the engine reads it."""
    for name in (r"`max_memory_us\x61ge`", '"max_memory_usage"', "/**/max_memory_usage/**/"):
        status, said = ask(store, f"{HUNGRY} SETTINGS {name} = 900000000")
        assert status >= 400
        assert "at most 50000000" in said


def test_a_stranger_may_lower_a_bound_and_read_as_before(store):
    """Settings of a statement's own stand, where they ask for less."""
    asked = "SELECT getSetting('max_memory_usage') SETTINGS max_memory_usage = 10000000"
    assert ask(store, asked) == (200, "10000000\n")
    assert ask(store, "SELECT getSetting('max_memory_usage')") == (200, "50000000\n")
    lower = ask(store, "SELECT getSetting('max_memory_usage')", max_memory_usage="10000000")
    assert lower == (200, "10000000\n")
    assert ask(store, "SELECT 'max_memory_usage = 0', 1 SETTINGS max_threads = 2")[0] == 200


def test_who_has_the_secret_is_not_bounded_but_by_the_whole(store):
    """Our own processes: the bounds are not theirs; half of the machine's memory is everyone's."""
    with closing(connect(store.settings)) as client:
        assert client.query(HUNGRY).result_rows == [(30_000_000,)]
        assert len(client.query(LONG).result_rows) == 6000
        whole = "SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'"
        ((most,),) = client.query(whole).result_rows
        assert 0.4 < int(most) / module._machine_bytes() < 0.6
    stranger = replace(store.settings, password="")
    with closing(connect(stranger)) as client:  # the client's own settings pass
        assert client.query("SELECT 1").result_rows == [(1,)]


def test_a_strangers_body_is_a_statement_and_no_more(store):
    """17 MiB are received of nobody without the secret."""
    request = urllib.request.Request(store.url, b"SELECT 1 " + b" " * (17 * 2**20))
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)
    with refused.value as answer:
        assert "longer than 16777216 bytes" in answer.read().decode()


@contextmanager
def machine(monkeypatch, said: str, folder):
    path = folder / "memory.max"
    path.write_text(said)
    with monkeypatch.context() as patched:
        patched.setattr(module, "_CGROUP", path)
        yield


def test_a_small_machine_has_small_bounds(monkeypatch, tmp_path):
    """An eighth of a container's 2 GiB; no more than 1 GiB anywhere."""
    with machine(monkeypatch, f"{2 * 2**30}\n", tmp_path):
        assert readers_bounds().memory_bytes == 2**28
    with machine(monkeypatch, "max\n", tmp_path):
        assert readers_bounds().memory_bytes <= 2**30


def test_every_bound_is_held_by_name():
    """By the address it is set, or the smaller one kept; in a statement it is named."""
    for name, most in SMALL.most.items():
        assert bounded({name: str(most + 1)}, SMALL)[name] == str(most)
        assert bounded({name: "1"}, SMALL)[name] == "1"
        assert raised(f"SELECT 1 SETTINGS a = 1, {name} = {most + 1}", SMALL) == name
        assert raised(f"SELECT 1 SETTINGS {name.upper()} = 0", SMALL) == name
        assert raised(f"SELECT 1 SETTINGS {name} = {most}", SMALL) is None
        assert raised(f"SELECT '{name} = 0'", SMALL) is None
    assert bounded({"final": "1"}, SMALL) == {"final": "1"} | {
        name: str(value) for name, value in SMALL.stated.items()
    }


def test_a_folded_body_unfolds_as_far_as_it_is_read():
    """brotli's too: a kilobyte that stands for 64 MiB costs what is asked for."""
    bomb = brotli.compress(b" " * 2**26)
    assert len(bomb) < 1000
    tracemalloc.start()
    assert Unpacked(io.BytesIO(bomb), "br").read(2**20) == b" " * 2**20
    assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    tracemalloc.stop()
    whole, found = Unpacked(io.BytesIO(brotli.compress(bytes(range(256)) * 9999)), "br"), b""
    while piece := whole.read(70_000):
        found += piece
    assert found == bytes(range(256)) * 9999
    with pytest.raises(EngineError, match="ends too soon"):
        Unpacked(io.BytesIO(brotli.compress(b"x" * 999)[:-4]), "br").read(9999)
