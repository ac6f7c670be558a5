"""Limits beside rates: requests a second, tokens and cost a day, and copies that wait their turn."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from relay.raw import answering, client, hang, in_loop, proxy, until, upstream

from shadow.choosing import spending
from shadow.choosing.admission import Bucket
from shadow.choosing.spending import Purse, Spending
from shadow.choosing.usage import Tokens, tokens
from shadow.config.bounds import ArmLimits, Price
from shadow.mirror import arm as one_arm

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 40\r\n\r\n" + b"{}".ljust(
    40
)
S = 1_000_000_000


def answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def said(prompt: int, completion: int) -> bytes:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    return answer(json.dumps({"choices": [], "usage": usage}).encode())


# how many tokens an answer cost


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"usage":{"prompt_tokens":7,"total_tokens":10,"completion_tokens":3}}', (7, 3)),
        (b'{"usage":{"input_tokens" : 7, "output_tokens":\n3}}', (7, 3)),
        (
            (
                b'data: {"usage":{"prompt_tokens":7,"completion_tokens":1}}\n\n'
                b'data: {"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\ndata: [DONE]\n\n'
            ),
            (7, 2),
        ),
        (
            b'event: message_start\ndata: {"message":{"usage":{"input_tokens":25,"output_tokens":1}}}\n\n'
            + b"event: ping\ndata: {}\n\n" * 2000
            + b'event: message_delta\ndata: {"usage":{"output_tokens":15}}\n\n',
            (25, 15),
        ),
        (
            (
                b'{"content":"\\"prompt_tokens\\":999999,\\"completion_tokens\\":999999",'
                b'"usage":{"prompt_tokens":7,"completion_tokens":3}}'
            ),
            (7, 3),
        ),
        (b'{"usage":{"prompt_tokens_details":{"cached_tokens":5},"prompt_tokens":7}}', (7, 18)),
        (b"", (10, 0)),
        (b"x" * 400, (10, 100)),
        (b'{"usage":null}', (10, 3)),
        (b'{"usage":{"completion_tokens":null}}', (10, 9)),
        (b"data: {}\n\n" * 50, (10, 50)),
        (b": ping\n\n" + b"event: x\ndata: {}\n\n" * 20, (10, 20)),
    ],
)
def test_tokens_are_those_that_the_answer_says(body, expected):
    """OpenAI's and Anthropic's names, the last of several, in documents and streams; a text that
    quotes them is none; without them the estimate: 40 bytes of request are 10 tokens."""
    assert tokens(40, len(body), body[: 64 * 1024], body[-16 * 1024 :]) == expected


def test_a_long_stream_is_estimated_by_its_beginning():
    """Events are counted in 64 KiB and scaled."""
    body = b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n' * 20_000
    found = tokens(0, len(body), body[: 64 * 1024], body[-16 * 1024 :])
    assert found.completion == pytest.approx(20_000, rel=0.01)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_are_too_odd(first, last):
    """Whatever an arm answers, there are two numbers that are not negative."""
    assert min(tokens(10, len(last), first, last)) >= 0


# requests a second


def test_a_bucket_holds_a_second_and_fills_by_its_rate():
    """Ten at once, then one each tenth of a second; never more than a second's worth."""
    bucket = Bucket(10.0)

    def granted(now: int, tries: int) -> int:
        taken = 0
        for _ in range(tries):
            if not bucket.empty(now):
                bucket.take()
                taken += 1
        return taken

    assert granted(S, 50) == 10
    assert granted(S + S // 20, 5) == 0
    assert granted(S + S // 8, 5) == 1
    assert granted(100 * S, 50) == 10


def test_a_rate_below_one_a_second_lets_one_through():
    """One at first, the next after its time."""
    bucket = Bucket(0.1)
    assert not bucket.empty(S)
    bucket.take()
    assert bucket.empty(10 * S)
    assert not bucket.empty(11 * S + 1)


@in_loop
async def test_what_the_rate_refuses_is_dropped_and_counted():
    """One at once, and then nothing for minutes: a worker's part; no client waits."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(
            primary.url,
            {
                "fp8": {"url": candidate.url, "limits": {"requests_per_s": 0.008}},
                "free": candidate.url,
            },
            workers=2,
        ) as stage,
        client(stage.port) as user,
    ):
        for _ in range(6):
            await user.write(CHAT)
            assert await user.exactly(len(OK)) == OK
        await stage.publisher.wait_for(6 + 6 + 1)
        assert stage.ledger.counts["fp8", "dropped", "rate"] == 5
        assert stage.ledger.counts["fp8", "captured", ""] == 1
        assert stage.ledger.counts["free", "captured", ""] == 6
        assert stage.ledger.balanced("fp8")


@in_loop
async def test_each_worker_has_its_part_of_an_arm_s_concurrency():
    """Four open requests of all: two here, one arm's alone; the third is dropped and counted."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(hang) as candidate,
        upstream(answering(OK)) as control,
        proxy(
            primary.url,
            {"fp8": {"url": candidate.url, "concurrency": 4}, "control": control.url},
            workers=2,
        ) as stage,
        client(stage.port) as user,
    ):
        for _ in range(3):
            await user.write(CHAT)
            assert await user.exactly(len(OK)) == OK
        await until(lambda: ("fp8", "dropped", "concurrency") in stage.ledger.counts)
        await until(lambda: len(candidate.connections) == 2)
        assert stage.ledger.counts["fp8", "dropped", "concurrency"] == 1
        await until(lambda: stage.ledger.counts.get(("control", "captured", "")) == 3)


@in_loop
async def test_a_worker_has_its_part_of_the_rate(monkeypatch):
    """20/s by two workers: ten at once through each, and ten a second from then on."""
    now = [S]
    monkeypatch.setattr(one_arm, "monotonic_ns", lambda: now[0])
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(
            primary.url,
            {"fp8": {"url": candidate.url, "limits": {"requests_per_s": 20}}},
            workers=2,
        ) as stage,
        client(stage.port) as user,
    ):
        counts = stage.ledger.counts

        async def asked(tries: int) -> int:
            before = counts.get(("fp8", "reached", ""), 0)
            for _ in range(tries):
                await user.write(CHAT)
                assert await user.exactly(len(OK)) == OK
            await until(lambda: not stage.ledger.held)
            return counts["fp8", "reached", ""] - before

        assert await asked(15) == 10
        now[0] += S // 10
        assert await asked(3) == 1
        now[0] += 100 * S
        assert await asked(15) == 10
        assert counts["fp8", "dropped", "rate"] == 5 + 2 + 5
        assert stage.ledger.balanced("fp8")


# a day's budget


def purse_of(spent: Spending, workers: int = 1, **limits: float) -> Purse:
    price = Price(prompt_per_million=1.0, completion_per_million=3.0)
    return Purse("fp8", ArmLimits.model_validate(limits), price, workers, spent)


NOTHING = Tokens(0, 0)


def test_a_budget_ends_where_it_is_spent(monkeypatch):
    """Tokens and cost alike, a worker's part of them; the next day in UTC begins anew."""
    now = [1_000_000 * 86400.0 + 5]
    monkeypatch.setattr(spending.time, "time", lambda: now[0])
    spent = Spending(None, "e")
    by_tokens = purse_of(spent, workers=2, tokens_per_day=200)
    by_tokens.spend(Tokens(60, 39))
    assert not by_tokens.empty(0, NOTHING)
    by_tokens.spend(Tokens(1, 0))
    assert by_tokens.empty(0, NOTHING)
    now[0] += 86394
    assert by_tokens.empty(0, NOTHING)
    now[0] += 1
    assert not by_tokens.empty(0, NOTHING)
    by_cost = purse_of(Spending(None, "e"), cost_per_day=0.001)
    by_cost.spend(Tokens(400, 199))
    assert not by_cost.empty(0, NOTHING)
    by_cost.spend(Tokens(3, 0))
    assert by_cost.empty(0, NOTHING)


def test_a_clock_set_back_over_midnight_gives_no_second_budget(monkeypatch):
    """The day that had begun goes on; one that was never true is left."""
    now = [1_000_000 * 86400.0 + 1]
    monkeypatch.setattr(spending.time, "time", lambda: now[0])
    purse = purse_of(Spending(None, "e"), tokens_per_day=100)
    purse.spend(Tokens(100, 0))
    now[0] -= 2
    assert purse.empty(0, NOTHING)
    now[0] += 2
    assert purse.empty(0, NOTHING)
    now[0] -= 40 * 86400
    assert not purse.empty(0, NOTHING)


def test_what_is_under_way_counts_too():
    """By the mean of those before it, and by an estimate before there is any."""
    purse = purse_of(Spending(None, "e"), tokens_per_day=1000)
    assert not purse.empty(9, Tokens(100, 0))
    assert purse.empty(10, Tokens(100, 0))
    purse.spend(Tokens(50, 50))
    assert not purse.empty(8, Tokens(1, 0))
    assert purse.empty(9, Tokens(1, 0))


def test_what_was_spent_survives(tmp_path):
    """A killed worker's next life goes on with it: nothing is written at an end that may not come.
    Another experiment, and a file that is none, begin with nothing."""
    path = tmp_path / "state" / "0.budgets"
    first = Spending(path, "e")
    purse_of(first, tokens_per_day=100).spend(Tokens(60, 40))
    again = Spending(path, "e")  # the first was never closed
    assert purse_of(again, tokens_per_day=100).empty(0, NOTHING)
    third = Spending(path, "e")
    assert purse_of(third, tokens_per_day=100).empty(0, NOTHING)
    other = Spending(path, "f")
    assert not purse_of(other, tokens_per_day=100).empty(0, NOTHING)
    for each in (first, again, third, other):
        each.close()
    path.write_bytes(b"nonsense")
    damaged = Spending(path, "f")
    assert not purse_of(damaged, tokens_per_day=100).empty(0, NOTHING)
    damaged.close()
    assert [each.name for each in path.parent.iterdir()] == ["0.budgets"]


def test_what_was_spent_survives_a_kill(tmp_path):
    """A process that spends and kills itself with -9: the next one knows."""
    path = tmp_path / "0.budgets"
    code = (
        "import os, sys; from pathlib import Path; from shadow.choosing.spending import Spending\n"
        "Spending(Path(sys.argv[1]), 'e').put('fp8', 'tokens', 4711); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=30)
    assert done.returncode == -signal.SIGKILL
    spent = Spending(path, "e")
    assert spent.get("fp8", "tokens") == 4711
    spent.close()


def test_without_a_folder_it_is_kept_in_memory(tmp_path):
    """A full or missing disk stops no proxy."""
    (tmp_path / "state").write_text("a file where the folder should be")
    spent = Spending(tmp_path / "state" / "0.budgets", "e")
    purse = purse_of(spent, tokens_per_day=10)
    purse.spend(Tokens(10, 0))
    assert purse.empty(0, NOTHING)
    spent.close()


@in_loop
async def test_the_budget_holds_over_a_restart(tmp_path):
    """By the answers' own usage; what is over is dropped `budget`; another proxy on the same state
    sends nothing more; an arm without a budget goes on."""
    state = tmp_path / "state"
    limits = {"tokens_per_day": 3 * 150, "cost_per_day": 100}
    price = {"prompt_per_million": 1, "completion_per_million": 2}
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(said(100, 50))) as candidate,
    ):
        arms = {
            "fp8": {"url": candidate.url, "limits": limits, "price": price},
            "free": candidate.url,
        }
        for life, (sent, dropped) in enumerate([(3, 2), (0, 5)]):
            async with (
                proxy(primary.url, arms, state=str(state)) as stage,
                client(stage.port) as user,
            ):
                for n in range(5):
                    await user.write(CHAT)
                    assert await user.exactly(len(OK)) == OK
                    await stage.publisher.wait_for(2 * (n + 1) + min(n + 1, sent))
                    await until(lambda: not stage.proxy.mirror.arms[0].open)
                counts = stage.ledger.counts
                assert counts.get(("fp8", "captured", ""), 0) == sent, life
                assert counts["fp8", "dropped", "budget"] == dropped
                assert counts["free", "captured", ""] == 5
                assert stage.ledger.balanced("fp8")
    assert [each.name for each in state.iterdir()] == ["0.budgets"]


@pytest.mark.parametrize(
    "limits",
    [{"tokens_per_day": 4 * 150}, {"cost_per_day": 4 * 200e-6}],
    ids=["tokens", "cost"],
)
@pytest.mark.parametrize(("workers", "sent"), [(1, 4), (2, 2), (4, 1)])
@in_loop
async def test_a_worker_has_its_part_of_the_budget(limits, workers, sent, tmp_path):
    """As many as the configuration has: four requests' worth a day is two for each of two."""
    price = {"prompt_per_million": 1, "completion_per_million": 2}
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(said(100, 50))) as candidate,
        proxy(
            primary.url,
            {"fp8": {"url": candidate.url, "limits": limits, "price": price}},
            workers=workers,
            state=str(tmp_path),
        ) as stage,
        client(stage.port) as user,
    ):
        for _ in range(6):
            await user.write(CHAT)
            assert await user.exactly(len(OK)) == OK
            await until(lambda: not stage.ledger.held)
        assert stage.ledger.counts["fp8", "captured", ""] == sent
        assert stage.ledger.counts["fp8", "dropped", "budget"] == 6 - sent
        assert stage.ledger.balanced("fp8")


@in_loop
async def test_what_never_reached_the_arm_costs_nothing(tmp_path):
    """Refused connections spend no budget, answers without usage spend the estimate."""
    async with upstream(answering(OK)) as gone:
        dead = gone.url
    arm = {"limits": {"tokens_per_day": 25}, "breaker": "off"}
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(
            primary.url,
            {"dead": {"url": dead, **arm}, "mute": {"url": candidate.url, **arm}},
            state=str(tmp_path),
        ) as stage,
        client(stage.port) as user,
    ):
        for n in range(5):
            await user.write(CHAT)
            assert await user.exactly(len(OK)) == OK
            await until(lambda: not any(arm.open for arm in stage.proxy.mirror.arms))
            await stage.publisher.wait_for(2 * (n + 1))
        counts = stage.ledger.counts
        assert counts["dead", "connect_failed", ""] == counts["dead", "captured", ""] == 5
        assert counts["mute", "captured", ""] == 3  # 10 tokens each by 40 bytes
        assert counts["mute", "dropped", "budget"] == 2


# copies that wait for the primary


@in_loop
async def test_an_arm_that_starts_after_the_primary():
    """Its copy goes when the primary's answer has ended, not sooner; the other arm's goes at once;
    the body is held until then and is whole."""
    order = []

    async def slow(connection):
        while True:
            await connection.request()
            order.append("primary begins")
            await until(lambda: "with" in order)
            await connection.write(OK[:-2])
            await until(lambda: stage.ledger.counts.get(("with", "captured", "")))
            order.append("primary ends")
            await connection.write(OK[-2:])

    def script(name: str):
        async def run(connection):
            while True:
                _, body = await connection.request()
                order.append(name)
                await connection.write(answer(body))

        return run

    async with (
        upstream(slow) as primary,
        upstream(script("with")) as at_once,
        upstream(script("after")) as later,
        proxy(
            primary.url,
            {"with": at_once.url, "after": {"url": later.url, "start": "after_primary"}},
        ) as stage,
        client(stage.port) as user,
    ):
        await user.write(CHAT)
        assert await user.exactly(len(OK)) == OK
        exchanges = await stage.publisher.wait_for(3)
        assert order == ["primary begins", "with", "primary ends", "after"]
        assert {e.arm: e.body for e in exchanges}["after"] == b"{}".ljust(40)
        by_arm = {e.arm: e for e in exchanges}
        assert by_arm["after"].started_at > by_arm["with"].started_at
        assert len({e.arrived_at for e in exchanges}) == 1
        assert all(stage.ledger.balanced(name) for name in ("primary", "with", "after"))


@in_loop
async def test_a_client_that_leaves_before_it_is_the_arm_s_turn():
    """Nothing is sent; the record says who left, takes no time, and is counted `unsent`."""

    async with (
        upstream(hang) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": {"url": candidate.url, "start": "after_primary"}}) as stage,
    ):
        async with client(stage.port) as user:
            await user.write(CHAT)
            await until(lambda: primary.connections and primary.connections[0].received)
        exchanges = await stage.publisher.wait_for(2)
        assert [e.transport for e in exchanges] == ["client_disconnected"] * 2
        assert exchanges[1].end_ns == 0
        assert exchanges[1].sent_ns is None
        assert not candidate.connections
        assert stage.ledger.counts["fp8", "unsent", ""] == 1
        assert stage.ledger.counts["fp8", "captured", ""] == 1
        assert stage.ledger.balanced("fp8")


@in_loop
async def test_a_primary_that_fails_late_still_gives_the_arm_its_turn():
    """A reset primary has been asked: the arm is too."""

    async def break_off(connection):
        await connection.request()
        connection.reset()

    async with (
        upstream(break_off) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": {"url": candidate.url, "start": "after_primary"}}) as stage,
        client(stage.port) as user,
    ):
        await user.write(CHAT)
        exchanges = await stage.publisher.wait_for(2)
        assert {e.arm: e.transport for e in exchanges}["fp8"] == "complete"


@pytest.mark.parametrize("word", ["kill_switch", "paused", "shadow_off"])
@in_loop
async def test_copies_that_wait_are_not_sent_once_mirroring_is_off(word):
    """The switch holds for what waits too: dropped `switched_off`."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": {"url": candidate.url, "start": "after_primary"}}) as stage,
        client(stage.port) as user,
    ):
        mirror = stage.proxy.mirror
        late = mirror.arms[0]
        await user.write(CHAT)
        await user.exactly(len(OK))
        await stage.publisher.wait_for(2)
        assert late.after_primary
        assert stage.ledger.counts["fp8", "captured", ""] == 1
        stop_at_the_end(mirror, word)
        await user.write(CHAT)
        await user.exactly(len(OK))
        await stage.publisher.wait_for(3)
        assert stage.ledger.counts["fp8", "dropped", "switched_off"] == 1
        assert stage.ledger.balanced("fp8")
        assert len(candidate.connections[0].received) < 2 * len(CHAT)


def stop_at_the_end(mirror, word: str) -> None:
    """The switch turns while the next request's copies wait."""
    count = mirror.books.sampled

    def counted(chosen):
        count(chosen)
        mirror.switch = Stopped(mirror.switch, word)

    mirror.books.sampled = counted


class Stopped:
    """A switch that says a word; all else is the real one's."""

    def __init__(self, switch, word: str) -> None:
        self._switch, self.skip = switch, word

    def __getattr__(self, name: str):
        return getattr(self._switch, name)


@in_loop
async def test_a_drain_drops_what_waits():
    """`shutdown`, as for any mirror that is still open; nothing is held afterwards."""

    async with (
        upstream(hang) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": {"url": candidate.url, "start": "after_primary"}}) as stage,
        client(stage.port) as user,
    ):
        await user.write(CHAT)
        await until(lambda: primary.connections and primary.connections[0].received)
        await stage.proxy.drain(0)
        assert stage.ledger.counts["fp8", "dropped", "shutdown"] == 1
        assert [e.transport for e in stage.publisher.exchanges] == ["cut_by_drain"]
        assert stage.ledger.balanced("fp8")
        assert not candidate.connections


def test_the_searches_are_quick():
    """On the loop at a budgeted arm's end: below a millisecond for the worst 80 KiB."""
    first, last = b"data: {}\n\n" * 6553, b'"prompt_token":' * 1092
    begun = time.perf_counter()
    for _ in range(20):
        tokens(40, 8 * 2**20, first, last)
    assert (time.perf_counter() - begun) / 20 < 0.001
