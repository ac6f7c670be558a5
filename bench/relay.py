"""The relay beside its peers: small JSON as fast as it goes, small JSON at a fixed rate, streams.

One proxy at a time on one core, load and upstreams on the other, a fresh process for each proxy in
each round, rounds interleaved (A B C, A B C). What a proxy puts off is waited for and counted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.request import urlopen

from bench import delivery
from bench.figures import over_rounds
from bench.load import PATH
from bench.measure import core_busy_s, cpu_s, on_core, settle
from bench.peers import DIRECT, HERE, LOAD_CORE, PEERS, PROXY_CORE, Peer, Place, free_ports, running

Say = Callable[[str], None]
Figures = dict[str, float]


class Options(Protocol):
    """What this benchmark reads of the command line."""

    peer: list[str]
    rounds: int
    seconds: float


WARM_UP_PER_S = 500
WARM_UP_S = 0.3
RATE_PER_S = 1000
STREAMS = 200
EVENTS = 101
GAP_MS = 20
CONNECTIONS = 16
CANDIDATE = "candidate"


@dataclass(frozen=True, slots=True)
class Upstreams:
    """Ports of the two running upstreams."""

    primary: int
    candidate: int

    def requests(self) -> tuple[int, int]:
        """How many each has answered."""
        return _requests(self.primary), _requests(self.candidate)


def _requests(port: int) -> int:
    with urlopen(f"http://127.0.0.1:{port}/counts", timeout=10) as answer:
        return int(json.load(answer)["requests"])


@contextmanager
def upstreams(folder: Path) -> Iterator[Upstreams]:
    """Primary and candidate, on the load's core."""
    primary, candidate = free_ports(2)
    command = [sys.executable, "-m", "bench.upstream"]
    with (
        running([*command, str(primary)], LOAD_CORE, primary, folder / "primary.log"),
        running([*command, str(candidate)], LOAD_CORE, candidate, folder / "candidate.log"),
    ):
        yield Upstreams(primary, candidate)


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


def saturating(port: int, seconds: float) -> Figures:
    """Small JSON as fast as one wrk thread gets it.

    Raises:
        RuntimeError: more than one request in a hundred failed.
    """
    wrk = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}s", "-s", str(HERE / "post.lua")]
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


def workloads(seconds: float) -> dict[str, Callable[[int], Figures]]:
    """Name to load; the first needs wrk."""
    loads: dict[str, Callable[[int], Figures]] = {
        "json": lambda port: saturating(port, seconds),
        "paced": lambda port: paced(port, RATE_PER_S, 0.75 * seconds),
        "streams": streaming,
    }
    return loads if shutil.which("wrk") else {n: load for n, load in loads.items() if n != "json"}


def measured(load: Callable[[int], Figures], port: int, pid: int, ups: Upstreams) -> Figures:
    """One load through one proxy, with what it cost until the proxy was idle again."""
    primary, candidate = ups.requests()
    begin_cpu_s, begin_busy_s, begin_s = cpu_s(pid), core_busy_s(PROXY_CORE), time.monotonic()
    figures = load(port)
    figures["put_off_s"] = settle(pid)
    used_s = cpu_s(pid) - begin_cpu_s
    other_s = core_busy_s(PROXY_CORE) - begin_busy_s - used_s
    reached_primary, reached_candidate = ups.requests()
    requests = reached_primary - primary
    return figures | {
        "cpu_s": used_s,
        "cpu_s_per_1000": used_s / requests * 1000,
        "mirrored": reached_candidate - candidate,
        "mirrored_share": (reached_candidate - candidate) / requests,
        "other_share": max(0.0, other_s) / (time.monotonic() - begin_s),
    }


def one_proxy(peer: Peer, ups: Upstreams, seconds: float, folder: Path) -> dict[str, Figures]:
    """Every load through one fresh proxy process; for ours also what reached the stream."""
    port, health = free_ports(2)
    place = Place(folder, port, health, ups.primary, ups.candidate)
    figures: dict[str, Figures] = {}
    spans: dict[str, delivery.Span] = {}
    with running(peer.command(place), PROXY_CORE, port, folder / "proxy.log") as pid:
        paced(port, WARM_UP_PER_S, WARM_UP_S)
        settle(pid)
        for name, load in workloads(seconds).items():
            begin = time.time_ns()
            figures[name] = measured(load, port, pid, ups)
            spans[name] = (begin, time.time_ns())
    if peer.publishes:
        _add_delivery(figures, folder / "stream", spans)
    return figures


def _add_delivery(
    figures: dict[str, Figures], stream: Path, spans: dict[str, delivery.Span]
) -> None:
    found = delivery.delivered(delivery.read(stream), CANDIDATE, spans)
    for name, count in found.exchanges.items():
        figures[name]["delivered"] = count
        figures[name]["delivered_share"] = count / figures[name]["requests"]
    figures["accounting"] = {name: float(value) for name, value in found.counts.items()}
    figures["accounting"]["unaccounted"] = delivery.unaccounted(found.counts)
    figures["accounting"]["stream_bytes"] = found.stream_bytes


def direct(ups: Upstreams, seconds: float) -> dict[str, Figures]:
    """Every load straight on the primary."""
    return {name: load(ups.primary) for name, load in workloads(seconds).items()}


def run(peers: Sequence[Peer], rounds: int, seconds: float, say: Say) -> dict[str, object]:
    """All peers, `rounds` times over.

    Returns:
        settings, rounds (what each peer did in each), figures (peer -> load -> figure -> spread).
    """
    raw: dict[str, list[dict[str, Figures]]] = {
        name: [] for name in (DIRECT, *(peer.name for peer in peers))
    }
    with tempfile.TemporaryDirectory(prefix="shadow-bench-") as base, upstreams(Path(base)) as ups:
        for number in range(rounds):
            raw[DIRECT].append(direct(ups, seconds))
            say(line(number, DIRECT, raw[DIRECT][-1]))
            for peer in peers:
                with tempfile.TemporaryDirectory(dir=base) as folder:
                    raw[peer.name].append(one_proxy(peer, ups, seconds, Path(folder)))
                say(line(number, peer.name, raw[peer.name][-1]))
    return {
        "settings": {
            "rounds": rounds,
            "seconds": seconds,
            "connections": CONNECTIONS,
            "rate_per_s": RATE_PER_S,
            "streams": STREAMS,
            "events": EVENTS,
            "gap_ms": GAP_MS,
        },
        "rounds": raw,
        "figures": {name: _summed_up(results) for name, results in raw.items()},
    }


def _summed_up(results: Sequence[dict[str, Figures]]) -> dict[str, object]:
    return {name: over_rounds([result[name] for result in results]) for name in results[0]}


def available(absent: Sequence[str], names: Sequence[str] = ()) -> list[Peer]:
    """The peers whose program is there; of those, the named ones, where names are given."""
    return [p for p in PEERS if p.program not in absent and (not names or p.name in names)]


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


def main(options: Options, absent: Sequence[str], say: Say) -> dict[str, object]:
    """What the command line asks for."""
    return run(available(absent, options.peer), options.rounds, options.seconds, say)
