"""The log of the proxy names an arm that cannot be reached, and says when it is well again."""

from __future__ import annotations

import socket

import pytest
from relay.raw import answering, client, in_loop, proxy, until, upstream
from structlog.testing import capture_logs

from shadow.choosing.breaker import Breaker
from shadow.config.bounds import Breaker as Settings
from shadow.mirror.plight import AGAIN_NS, QUIET_NS, Plight

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHAT = b'POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 13\r\n\r\n{"model":"m"}'
T = 10**15
REFUSED = "127.0.0.1: Connection refused"


def breaker(failures: int) -> Breaker:
    return Breaker(Settings(failures=failures, open="10s", probes=1))


def fail(one: Breaker, transport: str = "connect_failed", status: int | None = None) -> None:
    one.ended(one.begun(), transport, status, T)


def said(plight: Plight, now_ns: int) -> list[str]:
    with capture_logs() as lines:
        plight.look(now_ns)
    return [f"{line['log_level']}: {line['event']}" for line in lines]


def test_the_first_failure_the_breaker_and_the_return_are_a_line_each():
    """What the breaker did meanwhile waits for its turn: never two lines within ten seconds."""
    of = breaker(2)
    one = Plight("fp8", "127.0.0.1", 9898, of)
    assert said(one, T) == []
    one.failed(REFUSED)
    fail(of)
    refused = "warning: arm fp8: no connection to 127.0.0.1:9898: Connection refused"
    assert said(one, T) == [refused]
    fail(of)
    one.failed(REFUSED)
    assert said(one, T + QUIET_NS - 1) == []
    assert said(one, T + QUIET_NS) == [f"{refused}; its breaker is open"]
    assert said(one, T + 2 * QUIET_NS) == []  # nothing new
    assert said(one, T + QUIET_NS + AGAIN_NS) == [f"{refused}; its breaker is open"]
    one.reason = ""
    of.refuses(T + 11 * 10**9)
    of.ended(of.begun(), "complete", 200, T)
    assert not of.open
    well = "info: arm fp8: well again: its breaker is closed"
    assert said(one, T + 3 * QUIET_NS + AGAIN_NS) == [well]
    assert said(one, T + 9 * AGAIN_NS) == []


def test_a_breaker_that_answers_opened_says_which():
    """The arm can be reached, and fails: the breaker's line has the last failure."""
    of = breaker(1)
    fail(of, "complete", 503)
    one = Plight("fp8", "::1", 1, of)
    assert said(one, T) == ["warning: arm fp8: its breaker is open (status 503)"]


@pytest.mark.parametrize("again", [True, False])
def test_without_a_breaker_it_is_said_again_only_where_it_failed_again(again):
    """An arm that nobody asks any more is not told of for ever."""
    one = Plight("fp8", "::1", 8000, None)
    one.failed("its name x is not resolved yet")
    line = "warning: arm fp8: no connection to [::1]:8000: its name x is not resolved yet"
    assert said(one, T) == [line]
    if again:
        one.failed("its name x is not resolved yet")
    assert said(one, T + AGAIN_NS) == ([line] if again else [])
    one.reason = ""
    assert said(one, T + 2 * AGAIN_NS) == ["info: arm fp8: well again"]


@in_loop
async def test_a_dead_arm_stands_in_the_log_once_however_many_requests():
    """A port without a listener: one line for forty requests, with address, cause and breaker."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arm = {"url": f"http://127.0.0.1:{port}", "breaker": {"failures": 1, "open": "1h"}}
    with capture_logs() as lines:
        async with (
            upstream(answering(OK)) as primary,
            proxy(primary.url, {"fp8": arm}) as stage,
            client(stage.port) as user,
        ):
            for _ in range(40):
                await user.write(CHAT)
                await user.exactly(len(OK))
            await stage.publisher.wait_for(80)
            await until(lambda: any("arm fp8" in line["event"] for line in lines))
    told = [line["event"] for line in lines if "arm fp8" in line["event"]]
    at = f"127.0.0.1:{port}"
    assert told == [f"arm fp8: no connection to {at}: Connection refused; its breaker is open"]


@in_loop
async def test_a_name_that_does_not_resolve_is_said():
    """The record, as the log, has the name."""

    def nobody(host: str, port: int) -> list[str]:
        raise OSError(f"{host}:{port} is not known")

    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url, {"fp8": "http://nowhere.invalid:8000"}, lookup=nobody) as stage,
        client(stage.port) as user,
    ):
        await user.write(CHAT)
        await user.exactly(len(OK))
        exchanges = await stage.publisher.wait_for(2)
    assert [e.error for e in exchanges if e.arm == "fp8"] == [
        "its name nowhere.invalid is not resolved yet"
    ]
