"""The tap: a gateway's copy is answered 202 and asked of a baseline replica and of the arms."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import time

import pytest
from pydantic import ValidationError
from relay.raw import answering, client, hang, in_loop, proxy, until, upstream

from shadow.mirror.plans import Plans, Waiting

ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
CLOSING = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: api.example-shadow\r\n"
BODY = b'{"model":"m"}'
WHOLE = CHAT + b"Content-Length: 13\r\n\r\n" + BODY


def tapped(url: str, arms: dict[str, object], **settings):
    """A proxy that is attached as a tap."""
    primary = {"url": url, **settings.pop("primary", {})}
    return proxy(primary, arms, attach="tap", **settings)


def asking(body: bytes, path: bytes = b"/v1/chat/completions", fields: bytes = b"") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n%b" % (
        path,
        fields,
        len(body),
        body,
    )


@in_loop
async def test_a_copy_goes_to_the_replica_and_to_the_arms():
    """202 with nothing else; the replica's exchange is the primary's, every record says tap, and the
    books balance."""
    async with (
        upstream(answering(OK)) as replica,
        upstream(answering(OK)) as candidate,
        tapped(replica.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as gateway,
    ):
        for n in (1, 2, 3):
            await gateway.write(WHOLE)
            assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
            await stage.publisher.wait_for(2 * n)
        exchanges = await stage.publisher.wait_for(6)
        assert [e.arm for e in exchanges] == ["primary", "fp8"] * 3
        assert {e.attach for e in exchanges} == {"tap"}
        assert {(e.transport, e.status, e.body) for e in exchanges} == {("complete", 200, b"ok")}
        assert len({e.pair_id for e in exchanges}) == 3
        assert exchanges[0].request == BODY
        assert len(replica.connections) == len(candidate.connections) == 1
        for arm in ("primary", "fp8"):
            assert stage.ledger.counts[(arm, "captured", "")] == 3
            assert stage.ledger.balanced(arm)
        assert stage.totals.by_class[2] == 3


@in_loop
async def test_both_sides_requests_are_built_alike():
    """Own Host, whatever the gateway made of it; the mark; no credentials but the configured ones."""
    fields = (
        b"Authorization: Bearer theirs\r\nX-Request-Id: 7\r\nX-Envoy-Internal: true\r\n"
        b"Content-Length: 13\r\n\r\n"
    )
    own = {"headers": {"set": {"x-api-key": "ours"}}}
    async with (
        upstream(answering(OK)) as replica,
        upstream(answering(OK)) as candidate,
        tapped(replica.url, {"fp8": {"url": candidate.url, **own}}, primary=own) as stage,
        client(stage.port) as gateway,
    ):
        await gateway.write(CHAT + fields + BODY)
        exchanges = await stage.publisher.wait_for(2)
        for side, name in ((replica, b"primary"), (candidate, b"fp8")):
            got = side.connections[0].received
            assert b"\r\nHost: 127.0.0.1:%d\r\n" % side.port in got
            assert b"\r\nx-shadow-arm: %b\r\n" % name in got
            assert b"\r\nx-api-key: ours\r\n" in got
            assert b"theirs" not in got
            assert b"-shadow\r\n" not in got
            assert got.endswith(b"\r\n\r\n" + BODY)
        changed = ["header:authorization", "header:x-api-key", "header:x-request-id"]
        assert [sorted(e.request_changes) for e in exchanges] == [changed, changed]


@in_loop
async def test_the_gateway_waits_for_nobody():
    """A replica that hangs, an arm that hangs: a hundred copies on one connection have their 202 at
    once, whatever either does; the deadline ends both, recorded as such."""
    async with (
        upstream(hang) as replica,
        upstream(hang) as candidate,
        tapped(
            replica.url,
            {"fp8": {"url": candidate.url, "deadline": "500ms"}},
            primary={"deadline": "500ms"},
        ) as stage,
        client(stage.port) as gateway,
    ):
        begun = time.monotonic()
        for _ in range(100):
            await gateway.write(WHOLE)
            assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        assert time.monotonic() - begun < 0.5
        assert stage.totals.open_streams == 100
        exchanges = await stage.publisher.wait_for(200)
        assert {e.transport for e in exchanges} == {"timed_out"}
        assert stage.totals.open_streams == 0


@pytest.mark.parametrize("coding", ["length", "chunks", "crumbs"])
@in_loop
async def test_the_body_is_read_whole_before_the_202(coding):
    """Streamed while it comes, kept, and then one length."""
    size = 5000
    body = b"x" * size
    parts = {
        "length": [b"Content-Length: %d\r\n\r\n" % size, body[:100], body[100:]],
        "chunks": [
            b"Transfer-Encoding: chunked\r\n\r\n",
            b"%x\r\n%b\r\n" % (size, body),
            b"0\r\n\r\n",
        ],
        "crumbs": [b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * size, b"0\r\n\r\n"],
    }[coding]
    async with (
        upstream(answering(OK)) as replica,
        upstream(answering(OK)) as candidate,
        tapped(replica.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as gateway,
    ):
        await gateway.write(CHAT)
        for part in parts:
            assert not replica.connections
            await gateway.write(part)
            await asyncio.sleep(0.02)
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        await stage.publisher.wait_for(2)
        for side in (replica, candidate):
            assert side.connections[0].received.endswith(
                b"Content-Length: %d\r\nx-shadow-arm: %b\r\n\r\n"
                % (size, b"primary" if side is replica else b"fp8")
                + body
            )


@in_loop
async def test_expect_is_answered():
    """A gateway that asks before it sends the body is told to."""
    async with (
        upstream(answering(OK)) as replica,
        tapped(replica.url, {"fp8": replica.url}) as stage,
        client(stage.port) as gateway,
    ):
        await gateway.write(CHAT + b"Expect: 100-continue\r\nContent-Length: 13\r\n\r\n")
        assert await gateway.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await gateway.write(BODY)
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        await stage.publisher.wait_for(2)


@pytest.mark.parametrize(
    ("request_bytes", "reason"),
    [
        (b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n", None),
        (b"POST /other HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}", None),
        (CHAT + b"x-shadow: off\r\nContent-Length: 2\r\n\r\n{}", "opted_out"),
        (CHAT + b"x-shadow-arm: a\r\nContent-Length: 2\r\n\r\n{}", "marked"),
        (CHAT + b"Content-Length: 2000\r\n\r\n" + b"x" * 2000, "body_too_large"),
        (
            CHAT + b"Transfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"x" * 2000 + b"\r\n0\r\n\r\n",
            "body_too_large",
        ),
    ],
)
@in_loop
async def test_what_is_not_mirrored_has_its_202_all_the_same(request_bytes, reason):
    """No replica and no arm gets it; the reason is in the books, the next copy is served."""
    async with (
        upstream(answering(OK)) as replica,
        upstream(answering(OK)) as candidate,
        tapped(replica.url, {"fp8": candidate.url}, limits={"request_bytes": "1KiB"}) as stage,
        client(stage.port) as gateway,
    ):
        await gateway.write(request_bytes)
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        if reason:
            assert stage.ledger.counts[("fp8", "skipped", reason)] == 1
            assert stage.ledger.counts[("primary", "skipped", reason)] == 1
        else:
            assert not stage.ledger.counts
        assert not replica.connections
        await gateway.write(WHOLE)
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        await stage.publisher.wait_for(2)
        assert stage.totals.open_streams == 0


@in_loop
async def test_a_replica_that_cannot_be_reached():
    """The arms get nothing that it never got; its record says why."""
    async with upstream(answering(OK)) as gone:
        port = gone.port
    async with (
        upstream(answering(OK)) as candidate,
        tapped(f"http://127.0.0.1:{port}", {"fp8": candidate.url}) as stage,
        client(stage.port) as gateway,
    ):
        await gateway.write(WHOLE)
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        (exchange,) = await stage.publisher.wait_for(1)
        assert (exchange.arm, exchange.transport) == ("primary", "connect_failed")
        assert stage.ledger.counts[("fp8", "dropped", "primary_unreachable")] == 1
        assert not candidate.connections
        assert stage.ledger.balanced("fp8")


@in_loop
async def test_a_full_replica_declines():
    """One more than it may have: dropped on every arm."""
    async with (
        upstream(hang) as replica,
        upstream(answering(OK)) as candidate,
        tapped(replica.url, {"fp8": candidate.url}, primary={"concurrency": 2}) as stage,
        client(stage.port) as gateway,
    ):
        for _ in range(5):
            await gateway.write(WHOLE)
            assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        await until(lambda: stage.ledger.counts.get(("primary", "dropped", "concurrency")) == 3)
        assert stage.ledger.counts[("fp8", "dropped", "concurrency")] == 3
        await stage.publisher.wait_for(2)
        await stage.proxy.drain(0)
        records = {e.transport for e in stage.publisher.exchanges if e.arm == "primary"}
        assert records == {"cut_by_drain"}
        assert stage.totals.cut_by_drain == 2
        assert stage.ledger.balanced("primary")


@in_loop
async def test_a_full_replica_drops_only_what_it_would_have_got():
    """What no arm may have is skipped for its own reason, however full the replica is: else a
    candidate of one model in ten would seem to lose ten times what it does."""
    stateful = json.dumps(
        {"model": "m", "pad": "x" * 300_000, "previous_response_id": "r"}
    ).encode()
    async with (
        upstream(hang) as replica,
        upstream(answering(OK)) as candidate,
        tapped(
            replica.url,
            {"fp8": {"url": candidate.url, "models": {"m": "n"}, "amplify": 2}},
            primary={"concurrency": 1},
        ) as stage,
        client(stage.port) as gateway,
    ):
        bodies = [BODY, b'{"model":"other"}', stateful, b"no json", BODY, gzip.compress(stateful)]
        for body in bodies:
            coded = b"Content-Encoding: gzip\r\n" if body[:1] == b"\x1f" else b""
            await gateway.write(asking(body, fields=coded))
            assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        counts, ledger = stage.ledger.counts, stage.ledger
        await until(lambda: counts.get(("primary", "eligible", "")) == 6)
        for arm, copies in (("primary", 1), ("fp8", 2)):
            assert counts[(arm, "dropped", "concurrency")] == copies
            assert counts[(arm, "skipped", "stateful")] == 2
            assert counts[(arm, "skipped", "model_not_served")] == 1
            assert counts[(arm, "skipped", "not_json")] == 1
            assert counts[(arm, "sampled", "")] == 2 * copies
        await until(lambda: stage.totals.open_streams == 1 and len(ledger.held) == 1)
        replica.connections[0].reset()
        await until(lambda: not stage.totals.open_streams and not ledger.held)
        assert all(ledger.balanced(arm) for arm in ("primary", "fp8"))
        await gateway.write(WHOLE)  # there is room again
        await until(lambda: len(replica.connections) == 2)


@pytest.mark.parametrize("how", ["resets", "ends", "babbles"])
@in_loop
async def test_a_replica_s_fault_is_in_its_record(how):
    """As an arm's is; the candidate's answer is whole."""

    async def script(connection):
        await connection.request()
        if how == "babbles":
            await connection.write(b"hello there\r\n\r\n")
            return
        await connection.write(OK[:-1])
        await asyncio.sleep(0.02)
        if how == "resets":
            connection.reset()

    words = {"resets": "reset", "ends": "truncated", "babbles": "malformed"}
    async with (
        upstream(script) as replica,
        upstream(answering(OK)) as candidate,
        tapped(replica.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as gateway,
    ):
        await gateway.write(WHOLE)
        exchanges = await stage.publisher.wait_for(2)
        assert [e.transport for e in exchanges] == [words[how], "complete"]


@in_loop
async def test_a_copy_that_never_came_whole():
    """The gateway leaves inside the body, or breaks its framing: dropped, request_incomplete."""
    async with (
        upstream(answering(OK)) as replica,
        upstream(answering(OK)) as candidate,
        tapped(replica.url, {"fp8": candidate.url}) as stage,
    ):
        async with client(stage.port) as gateway:
            await gateway.write(CHAT + b"Content-Length: 13\r\n\r\n{")
            await until(lambda: stage.totals.open_streams == 1)
        await until(lambda: stage.ledger.counts.get(("fp8", "dropped", "request_incomplete")) == 1)
        async with client(stage.port) as gateway:
            await gateway.write(CHAT + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n")
            assert (await gateway.rest()).startswith(b"HTTP/1.1 400 ")
        assert stage.ledger.counts[("fp8", "dropped", "request_incomplete")] == 2
        assert not replica.connections
        assert not candidate.connections


@in_loop
async def test_a_drain_closes_after_the_202():
    """A copy that is coming when the drain begins is taken; nothing of it is mirrored."""
    async with (
        upstream(answering(OK)) as replica,
        tapped(replica.url, {"fp8": replica.url}) as stage,
        client(stage.port) as gateway,
    ):
        await gateway.write(CHAT + b"Content-Length: 13\r\n\r\n{")
        await until(lambda: stage.totals.open_streams == 1)
        draining = asyncio.ensure_future(stage.proxy.drain(5))
        await asyncio.sleep(0.05)
        await gateway.write(BODY[1:])
        assert await gateway.rest() == CLOSING
        await asyncio.wait_for(draining, 2)
        assert stage.ledger.balanced("primary")


@pytest.mark.parametrize(
    ("attach", "key", "value"),
    [
        ("inline", "headers", {"remove": ["x"]}),
        ("inline", "deadline", "5s"),
        ("inline", "concurrency", 5),
        ("inline", "allow_external", True),
        ("tap", "forwarded", "append"),
        ("tap", "host", "url"),
        ("tap", "request_id", "make"),
        ("tap", "traceparent", "remove"),
    ],
)
def test_keys_that_mean_nothing_so_attached(attach, key, value):
    """One line that names the key and the way out."""

    async def start():
        async with proxy({"url": "http://127.0.0.1:1", key: value}, attach=attach):
            pass

    with pytest.raises(ValidationError, match=rf"primary\.{key}: "):
        asyncio.run(start())


def test_a_replica_outside_of_the_networks_is_refused():
    """It gets production's prompts as an arm does."""

    async def start(**more):
        async with tapped("http://8.8.8.8:1", {}, primary=more):
            pass

    with pytest.raises(ValidationError, match=r"primary\.url: 8\.8\.8\.8 is outside"):
        asyncio.run(start())
    asyncio.run(start(allow_external=True))


@in_loop
async def test_a_fault_of_ours_leaves_nothing_open():
    """The request cannot be built, on an idle connection or on a new one: the copy has its 202, the
    fault is counted, nothing stays open."""
    async with (
        upstream(answering(OK)) as replica,
        tapped(replica.url, {"fp8": replica.url}) as stage,
        client(stage.port) as gateway,
    ):
        await gateway.write(WHOLE)
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        await stage.publisher.wait_for(2)
        tap = stage.proxy._tap
        built, tap.headers = tap.headers, None
        await gateway.write(WHOLE)
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        await until(lambda: stage.totals.mirror_errors == 1)
        assert not tap.open
        assert stage.totals.open_streams == 0
        assert not tap.relay.pool._idle  # what was half asked is not kept
        await gateway.write(WHOLE)
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        await until(lambda: stage.totals.mirror_errors == 2)
        assert not tap.open
        assert stage.totals.open_streams == 0
        stage.totals.mirror_errors = 0
        tap.headers = built
        await gateway.write(WHOLE)
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        await stage.publisher.wait_for(4)


STATEFUL = [
    (
        b'{"background":true,"previous_response_id":"r","api_key":"SEC1","kv_transfer_params":{"a":1},'
        b'"tools":[{"type":"mcp","server_url":"https://m","authorization":"SEC2"}]}'
    ),
    b'{"input":"x","store":true}',
    b'{"input":[{"type":"item_reference","id":"i"}]}',
    b'{"input":"' + b"x" * 400_000 + b'","b\\u0061ckground":true}',
]


@pytest.mark.parametrize("coding", [b"", b"gzip"])
@pytest.mark.parametrize("body", STATEFUL, ids=["all", "store", "item", "large"])
@in_loop
async def test_what_no_arm_may_have_the_replica_does_not_get(body, coding):
    """Stateful by its body, plain or coded: 202, and nobody is asked; the books say skipped of both
    sides, and the next copy is served."""
    sent = gzip.compress(body) if coding else body
    fields = b"Content-Encoding: gzip\r\n" if coding else b""
    async with (
        upstream(answering(OK)) as replica,
        upstream(answering(OK)) as candidate,
        tapped(replica.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as gateway,
    ):
        await gateway.write(asking(sent, b"/v1/responses", fields))
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        for arm in ("primary", "fp8"):
            await until(lambda arm=arm: stage.ledger.counts.get((arm, "skipped", "stateful")) == 1)
            assert stage.ledger.counts[(arm, "eligible", "")] == 1
            assert (arm, "sampled", "") not in stage.ledger.counts
        assert stage.totals.open_streams == 0
        assert not stage.proxy._tap.open
        await gateway.write(WHOLE)
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        await stage.publisher.wait_for(2)
        for side in (replica, candidate):
            assert [c.received.count(b"POST ") for c in side.connections] == [1]


@in_loop
async def test_nor_what_every_arm_refuses_by_its_configuration():
    """A model that no arm serves reaches nobody; where one arm serves it, the replica is asked."""
    served = {"models": {"m": "m-fp8"}}
    async with (
        upstream(answering(OK)) as replica,
        upstream(answering(OK)) as candidate,
        tapped(replica.url, {"fp8": {"url": candidate.url, **served}}) as stage,
        client(stage.port) as gateway,
    ):
        await gateway.write(asking(b'{"model":"other"}'))
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        await until(lambda: stage.ledger.counts.get(("primary", "skipped", "model_not_served")))
        assert not replica.connections
        await gateway.write(WHOLE)
        await stage.publisher.wait_for(2)
        assert b'{"model":"m"}' in replica.connections[0].received
        assert b'{"model":"m-fp8"}' in candidate.connections[0].received


@pytest.mark.parametrize("coding", [b"", b"gzip"])
@in_loop
async def test_the_replica_s_body_is_changed_as_an_arm_s_but_for_its_wishes(coding):
    """Steering fields and credentials of the body reach neither side; a coding is undone; models and
    parameters stay as the client's at the replica, and are the arm's own at the arm."""
    body = (
        b'{ "model":"m", "api_key":"SEC1","priority":3, "temperature":0.50,'
        b'"kv_transfer_params":{"a":1},"p":"' + b"x" * 100_000 + b'"}'
    )
    fields = b"Content-Encoding: gzip\r\n" if coding else b""
    wishes = {"models": {"m": "m-fp8"}, "params": {"set": {"temperature": 0}}, "amplify": 2}
    async with (
        upstream(answering(OK)) as replica,
        upstream(answering(OK)) as candidate,
        tapped(replica.url, {"fp8": {"url": candidate.url, **wishes}}) as stage,
        client(stage.port) as gateway,
    ):
        await gateway.write(asking(gzip.compress(body) if coding else body, fields=fields))
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        exchanges = await stage.publisher.wait_for(3)
        own, arm = (
            side.connections[0].received.partition(b"\r\n\r\n") for side in (replica, candidate)
        )
        assert own[2].startswith(b'{ "model":"m", "temperature":0.50,"p":"xx')
        assert json.loads(own[2]) == {"model": "m", "temperature": 0.5, "p": "x" * 100_000}
        assert json.loads(arm[2]) == {"model": "m-fp8", "temperature": 0, "p": "x" * 100_000}
        for head in (own[0], arm[0]):
            assert b"ontent-Encoding" not in head
        assert b"\r\nContent-Length: %d\r\n" % len(own[2]) in own[0]
        undone = ["header:content-encoding"] if coding else []
        (mine,) = (e for e in exchanges if e.arm == "primary")
        removed = ["body:api_key", "body:kv_transfer_params", "body:priority"]
        assert sorted(mine.request_changes) == [*removed, *undone]
        assert stage.ledger.counts[("fp8", "captured", "")] == 2
        for name in ("primary", "fp8"):
            assert stage.ledger.balanced(name)


@in_loop
async def test_no_copy_of_a_response_is_stored():
    """Nor by the baseline's replica: it is asked in nobody's name, as the arms are."""
    async with (
        upstream(answering(OK)) as replica,
        upstream(answering(OK)) as candidate,
        tapped(replica.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as gateway,
    ):
        await gateway.write(asking(b'{"input":"hi"}', path=b"/v1/responses"))
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        records = await stage.publisher.wait_for(2)
        for side in (replica, candidate):
            assert side.connections[0].received.endswith(b'{"input":"hi","store":false}')
        assert [each.request_changes.count("body:store") for each in records] == [1, 1]


@in_loop
async def test_a_stop_while_the_body_is_looked_at_asks_nobody():
    """A kill switch that is pulled between the 202 and the replica's turn: dropped, nobody is asked."""
    async with (
        upstream(answering(OK)) as replica,
        upstream(answering(OK)) as candidate,
        tapped(replica.url, {"fp8": candidate.url}) as stage,
        client(stage.port) as gateway,
    ):
        tap, switch = stage.proxy._tap, stage.proxy.mirror.switch
        ask, seen = tap.start, []

        def stopping(plan):
            seen.append(ask(plan))
            switch.killed = "test"
            switch.tick(time.monotonic_ns(), time.time(), 0, busy=True)

        tap.start = stopping
        await gateway.write(WHOLE)
        assert await gateway.exactly(len(ACCEPTED)) == ACCEPTED
        await until(lambda: stage.ledger.counts.get(("fp8", "dropped", "switched_off")) == 1)
        assert seen == [None]
        assert not replica.connections
        assert not candidate.connections
        assert stage.totals.open_streams == 0
        assert stage.ledger.balanced("primary")


MIXED = [
    BODY,
    b"",
    b"no json",
    b'no json "background"',
    b'{"model":"other"}',
    b'{"model":"m","priority":1,"api_key":"SEC1"}',
    b'{"model":"m","api_key":"SEC1","p":"' + b"x" * 300_000 + b'"}',
    *STATEFUL,
]


def fickle(rng: random.Random):
    """Answers, or now and then resets."""

    async def script(connection):
        while True:
            await connection.request()
            if rng.random() < 0.1:
                connection.reset()
                return
            await connection.write(OK)

    return script


async def copies(port: int, rng: random.Random) -> None:
    """A gateway's connections with a few copies each, of which some never come whole."""
    for _ in range(25):
        async with client(port) as one:
            for _ in range(rng.randrange(1, 4)):
                body, fields = rng.choice(MIXED), b""
                if rng.random() < 0.3:
                    body, fields = gzip.compress(body), b"Content-Encoding: gzip\r\n"
                whole = asking(body, fields=fields)
                if rng.random() < 0.1:
                    await one.write(whole[:-1])
                    break
                await one.write(whole)
                assert await one.exactly(len(ACCEPTED)) == ACCEPTED


@pytest.mark.parametrize("seed", range(4))
@in_loop
async def test_the_books_are_the_replica_s_own_count(seed):
    """Any mixture of bodies, replicas that fail, gateways that leave: eligible is sampled and skipped,
    what was reached is what the replica read, and nothing stateful or secret is in it."""
    rng = random.Random(seed)
    async with upstream(fickle(rng)) as replica, upstream(fickle(rng)) as candidate:
        arms = {
            "plain": {"url": candidate.url},
            "picky": {"url": candidate.url, "models": {"m": "n"}, "sample": 0.5},
            "late": {
                "url": candidate.url,
                "start": "after_primary",
                "params": {"remove": ["p"]},
            },
        }
        async with tapped(
            replica.url,
            arms,
            primary={"concurrency": 3},
            limits={"mirror_bytes": "2MiB", "request_bytes": "1MiB", "queue_bytes": "1MiB"},
        ) as stage:
            await asyncio.gather(*(copies(stage.port, rng) for _ in range(4)))
            await until(lambda: not stage.totals.open_streams and not stage.ledger.held)
            counts = stage.ledger.counts

            def total(arm, counter):
                return sum(n for (a, c, _), n in counts.items() if (a, c) == (arm, counter))

            for arm in ("primary", *arms):
                assert total(arm, "eligible") == total(arm, "sampled") + total(arm, "skipped")
                assert stage.ledger.balanced(arm)
            got = b"".join(c.received for c in replica.connections)
            assert got.count(b"POST ") == total("primary", "reached") > 10
            assert counts[("primary", "skipped", "stateful")] > 5
            for never in (b"SEC", b"background", b"priority"):
                assert never not in got


class Twice(Waiting):
    """Asks for its turn again while it has it, as a plan does whose replica is sent at once."""

    def __init__(self, plans: Plans, log: list[str]) -> None:
        self._plans, self._log = plans, log

    def perform(self) -> bool:
        self._log.append("performed")
        if len(self._log) == 1:
            self._plans.perform_soon(self)
        return True

    def start_next(self) -> bool:
        return False

    def go_on(self) -> bool:
        return True

    def give_up(self, reason: str) -> None:
        raise AssertionError(reason)

    def abandon(self) -> None:
        raise AssertionError


@in_loop
async def test_the_loop_writes_between_the_replica_and_the_arms():
    """What is asked for within a turn waits for the next: the replica's bytes are on their way before
    the arms' requests are built, whose cost would else be in the replica's times alone."""
    log: list[str] = []
    plans = Plans(lambda error, plan: log.append(f"{error} {plan}"))
    plans.perform_soon(Twice(plans, log))
    asyncio.get_running_loop().call_soon(lambda: log.append("the loop's own"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert log == ["performed", "the loop's own", "performed"]


@in_loop
async def test_a_slow_upload_ends_at_its_own_deadline():
    """Its head came first, and it is whole last: what was whole before it does not keep it."""
    async with (
        upstream(hang) as replica,
        upstream(answering(OK)) as candidate,
        tapped(replica.url, {"fp8": candidate.url}, primary={"deadline": "800ms"}) as stage,
        client(stage.port) as slow,
        client(stage.port) as quick,
    ):
        await slow.write(WHOLE[:-1])
        await asyncio.sleep(0.6)
        await quick.write(WHOLE)
        await quick.exactly(len(ACCEPTED))
        await slow.write(WHOLE[-1:])
        exchanges = await stage.publisher.wait_for(4)
        first, second = (e for e in exchanges if e.arm == "primary")
        assert {first.transport, second.transport} == {"timed_out"}
        ended = [e.started_at + e.end_ns for e in (first, second)]
        assert ended[1] - ended[0] > 300_000_000  # they came 600 ms apart
