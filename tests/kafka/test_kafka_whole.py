"""The whole path over a real Kafka: `shadow up`, more collectors that come and go, books that balance."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from contextlib import closing

import pytest
import yaml
from end_to_end.stage import SHADOW, answers, crowd, engine, free_port, process, stage, until

from analysis.answers import report
from analysis.look import Memory, look
from collector.folder import secret_of
from collector.store import connect
from collector.store_errors import StoreError, store_errors
from shadow.cli.analysis import analysis_settings
from shadow.cli.settings import store_settings
from shadow.config import Config, load

pytestmark = pytest.mark.kafka

QUICK = {"ttft_ms": 5, "itl_ms": 2, "tokens": 20}


def kafka(bootstrap, tmp_path) -> dict:
    name = uuid.uuid4().hex
    said = {
        "bootstrap_servers": list(bootstrap),
        "topic": f"shadow.whole-{name}",
        "dead_letter_topic": f"shadow.whole-{name}.dead",
        "group": name,
        "create_topic": True,
        "partitions": 4,
        "spill": str(tmp_path / "spill"),
        "connect_timeout": "3s",
        "append_timeout": "3s",
    }
    return {"kafka": said}


def settled(running, count: int) -> dict:
    def look():
        arms = running.report().get("accounting", {}).get("arms", {})
        return arms if arms and all(arm["captured"] == count for arm in arms.values()) else None

    return until(look, 90, f"{count} captured: {running.report().get('accounting')}")


def balanced(arms: dict, count: int) -> None:
    for name, arm in arms.items():
        assert arm["eligible"] == arm["sampled"] == arm["captured"] == count, (name, arm)
        assert (arm["dropped"], arm["pending"], arm["lost"]) == ({}, 0, 0), (name, arm)


def test_collectors_that_come_and_go_change_no_figure(bootstrap, tmp_path):
    """One, two and three collectors of one group under load, kill -9 among them: all stored once, and
    the report and its rows are those that one undisturbed collector makes of the same topic."""
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(engine(tmp_path, "primary", **QUICK))
        candidate = stack.enter_context(engine(tmp_path, "fp8", seed=1, **QUICK))
        arms = {"fp8": {"role": "candidate", "url": candidate, "sample": 1.0}}
        stream = kafka(bootstrap, tmp_path)
        running = stack.enter_context(stage(tmp_path, primary, arms, stream=stream))
        # Further collectors write to the store of the first, over its HTTP interface.
        tree = yaml.safe_load(running.config.read_text())
        secret = until(lambda: secret_of(tmp_path / "store"), 60, "the store's secret")
        store = {"url": f"http://127.0.0.1:{running.store}", "password": "${STORE_SECRET}"}
        tree["store"] = {"clickhouse": store}

        async def collector(name: str) -> subprocess.Popen:
            """One more, and back when it has its share of the partitions."""
            address = f"127.0.0.1:{free_port()}"
            more = tmp_path / f"{name}.yaml"
            more.write_text(
                yaml.safe_dump(tree | {"admin": tree["admin"] | {"collector": address}})
            )
            log = stack.enter_context((tmp_path / f"{name}.log").open("ab"))
            argv = [*SHADOW, "collect", "-c", str(more)]
            environment = os.environ | {"STORE_SECRET": secret}
            child = subprocess.Popen(argv, stdout=log, stderr=log, env=environment)  # noqa: ASYNC220
            stack.callback(child.kill)
            at_work = lambda: answers(f"http://{address}/readyz")  # noqa: E731
            await asyncio.to_thread(until, at_work, 60, f"collector {name}")
            await asyncio.sleep(2.0)
            return child

        over, sent = asyncio.Event(), 0

        async def load() -> None:
            nonlocal sent
            while not over.is_set():
                await crowd(running.port, 20, 5, f"come and go {sent}")
                sent += 20

        async def scene() -> None:
            loading = asyncio.ensure_future(load())
            first = await collector("first")
            second = await collector("second")
            first.kill()
            await asyncio.to_thread(first.wait)
            await asyncio.sleep(1.0)
            second.terminate()
            assert await asyncio.to_thread(second.wait, 40) == 0
            over.set()
            await loading

        asyncio.run(scene())
        assert sent >= 100
        balanced(settled(running, sent), sent)
        quiet = tree | {
            "store": {"embedded": str(tmp_path / "q"), "listen": f"127.0.0.1:{free_port()}"},
            "stream": {"kafka": tree["stream"]["kafka"] | {"group": f"{uuid.uuid4().hex}"}},
        }
        path = tmp_path / "quiet.yaml"
        path.write_text(yaml.safe_dump(quiet))
        stack.enter_context(process([*SHADOW, "collect", "-c", str(path)], tmp_path / "quiet.log"))
        held = lambda: answers_of(path, "SELECT uniqExact(pair_id, arm) FROM exchanges")  # noqa: E731
        until(lambda: held() == [(2 * sent,)], 60, "the quiet collector's rows")
        undisturbed, found = figures(path, sent), figures(running.config, sent)
        assert dict(differing(found, undisturbed)) == {}


def client_of(config: Config):
    return closing(connect(store_settings(config)))


def answers_of(path, query: str) -> list:
    with contextlib.suppress(StoreError), store_errors(), client_of(load(path, Config)) as client:
        return client.query(query).result_rows
    return []


def differing(one, other, path: str = ""):
    """(where, both) of every leaf that differs; sums of floats may, in their last digits: ClickHouse
    adds in the order of its parts."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differing(one.get(key), other.get(key), f"{path}.{key}")
    elif (
        isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other)
    ):
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from differing(a, b, f"{path}.{place}")
    elif isinstance(one, float) and isinstance(other, float):
        if one != pytest.approx(other, rel=1e-9, abs=1e-12):
            yield path, (one, other)
    elif one != other:
        yield path, (one, other)


def figures(path, pairs: int) -> dict:
    """The report's candidates and books once all pairs are in closed windows, and the rows that they
    were made of, of that file's store."""
    config = load(path, Config)
    settings = analysis_settings(config)
    with client_of(config) as client:

        def told() -> dict | None:
            look(client, settings, Memory(), time.time_ns(), whole=True)
            document = report(client, settings)
            complete = document["candidates"]["fp8"]["pairs"]["complete"]
            return document if complete == pairs else None

        document = until(told, 60, f"{pairs} pairs in closed windows")
        return {
            "candidates": document["candidates"],
            "accounting": document["accounting"],
            "exchanges": client.query("SELECT * FROM exchanges FINAL ORDER BY ALL").result_rows,
            "bodies": client.query("SELECT * FROM bodies FINAL ORDER BY ALL").result_rows,
        }


def test_a_broker_that_is_away_is_said_and_waited_for(own_broker, tmp_path):
    """Kafka killed under load: clients notice nothing, /readyz says so, all is stored afterwards."""
    count = 60
    with contextlib.ExitStack() as stack:
        (tmp_path / "broker").mkdir()
        cluster = own_broker(tmp_path / "broker")
        stack.callback(cluster.close)
        primary = stack.enter_context(engine(tmp_path, "primary", **QUICK))
        candidate = stack.enter_context(engine(tmp_path, "fp8", seed=1, **QUICK))
        arms = {"fp8": {"role": "candidate", "url": candidate, "sample": 1.0}}
        stream = kafka(cluster.bootstrap, tmp_path)
        running = stack.enter_context(stage(tmp_path, primary, arms, stream=stream))
        ready = f"http://127.0.0.1:{running.health}/readyz"
        asyncio.run(crowd(running.port, count // 3, 5, "before"))
        cluster.nodes[0].kill()
        asyncio.run(crowd(running.port, count // 3, 5, "while it is away"))
        until(lambda: not answers(ready), 40, "a /readyz that says so")
        with pytest.raises(urllib.error.HTTPError) as unready:
            urllib.request.urlopen(ready, timeout=5)
        with unready.value as error:
            assert b"kafka at" in error.read()
        cluster.nodes[0].start()
        cluster.await_ready()
        asyncio.run(crowd(running.port, count // 3, 5, "after"))
        until(lambda: answers(ready), 60, "a /readyz that is ready again")
        balanced(settled(running, count), count)


def test_a_wrong_password_is_one_line_within_ten_seconds(cluster, tmp_path):
    """The collector says that it could not log in, and keeps its exit status for scripts."""
    policy = {
        "experiment": "e",
        "capture": "text",
        "primary": {"url": "http://127.0.0.1:9"},
        "stream": kafka(cluster.sasl, tmp_path),
        "store": {"embedded": str(tmp_path / "store"), "listen": f"127.0.0.1:{free_port()}"},
        "admin": {"collector": f"127.0.0.1:{free_port()}"},
    }
    policy["stream"]["kafka"] |= {
        "sasl_mechanism": "PLAIN",
        "sasl_user": "shadow",
        "sasl_password": "${WRONG}",
        "connect_timeout": "30s",  # it is not waited for: a refusal ends the attempt
    }
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump(policy))
    began = time.monotonic()
    with subprocess.Popen(
        [*SHADOW, "collect", "-c", str(path)],
        env={**os.environ, "WRONG": "not-it"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            address = policy["admin"]["collector"]
            said = until(lambda: _reason(address), 20, "a reason in /readyz")
            assert time.monotonic() - began < 10
            assert "log in" in said
            assert "not-it" not in said
        finally:
            process.terminate()
            process.wait(40)


def _reason(address: str) -> str | None:
    """What /readyz gives as the reason, once Kafka did not let it in."""
    try:
        urllib.request.urlopen(f"http://{address}/readyz", timeout=2).close()
    except urllib.error.HTTPError as error:
        with error:
            text = error.read().decode()
            return text if "the stream is away: kafka" in text else None
    except (TimeoutError, urllib.error.URLError):
        return None
    return None
