"""Over a store of a million pairs: how long the analysis takes to catch up, and the report to read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from bench.collector import asked, write_config
from bench.measure import cpu_s, forget_peak, peak_bytes
from bench.peers import HERE, free_ports, running
from collector.store import StoreSettings, connect
from shadow.cli.settings import store_settings
from shadow.config import Config, config_hash, load

Say = Callable[[str], None]

AGE_S = 2 * 86400
LOOK_S = 0.5
PATIENCE_S = 900.0

HOW = """\
The store is filled with {pairs:,} pairs over a day, by one seeded SQL statement (bench/fill.sql):
what a collector would have stored. The store is started again, for filling it at once takes memory
that it keeps for a while. Then `shadow collect` serves it, `shadow analyze` builds pairs
and windows from nothing until its verdict covers all of them, and `shadow report --format json` is
run twice: against the served store, and, with nothing serving, by opening the store's folder itself
(its memory then holds the database engine). The target is 10 s and 1,024 MiB."""


class Options(Protocol):
    """What this benchmark reads of the command line."""

    pairs: int


def timed(command: Sequence[str], output: Path) -> tuple[float, float]:
    """Run to the end, stdout into a file; returns seconds and the peak of its memory, MiB.

    Raises:
        RuntimeError: it failed.
    """
    begin_s = time.monotonic()
    with output.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, cwd=HERE.parent)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {process.returncode}")
    return time.monotonic() - begin_s, usage.ru_maxrss / 1024


def fill(store: StoreSettings, pairs: int, identity: str) -> None:
    """Both exchanges of every pair, and a worker that has ended and lost nothing."""
    client = connect(store)
    begin_ns = time.time_ns() - AGE_S * 10**9
    known = {"pairs": pairs, "begin_ns": begin_ns, "config_hash": identity}
    client.command((HERE / "fill.sql").read_text(), parameters=known)
    at = f"fromUnixTimestamp64Nano({begin_ns + 86_401 * 10**9}, 'UTC')"
    client.command(
        "INSERT INTO workers (experiment, config_hash, worker, boot_id, at, high_sequence,"
        f" dropped_sequences, final, sequence) SELECT 'bench', '{identity}', '0', 'bench', {at},"
        f" {2 * pairs}, 0, 1, 1"
    )
    client.command(
        "INSERT INTO accounting (experiment, config_hash, worker, boot_id, arm, counter, reason,"
        f" value, at, sequence) SELECT 'bench', '{identity}', '0', 'bench', arm, counter, '',"
        f" {pairs}, {at}, 1 FROM (SELECT arrayJoin(['primary', 'candidate']) AS arm,"
        " arrayJoin(['eligible', 'sampled', 'captured']) AS counter)"
    )
    client.close()


def shadow(command: str, config: Path) -> list[str]:
    """One command line of the product."""
    return [sys.executable, "-m", "shadow", command, "-c", str(config)]


def caught_up(config: Path, port: int, pairs: int, log: Path) -> dict[str, float]:
    """Run the analysis until its windows hold every pair and a verdict was written after that.

    Raises:
        RuntimeError: it ended, or was not done after `PATIENCE_S`.
    """
    begin_s = time.monotonic()
    with log.open("wb") as said:
        process = subprocess.Popen(
            shadow("analyze", config), stdout=said, stderr=said, cwd=HERE.parent
        )
    try:
        while not _covered(port, pairs):
            if process.poll() is not None or time.monotonic() - begin_s > PATIENCE_S:
                raise RuntimeError(f"the analysis did not catch up:\n{log.read_text()[-2000:]}")
            time.sleep(LOOK_S)
        return {
            "analysis_s": time.monotonic() - begin_s,
            "analysis_cpu_s": cpu_s(process.pid),
            "analysis_peak_mib": peak_bytes(process.pid) / 2**20,
        }
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _covered(port: int, pairs: int) -> bool:
    latest = asked(port, "SELECT report FROM verdicts ORDER BY at DESC LIMIT 1 FORMAT TSVRaw")
    return bool(latest) and complete(json.loads(latest)) >= pairs


def complete(candidate: Mapping[str, object]) -> int:
    """How many pairs one candidate's part of report.json rests on, excluded ones with them."""
    counted = candidate["pairs"]
    assert isinstance(counted, Mapping)
    return int(counted["complete"]) + int(counted["excluded"])


def reported(config: Path, folder: Path, pairs: int, name: str) -> dict[str, float]:
    """One report, and whether it is about all the pairs.

    Raises:
        RuntimeError: it is not.
    """
    output = folder / f"{name}.json"
    seconds, peak_mib = timed([*shadow("report", config), "--format", "json"], output)
    found = complete(json.loads(output.read_text())["candidates"]["candidate"])
    if found != pairs:
        raise RuntimeError(f"the report is about {found} pairs, not {pairs}")
    return {f"{name}_s": seconds, f"{name}_peak_mib": peak_mib}


def main(options: Options, _absent: Sequence[str], say: Say) -> dict[str, object]:
    """What the command line asks for."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="shadow-bench-") as base:
        folder, (port,) = Path(base), free_ports(1)
        config = write_config(folder, port)
        identity = config_hash(load(config, Config))
        subprocess.run(shadow("migrate", config), check=True, stdout=subprocess.DEVNULL)
        with running(shadow("collect", config), None, port, folder / "filled.log"):
            say(f"filling a store with {options.pairs:,} pairs ...")
            fill(store_settings(load(config, Config)), options.pairs, identity)
        with running(shadow("collect", config), None, port, folder / "collector.log") as store:
            figures["store_before_analysing_mib"] = peak_bytes(store) / 2**20
            figures |= caught_up(config, port, options.pairs, folder / "analysis.log")
            figures["store_peak_while_analysing_mib"] = peak_bytes(store) / 2**20
            forget_peak(store)
            figures |= reported(config, folder, options.pairs, "report")
            figures["store_peak_while_reporting_mib"] = peak_bytes(store) / 2**20
        figures |= reported(config, folder, options.pairs, "report_by_itself")
    say("report  " + " ".join(f"{name}={value:.4g}" for name, value in figures.items()))
    how = HOW.format(pairs=options.pairs)
    return {"settings": {"pairs": options.pairs}, "figures": figures, "how": how}
