"""Whatever an upstream's bytes are, the loop is the clients': no answer holds it, none is lost.

How long the loop was held is told in its thread's own CPU time, so that a busy machine is no fault.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relay.raw import answering, client, in_loop, proxy, until, upstream

from shadow.relay import framing, turns
from shadow.relay import upstream as module
from shadow.relay.answer import BadAnswer, parse_answer, within_bounds
from shadow.relay.patience import patience
from shadow.relay.upstream import Upstream

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
HELD_S = 0.05


def chunks(size: int, count: int) -> bytes:
    return b"%x\r\n%b\r\n" % (size, b"x" * size) * count + b"0\r\n\r\n"


INTERIM = b"HTTP/1.1 102 P\r\n\r\n" * 12_000 + OK
TINY = CHUNKED + chunks(2, 2**19)
SMALL = CHUNKED + chunks(9, 2**17)
FIELDS = b"HTTP/1.1 200 OK\r\n" + b"a:\r\n" * 60_000 + b"Content-Length: 0\r\n\r\n"
FOLDS = b"HTTP/1.1 200 OK\r\nA: b\r\n" + b" c\r\n" * 60_000 + b"Content-Length: 0\r\n\r\n"


@asynccontextmanager
async def watched():
    """The loop's turns go on: yields what tells the longest of them, in seconds of CPU."""
    longest = [0.0]

    async def watch():
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest[0] = max(longest[0], now - before)
            before = now

    watching = asyncio.ensure_future(watch())
    try:
        yield lambda: longest[0]
    finally:
        watching.cancel()


@pytest.mark.parametrize(
    ("answer", "word", "reason"),
    [
        (INTERIM, "malformed", "more than 16 interim answers"),
        (TINY, "malformed", "its chunks hold less than 8 bytes each"),
        (FIELDS, "malformed", "the answer has more than 256 fields"),
        (FOLDS, "malformed", "the answer has more than 256 fields"),
        (SMALL, "complete", None),
    ],
    ids=["interim", "tiny chunks", "fields", "folds", "small chunks"],
)
@in_loop
async def test_an_arm_s_bytes_do_not_hold_the_loop(answer, word, reason):
    """Three hostile answers at once: the clients' turns go on, and each has its word."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(answer)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as one,
        client(stage.port) as two,
        client(stage.port) as three,
    ):
        async with watched() as longest:
            for user in (one, two, three):
                await user.write(CHAT)
                assert await user.exactly(len(OK)) == OK
            await until(lambda: stage.ledger.counts.get(("fp8", "captured", "")) == 3)
        exchanges = [e for e in stage.publisher.exchanges if e.arm == "fp8"]
        assert {(e.transport, e.error) for e in exchanges} == {(word, reason)}
        if word == "complete":
            assert {len(e.body) for e in exchanges} == {9 * 2**17}
        else:  # encoding the others' millions of bytes is the sender thread's, here it is ours
            assert longest() < HELD_S


@pytest.mark.parametrize("answer", [INTERIM, TINY, FOLDS], ids=["interim", "tiny", "folds"])
@in_loop
async def test_the_primary_s_bytes_pass_and_do_not_hold_the_loop(answer):
    """The same from the primary: every byte reaches the client, in slices."""
    async with upstream(answering(answer)) as primary, proxy(primary.url) as stage:
        async with client(stage.port) as user, watched() as longest:
            await user.write(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            answered = await user.rest()
            slow = longest()
        if answer is INTERIM:
            assert answered.count(b"HTTP/1.1 102 P\r\n\r\n") == 12_000
            assert answered.endswith(b"\r\n\r\nok")
        elif answer is TINY:
            assert answered.endswith(TINY.partition(b"\r\n\r\n")[2])
        else:
            assert b"\r\nA: b" + b" c" * 60_000 + b"\r\n" in answered
        assert slow < (HELD_S if answer is not FOLDS else 0.2)


class Told:
    """An owner that writes down what it is told."""

    def __init__(self) -> None:
        self.raw, self.interim, self.ends = b"", 0, []
        self.body = b""

    def answer_interim(self, head) -> None:
        self.interim += 1

    def answer_started(self, head, raw, pieces) -> None:
        self.answer_continued(raw, pieces)

    def answer_continued(self, raw, pieces) -> None:
        self.raw += raw
        self.body += b"".join(pieces)

    def answer_ended(self) -> None:
        self.ends.append("ended")

    def upstream_lost(self, error) -> None:
        self.ends.append("lost")

    def answer_malformed(self, reason, raw) -> None:
        self.ends.append(reason)


class Transport:
    """Remembers whether it is read."""

    def __init__(self) -> None:
        self.reading, self.closing = True, False

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True


class Later:
    """Turns that a test takes itself."""

    def __init__(self) -> None:
        self.waiting = []

    def wait(self, connection) -> None:
        self.waiting.append(connection)

    def take(self) -> None:
        while self.waiting:
            self.waiting.pop(0).go_on()


def connected(*, sacred: bool = True):
    """An upstream's connection with a request sent: (connection, owner, its turns, transport)."""
    later, told, transport = Later(), Told(), Transport()
    pool = SimpleNamespace(
        turns=later, sacred=sacred, header_bytes=65536, forget=lambda connection: None
    )
    connection = Upstream(pool)
    connection.connection_made(transport)
    connection.begin(told, None, head=False, upgrade=False)
    connection.sent = True
    return connection, told, later, transport


ANSWER = (
    b"HTTP/1.1 103 E\r\nLink: x\r\n\r\n" * 5
    + CHUNKED
    + b"".join(b"%x\r\n%b\r\n" % (n, b"y" * n) for n in range(1, 12))
    + b"0\r\nT: v\r\n\r\n"
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, len(ANSWER)), max_size=6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.booleans(),
)
def test_slices_change_nothing(cuts, small, heads, lose):
    """However an answer arrives and is sliced: the same bytes in the same order, the same end;
    also where the connection is lost while some of it waits."""
    edges = sorted({0, *cuts, len(ANSWER)})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(framing, "SLICE_CHUNKS", small)
        patched.setattr(module, "SLICE_HEADS", heads)
        connection, told, later, transport = connected()
        for begin, end in itertools.pairwise(edges):
            connection.data_received(ANSWER[begin:end])
            if not (lose and end == len(ANSWER)):
                later.take()
                assert transport.reading
        if lose:
            transport.closing = True
            connection.connection_lost(None)
    assert told.interim == 5
    assert told.raw == ANSWER.partition(b"chunked\r\n\r\n")[2]
    assert told.body == b"".join(b"y" * n for n in range(1, 12))
    assert told.ends[0] == "ended"


def test_while_bytes_wait_nothing_is_read():
    """A slice is taken at once, the rest in its turn; a client that has room does not hurry it."""
    connection, told, later, transport = connected()
    connection.data_received(CHUNKED + chunks(9, 1000))
    assert 0 < len(told.body) < 9 * 300
    assert not transport.reading
    connection.read_on()
    assert not transport.reading
    later.take()
    assert transport.reading
    assert told.body == b"x" * 9000
    assert told.ends == ["ended"]


def test_a_fault_in_a_later_slice_ends_the_connection():
    """As one in the first does: the owner hears of the end, nobody waits for the rest."""
    connection, told, later, transport = connected()
    connection.data_received(CHUNKED + chunks(9, 1000))

    def broken(raw, pieces):
        raise ZeroDivisionError

    told.answer_continued = broken
    with pytest.raises(ZeroDivisionError):
        later.take()
    assert transport.closing
    connection.connection_lost(None)
    assert told.ends == ["lost"]


def test_after_a_burst_it_is_the_others_turn():
    """A large read is taken whole, and the next has to wait; who is held back is not read on."""
    connection, told, later, transport = connected()
    connection.data_received(b"HTTP/1.1 200 OK\r\n\r\n")
    assert transport.reading
    connection.data_received(b"z" * module.BURST_BYTES)
    assert len(told.body) == module.BURST_BYTES
    assert not transport.reading
    connection.hold()
    later.take()
    assert not transport.reading
    connection.read_on()
    assert transport.reading


@in_loop
async def test_a_turn_serves_a_few():
    """First come, first served, and one that fails stands in nobody's way."""
    served = []
    shared = turns.Turns()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: served.append("failed"))

    def waiting(n):
        def go_on():
            served.append(n)
            if n == 1:
                raise ZeroDivisionError

        return SimpleNamespace(go_on=go_on)

    for n in range(10):
        shared.wait(waiting(n))
    await asyncio.sleep(0)
    assert len(served) <= turns.SLICES_A_TURN
    await until(lambda: len(served) == 11)
    assert [n for n in served if n != "failed"] == list(range(10))


def test_a_head_byte_by_byte_is_looked_at_once():
    """240 KB and then single bytes: none of them costs a copy or a search of all."""
    connection, told, _, _ = connected(sacred=False)
    connection.data_received(b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 240_000)
    begun = time.thread_time()
    for _ in range(20_000):
        connection.data_received(b"a")
    assert time.thread_time() - begun < 0.3
    assert not told.ends
    for _ in range(5_000):
        connection.data_received(b"a")
    assert told.ends == ["the answer's head is too long"]


def test_interim_answers_are_read_in_one_pass():
    """A megabyte of them costs ten times what 100 KB cost, not a hundred times."""
    connection, told, later, _ = connected()
    begun = time.thread_time()
    connection.data_received(b"HTTP/1.1 102 P\r\n\r\n" * 14_000)
    later.take()
    assert told.interim == 14_000
    assert time.thread_time() - begun < 0.5


def test_folds_are_joined_in_one_pass():
    """60,000 lines of one field; the same words as ever."""
    begun = time.thread_time()
    head = parse_answer(FOLDS[:-4], bodyless=False)
    assert time.thread_time() - begun < 0.3
    assert head.lines[1] == b"A: b" + b" c" * 60_000
    with pytest.raises(BadAnswer):
        within_bounds(b"HTTP/1.1 200 OK\r\nConnection: " + b"a," * 5000)


@pytest.mark.parametrize("limit", [patience, asyncio.timeout])
@in_loop
async def test_a_stall_of_the_loop_is_not_the_upstream_s(limit):
    """What was ready when the loop came back is in time; a plain timeout would have ended it."""
    loop = asyncio.get_running_loop()
    here, there = socket.socketpair()
    ready = loop.create_future()
    with here, there:
        here.setblocking(False)
        loop.add_reader(here, lambda: ready.done() or ready.set_result(None))
        late = False
        try:
            async with limit(0.08):
                there.send(b"x")
                time.sleep(0.3)  # noqa: ASYNC251 the stall
                await ready
        except TimeoutError:
            late = True
        loop.remove_reader(here)
    assert late == (limit is asyncio.timeout)


@in_loop
async def test_patience_has_an_end():
    """What never comes is given up when the time is over, and not before."""
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        async with patience(0.08):
            await asyncio.get_running_loop().create_future()
    assert time.monotonic() - begun >= 0.08
