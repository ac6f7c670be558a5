"""The mirror's promises: whatever an arm does, the client's bytes are the same and the books balance."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import replace

import pytest
from relay.raw import answering, black_hole, client, hang, in_loop, proxy, until, upstream

from shadow.capture.subject import subject_of
from shadow.mirror import plans
from shadow.mirror.arm_request import ArmRequest

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EVENTS = [b"data: %d\n\n" % n for n in range(5)]
STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in EVENTS)
    + b"0\r\n\r\n"
)


def chat(
    body: bytes = b'{"model":"m"}', fields: bytes = b"", path: bytes = b"/v1/chat/completions"
) -> bytes:
    head = b"POST %b HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n" % (
        path,
        fields,
        len(body),
    )
    return head + body


async def refuse(connection):
    connection.reset()


async def reset_in_the_stream(connection):
    await connection.request()
    await connection.write(STREAM[:120])
    connection.reset()


async def cut_the_stream(connection):
    await connection.request()
    await connection.write(STREAM[:120])


async def nonsense(connection):
    await connection.request()
    await connection.write(b"nonsense\r\n\r\n")


BAD_ARMS = {
    "hangs": (hang, "timed_out"),
    "resets at accept": (refuse, "reset"),
    "resets in the stream": (reset_in_the_stream, "reset"),
    "cuts the stream": (cut_the_stream, "truncated"),
    "answers nonsense": (nonsense, "malformed"),
    "answers 500": (answering(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), "complete"),
    "streams": (answering(STREAM), "complete"),
}


async def beside(arms: dict[str, object]):
    """Five requests of one keep-alive client beside these arms: (the arm's exchanges, the ledger)."""
    async with upstream(answering(STREAM)) as primary, proxy(primary.url, arms) as stage:
        async with client(stage.port) as user:
            for _ in range(5):
                begun = time.monotonic()
                await user.write(chat())
                assert await user.exactly(len(STREAM)) == STREAM
                assert time.monotonic() - begun < 0.9
        exchanges = await stage.publisher.wait_for(5 + 5 * len(arms))
        for name in ("primary", *arms):
            assert stage.ledger.counts[name, "eligible", ""] == 5
            assert stage.ledger.counts[name, "captured", ""] == 5
            assert stage.ledger.balanced(name)
        for exchange in exchanges:
            if exchange.arm == "primary":
                assert exchange.transport == "complete"
                assert exchange.body == b"".join(EVENTS)
        return [exchange for exchange in exchanges if exchange.arm != "primary"]


@pytest.mark.parametrize("name", BAD_ARMS)
@in_loop
async def test_an_arm_s_fault_is_the_arm_s_alone(name):
    """The client's bytes and time are as ever, the arm's record has the word, the sums are right."""
    script, word = BAD_ARMS[name]
    async with upstream(script) as arm:
        exchanges = await beside({"fp8": {"url": arm.url, "deadline": "1s"}})
    assert {exchange.transport for exchange in exchanges} == {word}
    assert all((exchange.error is None) == (word == "complete") for exchange in exchanges)


@in_loop
async def test_a_dead_arm():
    """Connection refused: recorded as connect_failed, at once."""
    async with upstream(answering(OK)) as gone:
        url = gone.url
    exchanges = await beside({"fp8": url})
    assert {exchange.transport for exchange in exchanges} == {"connect_failed"}
    assert all(exchange.status is None and exchange.marks == [] for exchange in exchanges)


@in_loop
async def test_a_black_hole():
    """SYN without an answer: the connect timeout ends it, the client knows nothing of it."""
    async with black_hole() as dark:
        exchanges = await beside({"fp8": {"url": dark.url, "connect_timeout": "100ms"}})
    assert {exchange.transport for exchange in exchanges} == {"connect_failed"}


@in_loop
async def test_one_deadline_covers_the_connect_too():
    """A deadline below the connect timeout ends it as timed_out."""
    async with black_hole() as dark:
        exchanges = await beside({"fp8": {"url": dark.url, "deadline": "150ms"}})
    assert {exchange.transport for exchange in exchanges} == {"timed_out"}


@in_loop
async def test_an_unresolved_arm():
    """A name that does not resolve is the arm's failure."""

    def lookup(host, port):
        raise OSError("no such name")

    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url, {"fp8": "http://no.test"}, lookup=lookup) as stage,
    ):
        async with client(stage.port) as user:
            await user.write(chat())
            assert await user.exactly(len(OK)) == OK
        exchanges = await stage.publisher.wait_for(2)
    assert exchanges[1].transport == "connect_failed"
    assert "not resolved" in exchanges[1].error


@in_loop
async def test_three_arms_each_get_every_request():
    """Two candidates, one of them dead slow, and a control: none takes another's share."""
    async with upstream(answering(STREAM)) as good, upstream(hang) as hung:
        exchanges = await beside(
            {
                "fp8": good.url,
                "hung": {"url": hung.url, "deadline": "1s"},
                "control": {"url": good.url, "role": "control"},
            }
        )
    words = {(exchange.arm, exchange.transport) for exchange in exchanges}
    assert words == {("fp8", "complete"), ("hung", "timed_out"), ("control", "complete")}


@in_loop
async def test_concurrency_is_bounded_per_arm():
    """One more than the arm may have is dropped and counted; nobody waits."""
    async with upstream(answering(OK)) as primary, upstream(hang) as arm:
        arms = {"fp8": {"url": arm.url, "concurrency": 2, "deadline": "200ms"}}
        async with proxy(primary.url, arms) as stage, client(stage.port) as user:
            for _ in range(5):
                await user.write(chat())
                await user.exactly(len(OK))
            await stage.publisher.wait_for(7)
            assert stage.ledger.counts["fp8", "dropped", "concurrency"] == 3
            assert stage.ledger.counts["fp8", "captured", ""] == 2
            assert stage.ledger.balanced("fp8")


@in_loop
async def test_an_arm_s_request_is_built():
    """Own Host, the complete body, one Content-Length; no hop fields, Expect, Trailer, digests,
    credentials or steering; the configured headers; the mark. The primary's is untouched."""
    fields = (
        b"X-Keep: 1\r\nAuthorization: Bearer secret\r\nCookie: a=b\r\nProxy-Authorization: x\r\n"
        b"X-Api-Key: k\r\nApi-Key: k\r\nx-request-id: r\r\nX-Worker-Instance-Id: 3\r\n"
        b"X-Data-Parallel-Rank: 1\r\nx-session-id: s\r\nDigest: d\r\nContent-Digest: d\r\n"
        b"Trailer: T\r\nX-Tenant: t\r\nUser-Agent: ua\r\n"
    )
    request = (
        b"POST /v1/chat/completions?key=1&user=2 HTTP/1.1\r\nHost: h\r\n"
        + fields
        + b"Connection: x-mine\r\nX-Mine: 1\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b'3\r\n{"a\r\n5\r\n": 1}\r\n0\r\nT: v\r\n\r\n'
    )

    async def script(connection):
        await connection.until(b"T: v\r\n\r\n")
        await connection.write(OK)

    async with upstream(script) as primary, upstream(answering(OK)) as arm:
        arms = {
            "fp8": {
                "url": arm.url + "/base",
                "headers": {
                    "set": {"authorization": "Bearer mine", "x-new": "n"},
                    "remove": ["x-tenant"],
                },
            }
        }
        async with proxy(primary.url, arms) as stage, client(stage.port) as user:
            await user.write(request)
            await user.exactly(len(OK))
            exchanges = await stage.publisher.wait_for(2)
            port = arm.port
    assert fields in primary.connections[0].received
    assert arm.connections[0].received == (
        b"POST /base/v1/chat/completions?user=2 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
        b"X-Keep: 1\r\nUser-Agent: ua\r\nContent-Length: 8\r\nx-shadow-arm: fp8\r\n"
        b'authorization: Bearer mine\r\nx-new: n\r\n\r\n{"a": 1}' % port
    )
    by_primary, by_arm = exchanges
    assert by_primary.request == b'{"a": 1}'
    assert by_primary.path == "/v1/chat/completions"
    assert by_primary.request_changes == []
    assert {"header:authorization", "query:key"} <= set(by_arm.request_changes)
    assert primary.connections[0].received.startswith(b"POST /v1/chat/completions?key=1&user=2 ")
    assert {"header:x-tenant", "header:x-new", "header:cookie"} <= set(by_arm.request_changes)
    assert by_arm.request is None
    assert b"secret" not in by_primary.model_dump_json().encode()
    assert by_primary.pair_id == by_arm.pair_id
    assert by_primary.arrived_at == by_arm.arrived_at


@pytest.mark.parametrize("header", ["x-user-id", "user-agent"])
@in_loop
async def test_every_record_of_a_request_says_whose_it_is(header):
    """A salted hash of the configured field, the same on each arm's; its value nowhere, not even
    where the field is one that would be recorded."""
    fields = b"%b: alice-4711 \r\n" % header.encode().title()
    salt = "a salt of enough characters"
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(
            primary.url,
            {"fp8": candidate.url, "int4": candidate.url},
            subject={"header": header, "salt": salt},
        ) as stage,
        client(stage.port) as user,
    ):
        for request in (chat(fields=fields), chat()):
            await user.write(request)
            await user.exactly(len(OK))
        exchanges = await stage.publisher.wait_for(6)
    expected = subject_of(b"alice-4711", salt)
    assert [exchange.subject for exchange in exchanges] == [expected] * 3 + [None] * 3
    assert not any("alice" in exchange.model_dump_json() for exchange in exchanges)


@in_loop
async def test_without_a_configured_field_nobody_is_told():
    """No subject, whatever the request says."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(chat(fields=b"x-user-id: alice\r\n"))
        await user.exactly(len(OK))
        exchanges = await stage.publisher.wait_for(2)
    assert [exchange.subject for exchange in exchanges] == [None, None]


SKIPPED = {
    "marked": (chat(fields=b"X-Shadow-Arm: other\r\n"), {}),
    "opted_out": (chat(fields=b"x-shadow: off\r\n"), {}),
    "not_sampled": (chat(), {"sample": 0.0}),
    "body_too_large": (chat(b"x" * 2000), {}),
}


@pytest.mark.parametrize("reason", SKIPPED)
@in_loop
async def test_skipped_requests_are_counted_with_their_reason(reason):
    """Eligible, not meant for an arm: relayed all the same, and the reason is in the books."""
    request, arm = SKIPPED[reason]
    async with upstream(answering(OK)) as primary, upstream(answering(OK)) as candidate:
        arms = {"fp8": {"url": candidate.url, **arm}}
        async with proxy(primary.url, arms, limits={"request_bytes": "1KiB"}) as stage:
            async with client(stage.port) as user:
                await user.write(request)
                assert await user.exactly(len(OK)) == OK
            for name in ("primary", "fp8"):
                assert stage.ledger.counts == {
                    **stage.ledger.counts,
                    (name, "eligible", ""): 1,
                    (name, "skipped", reason): 1,
                }
                assert stage.ledger.balanced(name)
            assert primary.connections[0].received == request
            assert not candidate.connections
            assert not stage.publisher.exchanges


@in_loop
async def test_a_chunked_body_that_grows_too_large_is_skipped():
    """Its length was not known at the head: the primary gets it whole, the arms nothing."""
    body = b"".join(b"200\r\n" + b"x" * 512 + b"\r\n" for _ in range(8)) + b"0\r\n\r\n"
    head = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}, limits={"request_bytes": "1KiB"}) as stage,
    ):
        async with client(stage.port) as user:
            await user.write(head + body)
            assert await user.exactly(len(OK)) == OK
        assert stage.ledger.counts["fp8", "skipped", "body_too_large"] == 1
        assert stage.ledger.counts["primary", "skipped", "body_too_large"] == 1
        assert primary.connections[0].received == head + body


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /v1/chat/completions HTTP/1.1\r\nHost: h\r\n\r\n",
        chat(path=b"/v1/models"),
        chat(path=b"/v1/chat/completions/x"),
        b"PUT /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
    ],
)
@in_loop
async def test_only_posts_to_the_listed_paths_are_eligible(request_bytes):
    """Everything else is relayed and not counted."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(request_bytes)
        await user.exactly(len(OK))
        assert stage.ledger.counts == {}


@pytest.mark.parametrize(
    "body", [b"Content-Length: 0\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"\r\n"]
)
@in_loop
async def test_empty_bodies_are_mirrored(body):
    """No body, an empty one, empty chunks: the arm gets Content-Length: 0."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(b"POST /v1/embeddings?x HTTP/1.1\r\nHost: h\r\n" + body)
        await user.exactly(len(OK))
        await stage.publisher.wait_for(2)
        assert b"\r\nContent-Length: 0\r\n" in candidate.connections[0].received


@in_loop
async def test_the_arm_starts_when_the_primary_has_the_last_byte():
    """Nothing goes to an arm before; and it does not wait for the primary's answer."""
    async with (
        upstream(hang) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        request = chat(b"x" * 100)
        await user.write(request[:-1])
        await until(lambda: primary.connections and primary.connections[0].received == request[:-1])
        assert not candidate.connections
        await user.write(request[-1:])
        await stage.publisher.wait_for(1)
        assert stage.publisher.exchanges[0].arm == "fp8"


@in_loop
async def test_a_request_that_the_client_never_finished():
    """Dropped request_incomplete on every arm, the primary's too."""
    async with upstream(hang) as primary, upstream(answering(OK)) as candidate:
        async with proxy(primary.url, {"fp8": candidate.url}) as stage:
            async with client(stage.port) as user:
                await user.write(chat(b"x" * 100)[:-1])
                await until(lambda: primary.connections)
            await until(lambda: stage.ledger.counts)
            for name in ("primary", "fp8"):
                assert stage.ledger.counts[name, "dropped", "request_incomplete"] == 1
                assert stage.ledger.balanced(name)
        assert not candidate.connections


@in_loop
async def test_a_primary_that_cannot_be_reached():
    """The arms get nothing that the primary never got; the primary's record says why."""
    async with upstream(answering(OK)) as gone:
        url = gone.url
    async with (
        upstream(answering(OK)) as candidate,
        proxy(url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(chat())
        assert (await user.rest()).startswith(b"HTTP/1.1 502 ")
        assert "refused" in stage.publisher.exchanges[0].error
        (exchange,) = await stage.publisher.wait_for(1)
        assert (exchange.arm, exchange.transport) == ("primary", "connect_failed")
        assert stage.ledger.counts["fp8", "dropped", "primary_unreachable"] == 1
        assert stage.ledger.balanced("fp8")
        assert not candidate.connections


@in_loop
async def test_a_primary_that_cannot_be_reached_while_a_request_comes():
    """Half a request, and no connection: that is why it is dropped, on every arm."""
    async with upstream(answering(OK)) as gone:
        url = gone.url
    async with (
        upstream(answering(OK)) as candidate,
        proxy(url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(chat(b"x" * 100)[:-1])
        assert (await user.rest()).startswith(b"HTTP/1.1 502 ")
        for name in ("primary", "fp8"):
            assert stage.ledger.counts[name, "dropped", "primary_unreachable"] == 1
            assert stage.ledger.balanced(name)


@in_loop
async def test_a_client_s_disconnect_censors_both_sides(monkeypatch):
    """The primary ends at once; the arm, which begins 100 ms later, at the same elapsed time, never
    sooner; both say client_disconnected."""
    loop, begin = asyncio.get_running_loop(), ArmRequest.begin
    monkeypatch.setattr(ArmRequest, "begin", lambda it: loop.call_later(0.1, begin, it))
    later_ms = [await _censored_later_ms() for _ in range(3)]
    assert min(later_ms) > -2  # the timer's resolution
    assert min(later_ms) < 40  # one of them is not held up by the machine


async def _censored_later_ms() -> float:
    """By how much the arm ran longer than the primary."""

    async def begin(connection):
        await connection.request()
        await connection.write(STREAM[:120])
        await connection.rest()

    async with (
        upstream(begin) as primary,
        upstream(begin) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
    ):
        async with client(stage.port) as user:
            await user.write(chat())
            await user.until(b"\r\n\r\n")
            await asyncio.sleep(0.15)
        exchanges = await stage.publisher.wait_for(2)
        assert [e.transport for e in exchanges] == ["client_disconnected"] * 2
        by_primary, by_arm = (e.end_ns - e.sent_ns for e in exchanges)
        assert by_primary > 145_000_000
        await asyncio.wait_for(asyncio.gather(*primary.tasks, *candidate.tasks), 2)
    return (by_arm - by_primary) / 1e6


@in_loop
async def test_an_arm_that_ended_before_the_disconnect_is_complete():
    """It has its whole answer: nothing is censored."""
    async with (
        upstream(hang) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
    ):
        async with client(stage.port) as user:
            await user.write(chat())
            await stage.publisher.wait_for(1)
        exchanges = await stage.publisher.wait_for(2)
        assert [e.transport for e in exchanges] == ["client_disconnected", "complete"]


@in_loop
async def test_a_burst_of_requests_leaves_the_loop_its_turns(monkeypatch):
    """Arms are started for a bounded time, then what else is ready has its turn, and so on."""
    monkeypatch.setattr(plans, "TURN_NS", 0)
    loop, seen = asyncio.get_running_loop(), []

    class Ready:
        def perform(self) -> bool:
            loop.call_soon(lambda: seen.append("other"))
            seen.append("plan")
            return True

        def start_next(self) -> bool:
            return False

    async with proxy("http://127.0.0.1:9", {"fp8": "http://127.0.0.1:9"}) as stage:
        for _ in range(3):
            stage.proxy.mirror.plans.perform_soon(Ready())
        await until(lambda: len(seen) == 6)
    assert seen == ["plan", "other"] * 3


@in_loop
async def test_an_exception_in_mirror_code_stays_there():
    """A fault of ours in deciding, keeping or starting changes nothing for the client."""
    async with upstream(answering(OK)) as primary, upstream(answering(OK)) as candidate:
        for place in ("_exact", "primary", "perform_soon"):
            async with (
                proxy(primary.url, {"fp8": candidate.url}) as stage,
                client(stage.port) as user,
            ):
                mirror = stage.proxy.mirror
                setattr(mirror.plans if place == "perform_soon" else mirror, place, None)
                await user.write(chat())
                assert await user.exactly(len(OK)) == OK
                assert stage.totals.mirror_errors >= 1
                assert "Error" in stage.totals.last_mirror_error
                stage.totals.mirror_errors = 0
                stage.ledger.held.clear()


@in_loop
async def test_an_exception_in_a_capture_stays_there():
    """The client gets its stream whole, the request shows as lost, no window is held open."""
    async with (
        upstream(answering(STREAM)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        broken = replace(stage.proxy.mirror.primary, answer_bytes=0, answer_tail=None)
        stage.proxy.mirror.primary = broken
        for _ in range(2):
            await user.write(chat())
            assert await user.exactly(len(STREAM)) == STREAM
        await until(lambda: len(stage.publisher.exchanges) == 2)
        assert {exchange.arm for exchange in stage.publisher.exchanges} == {"fp8"}
        await until(lambda: not stage.ledger.held)
        assert stage.ledger.counts["primary", "sampled", ""] == 2
        assert stage.totals.mirror_errors == 2
        stage.totals.mirror_errors = 0


@in_loop
async def test_marks_count_decoded_bytes_from_the_sent_request():
    """Each event has its mark; ends count body bytes after transfer decoding; times grow."""

    async def script(connection):
        await connection.request()
        await connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in EVENTS:
            await connection.write(b"%x\r\n%b\r\n" % (len(event), event))
            await asyncio.sleep(0.01)
        await connection.write(b"0\r\n\r\n")

    async with (
        upstream(script) as primary,
        upstream(script) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(
            chat(b'{"model":"m","stream":true,"messages":[{}],"max_tokens":5,"temperature":0}')
        )
        await user.until(b"\r\n0\r\n\r\n")
        exchanges = await stage.publisher.wait_for(2)
    for exchange in exchanges:
        assert [end for _, end in exchange.marks] == [9, 18, 27, 36, 45]
        times = [at for at, _ in exchange.marks]
        assert times == sorted(times)
        assert all(later - sooner >= 5_000_000 for sooner, later in itertools.pairwise(times))
        assert times[-1] <= exchange.end_ns - exchange.sent_ns
        assert exchange.first_byte_ns <= exchange.sent_ns + times[0]
        facts = exchange.request_facts
        assert (facts.model, facts.streamed, facts.turns, facts.max_tokens) == ("m", True, 1, 5)


@in_loop
async def test_a_slow_client_s_wait_is_measured():
    """client_wait_ns says how long a full client held the primary's answer back."""
    size = 24 * 2**20
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    async with (
        upstream(answering(answer)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        user.writer.transport.pause_reading()
        await user.write(chat())
        await asyncio.sleep(0.2)
        user.writer.transport.resume_reading()
        await user.exactly(len(answer))
        exchanges = await stage.publisher.wait_for(2)
    assert 0.1e9 < exchanges[0].client_wait_ns < 5e9
    assert exchanges[1].client_wait_ns == 0
    assert exchanges[0].truncated_bytes == size - 8 * 2**20 - 64 * 2**10
    assert exchanges[0].marks[-1][1] == size


@in_loop
async def test_drain_drops_open_mirrors_as_shutdown():
    """Never failures: no record, counted; the client's stream was whole."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(hang) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
    ):
        async with client(stage.port) as user:
            await user.write(chat())
            assert await user.exactly(len(OK)) == OK
            await until(lambda: candidate.connections)
        await stage.proxy.drain(1)
        assert stage.ledger.counts["fp8", "dropped", "shutdown"] == 1
        assert stage.ledger.balanced("fp8")
        assert [e.arm for e in stage.publisher.exchanges] == ["primary"]


@in_loop
async def test_a_request_that_comes_while_draining_is_counted():
    """Its head had begun before: it is answered, no arm gets it, and the books say why."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(chat()[:20])
        await until(lambda: stage.totals.open_connections == 1)
        await asyncio.sleep(0.02)
        draining = asyncio.ensure_future(stage.proxy.drain(5))
        await asyncio.sleep(0.02)
        await user.write(chat()[20:])
        assert (await user.rest()).endswith(b"ok")
        await asyncio.wait_for(draining, 2)
        for name in ("primary", "fp8"):
            assert stage.ledger.counts[name, "skipped", "draining"] == 1
            assert stage.ledger.balanced(name)
        assert not candidate.connections


@in_loop
async def test_a_cut_stream_says_cut_by_drain():
    """The primary's record of a stream that the drain cut."""
    async with (
        upstream(hang) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(chat())
        await stage.publisher.wait_for(1)
        await stage.proxy.drain(0)
        exchanges = await stage.publisher.wait_for(2)
        assert exchanges[0].transport == "cut_by_drain"


@in_loop
async def test_pairs_are_never_mixed():
    """A hundred parallel streams, each echoing its nonce: every pair keeps its own."""

    async def echo(connection):
        while True:
            _, body = await connection.request()
            for part in (
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body),
                body[:3],
                body[3:],
            ):
                await connection.write(part)
                await asyncio.sleep(0)

    async with (
        upstream(echo) as primary,
        upstream(echo) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
    ):

        async def one(n):
            async with client(stage.port) as user:
                for turn in range(3):
                    nonce = b'{"nonce": "%d-%d"}' % (n, turn)
                    await user.write(chat(nonce))
                    assert (await user.request())[1] == nonce

        await asyncio.gather(*(one(n) for n in range(100)))
        exchanges = await stage.publisher.wait_for(600)
    pairs = {}
    for exchange in exchanges:
        pairs.setdefault(exchange.pair_id, {})[exchange.arm] = exchange
    assert len(pairs) == 300
    for pair in pairs.values():
        assert pair["primary"].body == pair["fp8"].body == pair["primary"].request
    assert len({exchange.sequence for exchange in exchanges}) == 600


@in_loop
async def test_a_stale_retry_is_one_exchange():
    """The primary's record after a retry is that of the answer, and the arm got one copy."""
    seen = []

    async def script(connection):
        await connection.request()
        seen.append(1)
        await connection.write(OK)
        await connection.request()
        seen.append(1)

    async with (
        upstream(script) as primary,
        upstream(answering(OK)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await user.exactly(len(OK))
        await user.write(chat())
        assert await user.exactly(len(OK)) == OK
        exchanges = await stage.publisher.wait_for(2)
    assert [e.transport for e in exchanges] == ["complete", "complete"]
    assert exchanges[0].connect_ns is not None
    assert len(seen) == 3
    assert candidate.connections[0].received.count(b"POST ") == 1
