"""What must not reach a candidate, name by name, through a real proxy; and what must."""

from __future__ import annotations

import json

import pytest
from relay.raw import answering, client, in_loop, proxy, upstream
from relay.test_relay_body_mirror import sent
from relay.test_relay_credentials import OPENING, PARAMETERS
from relay.test_relay_mirror import OK, chat

from shadow.body import staying
from shadow.body.names import stateful
from shadow.body.parsed import tree
from shadow.body.scan import Scanner, TooMuch, run
from shadow.body.staying import nothing_stays
from shadow.credentials import SECRETS

FIELDS = [
    "authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-goog-api-key", "dpop",
    "openai-organization", "openai-project", "x-amz-security-token", "x-auth-token", "x-litellm-api-key",
    "ocp-apim-subscription-key", "x-forwarded-access-token", "x-csrf-token", "key", "x-sig",
    "x-pass", "x-passcode", "x-otp", "x-pin", "x-session", "x-shib-session", "phpsessid", "x-assertion",
    "x-request-id", "x-worker-instance-id", "x-prefill-instance-id", "x-decode-instance-id", "x-dp-rank",
    "x-data-parallel-rank", "x-dynamo-meta-tenant", "x-dynamo-routing-mode", "x-dynamo-token-data", "x-session-id",
    "x-session-affinity", "session-id", "mcp-session-id", "x-gateway-destination-endpoint",
    "x-gateway-destination-endpoint-subset", "x-gateway-inference-fairness-id", "x-gateway-inference-objective",
    "x-gateway-model-name-rewrite", "x-prefiller-host-port", "x-prefiller-url", "x-kv-cache-source-host-port",
    "x-smg-target-worker", "x-smg-routing-key", "x-envoy-original-dst-host",
    "referer", "x-original-url", "x-original-uri", "x-rewrite-url", "x-forwarded-uri", "x-forwarded-url",
    "x-envoy-original-path",
    "traceparent", "tracestate", "baggage", "b3", "x-b3-traceid", "uber-trace-id", "x-amzn-trace-id",
    "content-digest", "repr-digest", "digest", "content-md5", "x-amz-content-sha256",
]  # fmt: skip
"""Header fields: credentials, steering, addresses, traces, digests."""

STEERING = [
    "kv_transfer_params", "ec_transfer_params", "disaggregated_params", "data_parallel_rank", "routed_dp_rank",
    "disagg_prefill_dp_rank", "bootstrap_host", "bootstrap_port", "bootstrap_room", "request_id", "rid", "priority",
    "cache_salt", "extra_key", "id_slot", "backend_instance_id", "nvext", "conversation_params", "api_base", "base_url",
    "extra_headers", "headers", "extra_query", "user_config", "model_list", "fallbacks",
]  # fmt: skip
"""Taken out of every copy at the top level, and of `extra_body`."""

LISTED = ["api_key", "apikey", "token", "bearer", "authorization", "access_token", "client_secret", "jwt",
          "aws_access_key_id", "azure_ad_token", "vertex_credentials"]  # fmt: skip
"""As which a record tells them, however they are spelled."""

STATE = [
    "previous_response_id", "conversation", "conversation_id", "store", "background", "container", "session",
    "session_id", "session_params", "session_control", "thread_id", "assistant_id", "file_id", "file_ids",
    "input_file_id", "completion_window", "requests", "mcp_servers", "tool_resources", "data_sources", "dataSources",
]  # fmt: skip
"""Of a server: who says one of these goes to no candidate."""

HOLDERS = ["metadata", "litellm_metadata", "litellm_params", "litellm_embedding_config"]
SECRET = "must-stay-7f3a"
LARGE = '"messages":["' + "A" * 270_000 + '"]'


SAID = {
    *(name.replace("-", "_") for name in SECRETS),
    *STEERING,
    *HOLDERS,
    "extra_body",
    "*",
}
"""All that records ever say of bodies that are not changed otherwise."""


def escaped(name: str) -> str:
    """Each second character by its number."""
    return "".join(f"\\u{ord(c):04x}" if n % 2 else c for n, c in enumerate(name))


def spelled(name: str) -> list[str]:
    """A member of that name in each position, each followed by what has to stay."""
    member, odd = f'"{name}":"{SECRET}"', f'"{escaped(name)}":"{SECRET}"'
    return [
        f"{member},",
        f"{odd},",
        f'{member},"k":1,{odd},',
        f'"extra_body":{{{member},"top_k":3}},',
        f'"extra_b\\u006fdy":{{"top_k":3,{odd}}},',
        f'"extra_body":{{{member}}},"extra_body":{{"top_k":4}},',
        f'"extra_body":{{"extra_body":{{{member}}}}},',
    ]


async def reached(bodies: list[str]) -> tuple[list[bytes], list[bytes], list]:
    """(what the candidate got, what the primary got, the candidate's records) of these bodies."""
    requests = [chat(body.encode()) for body in bodies]
    seen, exchanges, _ = await sent({"fp8": {}}, *requests)
    return seen["fp8"], seen["primary"], [each for each in exchanges if each.arm == "fp8"]


async def stay(names: list[str], positions: list[str]) -> None:
    """Of each body nothing of the secret arrives, and all else does; the record names what went."""
    bodies = [f'{{"model":"m",{position}"last":{n}}}' for n, position in enumerate(positions)]
    got, primary, records = await reached(bodies)
    assert primary == [body.encode() for body in bodies]
    assert len(got) == len(bodies)
    by_last = {json.loads(body)["last"]: body for body in got}
    assert len(by_last) == len(bodies)
    for n, body in by_last.items():
        assert SECRET.encode() not in body, bodies[n]
        assert json.loads(body)["model"] == "m"
        assert body.count(b"top_k") == positions[n].count("top_k")
    said = {change for record in records for change in record.request_changes}
    assert said >= {f"body:{name}" for name in names}
    assert {name for each in said for name in each.removeprefix("body:").split(".")} <= SAID


@pytest.mark.parametrize("spell", [str.lower, str.upper, str.title])
@in_loop
async def test_fields_of_a_head_stay(spell):
    """Each in any case, also with `_` for `-`; the primary gets them all."""
    lines = "".join(
        f"{spell(name)}: {SECRET}{n}\r\n{spell(name).replace('-', '_')}: {SECRET}_\r\n"
        for n, name in enumerate(FIELDS)
    )
    body = chat(b"{}", lines.encode())
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as arm,
        proxy(primary.url, {"fp8": arm.url}) as stage,
        client(stage.port) as user,
    ):
        await user.write(body)
        assert await user.exactly(len(OK)) == OK
        exchanges = await stage.publisher.wait_for(2)
        assert primary.connections[0].received.count(SECRET.encode()) == 2 * len(FIELDS)
        got = arm.connections[0].received
    assert got.count(SECRET.encode()) == 0, got
    unlisted = {"x-sig", "x-dynamo-meta-tenant", "x-assertion", "x-otp", "x-passcode", "x-pin"}
    said = {f"header:{name}" for name in FIELDS if name not in unlisted} | {"header:*"}
    assert set(exchanges[-1].request_changes) == said


@in_loop
async def test_what_steers_stays():
    """In every position and spelling, duplicates and objects within objects too."""
    await stay(STEERING, [each for name in STEERING for each in spelled(name)])


@in_loop
async def test_credentials_stay():
    """The same, by their names' words; also in the settings of gateways."""
    await stay(["*", *LISTED], [each for name in OPENING for each in spelled(name)])
    held = [
        position
        for name in OPENING
        for holder in HOLDERS
        for position in (
            f'"{holder}":{{"{name}":"{SECRET}","top_k":1}},',
            f'"extra_body":{{"{escaped(holder)}":{{"a":1,"{escaped(name)}":"{SECRET}"}}}},',
        )
    ]
    await stay(["metadata.api_key", "extra_body.metadata.*"], held)


@in_loop
async def test_fields_to_be_sent_on_stay_wherever_they_stand():
    """Objects of header fields and of routes, with keys of their own, in a gateway's settings too."""
    objects = ["headers", "extra_headers", "extra_query", "user_config", "model_list", "fallbacks"]
    held = [
        f'"{holder}":{{"{name}":{{"x":"{SECRET}"}},"top_k":1}},'
        for holder in HOLDERS
        for name in objects
    ]
    await stay([f"metadata.{name}" for name in objects], held)
    odd = [
        "extraHeaders",
        "Extra-Headers",
        "EXTRA_QUERY",
        "otp",
        "userPin",
        "PHPSESSID",
        "passcode",
    ]
    await stay(["extra_headers", "extra_query", "*"], [f'"{name}":"{SECRET}",' for name in odd])


@in_loop
async def test_in_a_large_body_too():
    """What is found by the scanner, behind 270 KB of messages."""
    some = ["apiKey", "azure_ad_token", "cache_salt", "nvext"]
    positions = [
        f"{LARGE},{position}" for name in some for position in (spelled(name)[1], spelled(name)[3])
    ]
    said = ["apikey", *some[1:]]
    await stay([*said, *(f"extra_body.{name}" for name in said)], positions)


@in_loop
async def test_an_object_in_a_text_stays():
    """Some gateways read their settings out of a JSON string."""
    texts = [
        f'"{holder}":{json.dumps(json.dumps({"api_key": SECRET}))},'
        for holder in [*HOLDERS, "extra_body"]
    ]
    await stay(["metadata", "extra_body"], texts)


@in_loop
async def test_a_model_s_parameters_arrive():
    """Each at the top level and in the objects that are looked at: byte for byte."""
    names = [name for name in PARAMETERS if name not in ("model", "messages", "metadata", "tools")]
    bodies = [
        position
        for name in names
        for position in (
            f'{{"model":"m","{name}":"v","last":1}}',
            f'{{"model":"m","extra_body":{{"{name}" : "v"}},"metadata":{{"{name}":"v"}}}}',
            f'{{"model":"m","\\u{ord(name[0]):04x}{name[1:]}":"v"}}',
        )
    ]
    bodies.append('{"metadata":{"session_id":"s","priority":1,"store":true}}')
    got, primary, records = await reached(bodies)
    assert sorted(got) == sorted(primary) == sorted(body.encode() for body in bodies)
    assert not any(record.request_changes for record in records)


@in_loop
async def test_state_goes_to_no_candidate():
    """At the top level and within `extra_body`, in any spelling, small and large."""
    bodies = [
        f'{{"model":"m",{position}"last":1}}'
        for name in STATE
        for position in [*spelled(name)[:5], spelled(name)[6]]
    ]
    bodies += [f'{{{LARGE},"extra_body":{{"{escaped(STATE[0])}":"x"}}}}']
    requests = [chat(body.encode()) for body in bodies]
    seen, _, counts = await sent({"fp8": {}}, *requests, records=0)
    assert seen["fp8"] == []
    assert counts["fp8", "skipped", "stateful"] == len(bodies)


@in_loop
async def test_what_is_no_json_and_may_hold_any_of_them():
    """A lenient server might read it: nobody gets it, `not_json`."""
    bodies = [
        f'{{"model":"m","odd":NaN,{member}}}'
        for name in [*STEERING, *STATE, *OPENING[:8], *OPENING[12:40]]
        for member in (
            f'"{name}":"x"',
            f'"{escaped(name)}" : "x"',
        )
    ]
    bodies += ["{'api_key':'x'}", "{apiKey:'x'}", "{\"a\":1,}\n'token' : 1"]
    requests = [chat(body.encode()) for body in bodies]
    seen, _, counts = await sent({"fp8": {}}, *requests, records=0)
    assert seen["fp8"] == []
    assert counts["fp8", "skipped", "not_json"] == len(bodies)
    fine = [b'{"model":"m","odd":NaN,"max_tokens":5,"prompt":"my key is \\u003c"}', b"{,"]
    seen, _, _ = await sent({"fp8": {}}, *map(chat, fine))
    assert sorted(seen["fp8"]) == sorted(fine)


@in_loop
async def test_an_arm_may_set_them():
    """What the operator says for an arm is sent, and nothing of the client's beside it."""
    arm = {
        "params": {
            "set": {"priority": 3, "api_key": "own", "extra_body.token": "own", "metadata.a": 1}
        }
    }
    body = (
        b'{"model":"m","priority":9,"api_key":"theirs","extra_body":{"token":"theirs","jwt":"theirs"},'
        b'"metadata":{"secret":"theirs"}}'
    )
    seen, exchanges, _ = await sent({"fp8": arm}, chat(body))
    assert json.loads(seen["fp8"][0]) == {
        "model": "m", "priority": 3, "api_key": "own", "extra_body": {"token": "own"}, "metadata": {"a": 1},
    }  # fmt: skip
    assert exchanges[-1].request_changes == [
        f"body:{name}"
        for name in ("api_key", "extra_body.jwt", "extra_body.token", "metadata.a", "metadata.secret", "priority")
    ]  # fmt: skip


def test_names_are_remembered_within_bounds(monkeypatch):
    """A client that makes up names fills no memory, and hides nothing by it; many new names at once
    are left to the scanner's steps."""
    monkeypatch.setattr(staying, "_known", set())
    for n in range(staying._KNOWN_NAMES + 50):
        assert nothing_stays({f"name {n}": 1}, b"")
    assert len(staying._known) == staying._KNOWN_NAMES
    assert not nothing_stays({"x" * 65: 1}, b"")
    assert not nothing_stays({"name 1": 1, "api_key": 1}, b"")
    assert not nothing_stays({f"new {n}": 1 for n in range(staying.MOST_UNKNOWN + 1)}, b"")


def test_few_characters_are_judged_at_once():
    """Of names that were never seen: more are left to the scanner, those of objects among them."""
    long = {f"{n:02}{'aB' * 20}": 1 for n in range(30)}
    for found in (long, {"metadata": long}, {"extra_body": {"a": 1}, "metadata": long}):
        assert not nothing_stays(found, json.dumps(found).encode())
    some = dict(list(long.items())[:20])
    assert nothing_stays({"metadata": some}, json.dumps({"metadata": some}).encode())


@in_loop
async def test_objects_within_objects_are_told_as_one():
    """However deep a client nests them: the words of records stay few."""
    deep = "".join(f'"{each}":{{' for each in ["extra_body", *HOLDERS[:3]]) + f'"token":"{SECRET}"'
    await stay(["extra_body.metadata.*"], [f"{deep}}}}}}}}},"])


@in_loop
async def test_what_nobody_knows_stays():
    """A name that is too long to be looked at, whatever it says; in steps and at once."""
    long = ["x" * 65, "é" * 65, "x" * 600]
    await stay(["*"], [each for name in long for each in spelled(name)])
    bodies = [f'{{{LARGE},"{name}":"{SECRET}","n":{n}}}' for n, name in enumerate(long)]
    got, _, _ = await reached(bodies)
    assert len(got) == 3
    assert not any(SECRET.encode() in body for body in got)


def test_no_second_object_hides():
    """Of two objects of one name the parser keeps one: both are looked at."""
    for body in (
        b'{"metadata":{"api_key":"s"},"metadata":{"a":1}}',
        b'{"metadata":{"api_key":"s"},"metadata":null}',
        b'{"metad\\u0061ta":{"api_key":"s"},"metadata":{"a":1}}',
    ):
        assert not nothing_stays(tree(body), body)
    assert nothing_stays({"metadata": {"a": 1}}, b'{"metadata":{"a":1}}')


def test_objects_within_objects_have_an_end():
    """However deep `extra_body` lies within itself: not followed beyond a bound."""
    deep = b'{"extra_body":' * 50_000 + b"1" + b"}" * 50_000
    with pytest.raises(TooMuch):
        run(stateful(deep, run(Scanner(deep).whole())))
