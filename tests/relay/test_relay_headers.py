"""An arm's head: what never travels, what is set, and that the record tells it."""

from __future__ import annotations

import asyncio
from time import thread_time_ns

import pytest
from relay.raw import answering, client, in_loop, proxy, upstream

from shadow.config.upstream import HeaderChanges
from shadow.mirror.headers import ADDRESSES, CREDENTIALS, DIGESTS, STEERING, ArmHeaders
from shadow.relay.head import parse_request

CHANGES = HeaderChanges(set={"X-New": "n", "authorization": "Bearer own"}, remove=["x-tenant"])


def head(*fields: bytes):
    return parse_request(b"\r\n".join([b"POST /v1/x?y HTTP/1.1", b"Host: client", *fields]))


def test_built():
    """Request line with the arm's prefix, its Host, one length, the mark, the configured fields."""
    built = ArmHeaders("fp8", b"engine:1", b"/base", CHANGES).build(
        head(b"x-b: 1", b"X-A: 2", b"x-b: 3", b"X-Tenant: t", b"content-length: 9"), 5
    )
    assert built == (
        b"POST /base/v1/x?y HTTP/1.1\r\nHost: engine:1\r\nx-b: 1\r\nX-A: 2\r\nx-b: 3\r\n"
        b"Content-Length: 5\r\nx-shadow-arm: fp8\r\nx-new: n\r\nauthorization: Bearer own\r\n\r\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        *sorted(CREDENTIALS | STEERING | DIGESTS | ADDRESSES | {"expect", "trailer", "te"}),
        "ocp-apim-subscription-key",
        "x-amz-security-token",
        "x-auth-token",
        "x-forwarded-access-token",
        "x-goog-iap-jwt-assertion",
        "x-litellm-api-key",
        "x-forwarded-client-cert",
        "x-ms-client-principal-id",
        "x-dynamo-meta-tenant",
        "x-gateway-destination-endpoint-served",
        "x-decoder-host-ports-ordered",
        "x-data-parallel-host-port",
        "x-amzn-oidc-data",
        "x-accesskey",
        "x_api_key",
        "api_key",
        "x_session_id",
        "content_digest",
        "key",
        "x-key-1",
        "x-sig",
        "x-csrf",
        "x_original_url",
        "traceparent",
        "tracestate",
        "baggage",
        "b3",
        "x-b3-traceid",
        "x-b3-sampled",
        "uber-trace-id",
        "uberctx-user",
        "x-amzn-trace-id",
        "x-cloud-trace-context",
        "x-datadog-parent-id",
        "sentry-trace",
        "x-ot-span-context",
    ],
)
@pytest.mark.parametrize("spell", [str.lower, str.upper, str.title])
def test_what_never_travels(name, spell):
    """Credentials, steering, digests, traces and what belongs to the hop, in any spelling."""
    built = ArmHeaders("fp8", b"e", b"", HeaderChanges()).build(
        head(spell(name).encode() + b": secret-value"), 0
    )
    assert b"secret-value" not in built


@pytest.mark.parametrize(
    "name",
    [
        "accept",
        "content-type",
        "user-agent",
        "x-forwarded-for",
        "x-sglext-ids-framed",
        "accept-encoding",
        "content-encoding",
        "x-decoded-by",
        "openai-beta",
        "accept-language",
        "cache-control",
        "content-language",
        "date",
        "forwarded",
        "if-none-match",
        "origin",
        "pragma",
        "sec-fetch-site",
        "via",
        "x-ratelimit-limit-requests",
        "x-stainless-lang",
        "x-stainless-retry-count",
        "x-tenant",
        "x-user-id",
        "x-title",
        "http-referer",
        "anthropic-version",
    ],
)
def test_what_an_answer_depends_on_travels(name):
    """Both sides are asked for the same: formats, versions."""
    built = ArmHeaders("fp8", b"e", b"", HeaderChanges()).build(head(name.encode() + b": v"), 0)
    assert name.encode() + b": v\r\n" in built


def test_changes_tell_what_was_altered():
    """Removed and set fields by their names, once each, sorted; what was not there is not told."""
    arm = ArmHeaders("fp8", b"e", b"", CHANGES)
    assert list(arm.changes(head(b"Cookie: c", b"COOKIE: d", b"X-Keep: k"))) == [
        "header:authorization",
        "header:cookie",
        "header:x-new",
    ]
    assert "header:x-tenant" in arm.changes(head(b"X-Tenant: t"))


def test_changes_tell_no_client_s_words():
    """A field that nobody lists is told as one; a configured name as it is configured."""
    changes = HeaderChanges(set={"x-own-token": "t"}, remove=["x-our-key"])
    asked = head(
        b"X-Jane.Doe-Token: t",
        b"X-Other-Token: u",
        b"X-Our-Key: k",
        b"X_Api_Key: k",
        b"x" * 65 + b": v",
    )
    assert ArmHeaders("fp8", b"e", b"", changes).changes(asked) == (
        "header:*",
        "header:x-api-key",
        "header:x-our-key",
        "header:x-own-token",
    )


def test_long_names_stay_and_are_not_remembered():
    """Nobody's field is longer than 64 characters: neither time nor memory is spent on it."""
    arm = ArmHeaders("fp8", b"e", b"", HeaderChanges())
    long = [b"x-%d" % n + b"y" * 60_000 for n in range(20)]
    begun = thread_time_ns()
    built = [arm.build(head(name + b": v"), 0) for name in long]
    assert thread_time_ns() - begun < 20_000_000
    assert not any(b"yyy" in each for each in built)
    assert sum(map(len, arm._kept)) < 1000


def test_a_configured_host_stands():
    """`headers: {set: {host: …}}` is the one Host."""
    built = ArmHeaders("a", b"e:1", b"", HeaderChanges(set={"host": "other"})).build(head(), 0)
    assert built.lower().count(b"host:") == 1
    assert b"\r\nHost: other\r\n" in built


def test_a_forged_mark_does_not_double():
    """x-shadow of the client does not travel, and there is one mark."""
    built = ArmHeaders("a", b"e", b"", HeaderChanges()).build(head(b"x-shadow: on"), 0)
    assert built.count(b"x-shadow") == 1


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        (b"http://user:pw@prod.example/v1/x?a=1", b"/base/v1/x?a=1"),
        (b"https://prod.example", b"/base/"),
        (b"HTTP://prod.example/v1/x?key=s", b"/base/v1/x"),
        (b"/v1/x?next=http://a/b", b"/base/v1/x?next=http://a/b"),
    ],
)
def test_an_absolute_target_names_no_host(target, sent):
    """Neither the client's host, which would stand above the arm's, nor a password before it."""
    asked = parse_request(b"POST " + target + b" HTTP/1.1\r\nHost: client")
    built = ArmHeaders("a", b"e", b"/base", HeaderChanges()).build(asked, 0)
    assert built.startswith(b"POST " + sent + b" HTTP/1.1\r\nHost: e\r\n")


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
USERS, TURNS = 40, 5


@in_loop
async def test_heads_are_built_apart_under_load():
    """200 requests of 40 clients at once, three arms that set and remove fields: the primary gets
    each head byte for byte, each arm each request once with its own fields, and none of another
    request's or another arm's.
    """
    own = {name: {"authorization": f"Bearer {name}"} for name in ("a", "b", "c")}
    changes = {
        "a": {"set": {**own["a"], "x-tag": "a"}, "remove": ["x-tenant"]},
        "b": {"set": own["b"], "remove": ["x-tag"]},
        "c": {"set": own["c"], "remove": ["x-tenant"]},
    }
    theirs = {
        "a": ["x-tag: a"],
        "b": ["X-Tenant: t{who}"],
        "c": ["x-tag: client-{who}"],
    }

    def asked(user: int, turn: int) -> bytes:
        who = f"{user}-{turn}"
        return (
            f"POST /v1/chat/completions?who={who} HTTP/1.1\r\nHost: h{user}\r\nX-Who: {who}\r\n"
            f"x-tag: client-{who}\r\nAuthorization: Bearer client-{who}\r\nX-Tenant: t{who}\r\n"
            f"X-Field-{user % 7}: {who}\r\nContent-Length: 2\r\n\r\n{{}}"
        ).encode()

    def heads(side) -> list[bytes]:
        parts = b"".join(each.received for each in side.connections).split(b"\r\n\r\n{}")
        assert parts.pop() == b""
        return parts

    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as a,
        upstream(answering(OK)) as b,
        upstream(answering(OK)) as c,
        proxy(
            primary.url,
            {
                name: {"url": side.url, "headers": changes[name]}
                for name, side in {"a": a, "b": b, "c": c}.items()
            },
        ) as stage,
    ):

        async def one(user: int) -> None:
            async with client(stage.port) as connection:
                for turn in range(TURNS):
                    await connection.write(asked(user, turn))
                    assert await connection.exactly(len(OK)) == OK

        await asyncio.gather(*map(one, range(USERS)))
        await stage.publisher.wait_for(4 * USERS * TURNS)
        sent = [asked(user, turn) for user in range(USERS) for turn in range(TURNS)]
        assert sorted(head + b"\r\n\r\n{}" for head in heads(primary)) == sorted(sent)
        for name, side in {"a": a, "b": b, "c": c}.items():
            got = heads(side)
            assert len(got) == USERS * TURNS
            seen = set()
            for lines in (head.decode().split("\r\n") for head in got):
                who = lines[0].split("who=")[1].split(" ")[0]
                user = int(who.split("-")[0])
                seen.add(who)
                assert sorted(lines[1:]) == sorted([
                    f"Host: 127.0.0.1:{side.port}", f"X-Who: {who}", f"X-Field-{user % 7}: {who}", "Content-Length: 2",
                    f"x-shadow-arm: {name}", f"authorization: Bearer {name}", *(line.format(who=who) for line in theirs[name]),
                ])  # fmt: skip
            assert len(seen) == USERS * TURNS
