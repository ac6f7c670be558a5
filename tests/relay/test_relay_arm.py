"""One arm: its deadline covers the wait in the proxy and the whole answer; nothing is sent twice."""

from __future__ import annotations

import asyncio

import pytest
from relay.raw import answering, client, in_loop, proxy, until, upstream
from relay.test_relay_mirror import OK, chat

MS = 1_000_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b"b\r\ndata: {}\n\n\n\r\n"


async def drip(connection):
    """An answer that never ends, a piece every few milliseconds."""
    await connection.request()
    await connection.write(HEAD)
    while True:
        await connection.write(EVENT)
        await asyncio.sleep(0.01)


async def once(arm, primary_answers=None, after=None, **settings):
    """The arm's record of one request; `after(stage)` is called before it."""
    async with (
        upstream(primary_answers or answering(OK)) as primary,
        upstream(arm) as side,
        proxy(primary.url, {"fp8": {"url": side.url, **settings}}) as stage,
        client(stage.port) as user,
    ):
        if after is not None:
            after(stage)
        await user.write(chat())
        assert await user.exactly(len(OK)) == OK
        exchanges = await stage.publisher.wait_for(2)
        assert not stage.proxy.mirror.arms[0].open
        assert stage.ledger.balanced("fp8")
    return next(each for each in exchanges if each.arm == "fp8")


@in_loop
async def test_a_deadline_ends_an_answer_that_drips():
    """However much of it has come: not sooner than the deadline, and soon after it."""
    record = await once(drip, deadline="300ms")
    assert record.transport == "timed_out"
    assert record.status == 200
    assert record.body.count(b"data: {}") > 3
    assert 300 * MS <= record.end_ns < 900 * MS
    assert record.first_byte_ns < 300 * MS


def late(stage) -> None:
    """Every connection of the arm is made 400 ms after it was asked for."""
    pool, loop = stage.proxy.mirror.arms[0].pool, asyncio.get_running_loop()
    connect = pool.connect
    pool.connect = lambda owner: loop.call_later(0.4, connect, owner)


@in_loop
async def test_the_wait_in_the_proxy_is_of_the_deadline():
    """What connecting took is missing to the answer."""
    record = await once(drip, after=late, deadline="600ms")
    assert record.transport == "timed_out"
    assert record.sent_ns >= 399 * MS  # the loop counts in whole milliseconds
    assert 599 * MS <= record.end_ns < 950 * MS


async def slow_primary(connection):
    """An answer that takes 400 ms."""
    await connection.request()
    await connection.write(OK[:-2])
    await asyncio.sleep(0.4)
    await connection.write(OK[-2:])
    await connection.rest()


async def takes_a_moment(connection):
    """An answer of 150 ms."""
    await connection.request()
    await connection.write(HEAD)
    await asyncio.sleep(0.15)
    await connection.write(EVENT + b"0\r\n\r\n")
    await connection.rest()


@in_loop
async def test_a_copy_that_waited_for_the_primary_has_all_its_time():
    """Its deadline counts from its own start: a slow primary is not its fault."""
    late_start = {"start": "after_primary", "deadline": "300ms"}
    record = await once(takes_a_moment, slow_primary, **late_start)
    assert record.transport == "complete"
    record = await once(drip, slow_primary, **late_start)
    assert record.transport == "timed_out"
    assert 300 * MS <= record.end_ns < 900 * MS


async def at_once(connection):
    connection.close()


async def reset(connection):
    connection.reset()


async def after_the_head(connection):
    await connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
    connection.close()


async def in_the_head(connection):
    await connection.write(b"HTTP/1.1 200 OK\r\nCont")
    connection.close()


async def in_the_body(connection):
    await connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ")
    connection.reset()


@pytest.mark.parametrize("end", [at_once, reset, in_the_head, after_the_head, in_the_body])
@pytest.mark.parametrize("reused", [True, False])
@in_loop
async def test_an_arm_is_asked_once(end, reused):
    """By the arm's own count: a connection that was idle and closes as soon as the request has
    come, in the head, in the body. The primary's would be tried once more; a candidate's failure
    is its own.
    """
    read, before = [], 2 if reused else 0

    async def script(connection):
        while True:
            read.append(await connection.request())
            if len(read) > before:
                await end(connection)
                return
            await connection.write(OK)

    async with (
        upstream(answering(OK)) as primary,
        upstream(script) as side,
        proxy(primary.url, {"fp8": {"url": side.url, "breaker": "off"}}) as stage,
        client(stage.port) as user,
    ):
        for n in range(before + 3):
            await user.write(chat())
            assert await user.exactly(len(OK)) == OK
            await stage.publisher.wait_for(2 * n + 2)
        counts = stage.ledger.counts
        await until(lambda: not stage.proxy.mirror.arms[0].open)
        records = [each for each in stage.publisher.exchanges if each.arm == "fp8"]
        assert len(read) == counts["fp8", "reached", ""] == len(records) == before + 3
        said = [record.transport for record in records]
        assert said[:before] == ["complete"] * before
        assert set(said[before:]) <= {"reset", "truncated"}
        assert len(side.connections) == 3  # each of the three that failed had one
        assert stage.ledger.balanced("fp8")
