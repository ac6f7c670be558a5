"""Who pressed Ctrl-C reads what is waited for: nobody presses again for want of a word."""

from __future__ import annotations

import socket

import pytest
from aiohttp import web

from shadow.cli.draining import draining
from shadow.cli.serving import serving
from shadow.config import Config
from shadow.config.units import Address


def made(health: Address, workers: int = 1) -> Config:
    return Config.model_validate(
        {
            "experiment": "e",
            "capture": "text",
            "workers": workers,
            "drain": "150s",
            "primary": {"url": "http://127.0.0.1:1"},
            "arms": {"fp8": {"role": "candidate", "url": "http://127.0.0.1:2", "sample": 0.25}},
            "admin": {"health": str(health)},
            "stream": {"embedded": "./stream"},
            "store": {"embedded": "./store"},
        }
    )


def free() -> Address:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Address("127.0.0.1", probe.getsockname()[1])


def proxy(streams: int) -> web.Application:
    text = f'shadow_mirroring{{state="on"}} 1.0\nshadow_relay_open_streams {streams}.0\n'

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(text=text)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app


@pytest.mark.parametrize(
    ("streams", "said"),
    [
        (1, "draining: 1 stream open, at most 150 s; Ctrl-C again cuts it"),
        (3, "draining: 3 streams open, at most 150 s; Ctrl-C again cuts them"),
        (0, "draining: no stream is open, what was captured is stored; Ctrl-C again cuts that"),
    ],
)
def test_the_proxy_says_how_many_streams_are_open(streams, said):
    """By its own figure, not by a guess."""
    health = free()
    with serving(health, lambda: proxy(streams), "admin.health"):
        assert draining(made(health)) == said


def test_without_an_answer_the_bound_is_said():
    """A proxy that is down, or one worker of two: no count that leaves some out."""
    said = "draining: open streams have at most {} s; Ctrl-C again cuts them"
    assert draining(made(free())) == said.format(150)
    health = free()
    with serving(health, lambda: proxy(3), "admin.health"):
        assert draining(made(health, workers=2)) == said.format(300)
