"""The host's clock is set by hours, either way, while the proxy serves: nothing is lost uncounted, no
duration sees it, mirroring goes on."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relay.raw import answering, client, hang, in_loop, until, upstream

from shadow.app import Ports, Proxy
from shadow.choosing import spending
from shadow.choosing.spending import DAY_S, Purse, Spending
from shadow.choosing.usage import Tokens
from shadow.config import Config
from shadow.config.bounds import ArmLimits
from shadow.config.lifecycle import Isolation
from shadow.exchange import Accounting, Exchange, decode
from shadow.publish import publisher as publishing
from shadow.publish.accounting import OPENING_NS, Ledger
from shadow.publish.publisher import Publisher
from shadow.steering.switch import Switch
from shadow.stream.embedded import EmbeddedConsumer, EmbeddedProducer

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
HOUR_S = 3600
S = 10**9


class Clock:
    """The wall clock of this process; `ahead_s` is what it was set by."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_s = 0
        wall_s, wall_ns = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: wall_s() + self.ahead_s)
        monkeypatch.setattr(time, "time_ns", lambda: wall_ns() + self.ahead_s * S)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def read(folder) -> list[Exchange | Accounting]:
    """All that the stream holds, in its order."""
    consumer = EmbeddedConsumer(folder)
    records = []
    while more := consumer.poll(1000, 0.0):
        records += [decode(record.value) for record in more]
    consumer.close()
    return records


def configured(tmp_path, primary: str, arms: dict[str, dict]) -> Config:
    tree = {
        "experiment": "clock",
        "listen": "127.0.0.1:0",
        "capture": "full",
        "primary": {"url": primary},
        "arms": {name: {"role": "candidate", "sample": 1.0, **arm} for name, arm in arms.items()},
        "stream": {"embedded": str(tmp_path / "stream")},
        "store": {"embedded": str(tmp_path / "store")},
        "state": str(tmp_path / "state"),
        "isolation": "off",
    }
    return Config.model_validate(tree)


async def serving(tmp_path, clock, by_s: int, requests: int = 5) -> None:
    """Requests before and after the clock is set by so much, one answer open meanwhile, an arm that
    hangs until its deadline, and a drain."""
    go = asyncio.Event()

    async def slow(connection):
        head, _ = await connection.request()
        if b"slow" in head:
            await connection.write(OK[:-2])
            await go.wait()
            await connection.write(OK[-2:])
        else:
            await connection.write(OK)
        await slow(connection)

    async with upstream(slow) as primary, upstream(answering(OK)) as arm, upstream(hang) as hung:
        budget = {"tokens_per_day": 10**9}
        arms = {
            "fp8": {"url": arm.url, "limits": budget},
            "hung": {"url": hung.url, "deadline": "700ms", "breaker": "off"},
        }
        config = configured(tmp_path, primary.url, arms)
        ledger, _ = Ledger.open(tmp_path / "state", "0", config.experiment, "hash")
        publisher = Publisher(lambda: EmbeddedProducer(tmp_path / "stream", "0"), ledger, 10**7)
        proxy = Proxy(config, Ports(ledger=ledger, publisher=publisher))
        await proxy.start()
        try:
            async with client(proxy.port) as user, client(proxy.port) as patient:
                for n in range(2 * requests):
                    if n == requests:
                        await patient.write(POST.replace(b"Host: h", b"Host: slow"))
                        await patient.until(b"\r\n\r\n")
                        clock.ahead_s += by_s
                    await user.write(POST)
                    assert await user.exactly(len(OK)) == OK
                    assert not proxy.mirror.switch.skip
                await asyncio.sleep(0.05)
                snapshot = ledger.snapshot(time.time_ns())
                assert snapshot.low_water <= time.time_ns() - OPENING_NS
                go.set()
                await patient.exactly(2)
                await until(lambda: not proxy.totals.open_streams and not proxy.mirror.arms[1].open)
                assert proxy.totals.mirror_errors == 0, proxy.totals.last_mirror_error
        finally:
            await proxy.drain(1)
            assert publisher.close(10)
            ledger.close(published=True)


def total(record: Accounting, arm: str, counter: str) -> int:
    return sum(c.value for c in record.counts if (c.arm, c.counter) == (arm, counter))


@pytest.mark.parametrize("by_s", [3 * HOUR_S, -3 * HOUR_S, 26 * HOUR_S, -26 * HOUR_S, 400 * DAY_S])
def test_a_clock_that_is_set_while_it_serves(tmp_path, clock, monkeypatch, by_s):
    """Every request has its records, the books balance, every duration is what it was, and the low
    water passes no request that is open."""
    monkeypatch.setattr(publishing, "ACCOUNTING_SECONDS", 0.02)
    monkeypatch.setattr(publishing, "WAKE_SECONDS", 0.005)
    in_loop(serving)(tmp_path, clock, by_s)
    records = read(tmp_path / "stream")
    exchanges = [record for record in records if isinstance(record, Exchange)]
    assert sorted(e.sequence for e in exchanges) == list(range(1, 34))
    assert len({e.pair_id for e in exchanges}) == 11
    for arm, transport in (("primary", "complete"), ("fp8", "complete"), ("hung", "timed_out")):
        mine = [e for e in exchanges if e.arm == arm]
        assert [e.transport for e in mine] == [transport] * 11
    for exchange in exchanges:
        spans = [getattr(exchange, f"{name}_ns") for name in ("sent", "first_byte", "end")]
        known = [span for span in spans if span is not None]
        assert known == sorted(known)
        assert all(0 <= span < 10 * S for span in known)
        if exchange.arm == "hung":
            assert 0.6 * S < exchange.end_ns < 3 * S
    last = records[-1]
    assert isinstance(last, Accounting)
    assert last.final
    for arm in ("primary", "fp8", "hung"):
        assert total(last, arm, "eligible") == total(last, arm, "sampled") == 11
        assert total(last, arm, "captured") == 11
        assert not total(last, arm, "lost")
    for n, record in enumerate(records):
        if isinstance(record, Accounting) and record.low_water is not None:
            behind = [e for e in records[n:] if isinstance(e, Exchange)]
            if by_s > 0 or record.at < min(e.arrived_at for e in exchanges) + HOUR_S * S:
                assert all(e.arrived_at >= record.low_water for e in behind)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-40 * HOUR_S, 40 * HOUR_S), min_size=1, max_size=4))
def test_no_jump_stops_mirroring_for_longer_than_a_window(jumps):
    """Windows follow from the clock as it stands: the next tick knows whether there is one."""
    switch = Switch("e", "h", ["fp8"], Isolation())
    wall_s, now_ns, off_s, longest_s = 1.79e9, 10**12, 0.0, 0.0
    for jump in (0, *jumps):
        wall_s += jump
        off_s = 0.0
        for _ in range(1000):
            wall_s, now_ns = wall_s + 0.5, now_ns + S // 2
            switch.tick(now_ns, wall_s, 0, busy=False)
            off_s = off_s + 0.5 if switch.skip else 0.0
            longest_s = max(longest_s, off_s)
    assert longest_s <= 61  # two neighbouring periods' windows may touch


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3 * DAY_S, 3 * DAY_S), max_size=3))
def test_no_jump_takes_a_budget_away(jumps):
    """Whatever the clock is set to, within two days an arm may spend again; and it spends no more
    than a budget for each day that began, by the clock, and one for each jump."""
    with pytest.MonkeyPatch.context() as patch:
        now = [20_000.3 * DAY_S]
        patch.setattr(spending.time, "time", lambda: now[0])
        purse = Purse("fp8", ArmLimits(tokens_per_day=100), None, 1, Spending(None, "e"))
        spent, steady_days = 0, 0
        for jump in (0, *jumps):
            now[0] += jump
            waited = 0
            for _ in range(3):  # days
                while not purse.empty(0, Tokens(0, 0)):
                    purse.spend(Tokens(50, 0))
                    spent += 50
                    waited = 0
                waited += 1
                assert waited <= 2
                now[0] += DAY_S
                steady_days += 1
        assert spent <= 100 * (steady_days + len(jumps) + 1)
