"""The engine as a server: equal over arms, repeatable, queued, and strict about what it is asked."""

import asyncio
import time

import aiohttp
import pytest

from shadow.engine_sim.asked import read
from shadow.engine_sim.engine import Engine, fingerprint
from shadow.engine_sim.plan import plan

from .serving import answers, ask, chat, engine, quick


def planned(settings, payload, times=1):
    """The plan for the n-th arrival of a request, without the wire."""

    async def run():
        one = Engine(settings)
        wanted = read(payload, "chat", settings)
        for _ in range(times):
            draw = one.draw(wanted.digest)
        return plan(wanted, settings, one.envelope("chat", draw, None), draw, None)

    return asyncio.run(run())


def test_a_seed_is_a_whole_run():
    """The same seed plans the same moments for the same request, another seed others."""
    _, payload = chat()
    first = planned(quick(seed=7), payload)
    assert first.offsets_s == planned(quick(seed=7), payload).offsets_s
    assert first.offsets_s != planned(quick(seed=8), payload).offsets_s
    assert first.offsets_s != planned(quick(seed=7), payload, times=2).offsets_s


def test_order_of_arrival_does_not_matter():
    """Other requests in between change nothing, so concurrency does not break a seed."""
    _, payload = chat()
    _, other = chat("another prompt")

    async def run():
        one = Engine(quick())
        one.draw(read(other, "chat", quick()).digest)
        return one.draw(read(payload, "chat", quick()).digest).random()

    async def alone():
        return Engine(quick()).draw(read(payload, "chat", quick()).digest).random()

    assert asyncio.run(run()) == asyncio.run(alone())


def test_equal_engines_agree_on_the_wire():
    """Primary and control differ in seed alone: same text, same length, same fingerprint."""
    a, b = (answers(quick(seed=seed), chat("hello"), chat("bye")) for seed in (1, 2))
    assert [s.text for s in a] == [s.text for s in b]
    assert a[0].text != a[1].text
    assert (
        fingerprint(quick(seed=1)) == fingerprint(quick(seed=2)) != fingerprint(quick(differ=0.1))
    )


def test_slots_queue_what_does_not_fit():
    """With one slot, three answers of 100 ms come one after the other; without, at once."""

    async def run(slots):
        settings = quick(ttft_ms=100, ttft_sigma=0, itl_ms=0, slots=slots)
        async with engine(settings) as port:
            began = time.monotonic()
            await asyncio.gather(*(ask(port, *chat(f"{n}")) for n in range(3)))
            return time.monotonic() - began

    assert asyncio.run(run(1)) > 0.3
    assert asyncio.run(run(0)) < 0.3


@pytest.mark.parametrize(
    "payload",
    [
        {},
        [],
        {"messages": []},
        {"messages": [1], "max_tokens": 0},
        {"messages": [1], "max_tokens": "x"},
    ],
)
def test_what_cannot_be_answered(payload):
    """No prompt or a senseless bound: 400 with a reason."""
    seen = answers(quick(), ("/v1/chat/completions", payload))[0]
    assert seen.status == 400
    assert b"message" in seen.body


def test_large_prompts_are_read():
    """A prompt of 3 MiB is answered as any other."""
    assert answers(quick(), chat("word " * 600_000))[0].done


def test_vllm_takes_the_clients_request_id():
    """X-Request-Id becomes part of the answer's id."""

    async def run():
        async with engine(quick()) as port:
            return await ask(port, *chat(), headers="X-Request-Id: abc-1\r\n")

    assert asyncio.run(run()).events[0]["id"] == "chatcmpl-abc-1"


def test_models_and_health():
    """The model is named as clients must spell it; health is an empty 200."""

    async def run():
        async with engine(quick(model="m-1")) as port, aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/v1/models") as models:
                listed = await models.json()
            async with session.get(f"http://127.0.0.1:{port}/health") as health:
                return listed, health.status, await health.read()

    listed, status, body = asyncio.run(run())
    assert [m["id"] for m in listed["data"]] == ["m-1"]
    assert (status, body) == (200, b"")
