"""The relay beside its peers: small JSON as fast as it goes, small JSON at a fixed rate, streams.

One proxy at a time on one core, load and upstreams on the other, a fresh process for each proxy in
each round, rounds interleaved (A B C, A B C). What a proxy puts off is waited for and counted.
"""

from __future__ import annotations

import json
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
from bench.loads import SETTINGS, Figures, line, paced, workloads
from bench.measure import core_busy_s, cpu_s, settle
from bench.peers import DIRECT, LOAD_CORE, PEERS, PROXY_CORE, Peer, Place, free_ports, running

Say = Callable[[str], None]


WARM_UP_PER_S = 500
WARM_UP_S = 0.3
FINISH_S = 30.0
CANDIDATE = "candidate"


class Options(Protocol):
    """What this benchmark reads of the command line."""

    peer: list[str]
    rounds: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Upstreams:
    """Ports of the two running upstreams."""

    primary: int
    candidate: int

    def requests(self) -> tuple[int, int]:
        """How many each has answered."""
        return _counted(self.primary, "requests"), _counted(self.candidate, "requests")

    def finish(self) -> None:
        """Wait until the last stream has ended; a mirrored one may outlast its client's.

        Raises:
            TimeoutError: one has not, after `FINISH_S`.
        """
        deadline_s = time.monotonic() + FINISH_S
        while _counted(self.primary, "open") or _counted(self.candidate, "open"):
            if time.monotonic() > deadline_s:
                raise TimeoutError("a stream of an upstream does not end")
            time.sleep(0.02)


def _counted(port: int, what: str) -> int:
    with urlopen(f"http://127.0.0.1:{port}/counts", timeout=10) as answer:
        return int(json.load(answer)[what])


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


def measured(load: Callable[[int], Figures], port: int, pid: int, ups: Upstreams) -> Figures:
    """One load through one proxy, with what it cost until the proxy was idle again."""
    primary, candidate = ups.requests()
    begin_cpu_s, begin_busy_s, begin_s = cpu_s(pid), core_busy_s(PROXY_CORE), time.monotonic()
    figures = load(port)
    ups.finish()
    figures["put_off_s"] = settle(pid)
    used_s = cpu_s(pid) - begin_cpu_s
    other_s = core_busy_s(PROXY_CORE) - begin_busy_s - used_s
    reached_primary, reached_candidate = ups.requests()
    requests = reached_primary - primary
    return figures | {
        "cpu_s": used_s,
        "cpu_s_per_1000": used_s / requests * 1000,
        "answered": requests,
        "mirrored": reached_candidate - candidate,
        "mirrored_share": (reached_candidate - candidate) / requests,
        "other_share": max(0.0, other_s) / (time.monotonic() - begin_s),
    }


def one_proxy(peer: Peer, ups: Upstreams, seconds: int, folder: Path) -> dict[str, Figures]:
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
        figures[name]["delivered_share"] = count / figures[name]["answered"]
    figures["accounting"] = {name: float(value) for name, value in found.counts.items()}
    figures["stream"] = {
        "unaccounted": delivery.unaccounted(found.counts),
        "bytes": found.stream_bytes,
    }


def direct(ups: Upstreams, seconds: int) -> dict[str, Figures]:
    """Every load straight on the primary."""
    return {name: load(ups.primary) for name, load in workloads(seconds).items()}


def run(peers: Sequence[Peer], rounds: int, seconds: int, say: Say) -> dict[str, object]:
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
            **SETTINGS,
        },
        "rounds": raw,
        "figures": {name: _summed_up(results) for name, results in raw.items()},
    }


def _summed_up(results: Sequence[dict[str, Figures]]) -> dict[str, object]:
    return {name: over_rounds([result[name] for result in results]) for name in results[0]}


def available(absent: Sequence[str], names: Sequence[str] = ()) -> list[Peer]:
    """The peers whose program is there; of those, the named ones, where names are given."""
    return [p for p in PEERS if p.program not in absent and (not names or p.name in names)]


def main(options: Options, absent: Sequence[str], say: Say) -> dict[str, object]:
    """What the command line asks for."""
    return run(available(absent, options.peer), options.rounds, options.seconds, say)
