"""Times have the medians that were asked for, on paper and on the wire, and do not drift."""

import asyncio
import time
from random import Random
from statistics import mean, median

import aiohttp

from shadow.engine_sim.settings import Settings
from shadow.engine_sim.timing import offsets_s

from .serving import chat, engine


def draws(settings, count=2, n=4000):
    random = Random(5)
    return [offsets_s(settings, random, count) for _ in range(n)]


def test_medians_and_spread():
    """The first offset's median is ttft_ms, a gap's median is itl_ms, both lognormal."""
    drawn = draws(Settings(ttft_ms=60, ttft_sigma=0.2, itl_ms=12, itl_sigma=0.3))
    firsts, gaps = [d[0] for d in drawn], [d[1] - d[0] for d in drawn]
    assert 0.0585 < median(firsts) < 0.0615
    assert 0.0117 < median(gaps) < 0.0123
    assert 0.15 < sum(f > 0.06 * 2.718**0.2 for f in firsts) / len(firsts) < 0.17  # 1 - Phi(1)


def test_slowdown_is_a_factor_on_gaps_and_on_nothing_else():
    """The same draw, 15 % slower: gaps scale exactly, the first token's time stays."""
    plain, slow = draws(Settings(), 5, 50), draws(Settings(slowdown=1.15), 5, 50)
    for a, b in zip(plain, slow, strict=True):
        assert a[0] == b[0]
        assert abs((b[-1] - b[0]) - 1.15 * (a[-1] - a[0])) < 1e-9


def test_without_spread_every_draw_is_the_median():
    """sigma 0 is a clock."""
    still = Settings(ttft_ms=20, ttft_sigma=0, itl_ms=10, itl_sigma=0)
    assert all(abs(o - (0.02 + 0.01 * i)) < 1e-12 for i, o in enumerate(draws(still, 6, 1)[0]))


def test_the_wire_keeps_time():
    """Eight streams at once: the first token and the mean gap come when due, within loose bounds
    for a busy machine; a late write does not push the later ones back.
    """
    settings = Settings(ttft_ms=60, ttft_sigma=0, itl_ms=10, itl_sigma=0, tokens=30)

    async def arrivals(session, port, number):
        path, payload = chat(f"prompt {number}", max_tokens=25)
        sent = time.monotonic()
        async with session.post(f"http://127.0.0.1:{port}{path}", json=payload) as answer:
            return [time.monotonic() - sent async for _ in answer.content.iter_any()]

    async def run():
        async with engine(settings) as port, aiohttp.ClientSession() as session:
            await arrivals(session, port, 0)
            return await asyncio.gather(*(arrivals(session, port, n) for n in range(8)))

    streams = asyncio.run(run())
    assert 0.055 < median(s[0] for s in streams) < 0.080
    tpot = mean((s[-1] - s[0]) / (len(s) - 1) for s in streams if len(s) > 5)
    assert 0.0095 < tpot < 0.0125
