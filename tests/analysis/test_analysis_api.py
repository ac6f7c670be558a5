"""Reports and verdicts over HTTP: who may ask, and that a verdict is always 200."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.test_utils import TestClient, TestServer

from analysis.api import api
from analysis.look import Memory, look

from .world import T0

S = 10**9


class Borrowed:
    """The session's client, which a request must not close."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        return getattr(self.client, name)

    def close(self):
        pass


def get(settings, connect, path, token="", shown=None):
    """(status, JSON) of one GET."""

    async def ask():
        headers = {"Authorization": shown} if shown else {}
        async with TestClient(TestServer(api(settings, connect, token))) as client:
            answer = await client.get(path, headers=headers)
            return answer.status, await answer.json()

    return asyncio.run(ask())


def test_reports_and_verdicts(world):
    """Before data: a hold. After: the verdict, the report, the name in the list."""
    settings = world.settings(control=None)
    base = f"/api/v1/experiments/{settings.experiment}"

    def connect():
        return Borrowed(world.client)

    status, said = get(settings, connect, f"{base}/verdict")
    assert (status, said["verdict"], said["candidate"]) == (200, "hold", "fp8")
    world.traffic(40, 20, {"fp8": {"tpot": 1.5}})
    world.store()
    world.heard(41, None)
    look(world.client, settings, Memory(), T0 + 42 * S, whole=True)
    status, said = get(settings, connect, f"{base}/verdict?candidate=fp8")
    assert (status, said["verdict"]) == (200, "reject")
    assert set(said) == {
        "experiment",
        "comparison",
        "candidate",
        "verdict",
        "reason",
        "config_hash",
        "judged_at",
    }
    status, report = get(settings, connect, f"{base}/report")
    assert (status, report["verdict"]) == (200, "reject")
    status, listed = get(settings, connect, "/api/v1/experiments")
    assert settings.experiment in listed["experiments"]


def test_what_is_not_known(world):
    """An unknown candidate holds with the reason; an unknown experiment has no report."""
    settings = world.settings(control=None)

    def connect():
        return Borrowed(world.client)

    base = f"/api/v1/experiments/{settings.experiment}"
    status, said = get(settings, connect, f"{base}/verdict?candidate=nope")
    assert (status, said["verdict"]) == (200, "hold")
    assert "nope" in said["reason"]
    assert get(settings, connect, "/api/v1/experiments/nowhere/report")[0] == 404
    status, said = get(settings, connect, "/api/v1/experiments/nowhere/verdict")
    assert (status, said["verdict"]) == (200, "hold")


def test_a_store_that_is_away(world):
    """The verdict holds with the reason, a report is 503 in one line."""

    def connect():
        raise ConnectionError("connection refused\nby the store")

    settings = world.settings(control=None)
    base = f"/api/v1/experiments/{settings.experiment}"
    status, said = get(settings, connect, f"{base}/verdict")
    assert (status, said["verdict"]) == (200, "hold")
    assert "connection refused by the store" in said["reason"]
    assert get(settings, connect, f"{base}/report")[0] == 503


@pytest.mark.parametrize(
    "shown", [None, "", "Bearer", "Bearer wrong", "Basic right", "bearer right"]
)
def test_without_the_token_nothing_is_said(world, shown):
    """401 for every path, before anything is read."""

    def connect():
        raise AssertionError("asked the store")

    for path in ("/api/v1/experiments", "/nowhere"):
        assert get(world.settings(), connect, path, "right", shown)[0] == 401
