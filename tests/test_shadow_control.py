"""The health port tells alive from ready, and a port that is taken is known before anything runs."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from contextlib import closing
from dataclasses import dataclass

import pytest

from shadow.config.units import Address
from shadow.control import bind, health_app, readiness, serve_health


@dataclass
class WayOut:
    ready: bool = True
    last_error: str | None = None
    queued_bytes: int = 0
    queue_bytes: int = 100


@pytest.mark.parametrize(
    ("way_out", "listening", "reason"),
    [
        (WayOut(), True, None),
        (WayOut(queued_bytes=90), True, None),
        (WayOut(), False, "the proxy is not listening"),
        (
            WayOut(ready=False, last_error="no broker"),
            True,
            "the stream is not connected: no broker",
        ),
        (WayOut(ready=False), True, "the stream is not connected: the sender has ended"),
        (WayOut(queued_bytes=91), True, "the queue is full"),
    ],
)
def test_readiness_gives_the_first_reason(way_out, listening, reason):
    """200 only where captures get out; else 503 and why, with the queue's fill either way."""
    status, answer = readiness(way_out, listening=listening)
    assert status == (200 if reason is None else 503)
    assert answer["ready"] is (reason is None)
    assert answer["reason"] == reason
    assert (answer["queue_bytes"], answer["queue_limit_bytes"]) == (way_out.queued_bytes, 100)


def fetch(url: str, accept: str = "*/*") -> tuple[int, str, bytes]:
    request = urllib.request.Request(url, headers={"accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers["content-type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["content-type"], error.read()


def test_the_three_paths_over_http():
    """Alive stays 200 while the way out is shut; metrics get the client's Accept."""

    async def scenario():
        way_out = WayOut(ready=False, last_error="no broker")
        app = health_app(
            lambda: readiness(way_out, listening=True),
            lambda accept: (accept.encode(), "text/x-metrics"),
        )
        with closing(bind(Address("127.0.0.1", 0))) as bound:
            url = f"http://127.0.0.1:{bound.getsockname()[1]}"
            runner = await serve_health(app, bound)
            try:
                answers = [
                    await asyncio.to_thread(fetch, url + path, "text/plain; q=1")
                    for path in ("/healthz", "/readyz", "/metrics", "/nothing")
                ]
            finally:
                await runner.cleanup()
        return answers

    alive, ready, metrics, nothing = asyncio.run(scenario())
    assert alive[0] == 200
    assert ready[0] == 503
    assert json.loads(ready[2])["reason"] == "the stream is not connected: no broker"
    assert metrics == (200, "text/x-metrics", b"text/plain; q=1")
    assert nothing[0] == 404


def test_a_port_that_is_taken_is_one_line_with_the_address():
    with closing(bind(Address("127.0.0.1", 0))) as first:
        address = Address("127.0.0.1", first.getsockname()[1])
        way = "stop what listens there, or choose another port"
        with pytest.raises(OSError, match=f"^{address}: Address already in use; {way}$"):
            bind(address)


def test_a_host_that_is_none_is_one_line(monkeypatch):
    def unknown(*_args, **_more):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(OSError, match=r"^nowhere:1: Name or service not known$"):
        bind(Address("nowhere", 1))
