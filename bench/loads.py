"""The three loads, each a process of its own on the load's core, and what each says of itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence

from bench.load import PATH
from bench.measure import on_core
from bench.peers import HERE, LOAD_CORE

Figures = dict[str, float]

RATE_PER_S = 1000
STREAMS = 200
EVENTS = 101
GAP_MS = 20
CONNECTIONS = 16
SETTINGS = {
    "connections": CONNECTIONS,
    "rate_per_s": RATE_PER_S,
    "streams": STREAMS,
    "events": EVENTS,
    "gap_ms": GAP_MS,
}


def _load(command: Sequence[str]) -> Figures:
    """Run one load on its core; its last line is its figures.

    Raises:
        RuntimeError: it failed; with what it said.
    """
    with on_core(LOAD_CORE):
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=HERE.parent, check=False, timeout=120
        )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-800:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def saturating(port: int, seconds: int) -> Figures:
    """Small JSON as fast as one wrk thread gets it.

    Raises:
        RuntimeError: more than one request in a hundred failed.
    """
    wrk = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(HERE / "post.lua")]
    figures = _load([*wrk, f"http://127.0.0.1:{port}{PATH}"])
    if figures["failed"] > figures["requests"] / 100:
        raise RuntimeError(f"{figures['failed']:g} of {figures['requests']:g} requests failed")
    return figures | {"requests_per_s": figures["requests"] / figures["seconds"]}


def paced(port: int, per_second: int, seconds: float) -> Figures:
    """Small JSON at a fixed rate."""
    arguments = ["paced", str(port), str(per_second), str(seconds)]
    return _load([sys.executable, "-m", "bench.load", *arguments])


def streaming(port: int) -> Figures:
    """Concurrent event streams."""
    arguments = ["streams", str(port), str(STREAMS), str(EVENTS), str(GAP_MS)]
    return _load([sys.executable, "-m", "bench.load", *arguments])


def workloads(seconds: int) -> dict[str, Callable[[int], Figures]]:
    """Name to load; the first needs wrk."""
    loads: dict[str, Callable[[int], Figures]] = {
        "json": lambda port: saturating(port, seconds),
        "paced": lambda port: paced(port, RATE_PER_S, seconds),
        "streams": streaming,
    }
    return loads if shutil.which("wrk") else {n: load for n, load in loads.items() if n != "json"}


_COLUMNS = {
    "json": (
        "requests_per_s",
        "time_p99_ms",
        "cpu_s_per_1000",
        "mirrored_share",
        "delivered_share",
    ),
    "paced": ("time_p99_ms", "cpu_s_per_1000", "mirrored_share", "delivered_share"),
    "streams": ("cpu_s", "ttfb_p50_ms", "delay_p99_ms", "mirrored_share", "delivered_share"),
}


def line(number: int, name: str, result: dict[str, Figures]) -> str:
    """One line on the terminal, so that one sees it run."""
    shown = [
        f"{load} "
        + " ".join(f"{key}={result[load][key]:.4g}" for key in keys if key in result[load])
        for load, keys in _COLUMNS.items()
        if load in result
    ]
    drops = {k: int(v) for k, v in result.get("accounting", {}).items()}
    return f"round {number + 1}  {name:34}" + "  ".join(shown) + (f"  {drops}" if drops else "")
