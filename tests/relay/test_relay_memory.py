"""What the mirror holds is bounded by `limits.mirror_bytes`, and what is counted is what is held."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

from relay.raw import answering, client, hang, in_loop, proxy, until, upstream

from shadow.capture.arrivals import CAPTURE_BYTES
from shadow.capture.capture import Capture
from shadow.capture.held import Held
from shadow.capture.request import Request
from shadow.capture.side import Origin, Side
from shadow.exchange import decode
from shadow.relay.head import parse_request

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HEAD = parse_request(b"POST /v1/completions HTTP/1.1\r\nHost: h")
MIB = 2**20


def chat(body: bytes) -> bytes:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


def capture(limit_bytes: int, answer_bytes: int = 8 * MIB, tail: int = 1000) -> Capture:
    side = Side(
        Origin("e", "h", "w", "b"), "fp8", "candidate", 1.0, None, answer_bytes, tail,
        Held(limit_bytes),
    )  # fmt: skip
    return Capture(side, Request(HEAD, "p" * 32, 1, 7), 1, 1, 0)


@in_loop
async def test_a_hung_arm_holds_no_more_than_its_share():
    """Forty requests of 100 KB: ten are held, the others relayed and counted `memory`; once the
    arm's deadline is over, requests are mirrored again."""
    body = b"x" * 100_000
    async with upstream(answering(OK)) as primary, upstream(hang) as candidate:
        arms = {"fp8": {"url": candidate.url, "deadline": "600ms"}}
        limits = {"mirror_bytes": "1MiB", "request_bytes": "1MiB", "queue_bytes": "1MiB"}
        async with proxy(primary.url, arms, limits=limits) as stage, client(stage.port) as user:
            held = stage.proxy.mirror.held
            for _ in range(40):
                await user.write(chat(body))
                assert await user.exactly(len(OK)) == OK
                assert held.open_bytes <= MIB
            dropped = stage.ledger.counts["fp8", "dropped", "memory"]
            assert dropped >= 31
            assert stage.ledger.counts["primary", "dropped", "memory"] == dropped
            assert held.open_bytes >= (40 - dropped) * len(body)
            await until(lambda: held.open_bytes == 0)
            await user.write(chat(body))
            assert await user.exactly(len(OK)) == OK
            await until(lambda: ("fp8", "captured", "") in stage.ledger.counts)
            await stage.publisher.wait_for(2 * (41 - dropped))
            assert stage.ledger.counts["fp8", "dropped", "memory"] == dropped
            for name in ("primary", "fp8"):
                assert stage.ledger.balanced(name)


@in_loop
async def test_an_upload_in_crumbs_is_counted_as_it_comes():
    """Chunks of one byte, and no length at its head: dropped when the bound is met, relayed."""
    chunked = b"1\r\nx\r\n" * 60_000 + b"0\r\n\r\n"
    head = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def script(connection):
        await connection.until(b"0\r\n\r\n")
        await connection.write(OK)

    async with upstream(script) as primary, upstream(answering(OK)) as candidate:
        limits = dict.fromkeys(("mirror_bytes", "request_bytes", "queue_bytes"), "50000B")
        arms = {"fp8": candidate.url}
        async with proxy(primary.url, arms, limits=limits) as stage, client(stage.port) as user:
            await user.write(head + chunked)
            assert await user.exactly(len(OK)) == OK
            assert stage.ledger.counts["fp8", "dropped", "memory"] == 1
            assert stage.ledger.counts["primary", "dropped", "memory"] == 1
            assert stage.ledger.balanced("fp8")
            assert not candidate.connections
        assert primary.connections[0].received == head + chunked


@in_loop
async def test_what_an_arm_has_captured_goes_when_it_is_published():
    """Though the primary's stream lasts: `mirror_bytes` counts all that is held, and that is all."""
    on = asyncio.Event()

    async def slow(connection):
        await connection.request()
        await connection.write(OK[:-1])
        await on.wait()
        await connection.write(OK[-1:])

    large = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + bytes(1_000_000)
    async with upstream(slow) as primary, upstream(answering(large)) as candidate:
        async with proxy(primary.url, {"fp8": candidate.url}) as stage, client(stage.port) as user:
            await user.write(chat(b'{"model":"m"}'))
            await until(lambda: stage.ledger.counts.get(("fp8", "captured", "")))
            gc.collect()
            open_ = [each.arm for each in gc.get_objects() if isinstance(each, Capture)]
            on.set()
            assert await user.exactly(len(OK)) == OK
        assert open_ == ["primary"]


def test_an_answer_in_crumbs_weighs_what_is_counted():
    """A megabyte in pieces of 2 bytes: less than a fourth more than `size_bytes` says."""
    kept = capture(64 * MIB)
    tracemalloc.start()
    try:
        for n in range(512):
            kept.append(n + 1, [b"%d" % (10 + n % 90) for _ in range(1024)])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert MIB < kept.size_bytes < MIB + 20_000
    assert held < 1.25 * kept.size_bytes
    kept.leave()
    assert kept._side.held.open_bytes == 0


def test_without_room_a_capture_keeps_its_beginning_and_its_end():
    """The bound is met inside the answer: what is missing is counted, marks go on."""
    kept = capture(CAPTURE_BYTES + 2 + 64 * 1024)
    whole = bytes(n % 251 for n in range(400_000))
    for at in range(0, len(whole), 4000):
        kept.append(at + 1, [whole[at : at + 4000]])
    assert kept._side.held.open_bytes <= CAPTURE_BYTES + 66_000 + 2 * 1000
    kept.end(10**6, "complete")
    exchange = decode(kept.message(1).value)
    assert exchange.truncated_bytes == len(whole) - exchange.captured_bytes
    assert exchange.body == whole[: len(exchange.body) - 1000] + whole[-1000:]
    assert exchange.captured_bytes >= 64 * 1024
    assert exchange.marks[-1][1] == len(whole)


def test_without_room_the_last_mark_moves():
    """A body that comes byte by byte: its marks are 16 bytes each, and bounded too."""
    kept = capture(CAPTURE_BYTES + 65_536 + 4096, answer_bytes=1000)
    for n in range(20_000):
        kept.append(n + 1, [b"x"])
    kept.end(10**6, "complete")
    marks = decode(kept.message(1).value).marks
    assert len(marks) <= 256 + 4096
    assert marks[-1] == (20_000, 20_000)
    kept.leave()
    kept.leave()
    assert kept._side.held.open_bytes == 0
