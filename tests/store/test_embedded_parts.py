"""The pure parts of the HTTP interface: codings, credentials, settings, and the pipe to the loop."""

import asyncio
import io
import threading
import tracemalloc
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from collector.embedded.coding import Unpacked, chosen, packed
from collector.embedded.errors import EngineError
from collector.embedded.hello import asks_hello
from collector.embedded.pipe import Left, Pipe
from collector.embedded.request import Access, check_access, read_query, wants_coding

CODINGS = ["lz4", "zstd", "gzip", "deflate"]


@pytest.mark.parametrize("coding", [None, *CODINGS])
@bounded(max_examples=30, deadline=None)
@given(pieces=st.lists(st.binary(max_size=2000), max_size=5), size=st.integers(1, 5000))
def test_what_is_packed_is_unpacked(coding, pieces, size):
    """Any pieces, read in any size, are the same bytes; an empty body is one too."""
    coded = b"".join(packed(iter(pieces), coding))
    body = Unpacked(io.BytesIO(coded), coding or "")
    read = []
    while piece := body.read(size):
        assert len(piece) <= size
        read.append(piece)
    assert b"".join(read) == b"".join(pieces)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_is_read_in_small_pieces(coding):
    """64 MiB of nothing, packed small, come out a piece at a time."""
    coded = b"".join(packed((bytes(2**20) for _ in range(64)), coding))
    assert len(coded) < 2**20
    tracemalloc.start()
    body, total = Unpacked(io.BytesIO(coded), coding), 0
    while piece := body.read(2**16):
        total += len(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (total, peak < 16 * 2**20) == (2**26, True)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_body_that_was_cut_is_an_error(coding):
    """A truncated upload is never taken for a whole one."""
    coded = b"".join(packed(iter([b"some bytes that matter" * 50]), coding))
    with pytest.raises(EngineError, match="CANNOT_DECOMPRESS"):
        Unpacked(io.BytesIO(coded[:-5]), coding).read(10**6)


def test_the_answers_coding_is_one_that_is_asked_for():
    """The cheapest of those wanted; never one with weight zero; none for none."""
    assert chosen("gzip, deflate, br;q=0.5") == "gzip"
    assert chosen("lz4,zstd,br,gzip,deflate") == "lz4"
    assert chosen("lz4;q=0, GZIP;q=0.1") == "gzip"
    assert chosen("") is chosen("identity") is chosen("*") is chosen("gzip; q=0.0") is None
    assert wants_coding({"enable_http_compression": "0"}, {"Accept-Encoding": "gzip"}) == ""


def test_parameters_of_the_address_become_what_they_are():
    """Settings, parameters, database, format; the interface's own words are none of these."""
    params = {
        "query": "SELECT 1", "database": "d", "param_a": "1", "max_threads": "2", "session_id": "s", "query_id": "q", "compress": "0",
        "client_protocol_version": "1", "wait_end_of_query": "1", "default_format": "CSV", "user": "u", "password": "p", "role": "r",
    }  # fmt: skip
    query = read_query("POST", params, {})
    assert (query.text, query.whole, query.default_format) == (b"SELECT 1", True, "CSV")
    frame = query.frame
    assert (frame.database, frame.params, frame.settings, frame.readonly) == (
        "d",
        {"a": "1"},
        {"max_threads": "2"},
        False,
    )
    assert [read_query(method, {}, {}).frame.readonly for method in ("GET", "HEAD", "POST")] == [
        True,
        True,
        False,
    ]
    assert read_query("POST", {}, {}).frame.mark != read_query("POST", {}, {}).frame.mark


@given(
    st.text(max_size=20),
    st.text(max_size=20),
    st.dictionaries(st.sampled_from(["user", "password"]), st.text(max_size=5)),
)
def test_only_the_user_with_the_password_enters(user, password, params):
    """Whatever is said, it is let in only if it is the very same."""
    same = (params.get("user", "default"), params.get("password", "")) == (user, password)
    with nullcontext() if same else pytest.raises(EngineError, match="Authentication failed"):
        check_access(Access(user, password), params, {})


def test_clickhouse_go_is_known_by_its_question_and_revision():
    """Only this statement, only with a revision that knows custom serialization."""
    text = b"\nselect displayName(), version(),revision() , timezone();"
    assert asks_hello(text, {"client_protocol_version": "54460"})
    for params in (
        {},
        {"client_protocol_version": "0"},
        {"client_protocol_version": "x"},
        {"client_protocol_version": "54405"},
    ):
        assert not asks_hello(text, params)
    assert not asks_hello(text + b" FORMAT CSV", {"client_protocol_version": "54460"})


def test_a_sender_waits_for_room_and_learns_that_its_reader_left():
    """At most four items wait; `leave` wakes the sender, whose next item is refused."""

    async def scenario():
        pipe = Pipe()
        sent, raised = [], threading.Event()

        def work():
            try:
                for item in range(1000):
                    pipe.send(item)
                    sent.append(item)
            except Left:
                raised.set()

        work_done = asyncio.get_running_loop().run_in_executor(None, work)
        assert [await pipe.receive() for _ in range(3)] == [0, 1, 2]
        while len(sent) < 7:  # noqa: ASYNC110 - the thread knows no event of this loop
            await asyncio.sleep(0)
        assert len(sent) == 7
        pipe.leave()
        await work_done
        assert raised.is_set()
        assert len(sent) < 20

    asyncio.run(scenario())
