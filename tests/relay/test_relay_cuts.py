"""The kill switch ends what is open too: within a second, in steps, and never as an arm's failure."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from contextlib import asynccontextmanager

import pytest
from relay.raw import answering, black_hole, client, hang, in_loop, proxy, until, upstream
from relay.test_relay_mirror import OK, chat
from relay.test_relay_starts import COPIES, amplified, turns_of
from test_shadow_switch import mount, steered

from shadow.mirror import cuts
from shadow.steering.told import Told

ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
EVENT = b"9\r\ndata: x\n\n\r\n"


async def drip(connection) -> None:
    """An answer that never ends."""
    await connection.request()
    await connection.write(CHUNKED)
    while True:
        await connection.write(EVENT)
        await asyncio.sleep(0.01)


class Held:
    """A primary whose answer goes on until it is let go; what it wrote, byte for byte."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.wrote = CHUNKED

    async def __call__(self, connection) -> None:
        await connection.request()
        await connection.write(CHUNKED)
        while not self.go.is_set():
            await self._write(connection, EVENT)
            await asyncio.sleep(0.005)
        await self._write(connection, b"0\r\n\r\n")

    async def _write(self, connection, data: bytes) -> None:
        await connection.write(data)
        self.wrote += data


def touched(path) -> None:
    """A file that was not there."""
    path.write_text("on")


def swapped(path) -> None:
    """A ConfigMap's volume that is exchanged."""
    mount(path.parent, "on", "2")


def dropped(stage, arm: str) -> int:
    return stage.ledger.counts.get((arm, "dropped", "switched_off"), 0)


def balanced(stage) -> bool:
    names = ["primary", *(arm.name for arm in stage.proxy.mirror.arms)]
    counts = stage.ledger.counts
    return all(
        stage.ledger.balanced(name) and counts.get((name, "sampled", ""), 0) for name in names
    )


async def gone(side) -> None:
    """Each of its connections has seen its client leave."""
    await until(lambda: side.tasks and all(task.done() for task in side.tasks))


@pytest.mark.parametrize("pull", [touched, swapped])
@in_loop
async def test_open_copies_end_within_a_second(tmp_path, pull):
    """Inline: an arm that drips, one that never answers, one that cannot be connected to and one
    whose turn has not come; the client has every byte, and the primary's record is whole.
    """
    if pull is swapped:
        mount(tmp_path, "off", "1")
    held = Held()
    async with (
        upstream(held) as primary,
        upstream(drip) as drips,
        upstream(hang) as hangs,
        upstream(answering(OK)) as waits,
        black_hole() as dark,
        proxy(
            primary.url,
            {
                "drips": drips.url,
                "hangs": hangs.url,
                "waits": {"url": waits.url, "start": "after_primary"},
                "dark": dark.url,
            },
        ) as stage,
        client(stage.port) as user,
    ):
        arms = stage.proxy.mirror.arms
        with steered(stage, tmp_path, kill_switch=str(tmp_path / "mirroring")):
            await user.write(chat())
            await until(lambda: drips.connections and hangs.connections)
            await until(lambda: len(stage.proxy.mirror.plans.late) == 1)
            began = time.monotonic()
            pull(tmp_path / "mirroring")
            await asyncio.gather(gone(drips), gone(hangs))
            await until(lambda: all(dropped(stage, arm.name) == 1 for arm in arms))
            assert time.monotonic() - began < 1
            assert not any(arm.open for arm in arms)
            held.go.set()
            answer = await user.until(b"0\r\n\r\n")
        (own,) = await stage.publisher.wait_for(1)
        assert answer == held.wrote
        assert (own.arm, own.transport) == ("primary", "complete")
        assert not waits.connections
        assert balanced(stage)
    assert len(stage.publisher.exchanges) == 1


@pytest.mark.parametrize("answers", [drip, hang])
@pytest.mark.parametrize("pull", [touched, swapped])
@in_loop
async def test_a_tapped_replica_s_requests_end_too(tmp_path, pull, answers):
    """Production does not pass a tap: what the replica was asked is mirroring, and is dropped as
    the arms' copies are; the gateway has had its 202, and has the next one too.
    """
    if pull is swapped:
        mount(tmp_path, "off", "1")
    async with (
        upstream(answers) as replica,
        upstream(hang) as arm,
        upstream(answering(OK)) as waits,
        proxy(
            replica.url,
            {"fp8": arm.url, "waits": {"url": waits.url, "start": "after_primary"}},
            attach="tap",
        ) as stage,
        client(stage.port) as gateway,
    ):
        with steered(stage, tmp_path, kill_switch=str(tmp_path / "mirroring")) as switch:
            await gateway.write(chat())
            assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
            await until(lambda: replica.connections and arm.connections)
            began = time.monotonic()
            pull(tmp_path / "mirroring")
            await asyncio.gather(gone(replica), gone(arm))
            assert time.monotonic() - began < 1
            assert not stage.totals.open_streams
            assert not stage.ledger.held
            assert switch.skip == "kill_switch"
            await gateway.write(chat())
            assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        assert [dropped(stage, name) for name in ("primary", "fp8", "waits")] == [1, 1, 1]
        assert stage.ledger.counts["primary", "reached", ""] == 1
        assert balanced(stage)
        assert not waits.connections
    assert stage.publisher.exchanges == []


@in_loop
async def test_a_replica_that_is_being_connected_to_is_left():
    """Nothing was sent: its copies are dropped with it, once."""
    async with (
        black_hole() as dark,
        upstream(answering(OK)) as arm,
        proxy(dark.url, {"fp8": arm.url}, attach="tap") as stage,
        client(stage.port) as gateway,
    ):
        await gateway.write(chat())
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        await until(lambda: stage.proxy._tap.asked == 1)
        stage.proxy.mirror.switch.killed = "test"
        await until(lambda: not stage.totals.open_streams)
        assert [dropped(stage, name) for name in ("primary", "fp8")] == [1, 1]
        assert ("primary", "reached", "") not in stage.ledger.counts
        assert not arm.connections
        assert balanced(stage)


@in_loop
async def test_a_pause_ends_nothing():
    """Only the kill switch does: what is under way is recorded as ever."""
    go = asyncio.Event()

    async def slow(connection):
        await connection.request()
        await go.wait()
        await connection.write(OK)

    async with (
        upstream(answering(OK)) as primary,
        upstream(slow) as arm,
        proxy(primary.url, {"fp8": arm.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(chat())
        await until(lambda: arm.connections)
        switch = stage.proxy.mirror.switch
        switch.hear(Told(paused=True))
        await until(lambda: switch.skip == "paused")
        await asyncio.sleep(0.25)  # two ticks in which nothing may happen
        go.set()
        exchanges = await stage.publisher.wait_for(2)
        assert {e.transport for e in exchanges} == {"complete"}


async def failing(connection) -> None:
    """Says 500, and never how it goes on."""
    await connection.request()
    await connection.write(CHUNKED.replace(b"200 OK", b"500 No"))
    await connection.rest()


@in_loop
async def test_a_copy_that_is_cut_is_no_failure_of_the_arm():
    """Its breaker has heard of nothing, though the status was an error's; the next copy is sent."""
    breaker = {"failures": 1, "open": "60s"}
    async with (
        upstream(answering(OK)) as primary,
        upstream(failing) as arm,
        proxy(primary.url, {"fp8": {"url": arm.url, "breaker": breaker}}) as stage,
        client(stage.port) as user,
    ):
        fp8, switch = stage.proxy.mirror.arms[0], stage.proxy.mirror.switch
        await user.write(chat())
        await until(lambda: any(one.capture.head for one in fp8.open))
        switch.killed = "test"
        await until(lambda: dropped(stage, "fp8") == 1)
        switch.killed = ""
        await until(lambda: not switch.skip)
        assert not fp8.admission.breaker.open
        await user.write(chat())
        await until(lambda: len(arm.connections) == 2)
        await until(lambda: any(one.capture.head for one in fp8.open))


@in_loop
async def test_copies_end_in_steps_and_a_fault_keeps_none_open(monkeypatch):
    """A few in each turn of the loop; one that fails is counted, and the others end all the same."""
    monkeypatch.setattr(cuts, "TURN_NS", 0)
    async with amplified(hang) as (stage, fp8, _), client(stage.port) as user:
        await user.write(chat())
        await user.exactly(len(OK))
        await until(lambda: len(fp8.open) == COPIES)
        turns = turns_of(stage.proxy.mirror.cuts, "_turn")
        drop, faults = type(next(iter(fp8.open))).drop, []

        def faulty(request, reason):
            if not faults:
                faults.append(reason)
                raise ValueError("a fault")
            drop(request, reason)

        monkeypatch.setattr(type(next(iter(fp8.open))), "drop", faulty)
        stage.proxy.mirror.switch.killed = "test"
        await until(lambda: not fp8.open)
        assert faults == ["switched_off"]
        assert stage.totals.mirror_errors == 1
        assert dropped(stage, "fp8") == COPIES
        assert len(turns) >= COPIES
        assert set(turns) == {1}
        stage.totals.mirror_errors = 0


# a thousand at once

OPEN = 1000
MOST_MS = 5.0
"""So long at most one turn of the loop works while they end."""
ARM = """
import selectors, socket, sys
server = socket.create_server(("127.0.0.1", 0), backlog=2048)
print(server.getsockname()[1], flush=True)
poll, gone = selectors.DefaultSelector(), 0
poll.register(server, selectors.EVENT_READ)
while gone < int(sys.argv[1]):
    for key, _ in poll.select():
        if key.fileobj is server:
            poll.register(server.accept()[0], selectors.EVENT_READ)
            continue
        try:
            left = not key.fileobj.recv(65536)
        except ConnectionError:
            left = True
        if left:
            poll.unregister(key.fileobj)
            key.fileobj.close()
            gone += 1
print("gone", flush=True)
"""
"""An arm in a process of its own, so that its work is none of our loop's: never answers, and says
when all of its clients have gone."""


@asynccontextmanager
async def arm_aside():
    """(its URL, what waits until its clients have gone)."""
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ARM, str(OPEN), stdout=pipe, env={"PATH": os.environ["PATH"]}
    )
    assert started.stdout is not None
    said = started.stdout

    async def all_gone() -> None:
        assert await said.readline() == b"gone\n"

    try:
        yield f"http://127.0.0.1:{int(await said.readline())}", all_gone
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()
        started._transport.close()


class Turns:
    """How long each of the loop's turns works, in ms of the processor: others' work does not count."""

    def __init__(self) -> None:
        self._loop, self.seen, self._last = asyncio.get_running_loop(), [], time.thread_time_ns()
        self._over = False
        self._turn()

    def _turn(self) -> None:
        now = time.thread_time_ns()
        self.seen.append((now - self._last) / 1e6)
        self._last = now
        if not self._over:
            self._loop.call_soon(self._turn)

    def longest(self) -> float:
        self._over = True
        return max(self.seen)


async def many(tmp_path, stage, all_gone, answer: bytes, full) -> None:
    """A thousand requests, whose copies are open once it is `full`; the kill switch ends them, and
    `all_gone` returns once they have.
    """
    arms = stage.proxy.mirror.arms
    async with client(stage.port) as user:
        with steered(stage, tmp_path, kill_switch=str(tmp_path / "kill")):
            for _ in range(OPEN):
                await user.write(chat())
                assert await user.exactly(len(answer)) == answer
            await until(full)
            turns, began = Turns(), time.monotonic()
            (tmp_path / "kill").write_text("on")
            await all_gone()
            took_s, longest_ms = time.monotonic() - began, turns.longest()
        await until(lambda: all(dropped(stage, arm.name) == OPEN for arm in arms))
        assert took_s < 1
        assert longest_ms < MOST_MS
        assert balanced(stage)


BOUNDS = {"concurrency": 2 * OPEN, "breaker": "off"}


@pytest.mark.parametrize("attach", ["inline", "tap"])
@in_loop
async def test_a_thousand_open_copies_do_not_hold_the_loop(tmp_path, attach):
    """All are gone, as the arm sees it, within a second; no turn of the loop works for 5 ms."""
    async with (
        upstream(answering(OK)) as primary,
        arm_aside() as (url, all_gone),
        proxy(primary.url, {"fp8": {"url": url, **BOUNDS}}, attach=attach) as stage,
    ):
        (fp8,) = stage.proxy.mirror.arms
        answer = OK if attach == "inline" else ACCEPTED
        await many(tmp_path, stage, all_gone, answer, lambda: len(fp8.open) == OPEN)


@in_loop
async def test_a_thousand_attempts_to_connect_do_not_hold_the_loop(tmp_path):
    """Given up with the copies that wait for them."""
    async with (
        upstream(answering(OK)) as primary,
        black_hole() as dark,
        proxy(primary.url, {"fp8": {"url": dark.url, **BOUNDS, "connect_timeout": "60s"}}) as stage,
    ):
        (fp8,) = stage.proxy.mirror.arms
        connecting = fp8.pool._connecting

        async def all_gone() -> None:
            await until(lambda: not connecting)

        await many(tmp_path, stage, all_gone, OK, lambda: len(connecting) == OPEN)
        assert ("fp8", "reached", "") not in stage.ledger.counts


@in_loop
async def test_a_thousand_requests_of_a_replica_do_not_hold_the_loop(tmp_path):
    """Those, and a thousand copies that wait for the replica's answers."""
    waits = {"url": "http://127.0.0.1:9", "start": "after_primary"}
    async with (
        arm_aside() as (url, all_gone),
        proxy({"url": url, "concurrency": OPEN}, {"fp8": waits}, attach="tap") as stage,
    ):
        late = stage.proxy.mirror.plans.late
        await many(tmp_path, stage, all_gone, ACCEPTED, lambda: len(late) == OPEN)
        assert not late
        assert stage.ledger.counts["primary", "reached", ""] == OPEN


# at any moment

BODIES = [
    b'{"model":"m"}',
    b'{"model":"m","priority":1}',
    b'{"model":"m","api_key":"k","p":"%b"}' % (b"x" * 300_000),
    b'{"model":"m","store":true}',
    b"no json",
    b"",
]


def fickle(rng: random.Random):
    """Answers, soon or late, drips, hangs or resets."""

    async def script(connection):
        while True:
            await connection.request()
            await asyncio.sleep(rng.choice([0, 0, 0.005, 0.03]))
            how = rng.choice([OK, OK, drip, hang, None])
            if how is None:
                connection.reset()
                return
            if isinstance(how, bytes):
                await connection.write(how)
            else:
                await connection.write(CHUNKED)
                await connection.rest()
                return

    return script


async def pulled(stage, rng: random.Random) -> None:
    """On and off, at any moment between two turns of the loop."""
    mirror = stage.proxy.mirror
    while True:
        for word in ("test", ""):
            for _ in range(rng.randrange(40)):
                await asyncio.sleep(0)
            await asyncio.sleep(rng.choice([0, 0.001, 0.01]))
            mirror.switch.killed = word
            mirror.tick(time.monotonic_ns())


@pytest.mark.parametrize("attach", ["inline", "tap"])
@pytest.mark.parametrize("seed", range(4))
@in_loop
async def test_pulled_at_any_moment_the_books_balance(seed, attach):
    """Whatever is uploading, looked at, connecting, waiting, answering: each client has its answer,
    each copy is counted once, nothing is held afterwards.
    """
    rng = random.Random(seed)
    answer = OK if attach == "inline" else ACCEPTED

    async def user(port: int) -> None:
        async with client(port) as connection:
            for _ in range(12):
                said = chat(rng.choice(BODIES))
                at = rng.randrange(len(said))
                await connection.write(said[:at])
                await asyncio.sleep(rng.choice([0, 0, 0.004]))
                await connection.write(said[at:])
                assert await connection.exactly(len(answer)) == answer

    async with (
        upstream(answering(OK) if attach == "inline" else fickle(rng)) as primary,
        upstream(fickle(rng)) as one,
        upstream(fickle(rng)) as other,
        black_hole() as dark,
        proxy(
            primary.url,
            {
                "one": {"url": one.url, "amplify": 3, "breaker": "off"},
                "late": {"url": other.url, "start": "after_primary", "deadline": "300ms"},
                "dark": {"url": dark.url, "sample": 0.5, "params": {"set": {"temperature": 0}}},
            },
            attach=attach,
        ) as stage,
    ):
        pulling = asyncio.ensure_future(pulled(stage, rng))
        await asyncio.gather(*(user(stage.port) for _ in range(6)))
        pulling.cancel()
        mirror = stage.proxy.mirror
        mirror.switch.killed = "test"
        mirror.tick(time.monotonic_ns())
        await until(lambda: not stage.ledger.held)
        assert not mirror.plans.late
        assert not any(arm.open for arm in mirror.arms)
        assert sum(dropped(stage, arm.name) for arm in mirror.arms)
        assert all(stage.ledger.balanced(name) for name in ("primary", "one", "late", "dark"))
