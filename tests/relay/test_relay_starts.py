"""Many copies of one request start, and end at their deadline, a few in one turn of the loop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from relay.raw import answering, client, hang, in_loop, proxy, until, upstream
from relay.test_relay_mirror import OK, chat

from shadow.mirror import deadlines, plans
from shadow.steering.told import Told

COPIES = 20


@asynccontextmanager
async def amplified(answers=None, primary_answers=None, **arm):
    """(a stage whose arm gets twenty copies of a request, the arm, how many started in each turn)."""
    async with (
        upstream(primary_answers or answering(OK)) as primary,
        upstream(answers or answering(OK)) as side,
        proxy(primary.url, {"fp8": {"url": side.url, "amplify": COPIES, **arm}}) as stage,
    ):
        fp8 = stage.proxy.mirror.arms[0]
        yield stage, fp8, turns_of(fp8, "start")


def turns_of(place, name: str) -> list[int]:
    """How often a method is called in each of the loop's turns that call it at all."""
    loop, call, seen, open_turn = asyncio.get_running_loop(), getattr(place, name), [], []

    def counted(*given):
        if not open_turn:
            seen.append(0)
            open_turn.append(True)
            loop.call_soon(open_turn.clear)
        seen[-1] += 1
        return call(*given)

    setattr(place, name, counted)
    return seen


@in_loop
async def test_copies_start_in_steps(monkeypatch):
    """Whatever else is ready has its turn between them; each is started and counted once, and the
    primary's record, which holds the request open, goes when the last of them has begun.
    """
    monkeypatch.setattr(plans, "TURN_NS", 0)
    async with amplified() as (stage, _, turns), client(stage.port) as user:
        await user.write(chat())
        await user.exactly(len(OK))
        exchanges = await stage.publisher.wait_for(COPIES + 1)
        assert sorted(e.replica for e in exchanges if e.arm == "fp8") == list(range(COPIES))
        assert stage.ledger.counts["fp8", "captured", ""] == COPIES
        assert stage.ledger.counts["primary", "captured", ""] == 1
        assert stage.ledger.balanced("fp8")
    assert turns == [1] * COPIES


@in_loop
async def test_a_turn_is_used():
    """Where there is time for all of them, they start at once."""
    async with amplified() as (stage, _, turns), client(stage.port) as user:
        await user.write(chat())
        await stage.publisher.wait_for(COPIES + 1)
    assert len(turns) < COPIES


@pytest.mark.parametrize("reason", ["shutdown", "switched_off"])
@in_loop
async def test_the_mirror_stops_between_two_copies(reason, monkeypatch):
    """What has not started is dropped and counted; the primary's record comes once, when it is
    whole; what has started ends as ever.
    """
    monkeypatch.setattr(plans, "TURN_NS", 0)
    held = asyncio.Event()

    async def slow(connection):
        await connection.request()
        await held.wait()
        await connection.write(OK)

    async with amplified(primary_answers=slow) as (stage, fp8, turns), client(stage.port) as user:
        mirror, start = stage.proxy.mirror, fp8.start

        def stopping(*given):
            if len(turns) == 4:
                if reason == "shutdown":
                    mirror.draining = True
                else:
                    mirror.switch.hear(Told(paused=True))
                    mirror.switch.skip = "paused"
            return start(*given)

        fp8.start = stopping
        await user.write(chat())
        await until(lambda: stage.ledger.counts.get(("fp8", "dropped", reason)))
        assert not [e for e in stage.publisher.exchanges if e.arm == "primary"]
        held.set()
        await user.exactly(len(OK))
        await stage.publisher.wait_for(6)
        assert stage.ledger.counts["fp8", "dropped", reason] == COPIES - 5
        assert stage.ledger.counts["fp8", "captured", ""] == 5
        assert stage.ledger.counts["primary", "captured", ""] == 1
        assert stage.ledger.balanced("fp8")


@in_loop
async def test_the_client_leaves_between_two_copies(monkeypatch):
    """Those that start later are cut where it left, as those before: a pair has both sides."""
    monkeypatch.setattr(plans, "TURN_NS", 0)
    async with amplified(hang, hang) as (stage, fp8, turns):
        start = fp8.start
        async with client(stage.port) as user:

            def leaving(*given):
                if len(turns) == 4:
                    user.reset()
                return start(*given)

            fp8.start = leaving
            await user.write(chat())
            exchanges = await stage.publisher.wait_for(COPIES + 1)
        assert {e.transport for e in exchanges} == {"client_disconnected"}
        assert stage.ledger.balanced("fp8")


@in_loop
async def test_a_fault_between_two_copies(monkeypatch):
    """It is counted; what had begun ends as ever, the rest shows as lost, nothing stays open."""
    monkeypatch.setattr(plans, "TURN_NS", 0)
    async with amplified() as (stage, fp8, turns), client(stage.port) as user:
        start = fp8.start

        def failing(*given):
            if len(turns) == 4:
                raise ValueError("a fault")
            return start(*given)

        fp8.start = failing
        await user.write(chat())
        await user.exactly(len(OK))
        await until(lambda: stage.totals.mirror_errors and not stage.ledger.held)
        assert stage.totals.last_mirror_error.startswith("ValueError at relay/test_relay_starts.py")
        assert stage.ledger.counts["fp8", "sampled", ""] == COPIES
        assert stage.ledger.counts["fp8", "captured", ""] == 4
        stage.totals.mirror_errors = 0


@in_loop
async def test_deadlines_end_copies_in_steps(monkeypatch):
    """All that hang are ended, a few in each turn of the loop, as `timed_out`."""
    monkeypatch.setattr(deadlines, "TURN_NS", 0)
    async with amplified(hang, deadline="200ms") as (stage, fp8, _), client(stage.port) as user:
        turns = turns_of(fp8, "expire")
        await user.write(chat())
        await user.exactly(len(OK))
        exchanges = await stage.publisher.wait_for(COPIES + 1)
        assert [e.transport for e in exchanges if e.arm == "fp8"] == ["timed_out"] * COPIES
        assert len(turns) >= COPIES
        assert set(turns) == {1}


@in_loop
async def test_a_fault_at_a_deadline_stops_no_clock(monkeypatch):
    """It is counted, and the next tick looks again."""
    monkeypatch.setattr(deadlines, "TURN_NS", 0)
    async with amplified(hang, deadline="200ms") as (stage, fp8, _), client(stage.port) as user:
        expire, failed = fp8.expire, []

        def failing(*given):
            if not failed:
                failed.append(True)
                raise ValueError("a fault")
            return expire(*given)

        fp8.expire = failing
        await user.write(chat())
        await stage.publisher.wait_for(COPIES + 1)
        assert (stage.totals.mirror_errors, failed) == (1, [True])
        stage.totals.mirror_errors = 0


@in_loop
async def test_a_fault_in_an_arm_s_capture_is_counted():
    """It ends that copy, which shows as lost; the loop hears of no exception, the client of
    nothing, and the arm's next request is well.
    """
    heard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: heard.append(said))
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        fp8 = stage.proxy.mirror.arms[0]
        well, fp8.side = fp8.side, replace(fp8.side, answer_bytes=0, answer_tail=None)
        await user.write(chat())
        assert await user.exactly(len(OK)) == OK
        await until(lambda: stage.totals.mirror_errors == 1 and not stage.ledger.held)
        assert stage.totals.last_mirror_error.startswith("TypeError at ")
        assert not fp8.open
        fp8.side = well
        await user.write(chat())
        assert await user.exactly(len(OK)) == OK
        exchanges = await stage.publisher.wait_for(3)
        assert [e.transport for e in exchanges if e.arm == "fp8"] == ["complete"]
        assert (stage.totals.mirror_errors, heard) == (1, [])
        stage.totals.mirror_errors = 0
