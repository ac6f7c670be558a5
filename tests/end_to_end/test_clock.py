"""All processes while the host's clock is set by hours: what they ask for it is preloaded (clock.c)."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from end_to_end.stage import crowd, engine, stage, until

QUICK = {"ttft_ms": 5, "itl_ms": 2, "tokens": 20}
SLOW = {"ttft_ms": 20, "itl_ms": 150, "tokens": 20}
"""Three seconds an answer: open while the clock is set."""


@pytest.fixture
def clock(tmp_path, monkeypatch):
    """A file: what it says is what every process's wall clock is ahead by, in seconds. The clock
    that the embedded store's engine asks for itself (how long rows are kept) stays as it is."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("a C compiler and Linux set a process's clock")
    source, built = Path(__file__).with_name("clock.c"), tmp_path / "clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", built, source], check=True)
    file = tmp_path / "clock"
    file.write_text("0")
    monkeypatch.setenv("LD_PRELOAD", str(built))
    monkeypatch.setenv("CLOCK_FILE", str(file))
    return file


def settled(running, count: int, seconds: float = 30):
    """The report once all is stored: nothing dropped, nothing lost."""

    def look():
        report = running.report()
        arms = report.get("accounting", {}).get("arms", {})
        return report if arms and all(arm["captured"] == count for arm in arms.values()) else None

    report = until(look, seconds, f"{count} captured: {running.report().get('accounting')}")
    for arm in report["accounting"]["arms"].values():
        assert arm["eligible"] == arm["sampled"] == count
        assert (arm["dropped"], arm["lost"]) == ({}, 0)
    return report


def judged(report) -> int:
    return report["candidates"]["fp8"]["pairs"]["complete"]


@pytest.mark.whole
@pytest.mark.parametrize("by_s", [3 * 3600, -3 * 3600])
def test_a_clock_that_is_set_while_all_run(tmp_path, clock, by_s):
    """Streams that are open are whole; every exchange before and after is stored and, once its window
    closes, judged; a proxy that is killed and started afterwards is alive; the log says what happened."""
    with (
        engine(tmp_path, "primary", **SLOW) as primary,
        engine(tmp_path, "fp8", **QUICK) as candidate,
    ):
        arms = {"fp8": {"role": "candidate", "url": candidate, "sample": 1.0}}
        with stage(tmp_path, primary, arms) as running:
            asyncio.run(crowd(running.port, 40, 40, "before"))
            settled(running, 40)
            until(lambda: judged(running.report()) == 40, 30, "the first judged")

            async def meanwhile() -> None:
                async def set_it() -> None:
                    await asyncio.sleep(1)
                    clock.write_text(str(by_s))

                await asyncio.gather(crowd(running.port, 40, 40, "open"), set_it())

            asyncio.run(meanwhile())
            asyncio.run(crowd(running.port, 40, 40, "after"))
            settled(running, 120)
            until(lambda: "the clock was set" in running.log.read_text(), 60, "the analysis' word")
            running.kill("proxy")
            until(lambda: running.pid_of("proxy"), 30, "a proxy again")

            def served() -> bool:
                try:
                    asyncio.run(crowd(running.port, 1, 1, "again"))
                except (OSError, ExceptionGroup):
                    return False
                return True

            until(served, 30, "an answer")
            asyncio.run(crowd(running.port, 39, 39, "last"))
            report = settled(running, 160)
            assert report["accounting"]["arms"]["fp8"]["pending"] == 0
            # those that were open when the clock was set back wait for it to come there again
            least = 160 if by_s > 0 else 120
            until(lambda: judged(running.report()) >= least, 60, f"{least} judged")
            running.up.send_signal(signal.SIGINT)
            assert running.up.wait(60) == 0
            assert judged(running.report()) == 160
