"""Which requests may be mirrored: by method and path, never without consent, decided at the head."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from relay.raw import FakeLedger, FakePublisher, answering, client, in_loop, proxy, until, upstream

from shadow.app import Ports
from shadow.choosing.sampling import Sampler
from shadow.choosing.selection import Denial, Selection
from shadow.config import Config
from shadow.config.choice import Tenants
from shadow.mirror.mirror import Mirror
from shadow.relay.head import parse_request

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def request(
    fields: bytes = b"",
    path: bytes = b"/v1/chat/completions",
    method: bytes = b"POST",
    body: bytes = b"{}",
) -> bytes:
    return b"%b %b HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n%b" % (
        method,
        path,
        fields,
        len(body),
        body,
    )


def head(*fields: bytes):
    return parse_request(b"\r\n".join([b"POST /v1/chat/completions HTTP/1.1", b"Host: h", *fields]))


PATHS = ["/v1/x", "GET /v1/models", "POST /v1/*/infer", "GET /v1/*/infer", "PUT /v1/a/infer"]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        (b"/v1/x", {b"POST"}),
        (b"/v1/models", {b"GET"}),
        (b"/v1/m/infer", {b"POST", b"GET"}),
        (b"/v1/a/infer", {b"POST", b"GET", b"PUT"}),
        (b"/v1/a%2fb/infer", {b"POST", b"GET"}),
        (b"/v1/x/", None),
        (b"/v1/X", None),
        (b"/v1//infer", None),
        (b"/v1/a/b/infer", None),
        (b"/v1/../infer", None),
        (b"/v1/./infer", None),
        (b"/v1/%2E./infer", None),
        (b"/v1/m/infer/more", None),
        (b"/v1/chat/completions", None),
        (b"*", None),
        (b"", None),
    ],
)
def test_a_path_is_listed_with_its_methods(path, methods):
    """Byte for byte; `*` is one segment, and none that a server resolves away."""
    selection = Selection(PATHS)
    assert selection.by_path(path) == methods
    assert (path in selection) == (b"POST" in (methods or ()))


@given(st.binary(max_size=60))
def test_only_what_is_listed(path):
    """No bytes make another path eligible."""
    assert Selection(["/v1/x", "GET /y"]).by_path(path) == {
        b"/v1/x": {b"POST"},
        b"/y": {b"GET"},
    }.get(path)


def test_a_long_path_of_many_segments_is_no_work():
    """No pattern goes back and forth: 60 kB of slashes and dots end at the first mismatch."""
    selection = Selection(["/v1/*/*/*/*/*/*/infer"])
    assert selection.by_path(b"/v1/" + b"a/" * 30_000) is None


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/chat/completions",
        b"/v1/completions",
        b"/v1/responses",
        b"/v1/embeddings",
        b"/v1/messages",
    ],
)
@in_loop
async def test_each_api_is_mirrored_by_default(path):
    """Without a word of the configuration: asked of the primary and of the arm, in the books."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as arm,
        proxy(primary.url, {"fp8": arm.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(request(path=path, body=b'{"model":"m","store":false}'))
        assert await user.exactly(len(OK)) == OK
        records = await stage.publisher.wait_for(2)
        assert [(each.arm, each.path) for each in records] == [
            ("primary", path.decode()),
            ("fp8", path.decode()),
        ]
        for side in (primary, arm):
            (got,) = side.connections
            assert got.received.startswith(b"POST %b HTTP/1.1\r\n" % path)
            assert got.received.endswith(b'{"model":"m","store":false}')
        assert stage.ledger.counts["fp8", "captured", ""] == 1


@in_loop
async def test_no_other_api_is_mirrored_by_default():
    """Their neighbours are passed on, and nobody else hears of them."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as arm,
        proxy(primary.url, {"fp8": arm.url}) as stage,
        client(stage.port) as user,
    ):
        others = b"batches", b"files", b"images/generations", b"messages/count_tokens", b"rerank"
        for path in others:
            await user.write(request(path=b"/v1/" + path))
            assert await user.exactly(len(OK)) == OK
        assert not arm.connections
        assert not stage.ledger.counts


@in_loop
async def test_other_methods_only_where_they_are_listed():
    """A GET that is listed is mirrored with its empty body, HEAD too; one that is not passes alone."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(
            primary.url, {"fp8": candidate.url}, mirror_paths=["GET /v1/models", "/v1/*/infer"]
        ) as stage,
        client(stage.port) as user,
    ):
        for method, path in (
            (b"GET", b"/v1/models?a=1"),
            (b"POST", b"/v1/models"),
            (b"POST", b"/v1/m/infer"),
            (b"PUT", b"/v1/m/infer"),
            (b"POST", b"/v1/chat/completions"),
        ):
            await user.write(request(path=path, method=method, body=b""))
            assert await user.exactly(len(OK)) == OK
        exchanges = await stage.publisher.wait_for(4)
        assert [(e.arm, e.method, e.path) for e in exchanges] == [
            ("primary", "GET", "/v1/models"),
            ("fp8", "GET", "/v1/models"),
            ("primary", "POST", "/v1/m/infer"),
            ("fp8", "POST", "/v1/m/infer"),
        ]
        assert stage.ledger.counts["fp8", "eligible", ""] == 2
        assert all(stage.ledger.balanced(name) for name in ("primary", "fp8"))


@in_loop
async def test_a_listed_head_is_mirrored_as_one():
    """Its answer has a length and no body, on the arm too."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"
    async with (
        upstream(answering(answer)) as primary,
        upstream(answering(answer)) as candidate,
        proxy(primary.url, {"fp8": candidate.url}, mirror_paths=["HEAD /v1/x"]) as stage,
        client(stage.port) as user,
    ):
        await user.write(b"HEAD /v1/x HTTP/1.1\r\nHost: h\r\n\r\n")
        assert await user.exactly(len(answer)) == answer
        exchanges = await stage.publisher.wait_for(2)
    assert {(e.transport, e.captured_bytes) for e in exchanges} == {("complete", 0)}


SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


@pytest.mark.parametrize(
    ("path", "counted"), [(b"/v1/realtime", 1), (b"/v1/responses", 1), (b"/v1/other", 0)]
)
@in_loop
async def test_a_websocket_passes_unmirrored_and_is_counted(path, counted):
    """Both ways, no arm hears of it; on a listed path, whatever the method, it is `upgrade`."""

    async def script(connection):
        await connection.request()
        await connection.write(SWITCHED)
        await connection.write(await connection.exactly(5))

    async with (
        upstream(script) as primary,
        upstream(answering(OK)) as candidate,
        proxy(
            primary.url,
            {"fp8": candidate.url},
            mirror_paths=["GET /v1/realtime", "/v1/responses"],
        ) as stage,
        client(stage.port) as user,
    ):
        await user.write(
            b"GET %b HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            % path
        )
        await user.until(b"\r\n\r\n")
        await user.write(b"hello")
        assert await user.exactly(5) == b"hello"
        assert stage.totals.upgrades == 1
        for arm in ("fp8", "primary"):
            assert stage.ledger.counts.get((arm, "skipped", "upgrade"), 0) == counted
        assert not candidate.connections
        assert not stage.publisher.exchanges


TENANTS = Tenants(header="X-Tenant", deny=["acme-*", "Hospital", "b?d"])


@pytest.mark.parametrize(
    ("fields", "denied"),
    [
        ([b"X-Tenant: fine"], False),
        ([b"x-tenant:  fine\t"], False),
        ([b"X-TENANT: ACME-7"], True),
        ([b"x-tenant: hospital"], True),
        ([b"x-tenant: hospitals"], False),
        ([b"x-tenant: bad"], True),
        ([b"x-tenant: baad"], False),
        ([], True),
        ([b"x-tenant:"], True),
        ([b"x-tenants: fine"], True),
        ([b"x-tenant: fine", b"X-Tenant: fine"], True),
        ([b"x-tenant: fine", b"x-tenant:"], True),
        ([b"x-tenant: \xff\xfe"], True),
        ([b"x-tenant: gr\xc3\xbcn"], False),
        ([b"x-tenant: fine, hospital"], True),
        ([b"x-tenant: fine,also fine"], False),
        ([b"Connection: x-tenant", b"x-tenant: fine"], True),
    ],
)
def test_tenants_fail_closed(fields, denied):
    """Missing, empty, repeated, undecodable or taken away by Connection: denied, as what is listed."""
    assert Denial(TENANTS).denies(head(*fields)) is denied


def test_a_missing_tenant_may_be_allowed_and_an_odd_one_may_not():
    """`missing: allow` is about requests that name none, and no others."""
    denial = Denial(TENANTS.model_copy(update={"missing": "allow"}))
    assert not denial.denies(head())
    assert not denial.denies(head(b"x-tenant:"))
    assert denial.denies(head(b"x-tenant: a", b"x-tenant: b"))
    assert denial.denies(head(b"x-tenant: \xff"))
    assert denial.denies(head(b"x-tenant: acme-1"))
    assert denial.denies(head(b"Connection: close, X-Tenant", b"x-tenant: acme-1"))


@in_loop
async def test_a_denied_request_leaves_no_trace():
    """No copy, no record of the primary's either, no byte held; counted for every arm."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(
            primary.url,
            {"fp8": candidate.url, "control": {"url": candidate.url, "role": "control"}},
            tenants={"header": "x-tenant", "deny": ["acme"]},
        ) as stage,
        client(stage.port) as user,
    ):
        for fields in (b"X-Tenant: ACME\r\n", b"", b"X-Tenant: a\r\nX-Tenant: b\r\n"):
            await user.write(request(fields))
            assert await user.exactly(len(OK)) == OK
        assert stage.proxy.mirror.held.open_bytes == 0
        await user.write(request(b"X-Tenant: other\r\n"))
        assert await user.exactly(len(OK)) == OK
        await stage.publisher.wait_for(3)
        for arm in ("primary", "fp8", "control"):
            assert stage.ledger.counts[arm, "skipped", "denied"] == 3
            assert stage.ledger.counts[arm, "captured", ""] == 1
            assert stage.ledger.balanced(arm)


def mirror_of(arms: dict[str, dict[str, object]], experiment: str = "e", **more: object) -> Mirror:
    config = Config.model_validate(
        {
            "experiment": experiment,
            "capture": "full",
            "primary": {"url": "http://127.0.0.1:1"},
            "arms": {
                name: {"role": "candidate", "url": "http://127.0.0.1:2", **arm}
                for name, arm in arms.items()
            },
            "stream": {"embedded": "unused"},
            "store": {"embedded": "unused-store"},
            **more,
        }
    )
    ledger = FakeLedger()
    return Mirror(config, "h", Ports(ledger=ledger, publisher=FakePublisher(ledger)))


def chosen_of(mirror: Mirror, *fields: bytes) -> set[str]:
    """The names of the arms that a request was chosen for."""
    before = dict(mirror.ledger.counts)
    plan = mirror.decide(head(*fields), 1)
    if plan is None:
        return set()
    plan.drop("shutdown")
    counts = mirror.ledger.counts
    key = ("sampled", "")
    return {
        arm.name
        for arm in mirror.arms
        if counts.get((arm.name, *key), 0) > before.get((arm.name, *key), 0)
    }


@in_loop
async def test_a_rate_of_one_percent_is_one():
    """50,000 decisions: within five standard deviations of the binomial, and 5 % lies in 10 %."""
    mirror = mirror_of({"a": {"sample": 0.01}, "b": {"sample": 0.05}, "c": {"sample": 0.10}})
    given_ = {"a": 0, "b": 0, "c": 0}
    total = 50_000
    for _ in range(total):
        names = chosen_of(mirror)
        assert names in (set(), {"c"}, {"b", "c"}, {"a", "b", "c"})
        for name in names:
            given_[name] += 1
    for name, rate in (("a", 0.01), ("b", 0.05), ("c", 0.10)):
        assert abs(given_[name] - total * rate) < 5 * (total * rate * (1 - rate)) ** 0.5
        assert mirror.ledger.counts[name, "eligible", ""] == total
        assert mirror.ledger.counts[name, "skipped", "not_sampled"] == total - given_[name]


@in_loop
async def test_a_header_s_value_is_chosen_as_one():
    """Every request of a user or none, on every worker and after a restart; shares nest; another
    experiment chooses anew; an arm by request beside it goes by its own."""
    arms = {
        "a": {"sample": 0.2, "key": "header:X-User"},
        "b": {"sample": 0.5, "key": "header:x-user"},
        "r": {"sample": 0.5},
    }
    one, restarted, other = mirror_of(arms), mirror_of(arms), mirror_of(arms, experiment="f")
    chosen = {}
    for n in range(400):
        field = b"x-user: u%d" % n
        names = chosen_of(one, field) - {"r"}
        assert names == chosen_of(restarted, field) - {"r"}
        assert names in (set(), {"b"}, {"a", "b"})
        chosen[n] = names
    share = sum(bool(names) for names in chosen.values()) / 400
    assert 0.5 - 0.125 < share < 0.5 + 0.125
    assert any(chosen_of(other, b"x-user: u%d" % n) - {"r"} != chosen[n] for n in range(50))
    assert {"r" in chosen_of(one, b"x-user: u1") for _ in range(60)} == {True, False}


@pytest.mark.parametrize("fields", [(), (b"x-user:",), (b"x-user: a", b"x-user: a")])
@in_loop
async def test_without_its_key_a_request_is_not_sampled(fields):
    """Even at a share of 1: missing, empty and repeated fields draw nothing."""
    mirror = mirror_of({"a": {"sample": 1.0, "key": "header:x-user"}, "r": {"sample": 1.0}})
    assert chosen_of(mirror, *fields) == {"r"}
    assert mirror.ledger.counts["a", "skipped", "not_sampled"] == 1
    assert chosen_of(mirror, b"x-user: u") == {"a", "r"}


def test_the_draw_is_that_of_the_key():
    """What another process, or another part of the proxy, must draw for the same key."""
    assert Sampler("e").draw("header:x-user:u1") == Sampler("e").draw("header:x-user:u1")
    assert Sampler("e").draw("header:x-user:u1") != Sampler("e").draw("header:x-team:u1")


@in_loop
async def test_three_candidates_each_get_the_full_sample():
    """None takes another's share; the same requests for all of them."""
    rates = {"a": 0.5, "b": 0.5, "c": 0.5}
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(
            primary.url, {n: {"url": candidate.url, "sample": r} for n, r in rates.items()}
        ) as stage,
        client(stage.port) as user,
    ):
        for _ in range(60):
            await user.write(request())
            assert await user.exactly(len(OK)) == OK
        sampled = stage.ledger.counts["primary", "sampled", ""]
        assert 10 < sampled < 50
        exchanges = await stage.publisher.wait_for(4 * sampled)
        await until(lambda: stage.ledger.balanced("a"))
    pairs: dict[str, set[str]] = {}
    for exchange in exchanges:
        pairs.setdefault(exchange.pair_id, set()).add(exchange.arm)
    assert len(pairs) == sampled
    assert all(arms == {"primary", "a", "b", "c"} for arms in pairs.values())
