"""The breaker: opens within its failures, tries again, closes; what it holds back is a record."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from relay.raw import answering, client, in_loop, proxy, until, upstream

from collector.completion import Answer, read
from collector.measures import failure_of, measure
from shadow.choosing.breaker import FAILED, Breaker
from shadow.config.bounds import Breaker as Settings
from shadow.exchange import TRANSPORTS

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
S = 1_000_000_000


def breaker(failures: int = 3, open_: str = "10s", probes: int = 1) -> Breaker:
    return Breaker(Settings.model_validate({"failures": failures, "open": open_, "probes": probes}))


def opened(probes: int = 1) -> Breaker:
    made = breaker(1, probes=probes)
    made.ended(made.begun(), "reset", None, 1)
    assert made.open
    return made


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_counts_as_a_failure(transport):
    """No connection, no answer in time, a broken one, or 5xx; a client that left says nothing."""
    for status in (None, 200, 429, 500, 503):
        made = breaker(1)
        made.ended(made.begun(), transport, status, 1)
        assert made.open == (transport in FAILED or (status or 0) >= 500)


def test_only_failures_in_a_row_open_it():
    """One answer between them begins the row anew; a client's leaving does not."""
    made = breaker(3)
    for transport in ("reset", "reset", "complete", "reset", "reset", "client_disconnected"):
        made.ended(made.begun(), transport, None, 1)
        assert not made.open
    made.ended(made.begun(), "timed_out", None, 1)
    assert made.open


def test_it_tries_after_its_time_and_closes_on_success():
    """Not a nanosecond sooner; one probe at a time; then everything goes."""
    made = opened()
    assert made.refuses(10 * S)
    assert not made.refuses(10 * S + 1)
    era = made.begun()
    assert made.refuses(20 * S)
    made.ended(era, "complete", 200, 20 * S)
    assert not made.open
    assert not made.refuses(20 * S)


def test_a_probe_that_fails_opens_it_again_for_the_whole_time():
    """Counted from the probe's end."""
    made = opened()
    made.ended(made.begun(), "complete", 500, 15 * S)
    assert made.refuses(25 * S - 1)
    assert not made.refuses(25 * S)


def test_all_probes_must_be_well():
    """Three are let through, a fourth is not; the third success closes it."""
    made = opened(probes=3)
    eras = [made.begun() for _ in range(3) if not made.refuses(11 * S)]
    assert len(eras) == 3
    assert made.refuses(11 * S)
    for era in eras:
        assert made.open
        made.ended(era, "complete", 200, 12 * S)
    assert not made.open


def test_a_probe_whose_client_leaves_is_tried_again():
    """It said nothing: the next request is the probe."""
    made = opened()
    made.ended(made.begun(), "client_disconnected", 200, 11 * S)
    assert made.open
    assert not made.refuses(11 * S)


def test_what_began_before_says_nothing():
    """Two hundred hung requests end long after the breaker opened, tried and closed."""
    made = breaker(2)
    old = [made.begun() for _ in range(10)]
    made.ended(old[0], "timed_out", None, 1)
    made.ended(old[1], "timed_out", None, 1)
    assert made.open
    for era in old[2:5]:
        made.ended(era, "complete", 200, 2)
    assert made.refuses(2)
    probe = made.begun()
    for era in old[5:7]:
        made.ended(era, "timed_out", None, 11 * S)
    made.ended(probe, "complete", 200, 12 * S)
    assert not made.open
    for era in old[7:]:
        made.ended(era, "timed_out", None, 13 * S)
    assert not made.open


@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 15), st.sampled_from(["complete", "reset", "cut_by_drain"]))),
)
def test_it_never_lets_more_than_its_probes_through(failures, probes, ends):
    """Whatever the order of times and ends: open, at most `probes` are under way, and it heals."""
    made = breaker(failures, probes=probes)
    now, under_way = 1, []
    for wait, transport in ends:
        now += wait * S
        was_open = made.open
        if not made.refuses(now):
            under_way.append((made.begun(), was_open))
        current = [each for each in under_way if each[0] == made.era]
        if made.open:
            assert len(current) <= probes
        if under_way:
            made.ended(under_way.pop(0)[0], transport, None, now)
    now += 11 * S
    for _ in range(50):
        if not made.refuses(now):
            made.ended(made.begun(), "complete", None, now)
        elif under_way:
            made.ended(under_way.pop(0)[0], "complete", None, now)
    assert not made.open


@in_loop
async def test_a_broken_arm_is_left_alone_and_found_again():
    """Within its failures no more connection is made, each request is a record that took no time;
    after `open` one probe goes, and its success brings the arm back. The books hold against the
    arm's own count, and the clients notice nothing."""
    well = False
    seen = 0

    async def script(connection):
        nonlocal seen
        while True:
            await connection.request()
            seen += 1
            await connection.write(OK if well else BUSY)

    async with (
        upstream(answering(OK)) as primary,
        upstream(script) as candidate,
        proxy(
            primary.url,
            {
                "fp8": {
                    "url": candidate.url,
                    "breaker": {"failures": 3, "open": "300ms", "probes": 1},
                }
            },
        ) as stage,
        client(stage.port) as user,
    ):

        async def send(n: int) -> list[str]:
            """The arm's transports for n more requests, one after another."""
            words = []
            for _ in range(n):
                before = len(stage.publisher.exchanges)
                await user.write(CHAT)
                assert await user.exactly(len(OK)) == OK
                await stage.publisher.wait_for(before + 2)
                words += [e.transport for e in stage.publisher.exchanges[before:] if e.arm == "fp8"]
            return words

        assert await send(8) == ["complete"] * 3 + ["breaker_open"] * 5
        assert seen == 3
        admission = stage.proxy.mirror.arms[0].admission
        await asyncio.sleep(0.31)
        assert await send(2) == ["complete", "breaker_open"]  # a probe, and it failed
        assert seen == 4
        await asyncio.sleep(0.31)
        well = True
        assert await send(3) == ["complete"] * 3
        assert not admission.breaker.open
        assert seen == 7
        counts = stage.ledger.counts
        assert counts["fp8", "reached", ""] == seen
        assert counts["fp8", "breaker_open", ""] == 6
        assert counts["fp8", "captured", ""] == seen + 6
        assert counts["primary", "reached", ""] == counts["primary", "captured", ""] == 13
        assert stage.ledger.balanced("fp8")
        left_alone = [e for e in stage.publisher.exchanges if e.transport == "breaker_open"]
    for exchange in left_alone:
        assert (exchange.status, exchange.marks, exchange.body) == (None, [], b"")
        assert (exchange.connect_ns, exchange.sent_ns, exchange.first_byte_ns) == (None, None, None)
        assert exchange.end_ns == 0
        assert exchange.error
    assert len({e.pair_id for e in stage.publisher.exchanges}) == 13


@pytest.mark.parametrize("off", [False, "off"])
@in_loop
async def test_without_a_breaker_every_request_is_tried(off):
    """`off`, as YAML reads it or in quotes."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(BUSY)) as candidate,
        proxy(primary.url, {"fp8": {"url": candidate.url, "breaker": off}}) as stage,
        client(stage.port) as user,
    ):
        for _ in range(25):
            await user.write(CHAT)
            await user.exactly(len(OK))
        exchanges = await stage.publisher.wait_for(50)
    assert {e.status for e in exchanges if e.arm == "fp8"} == {503}


@in_loop
async def test_a_hung_arm_opens_it_while_its_slots_are_full():
    """All slots wait for the deadline; once it opens, requests are failures, not drops."""

    async def hang(connection):
        await connection.rest()

    async with (
        upstream(answering(OK)) as primary,
        upstream(hang) as candidate,
        proxy(
            primary.url,
            {
                "fp8": {
                    "url": candidate.url,
                    "deadline": "150ms",
                    "concurrency": 2,
                    "breaker": {"failures": 2, "open": "1h"},
                }
            },
        ) as stage,
        client(stage.port) as user,
    ):

        async def send() -> None:
            await user.write(CHAT)
            assert await user.exactly(len(OK)) == OK

        for _ in range(4):
            await send()
        await until(lambda: stage.proxy.mirror.arms[0].admission.breaker.open)
        for _ in range(4):
            await send()
        exchanges = await stage.publisher.wait_for(14)
        words = [e.transport for e in exchanges if e.arm == "fp8"]
        assert (words.count("timed_out"), words.count("breaker_open")) == (2, 4)
        assert stage.ledger.counts["fp8", "dropped", "concurrency"] == 2
        assert stage.ledger.balanced("fp8")


def test_a_request_that_was_not_sent_is_a_failure_and_no_latency():
    """As the collector reads it: failure 1, and no time of any kind."""
    completion = read(Answer("/v1/chat/completions", None, (), b"", (), "breaker_open", "open"))
    measured = measure(completion, None)
    times = [value for name, value in asdict(measured).items() if name.endswith("_ms")]
    assert times
    assert set(times) == {None}
    assert failure_of(completion) == 1
