"""Ends that meet bytes under way: nothing is cut that would have come, nothing is held for ever."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import asynccontextmanager, contextmanager

import pytest
from relay.raw import answering, client, in_loop, proxy, until, upstream

from shadow.relay import downstream, pool

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
NO = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno"
UNFRAMED = b"HTTP/1.1 200 OK\r\n\r\nok"
PATH = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n"
LARGE = b'{"messages": [{"role": "user", "content": "%b"}]}' % (b"x" * 6 * 2**20)
SMALL_BUFFER = 16 * 1024


def post(body: bytes) -> bytes:
    return PATH + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@asynccontextmanager
async def deaf(answer: bytes, *, half_closes: bool = False):
    """Answers each connection's first bytes, reads nothing more, and keeps the connection."""
    held = []

    async def script(connection) -> None:
        connection.writer.transport.pause_reading()
        held.append(connection)
        await connection.write(answer)
        if half_closes:
            connection.writer.write_eof()
        await asyncio.sleep(60)

    async with upstream(script) as server:
        yield server.url, held


def unsent(stage, arm: int = 0) -> int:
    return len(stage.proxy.mirror.arms[arm].pool._open)


@pytest.mark.parametrize("half_closes", [False, True], ids=["keeps it", "half-closes"])
@in_loop
async def test_an_arm_that_answers_and_reads_no_body_holds_nothing(half_closes):
    """Its answer is recorded; the rest of the body, and the connection, go with the answer's end: it
    could keep any number of both otherwise, uncounted and beyond every deadline."""
    answer = UNFRAMED if half_closes else OK
    async with (
        upstream(answering(OK)) as primary,
        deaf(answer, half_closes=half_closes) as (url, held),
        proxy(primary.url, {"fp8": url}) as stage,
        client(stage.port) as user,
    ):
        for _ in range(3):
            await user.write(post(LARGE))
            assert await user.exactly(len(OK)) == OK
        await until(lambda: stage.ledger.counts.get(("fp8", "captured", "")) == 3)
        assert len(held) == 3
        await until(lambda: not unsent(stage))
        said = [e.transport for e in stage.publisher.exchanges if e.arm == "fp8"]
        assert said == ["complete"] * 3


@in_loop
async def test_a_primary_that_has_not_read_a_body_gets_no_next_request(monkeypatch):
    """It answered early: the next client's request would stand behind what it does not read. The
    connection is closed, the body's rest may still be taken for a time, and then it ends."""
    monkeypatch.setattr(pool, "LEAVE_NS", 300_000_000)
    async with deaf(OK) as (url, held), proxy(url) as stage, client(stage.port) as user:
        await user.write(PATH + b"Content-Length: 50000000\r\n\r\n")
        assert await user.exactly(len(OK)) == OK
        (passage,) = [c.passage for c in stage.proxy.relay.clients]
        connection = passage.connection
        connection.transport.write(b"x" * 16 * 2**20)  # the kernel takes a part of it
        passage._upload, connection.sent = None, True  # as when it was the upload's end
        passage._finish()
        assert connection.transport.get_write_buffer_size()
        async with client(stage.port) as other:
            await other.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert await other.exactly(len(OK)) == OK
        assert len(held) == 2
        await until(lambda: connection not in stage.proxy.relay.pool._open)


@pytest.mark.parametrize("upload", [b"Content-Length: 100000000\r\n", b""], ids=["early", "whole"])
@in_loop
async def test_a_slow_client_has_its_whole_answer(monkeypatch, upload):
    """It reads nothing for longer than a connection lingers, after the answer's end: no byte of what
    it was sent is cut."""
    monkeypatch.setattr(downstream, "LINGER_S", 0.1)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % 2**20 + b"y" * 2**20
    loop = asyncio.get_running_loop()

    async def early(connection) -> None:
        await connection.until(b"\r\n\r\n")
        await connection.write(answer)
        await connection.rest()

    async with upstream(early) as primary, proxy(primary.url) as stage:
        with socket.socket() as user:
            user.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
            user.setblocking(False)
            await loop.sock_connect(user, ("127.0.0.1", stage.port))
            await until(lambda: stage.proxy.relay.clients)
            (served,) = stage.proxy.relay.clients
            sending = served.transport.get_extra_info("socket")
            sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
            head = b"POST /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + upload + b"\r\n"
            await loop.sock_sendall(user, head + b"more" * bool(upload))
            got, stalled = 0, False
            while data := await loop.sock_recv(user, SMALL_BUFFER):
                got += len(data)
                if served._ending and not stalled:
                    stalled = True
                    assert served.transport.get_write_buffer_size()
                    await asyncio.sleep(0.3)
        assert stalled
        assert got == len(answer) + len(b"Connection: close\r\n")


@contextmanager
def refusing():
    """A server that answers the head with 413 and closes over the unread body, which is a reset, both
    when it is told to: yields its URL and what tells it.
    """
    told = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.recv(65536)
            told.wait(5)
            connection.sendall(NO)
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", told.set
    finally:
        told.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@in_loop
async def test_a_refusal_is_read_though_the_upload_met_the_close_first():
    """413 and a reset stand in the socket when the loop, busy until then, writes more of the body
    before it reads: the client gets the 413, as it would without us."""
    with refusing() as (url, refuse):
        async with proxy(url) as stage, client(stage.port) as user:
            await user.write(PATH + b"Content-Length: 1000000\r\n\r\n")
            await until(lambda: any(c.passage for c in stage.proxy.relay.clients))
            (served,) = stage.proxy.relay.clients
            await until(lambda: served.passage.connection is not None)
            await asyncio.sleep(0.05)  # the head is read
            await user.write(b"x")
            await asyncio.sleep(0.05)
            refuse()
            time.sleep(0.1)  # noqa: ASYNC251 the loop is held
            served.data_received(b"x" * 1000)
            assert await user.exactly(len(NO)) == NO
            assert stage.totals.upstream_lost == 0


@in_loop
async def test_a_next_request_does_not_wait_for_what_the_last_answer_took():
    """The client sends it while it has not read the last answer: how long that was held back is no
    part of the next one's `client_wait`."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % 2**23 + b"y" * 2**23
    loop = asyncio.get_running_loop()
    async with (
        upstream(answering(answer)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
    ):
        with socket.socket() as user:
            user.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
            user.setblocking(False)
            await loop.sock_connect(user, ("127.0.0.1", stage.port))
            await until(lambda: stage.proxy.relay.clients)
            (served,) = stage.proxy.relay.clients
            sending = served.transport.get_extra_info("socket")
            sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
            await loop.sock_sendall(user, post(b"{}"))
            got = 0
            while not got or served.passage is not None:
                got += len(await loop.sock_recv(user, SMALL_BUFFER))
                await asyncio.sleep(0)
            assert served.full_since
            await asyncio.sleep(0.4)
            await loop.sock_sendall(user, post(b"{}"))
            while got < 2 * len(answer):
                got += len(await loop.sock_recv(user, SMALL_BUFFER))
            await stage.publisher.wait_for(4)
        second = [e for e in stage.publisher.exchanges if e.arm == "primary"][1]
        assert second.client_wait_ns <= second.end_ns


def head_of(fields: int) -> bytes:
    named = b"".join(b"a%x:\r\n" % n for n in range(fields))
    return PATH + b"Content-Length: 2\r\n" + named + b"\r\n{}"


@in_loop
async def test_a_head_of_very_many_fields_is_not_gone_through_for_the_arms():
    """It passes; the mirror leaves it alone, with a reason. One of a few hundred is mirrored."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        for fields in (250, 260):
            await user.write(head_of(fields))
            assert await user.exactly(len(OK)) == OK
        await until(lambda: stage.ledger.counts.get(("fp8", "captured", "")) == 1)
        assert stage.ledger.counts["fp8", "skipped", "too_large_to_route"] == 1
        assert stage.ledger.balanced("fp8")


@in_loop
async def test_a_fault_in_giving_up_after_a_fault_stays_with_us():
    """The ledger fails twice: the client has its answer, and the next plans go on."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        ledger = stage.ledger
        whole = ledger.add_all, ledger.release

        def broken(*_: object) -> None:
            raise OSError

        ledger.add_all = ledger.release = broken
        await user.write(post(b"{}"))
        assert await user.exactly(len(OK)) == OK
        assert stage.totals.mirror_errors == 2
        ledger.add_all, ledger.release = whole
        await user.write(post(b"{}"))
        assert await user.exactly(len(OK)) == OK
        await until(lambda: ledger.counts.get(("fp8", "captured", "")) == 1)
        ledger.held.clear()
        stage.totals.mirror_errors = 0
