"""What `make bench` runs: measure, write bench/results/*.json, write docs/benchmarks.md."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from bench import peers
from bench.measure import machine
from bench.render import page

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BENCHMARKS = ("relay", "decode", "collector", "report", "judge")


def say(text: str) -> None:
    print(text, flush=True)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="not all of them")
    parser.add_argument("--peer", action="append", default=[], help="relay: this proxy only")
    parser.add_argument("--rounds", type=int, default=3, help="relay: how often each (3)")
    parser.add_argument("--seconds", type=int, default=1, help="relay: each load (1)")
    parser.add_argument("--exchanges", type=int, default=60_000, help="collector: how many")
    parser.add_argument("--pairs", type=int, default=1_000_000, help="report: how many")
    parser.add_argument("--dry", action="store_true", help="print, write nothing")
    parser.add_argument("--render", action="store_true", help="write the page from kept results")
    return parser.parse_args(arguments)


def measure(name: str, options: argparse.Namespace) -> dict[str, object]:
    """One benchmark's result, with the machine it ran on."""
    if name == "relay":
        peers.install_envoy(say)
    absent = peers.missing() if name == "relay" else {}
    for program, how in absent.items():
        say(f"!! {program} is missing, its rows are left out. Get it: {how}")
    result = import_module(f"bench.{name}").main(options, list(absent), say)
    return {
        "benchmark": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": peers.versions(),
        "missing": absent,
        **result,
    }


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value)} cannot be written")


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    for name in () if options.render else options.only or BENCHMARKS:
        result = measure(name, options)
        if not options.dry:
            RESULTS.mkdir(exist_ok=True)
            text = json.dumps(result, indent=1, default=_plain) + "\n"
            (RESULTS / f"{name}.json").write_text(text)
    if not options.dry:
        kept = {f.stem: json.loads(f.read_text()) for f in sorted(RESULTS.glob("*.json"))}
        PAGE.write_text(page(kept))
        say(f"written: {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
