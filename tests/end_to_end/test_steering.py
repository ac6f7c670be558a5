"""Steering a running `shadow up`: pause, rate, SIGHUP reach every worker; a bound ends it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import urllib.request

import pytest
import yaml
from end_to_end.stage import answers, ask, chat, engine, free_port, stage, until

QUICK = {"ttft_ms": 2, "itl_ms": 1, "tokens": 4}


def figure(running, worker: int, name: str) -> float:
    """One figure of one worker's /metrics; 0 where it is not there."""
    url = f"http://127.0.0.1:{running.health + worker}/metrics"
    with urllib.request.urlopen(url, timeout=5) as answer:
        found = re.search(rf"^{re.escape(name)} (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def both(running, name: str, value: float) -> bool:
    return all(figure(running, worker, name) == value for worker in (0, 1))


def skipped(running, reason: str) -> float:
    name = f'shadow_skipped_total{{arm="fp8",reason="{reason}"}}'
    return figure(running, 0, name) + figure(running, 1, name)


async def steady(port: int, seconds: int) -> None:
    """Thirty requests a second."""
    for number in range(seconds * 10):
        await asyncio.gather(*(ask(port, chat(f"{number} {n}")) for n in range(3)))
        await asyncio.sleep(0.1)


def events(running) -> list[str]:
    query = "SELECT kind FROM shadow.events WHERE kind LIKE 'mirror%' ORDER BY at FORMAT TSV"
    request = urllib.request.Request(f"http://127.0.0.1:{running.store}/", query.encode())
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode().split()
    except OSError:
        return ["no table yet"]


@pytest.mark.whole
def test_a_running_experiment_is_steered_and_ends_by_itself(tmp_path, monkeypatch):
    """By the control port, two workers hear it; SIGHUP to `up` brings a new rate; `stop_at`
    ends mirroring; clients get every byte throughout; who said what is in the store."""
    control = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("SHADOW__ADMIN__CONTROL", control)
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(engine(tmp_path, "primary", **QUICK))
        arms = {
            "fp8": {"role": "candidate", "url": f"http://127.0.0.1:{free_port()}", "sample": 0.5}
        }
        changes = {"workers": 2, "stop_at": {"pairs": 60}}
        running = stack.enter_context(stage(tmp_path, primary, arms, **changes))
        until(lambda: answers(f"http://{control}/api/v1/mirror"), what="the control port")
        until(lambda: events(running) == [], what="the tables")

        said = running.shadow("mirror", "pause", "--by", "ann", "--reason", "deploy")
        assert said.returncode == 0, said.stderr
        until(lambda: both(running, 'shadow_mirroring{state="paused"}', 1), 5, "a pause")
        asyncio.run(steady(running.port, 1))
        assert skipped(running, "paused") == 30
        assert running.shadow("mirror", "resume", "--by", "ann").returncode == 0
        until(lambda: both(running, 'shadow_mirroring{state="on"}', 1), 5, "its end")

        tree = yaml.safe_load(running.config.read_text())
        tree["arms"]["fp8"]["sample"] = 1.0
        running.config.write_text(yaml.safe_dump(tree))
        os.kill(running.up.pid, signal.SIGHUP)
        until(lambda: both(running, 'shadow_arm_rate{arm="fp8"}', 1), 5, "the new rate")

        for _ in range(12):
            asyncio.run(steady(running.port, 2))
            if both(running, 'shadow_mirroring{state="stopped"}', 1):
                break
        until(lambda: both(running, 'shadow_mirroring{state="stopped"}', 1), 20, "the end")
        before = skipped(running, "stopped")
        asyncio.run(steady(running.port, 1))
        assert skipped(running, "stopped") == before + 30
        assert "ended, stop_at.pairs: " in running.shadow("mirror", "status").stdout
        assert events(running) == ["mirror_pause", "mirror_resume", "mirroring_ended"]
