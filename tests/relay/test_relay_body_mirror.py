"""Through a real relay: each arm gets its own request, the primary the client's, and each copy counts."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relay.raw import answering, client, in_loop, proxy, until, upstream
from relay.test_relay_body_scan import STEP_NS
from relay.test_relay_mirror import OK, chat

from shadow.body.conversation import Hash, beginning_in
from shadow.mirror.plan import Plan

BODY = b'{ "model" : "llama", "messages":[{"role":"user","content":"hi"}],"stream":true }'


def bodies(side) -> list[bytes]:
    """What an upstream got, in the order of its connections."""
    found = []
    for connection in side.connections:
        rest = connection.received
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            found.append(rest[:length])
            rest = rest[length:]
    return found


async def sent(
    arms: dict[str, dict[str, object]], *requests: bytes, records: int | None = None, **settings
):
    """Requests of one client: (bodies by upstream, exchanges, counts); the books must balance."""
    async with AsyncExitStack() as stack:
        primary = await stack.enter_async_context(upstream(answering(OK)))
        sides = {n: await stack.enter_async_context(upstream(answering(OK))) for n in arms}
        given = {name: {"url": sides[name].url, **arm} for name, arm in arms.items()}
        stage = await stack.enter_async_context(proxy(primary.url, given, **settings))
        user = await stack.enter_async_context(client(stage.port))
        for request in requests:
            await user.write(request)
            assert await user.exactly(len(OK)) == OK
        counts = stage.ledger.counts

        def settled() -> bool:
            told = sum(n for (a, c, _), n in counts.items() if (a, c) == ("primary", "eligible"))
            return told == len(requests) and not stage.ledger.held

        await until(settled)
        exchanges = list(stage.publisher.exchanges)
        assert all(stage.ledger.balanced(name) for name in ("primary", *arms))
        seen = {name: bodies(side) for name, side in {**sides, "primary": primary}.items()}
    assert records is None or len(exchanges) == records
    return seen, exchanges, counts


@in_loop
async def test_an_arm_s_wishes_are_its_own():
    """Model, parameters and usage: changed in place for this arm, named in its record; the primary
    and the other arm get the client's bytes.
    """
    arms = {
        "fp8": {
            "models": {"llama": "llama-fp8"},
            "params": {"set": {"temperature": 0.5, "a.b": [1]}, "remove": ["top_p"]},
            "include_usage": True,
        },
        "control": {"role": "control"},
    }
    body = BODY.replace(b" }", b', "top_p":1.0e0,"a":{"c":2} }')
    seen, exchanges, _ = await sent(arms, chat(body), records=3)
    assert seen["primary"] == seen["control"] == [body]
    changed = (
        b'{ "model" : "llama-fp8", "messages":[{"role":"user","content":"hi"}],"stream":true, '
        b'"a":{"c":2,"b":[1]},"temperature":0.5,"stream_options":{"include_usage":true} }'
    )
    assert seen["fp8"] == [changed]
    changes = {exchange.arm: exchange.request_changes for exchange in exchanges}
    assert changes["control"] == []
    assert changes["fp8"] == [
        f"body:{name}"
        for name in ("a.b", "model", "stream_options.include_usage", "temperature", "top_p")
    ]
    assert {exchange.request_facts.model for exchange in exchanges} == {"llama"}


STATEFUL = {
    "stateful": b'{"model":"llama","previous_response_id":"r"}',
    "escaped": rb'{"model":"llama","st\u006fre" : true}',
    "file": b'{"model":"llama","messages":[{"content":[{"file":{"file_id":"f"}}]}]}',
    "large": b'{"model":"llama","messages":["' + b"A" * 300_000 + b'"],"background":true}',
}


@pytest.mark.parametrize("name", STATEFUL)
@in_loop
async def test_a_stateful_request_goes_to_no_arm(name):
    """Skipped for all, the primary's record too; its bytes are passed on as ever."""
    seen, _, counts = await sent({"fp8": {}}, chat(STATEFUL[name]), records=0)
    assert (seen["fp8"], seen["primary"]) == ([], [STATEFUL[name]])
    for arm in ("primary", "fp8"):
        assert counts[arm, "skipped", "stateful"] == 1


RESPONSES = b"/v1/responses"


@pytest.mark.parametrize("large", [b"", b',"x":"' + b"A" * 300_000 + b'"'])
@in_loop
async def test_a_response_is_not_stored_at_a_candidate(large):
    """The Responses API stores what does not say `store: false`: the primary gets the client's
    word, each copy says false. What asks to be stored goes to no arm.
    """
    silent, null = (b'{"input":"hi"%b%b}' % (large, more) for more in (b"", b',"store":null'))
    never, asked = (b'{"input":"hi"%b,"store":%b}' % (large, word) for word in (b"false", b"true"))
    requests = [chat(body, path=RESPONSES) for body in (silent, null, never, asked)]
    seen, exchanges, counts = await sent({"fp8": {}, "b": {}}, *requests, records=9)
    assert seen["primary"] == [silent, null, never, asked]
    assert (
        sorted(seen["fp8"]) == sorted(seen["b"]) == [b'{"input":"hi"%b,"store":false}' % large] * 3
    )
    assert counts["fp8", "skipped", "stateful"] == 1
    changes = Counter(tuple(each.request_changes) for each in exchanges if each.arm == "fp8")
    assert changes == {("body:store",): 2, (): 1}


@in_loop
async def test_a_coded_response_is_not_stored():
    """Its coding is undone, to say so."""
    body = b'{"input":"hi"}'
    seen, _, _ = await sent({"fp8": {}}, gzipped(body), records=2)
    assert seen["fp8"] == [b'{"input":"hi","store":false}']


def gzipped(body: bytes) -> bytes:
    return chat(gzip.compress(body), b"Content-Encoding: gzip\r\n", path=RESPONSES)


@in_loop
async def test_steering_fields_stay():
    """Taken away without any configuration, and said so; the primary's stay."""
    body = b'{"model":"m","kv_transfer_params":{"remote_host":"10.0.0.1"},"priority":1,"n":1}'
    seen, exchanges, _ = await sent({"fp8": {}}, chat(body), records=2)
    assert (seen["primary"], seen["fp8"]) == ([body], [b'{"model":"m","n":1}'])
    assert exchanges[-1].request_changes == ["body:kv_transfer_params", "body:priority"]


@in_loop
async def test_credentials_stay():
    """What opens the client's account is no copy's to carry, wherever a gateway reads it."""
    body = b'{"model":"m","api_key":"sk-1","extra_headers":{"authorization":"x"},"n":1}'
    seen, exchanges, _ = await sent({"fp8": {}}, chat(body), records=2)
    assert (seen["primary"], seen["fp8"]) == ([body], [b'{"model":"m","n":1}'])
    assert exchanges[-1].request_changes == ["body:api_key", "body:extra_headers"]


@in_loop
async def test_no_arm_spends_another_s_values():
    """What one arm's wish reads of a body of many values is not counted against the others', nor
    against the probes: all of them get theirs.
    """
    values = b",".join([b"[]"] * 28_000)
    body = b'{"model":"m","x":{"a":[' + values + b']},"messages":[]}'
    wish: dict[str, object] = {"params": {"set": {"x.b": 1}}}
    arms = {"fp8": wish, "int4": wish, "control": {"role": "control", **wish}}
    seen, _, _ = await sent(arms, chat(body), records=7, greedy_probe=1.0)
    assert [len(seen[name]) for name in arms] == [2, 2, 2]


@in_loop
async def test_a_deep_conversation_is_counted():
    """However deep its first message is nested, it is chosen or not, and counted."""
    body = b'{"messages":[{"role":"user","content":' + b"[" * 400 + b"]" * 400 + b"}]}"
    await sent({"fp8": {"key": "conversation"}}, chat(body), records=2)


@in_loop
async def test_other_models_are_skipped_for_that_arm():
    """One arm serves one model, one another: each request goes where its model is."""
    arms = {"a": {"models": {"x": "x-a"}}, "b": {"models": {"y": "y-b"}}}
    requests = [chat(b'{"model":"%b"}' % model) for model in (b"x", b"y", b"z")]
    seen, _, counts = await sent(arms, *requests, records=4)
    assert (seen["a"], seen["b"]) == ([b'{"model":"x-a"}'], [b'{"model":"y-b"}'])
    assert counts["a", "skipped", "model_not_served"] == 2
    assert counts["primary", "skipped", "model_not_served"] == 1
    assert counts["primary", "captured", ""] == 2


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"model":"llama"', "not_json"),
        (b"[1,2]", "not_json"),
        (b'{"model":"llama","a":NaN}', "not_json"),
        (b'{"model":"llama","a":[' + b"[]," * 140_000 + b"1]}", "too_large_to_route"),
        (b"", "model_not_served"),
    ],
)
@in_loop
async def test_what_cannot_be_read_fails_closed(body, reason):
    """Who needs the body is skipped; who does not gets it as it came, unless a name of state or
    steering may hide in it.
    """
    arms = {"fp8": {"models": {"llama": "x"}}, "plain": {}}
    seen, _, counts = await sent(arms, chat(body))
    assert (seen["fp8"], seen["primary"]) == ([], [body])
    assert counts["fp8", "skipped", reason] == 1
    assert seen["plain"] == ([] if reason == "too_large_to_route" else [body])


@in_loop
async def test_a_name_in_what_is_no_json():
    """A lenient server might read it: nobody gets it."""
    body = '{"model":"m","store":true}'.encode("utf-16")
    seen, _, counts = await sent({"plain": {}}, chat(body), records=0)
    assert seen["plain"] == []
    assert counts["plain", "skipped", "not_json"] == 1


@in_loop
async def test_a_coded_request():
    """Undone for the arms and said so, recorded as it reads; the primary gets it as it came. What
    cannot be undone goes to no arm.
    """
    coded = gzip.compress(BODY)
    field = b"Content-Encoding: gzip\r\n"
    broken = chat(b"\x1f\x8b\x08not gzip", field)
    seen, exchanges, counts = await sent({"fp8": {}}, chat(coded, field), broken, records=2)
    assert (seen["primary"][0], seen["fp8"]) == (coded, [BODY])
    told = {exchange.arm: exchange for exchange in exchanges}
    assert told["fp8"].request_changes == ["header:content-encoding"]
    assert told["primary"].request == BODY
    assert told["primary"].request_facts.model == "llama"
    assert not [
        name for name, _ in told["primary"].request_headers if name.lower() == "content-encoding"
    ]
    assert counts["fp8", "skipped", "encoded"] == counts["primary", "skipped", "encoded"] == 1


@in_loop
async def test_a_coded_body_counts_against_the_memory():
    """What has no room without its coding is dropped, counted as such."""
    coded = gzip.compress(b'{"a":"' + b"A" * 4_000_000 + b'"}')
    limits = {"request_bytes": "900KiB", "mirror_bytes": "1MiB", "queue_bytes": "1MiB"}
    small = gzip.compress(b'{"a":"' + b"A" * 800_000 + b'"}')
    field = b"Content-Encoding: gzip\r\n"
    requests = chat(coded, field), chat(small, field)
    seen, _, counts = await sent({"fp8": {}}, *requests, limits=limits)
    assert counts["fp8", "skipped", "too_large_to_route"] == 1
    assert len(seen["fp8"]) == counts["fp8", "sampled", ""] == 1


@in_loop
async def test_amplified():
    """Three copies, replicas 0 to 2, each an exchange and sampled once; the primary's is one."""
    seen, exchanges, counts = await sent(
        {"fp8": {"amplify": 3, "sample": 1.0}}, chat(BODY), records=4
    )
    assert seen["fp8"] == [BODY] * 3
    own = [exchange for exchange in exchanges if exchange.arm == "fp8"]
    assert sorted(exchange.replica for exchange in own) == [0, 1, 2]
    assert {exchange.weight for exchange in own} == {1.0}
    assert counts["fp8", "eligible", ""] == counts["fp8", "sampled", ""] == 3
    assert counts["primary", "sampled", ""] == 1


@in_loop
async def test_copies_beyond_the_arm_s_concurrency():
    """Each is dropped and counted on its own."""
    arms = {"fp8": {"amplify": 3, "concurrency": 2}}
    _, exchanges, counts = await sent(arms, chat(BODY), records=3)
    assert counts["fp8", "dropped", "concurrency"] == 1
    assert sorted(e.replica for e in exchanges if e.arm == "fp8") == [0, 1]


@in_loop
async def test_greedy_probes():
    """Once more at temperature 0 to candidate and control; not where nothing is sampled."""
    arms = {"fp8": {"models": {"llama": "x"}}, "control": {"role": "control"}}
    embeddings = chat(BODY, path=b"/v1/embeddings")
    seen, exchanges, counts = await sent(arms, chat(BODY), embeddings, records=8, greedy_probe=1.0)
    assert Counter((e.arm, e.probe) for e in exchanges) == {
        ("primary", "none"): 2, ("fp8", "none"): 2, ("fp8", "greedy"): 1,
        ("control", "none"): 2, ("control", "greedy"): 1,
    }  # fmt: skip
    assert seen["control"].count(BODY) == 2
    probes = [body for body in seen["control"] + seen["fp8"] if b"temperature" in body]
    assert [(json.loads(b)["temperature"], json.loads(b)["seed"]) for b in probes] == [(0, 1)] * 2
    told = {e.arm: e.request_changes for e in exchanges if e.probe == "greedy"}
    assert told == {
        "control": ["body:seed", "body:temperature"],
        "fp8": ["body:model", "body:seed", "body:temperature"],
    }
    assert counts["fp8", "sampled", ""] == 3


@in_loop
async def test_a_probe_s_weight():
    """One over the chance that it was sent."""
    arms = {"fp8": {"sample": 1.0}, "control": {"role": "control", "sample": 1.0}}
    _, exchanges, _ = await sent(arms, *[chat(BODY)] * 40, greedy_probe=0.5)
    weights = Counter((exchange.probe, exchange.weight) for exchange in exchanges)
    assert set(weights) <= {("none", 1.0), ("greedy", 2.0)}
    assert 4 < weights["greedy", 2.0] < 76


def turn(user: int, turns: int, text: str = "x") -> bytes:
    messages = [{"role": "user", "content": f"{text}{user}"}]
    for n in range(turns):
        messages += [{"role": "assistant", "content": f"{n}"}, {"role": "user", "content": f"{n}"}]
    return chat(json.dumps({"model": "m", "messages": messages}).encode())


@in_loop
async def test_a_conversation_is_chosen_whole():
    """All turns or none, about the share that was asked; another arm nests; the hash is recorded."""
    arms = {
        "a": {"sample": 0.5, "key": "conversation"},
        "b": {"sample": 0.25, "key": "conversation"},
    }
    requests = [turn(user, turns) for user in range(40) for turns in range(3)]
    seen, exchanges, counts = await sent(arms, *requests)
    chosen = {
        arm: Counter(json.loads(body)["messages"][0]["content"] for body in seen[arm])
        for arm in arms
    }
    assert set(chosen["a"].values()) == set(chosen["b"].values()) == {3}
    assert set(chosen["b"]) < set(chosen["a"])
    assert 8 < len(chosen["a"]) < 32
    assert counts["a", "skipped", "not_sampled"] == 120 - 3 * len(chosen["a"])
    assert counts["primary", "sampled", ""] == 3 * len(chosen["a"])
    known = {exchange.request_facts.conversation for exchange in exchanges}
    assert None not in known
    assert len(known) == len(chosen["a"])
    for request in requests:  # a guessed prompt cannot be tried against what is recorded
        said = beginning_in(json.loads(request.partition(b"\r\n\r\n")[2]))
        assert said is not None
        assert Hash("relay-test").of(b"", said) not in known


@in_loop
async def test_a_large_conversation_too():
    """Beyond what is parsed at once the draw is the same for every turn."""
    arms = {"a": {"sample": 0.5, "key": "conversation"}}
    requests = [turn(user, turns, "x" * 300_000) for user in range(8) for turns in range(2)]
    seen, _, counts = await sent(arms, *requests)
    chosen = Counter(json.loads(body)["messages"][0]["content"][-1] for body in seen["a"])
    assert set(chosen.values()) <= {2}
    assert sum(chosen.values()) + counts.get(("a", "skipped", "not_sampled"), 0) == 16


@in_loop
async def test_what_never_came_whole_is_drawn_for_by_itself():
    """A conversation that nobody will know is not counted as if all were meant for the arm."""
    arms = {"a": {"sample": 0.01, "key": "conversation"}}
    async with upstream(answering(OK)) as primary, upstream(answering(OK)) as arm:
        given = {"a": {"url": arm.url, **arms["a"]}}
        async with proxy(primary.url, given) as stage:
            for _ in range(30):
                async with client(stage.port) as user:
                    await user.write(chat(BODY)[:-1])
                    await until(lambda: stage.totals.open_streams)
                await until(lambda: not stage.totals.open_streams)
            assert stage.ledger.counts["a", "skipped", "not_sampled"] > 20
            assert stage.ledger.balanced("a")
            assert stage.ledger.balanced("primary")


@in_loop
async def test_a_huge_body_is_changed_in_steps(monkeypatch):
    """8 MiB: the client is answered at once, the arm gets it whole, in hundreds of steps of less
    than a millisecond of CPU each, but for one in a hundred (caches are not ours alone).
    """
    body = b'{"model":"llama","messages":["' + b"lorem ipsum\\n " * 600_000 + b'"]}'
    spent: list[int] = []
    step = Plan.go_on

    def go_on(plan: Plan) -> bool:
        begun = time.thread_time_ns()
        done = step(plan)
        spent.append(time.thread_time_ns() - begun)
        return done

    monkeypatch.setattr(Plan, "go_on", go_on)
    limits = {"request_bytes": "10MiB"}
    arms = {"fp8": {"models": {"llama": "x"}, "params": {"set": {"n": 1}}}}
    seen, _, _ = await sent(arms, chat(body), records=2, limits=limits)
    assert seen["fp8"] == [body.replace(b'"llama"', b'"x"', 1)[:-1] + b',"n":1}']
    spent.sort()
    assert len(spent) > 200
    assert spent[len(spent) * 99 // 100] < STEP_NS


@pytest.mark.parametrize("reason", ["shutdown", "switched_off"])
@in_loop
async def test_the_end_comes_while_a_body_is_looked_at(reason):
    """A drain, or a switch, drops what was not sent to an arm yet: counted, nothing held."""
    body = b'{"model":"llama","messages":["' + b"lorem ipsum\\n " * 500_000 + b'"]}'
    async with upstream(answering(OK)) as primary, upstream(answering(OK)) as arm:
        given = {"a": {"url": arm.url, "models": {"llama": "x"}}}
        async with proxy(primary.url, given) as stage, client(stage.port) as user:
            await user.write(chat(body))
            assert await user.exactly(len(OK)) == OK
            counts = stage.ledger.counts
            assert ("a", "eligible", "") not in counts
            if reason == "switched_off":
                stage.proxy.mirror.switch.skip = "paused"
                await until(lambda: ("a", "eligible", "") in counts)
        assert counts["a", "dropped", reason] == counts["a", "sampled", ""] == 1
        assert counts["primary", "dropped", reason] == 1
        assert not arm.connections
        assert stage.ledger.balanced("a")
        assert stage.ledger.balanced("primary")


ODD = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([
        b'{"model":"llama","model":"llama","a":[1,2,{"b":"\\ud800"}]}', b'{"model":"llama","x":NaN}',
        b'{"model":"\\ud83d"}', b'{"model":"llama","messages":' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"model":"llama","messages":' + b'{"a":' * 200 + b"1" + b"}" * 201, b'{"model":"llama"}\x00',
        b"\xef\xbb\xbf" + BODY, BODY[:-1], BODY + b"}", b'{"model":"llama","store":true,"store":false}',
        b'{"model":"llama","priority":1,"priority":[{}],"n":1e400}', b'{"model":"llama","input":"\xff"}',
    ]),
    st.dictionaries(st.text(max_size=4), st.text(max_size=9) | st.none() | st.floats(), max_size=4).map(
        lambda body: json.dumps({"model": "llama", **body}).encode()
    ),
)  # fmt: skip


@settings(max_examples=6, deadline=None)
@given(st.lists(ODD, min_size=10, max_size=20), st.sampled_from(["", "gzip", "br", "zstd"]))
def test_whatever_a_body_holds(odd, coding):
    """Wrong JSON, duplicates, NaN, lone surrogates, depth, codings that are none: the primary gets each
    byte, the books balance, mirror code never fails, and no arm gets a model that is not its own.
    """
    arms = {
        "fp8": {
            "models": {"llama": "x"}, "params": {"set": {"a.b": 1, "n": 2}, "remove": ["m"]},
            "include_usage": True, "key": "conversation",
        },
        "control": {"role": "control", "amplify": 2},
    }  # fmt: skip
    field = b"Content-Encoding: %b\r\n" % coding.encode() if coding else b""

    @in_loop
    async def passed() -> None:
        requests = [chat(body, field) for body in odd]
        seen, _, counts = await sent(arms, *requests, greedy_probe=0.5)
        assert seen["primary"] == odd
        for body in seen["fp8"]:
            assert {
                value
                for name, value in json.loads(body.decode(errors="replace"), object_pairs_hook=list)
                if name == "model"
            } == {"x"}
        told = {
            name: sum(n for (a, c, _), n in counts.items() if (a, c) == (name, "eligible"))
            for name in arms
        }
        assert all(count >= len(odd) for count in told.values())

    passed()


@in_loop
async def test_a_conversation_is_drawn_for_by_the_rate_of_its_weight():
    """A rate that falls while bodies come: who was to be drawn at the old one is, and weighs so."""
    arm = {"key": "conversation", "sample": 1.0}
    async with AsyncExitStack() as stack:
        primary = await stack.enter_async_context(upstream(answering(OK)))
        candidate = await stack.enter_async_context(upstream(answering(OK)))
        stage = await stack.enter_async_context(
            proxy(primary.url, {"fp8": {"url": candidate.url, **arm}})
        )
        users = [await stack.enter_async_context(client(stage.port)) for _ in range(30)]
        for n, user in enumerate(users):
            body = b'{"messages":[{"role":"user","content":"%d"}]}' % n
            await user.write(chat(body)[:-1])
        await until(lambda: stage.totals.open_streams == len(users))
        mirror = stage.proxy.mirror
        mirror.configure({"fp8": 0.01}, stage.proxy.config.limits)
        await until(lambda: mirror.arms[0].sample == 0.01)
        for user in users:
            await user.write(b"}")
            assert await user.exactly(len(OK)) == OK
        await until(lambda: not stage.ledger.held)
        weights = [each.weight for each in stage.publisher.exchanges if each.arm == "fp8"]
        assert weights == [1.0] * len(users)
