"""`shadow up` as a whole: real processes, kill -9, and books that balance to the last exchange."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import signal
import threading
import time
import urllib.request

import pytest
from end_to_end.stage import answers, ask, chat, crowd, engine, stage, until

QUICK = {"ttft_ms": 5, "itl_ms": 2, "tokens": 20}
WAITING = {"ttft_ms": 800, "itl_ms": 2, "tokens": 20}


def text_of(raw: bytes) -> str:
    """The streamed text of an answer, read without any of our decoders."""
    return "".join(
        json.loads(match)["choices"][0]["delta"].get("content") or ""
        for match in re.findall(rb"^data: (\{.*\})\r?$", raw, re.MULTILINE)
        if json.loads(match)["choices"]
    )


def sampled(running) -> int:
    """How many requests the proxy has sampled for the candidate, by its own /metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{running.health}/metrics", timeout=5) as answer:
        found = re.search(rb'shadow_sampled_total\{arm="fp8"\} ([0-9.e+]+)', answer.read())
    return int(float(found[1])) if found else 0


def settled(running, sampled: int):
    """The report once all that was sampled is in the store."""

    def look():
        report = running.report()
        arms = report.get("accounting", {}).get("arms", {})
        whole = arms and all(arm["captured"] == sampled for arm in arms.values())
        return report if whole else None

    return until(look, 60, f"{sampled} captured on every arm: {running.report().get('accounting')}")


def test_killing_collector_and_analysis_costs_no_client_a_byte(tmp_path):
    """kill -9 of both, again and again, during load: every stream is whole, every exchange stored."""
    count = 300
    with contextlib.ExitStack() as stack:
        primary, candidate, control = (
            stack.enter_context(engine(tmp_path, name, seed=seed, **QUICK))
            for seed, name in enumerate(("primary", "fp8", "control"))
        )
        arms = {
            "fp8": {"role": "candidate", "url": candidate, "sample": 1.0},
            "control": {"role": "control", "url": control, "sample": 1.0},
        }
        running = stack.enter_context(stage(tmp_path, primary, arms))
        over = threading.Event()

        def kill_on() -> None:
            while not over.wait(0.7):
                running.kill("collect")
                running.kill("analyze")

        killer = threading.Thread(target=kill_on)
        killer.start()
        try:
            seen = asyncio.run(crowd(running.port, count, 10, "kill"))
        finally:
            over.set()
            killer.join()
        direct = asyncio.run(ask(int(primary.rpartition(":")[2]), chat("kill 7")))
        assert text_of(seen[7]) == text_of(direct)
        assert len(running.killed) >= 2
        report = settled(running, count)
        for name, arm in report["accounting"]["arms"].items():
            assert arm["eligible"] == arm["sampled"] == arm["captured"] == count, (name, arm)
            assert (arm["dropped"], arm["pending"], arm["lost"]) == ({}, 0, 0), (name, arm)
        running.up.send_signal(signal.SIGINT)
        assert running.up.wait(60) == 0
        after = running.report()  # nothing serves the store now: the folder is opened
        assert after["accounting"] == report["accounting"]


@pytest.mark.whole
def test_a_drain_loses_nothing_captured(tmp_path):
    """Ctrl-C with streams running: they end whole, what was captured is in the store."""
    slow = {"ttft_ms": 20, "itl_ms": 40, "tokens": 40, "itl_sigma": 0.05}
    with (
        engine(tmp_path, "primary", **slow) as primary,
        engine(tmp_path, "fp8", **QUICK) as candidate,
    ):
        arms = {"fp8": {"role": "candidate", "url": candidate, "sample": 1.0}}
        with stage(tmp_path, primary, arms) as running:

            async def scene() -> list[bytes]:
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(ask(running.port, chat(f"drain {n}"))) for n in range(20)
                    ]
                    await asyncio.sleep(0.5)
                    running.up.send_signal(signal.SIGINT)
                return [task.result() for task in tasks]

            began = time.monotonic()
            seen = asyncio.run(scene())
            assert running.up.wait(60) == 0
            assert time.monotonic() - began < 30
            assert len({hashlib.sha256(text_of(raw).encode()).digest() for raw in seen}) > 1
            arms = running.report()["accounting"]["arms"]
            assert arms["primary"]["captured"] == arms["fp8"]["captured"] == 20
            assert arms["primary"]["lost"] == arms["fp8"]["lost"] == 0


def test_a_second_interrupt_cuts_and_says_so(tmp_path):
    """The first Ctrl-C says what it waits for; the second cuts the stream, and that is no 0."""
    with engine(tmp_path, "primary", ttft_ms=5, itl_ms=500, tokens=60) as primary:
        arms = {"fp8": {"role": "candidate", "url": primary, "sample": 0.0}}
        with stage(tmp_path, primary, arms) as running:

            async def scene() -> None:
                begun = asyncio.ensure_future(ask(running.port, chat("long")))
                await asyncio.sleep(1.0)
                running.up.send_signal(signal.SIGINT)
                said = "shadow up: draining: 1 stream open, at most 20 s; Ctrl-C again cuts it\n"
                await asyncio.to_thread(until, lambda: said in running.log.read_text())
                assert not begun.done()
                running.up.send_signal(signal.SIGINT)
                await asyncio.gather(begun, return_exceptions=True)

            asyncio.run(scene())
            assert running.up.wait(30) == 130
            assert "shadow up: proxy 0 was cut\n" in running.log.read_text()


def test_a_second_up_leaves_the_first_alone(tmp_path):
    """It names the first, in one line; what it names drains by the signal that it says."""
    with engine(tmp_path, "primary", **QUICK) as primary:
        arms = {"fp8": {"role": "candidate", "url": primary, "sample": 0.0}}
        with stage(tmp_path, primary, arms) as running:
            second = running.shadow("up")
            assert (second.returncode, second.stderr.count("\n")) == (2, 1)
            named = re.search(r"kill (\d+) drains it$", second.stderr.strip())
            assert named is not None, second.stderr
            assert int(named[1]) == running.up.pid
            assert answers(f"http://127.0.0.1:{running.health}/readyz")
            os.kill(int(named[1]), signal.SIGTERM)
            assert running.up.wait(60) == 0


def test_a_killed_proxy_is_counted(tmp_path):
    """kill -9 of the proxy under load: what it had sampled and not stored is counted as lost."""
    with (
        engine(tmp_path, "primary", **WAITING) as primary,
        engine(tmp_path, "fp8", **WAITING) as candidate,
    ):
        arms = {"fp8": {"role": "candidate", "url": candidate, "sample": 1.0}}
        with stage(tmp_path, primary, arms) as running:
            asyncio.run(crowd(running.port, 40, 40, "before"))

            async def cut() -> None:
                tasks = [
                    asyncio.ensure_future(ask(running.port, chat(f"cut {n}"))) for n in range(30)
                ]
                await asyncio.to_thread(until, lambda: sampled(running) >= 40 + 10)
                running.kill("proxy")
                await asyncio.gather(*tasks, return_exceptions=True)

            asyncio.run(cut())
            until(
                lambda: answers(f"http://127.0.0.1:{running.health}/readyz"),
                30,
                "a new proxy",
            )
            asyncio.run(crowd(running.port, 40, 40, "after"))

            def balanced():
                # what had ended just before the kill may not have been published: it is lost too
                arms = running.report().get("accounting", {}).get("arms", {})
                return (
                    arms
                    if arms and all(a["pending"] == 0 and a["sampled"] >= 90 for a in arms.values())
                    else None
                )

            arms = until(balanced, 60, "books that balance")
            for arm in arms.values():
                assert arm["eligible"] == arm["sampled"] + sum(arm["skipped"].values())
                dropped = sum(arm["dropped"].values())
                assert arm["sampled"] == arm["captured"] + dropped + arm["pending"] + arm["lost"]
            assert arms["primary"]["lost"] + arms["fp8"]["lost"] > 0


@pytest.mark.whole
def test_nobody_else_reads_what_is_written(tmp_path):
    """Stream, store and counters hold prompts: no file of them is readable by another user."""
    with engine(tmp_path, "primary", **QUICK) as primary:
        arms = {"fp8": {"role": "candidate", "url": primary, "sample": 1.0}}
        with stage(tmp_path, primary, arms) as running:
            asyncio.run(crowd(running.port, 3, 3, "private"))
            settled(running, 3)
        written = [
            path
            for folder in ("stream", "store", "state")
            for path in (tmp_path / folder).rglob("*")
            if path.is_file()
        ]
        assert len(written) > 10
        assert [path for path in written if path.stat().st_mode & 0o077] == []
