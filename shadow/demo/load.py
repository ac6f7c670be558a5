"""An open-loop client: requests leave when due, whether or not earlier ones were answered."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import aiohttp

DONE = b"data: [DONE]"
HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Totals:
    """What became of all requests: sent = answered + the sum of `failures`."""

    sent: int
    answered: int
    failures: dict[str, int]
    """How -> how often: `status 502`, `truncated`, `reset`, `not connected`, `timed out`."""
    answer_bytes: int
    seconds: float


def due_s(count: int, seconds: float, seed: int) -> list[float]:
    """When each of `count` requests leaves: one in each of `count` equal slots, anywhere within it.

    So every second gets the same number, give or take one, and no rhythm meets another.
    """
    draw = Random(seed)  # noqa: S311 seeded on purpose
    return [(number + draw.random()) * seconds / count for number in range(count)]


async def send(
    url: str,
    bodies: Sequence[bytes],
    due: Sequence[float],
    *,
    at_once: int = 0,
    timeout_s: float = 120.0,
    answered: Callable[[], None] = lambda: None,
) -> Totals:
    """POST each body to `url` when due and read the answer to its end.

    Args:
        url: of the completions endpoint.
        bodies: the requests, in order.
        due: seconds from now at which each leaves.
        at_once: open requests at most, 0 without bound (a bound makes it a closed loop).
        timeout_s: over one request as a whole.
        answered: called after each, whatever became of it.
    """
    ends: Counter[str] = Counter()
    received = 0
    gate = asyncio.Semaphore(at_once or len(bodies) or 1)
    began = time.monotonic()

    async def one(session: aiohttp.ClientSession, body: bytes) -> None:
        nonlocal received
        async with gate:
            end, size = await _ask(session, url, body)
        ends[end] += 1
        received += size
        answered()

    timeout = aiohttp.ClientTimeout(total=timeout_s)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=4)
    async with (
        aiohttp.ClientSession(headers=HEADERS, timeout=timeout, connector=connector) as session,
        asyncio.TaskGroup() as group,
    ):
        for moment, body in zip(due, bodies, strict=True):
            await asyncio.sleep(max(0.0, began + moment - time.monotonic()))
            group.create_task(one(session, body))
    sound = ends.pop("", 0)
    return Totals(len(bodies), sound, dict(ends), received, time.monotonic() - began)


async def _ask(session: aiohttp.ClientSession, url: str, body: bytes) -> tuple[str, int]:
    """(how it failed, empty if it did not; bytes of the answer)."""
    size, tail = 0, b""
    try:
        async with session.post(url, data=body) as answer:
            async for part in answer.content.iter_any():
                size += len(part)
                tail = (tail + part)[-64:]
    except TimeoutError:
        return "timed out", size
    except aiohttp.ClientPayloadError:
        return "truncated", size
    except aiohttp.ClientConnectorError:
        return "not connected", size
    except (aiohttp.ClientError, ConnectionError):
        return "reset", size
    if answer.status != 200:
        return f"status {answer.status}", size
    streamed = answer.content_type == "text/event-stream"
    return ("truncated" if streamed and DONE not in tail else ""), size
