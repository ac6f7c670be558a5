"""Nothing of a request is left when it is over, whatever its arm did: counted in this process.

After N mirrored requests, and N more, and N more: no object of the mirror or of a connection is
there, no type of shadow's has more objects each time, and not half a kilobyte a request was kept.
The whole way out, ledger, sender thread and embedded log, is the real one.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from faults.cases import BREAKER_OFF, FAULTS, Fault
from faults.engines import answer_of, good, upstream
from faults.rig import WELL, Client, chat

from shadow.app import Ports, Proxy
from shadow.config import Config
from shadow.publish.accounting import Ledger
from shadow.publish.publisher import Publisher
from shadow.stream.embedded import EmbeddedProducer

pytestmark = pytest.mark.alone

ROUND = 80
KEPT_BYTES = 512
"""A request, in every round; now and then one has 200 KB more, which are the interpreter's."""
SHORT = {"deadline": "400ms", "connect_timeout": "200ms", "idle_timeout": "200ms"}
OVER = {"Plan", "Capture", "ArmRequest", "Request", "Upstream", "Downstream", "Replica"}
"""What a request and its connections are made of."""


LARGE = {name for name, fault in FAULTS.items() if fault.event_bytes}


@pytest.mark.parametrize("names", [FAULTS.keys() - LARGE, LARGE], ids=["all at once", "large"])
def test_nothing_is_left_of_a_request(names: set[str], tmp_path: Path) -> None:
    """A round like the one before leaves nothing behind, by whichever arm: no object, no bytes."""
    tracemalloc.start()
    try:
        rounds = asyncio.run(_rounds([FAULTS[name] for name in sorted(names)], tmp_path))
    finally:
        tracemalloc.stop()
    kept_bytes = min(after - before for (_, before), (_, after) in pairwise(rounds))
    assert kept_bytes < KEPT_BYTES * ROUND, rounds
    assert not all(left for left, _ in rounds[1:]), rounds


async def _rounds(faults: list[Fault], tmp_path: Path) -> list[tuple[Counter[str], int]]:
    """After each of three: the objects that are more than after the one before, and bytes."""
    events, event_bytes = faults[0].events, faults[0].event_bytes
    found, known = [], Counter()
    async with AsyncExitStack() as stack:
        upstreams = upstream(good(events, event_bytes)), *(fault.arm() for fault in faults)
        primary, *bad = [await stack.enter_async_context(each) for each in upstreams]
        arms = {
            f"arm{n}": {"url": arm.url, **BREAKER_OFF, **fault.settings, **SHORT}
            for n, (arm, fault) in enumerate(zip(bad, faults, strict=True))
        }
        proxy, publisher = await stack.enter_async_context(_in_process(tmp_path, primary.url, arms))
        for _ in range(3):
            await _ask(proxy.port, 4 if event_bytes else ROUND, events, event_bytes)
            await _settled(proxy, publisher)
            gc.collect()
            objects = Counter(
                type(each).__name__
                for each in gc.get_objects()
                if str(type(each).__module__).startswith("shadow.")
            )
            assert not OVER & objects.keys(), objects
            found.append((objects - known, tracemalloc.get_traced_memory()[0]))
            known = objects
    return found


@asynccontextmanager
async def _in_process(tmp_path: Path, primary: str, arms: dict[str, dict]):
    config = Config.model_validate(
        {
            "experiment": "leaks",
            "listen": "127.0.0.1:0",
            "capture": "full",
            "primary": {"url": primary, "idle_timeout": SHORT["idle_timeout"]},
            "arms": {name: {**WELL, **arm} for name, arm in arms.items()},
            "stream": {"embedded": "unused"},
            "store": {"embedded": "unused-store"},
            "isolation": "off",
        }
    )
    ledger, _ = Ledger.open(tmp_path / "state", "0", "leaks", "hash")
    publisher = Publisher(lambda: EmbeddedProducer(tmp_path / "stream", "0"), ledger, 64 * 2**20)
    proxy = Proxy(config, Ports(ledger, publisher))
    await proxy.start()
    try:
        yield proxy, publisher
    finally:
        await proxy.drain(0)
        ledger.close(published=publisher.close(10))
        assert not proxy.totals.mirror_errors, proxy.totals.last_mirror_error


async def _ask(port: int, requests: int, events: int, event_bytes: int) -> None:
    numbers = iter(range(requests))

    async def client() -> None:
        mine = Client(port)
        try:
            for number in numbers:
                body = chat(number, 4000)
                await mine.ask(body, answer_of(body, events, event_bytes))
        finally:
            await mine.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(8, requests // 2)):
            group.create_task(client())


async def _settled(proxy: Proxy, publisher: Publisher) -> None:
    """Every copy has ended, every idle connection too, and all is on the log."""
    pools = [proxy.relay.pool, *(arm.pool for arm in proxy.mirror.arms)]
    for _ in range(500):
        busy = any(arm.open for arm in proxy.mirror.arms) or publisher.queued_bytes
        if not busy and not any(pool._open for pool in pools) and not proxy.relay.clients:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("something is still open")
