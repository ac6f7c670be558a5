"""One judgement of twelve metrics over ten million pairs, from the windows that stand in the store."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import yaml

from analysis.comparison import Start
from analysis.settings import Settings
from bench.collector import write_config
from bench.measure import peak_bytes
from bench.peers import HERE, free_ports, running
from bench.report import AGE_S, shadow
from collector.store import StoreSettings, connect
from shadow.cli.analysis import analysis_settings
from shadow.cli.settings import store_settings
from shadow.config import Config, load

Say = Callable[[str], None]

WINDOWS = 1440
PAIRS = 10_000_000
GATED = (
    "ttft_any.p50", "ttft_any.p95", "ttft_content.p95", "tpot.mean", "itl_p99.p50", "itl_max.p99",
    "e2e.p50", "e2e.p95", "decode.mean", "tokens_per_s.ratio", "failure.rate", "mismatch.rate",
)  # fmt: skip

HOW = """\
{windows:,} windows of 60 s (a day) that hold {pairs:,} pairs, of candidate against control and primary and of
the control against the primary: log-histograms of 600 bins a side and sums, made by one seeded SQL
statement (bench/fill_windows.sql). A process of its own judges them over HTTP as the analysis does at
every look: twelve gated metrics, the test bed, the preconditions. Median of three; the store was
started again after it had been filled. The target is 5 s and 1,024 MiB."""

JUDGE = """
import json, resource, sys, time
from pathlib import Path
from analysis.verdicts import judge_now
from analysis.closing import Progress
from analysis.workers import standing
from shadow.cli.analysis import analysis_settings
from shadow.cli.store import connect
from shadow.config import Config, load

config = load(Path(sys.argv[1]), Config)
settings, client = analysis_settings(config), connect(config)
seconds = []
for _ in range(3):
    begin = time.monotonic()
    accounts = standing(client, settings, Progress(), time.time_ns()).accounts
    judged = judge_now(client, settings, "candidate", accounts, None, time.time_ns())
    seconds.append(time.monotonic() - begin)
metrics = judged.part["metrics"].values()
print(json.dumps({
    "judgement_s": sorted(seconds)[1],
    "judgement_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "pairs": judged.part["pairs"]["complete"],
    "decided": sum(one["state"] in {"pass", "fail"} for one in metrics),
}))
"""


class Options(Protocol):
    """What this benchmark reads of the command line."""


def with_control(config: Path) -> None:
    """A control beside the candidate, and a policy of twelve metrics."""
    tree = yaml.safe_load(config.read_text())
    tree["arms"]["control"] = {"role": "control", "url": "http://127.0.0.1:1", "sample": 1.0}
    policy = config.with_name("policy.yaml")
    gated = {name: {"margin": "1pp" if name.endswith("rate") else "10%"} for name in GATED}
    policy.write_text(yaml.safe_dump({"metrics": gated}))
    config.write_text(yaml.safe_dump({**tree, "policy": str(policy)}))


def fill(store: StoreSettings, settings: Settings) -> None:
    """Windows of three contrasts, their totals, and the comparisons' beginnings."""
    client = connect(store)
    begin_s = (int(time.time()) - AGE_S) // 60 * 60
    named = sorted({name.rpartition(".")[0] for name in GATED})
    contrasts = [("candidate", "primary"), ("candidate", "control"), ("control", "primary")]
    for arm, reference in contrasts:
        known = {
            "pairs": PAIRS, "windows": WINDOWS, "begin_s": begin_s, "metrics": named,
            "comparison": settings.comparisons[arm], "arm": arm, "reference": reference,
        }  # fmt: skip
        client.command((HERE / "fill_windows.sql").read_text(), parameters=known)
        client.command(
            "INSERT INTO window_totals (experiment, comparison, candidate, reference_arm, `window`,"
            " seconds, exchanges, captured, pairs, version) SELECT 'bench', {comparison:String},"
            " {arm:String}, {reference:String}, toDateTime64({begin_s:Int64} + number * 60, 9,"
            " 'UTC'), 60, toUInt64({pairs:UInt64} / {windows:UInt64}) * 3 AS exchanges,"
            " toUInt64({pairs:UInt64} / {windows:UInt64}) AS held, held, 1"
            " FROM numbers({windows:UInt64})",
            parameters=known,
        )
    for arm in ("candidate", "control"):
        start = Start(0, 1, 0, 0, 0, settings.config_hash, settings.policy_hash, "")
        row = [
            "bench",
            "comparison_started",
            settings.comparisons[arm],
            arm,
            json.dumps(asdict(start)),
        ]
        names = ["experiment", "kind", "comparison", "candidate", "detail"]
        client.insert("events", [row], column_names=names)
    client.close()


def main(_options: Options, _absent: Sequence[str], say: Say) -> dict[str, object]:
    """What the command line asks for."""
    with tempfile.TemporaryDirectory(prefix="shadow-bench-") as base:
        folder, (port,) = Path(base), free_ports(1)
        config = write_config(folder, port)
        with_control(config)
        settings = analysis_settings(load(config, Config))
        subprocess.run(shadow("migrate", config), check=True, stdout=subprocess.DEVNULL)
        with running(shadow("collect", config), None, port, folder / "filled.log"):
            say(f"filling {WINDOWS:,} windows with {PAIRS:,} pairs ...")
            fill(store_settings(load(config, Config)), settings)
        with running(shadow("collect", config), None, port, folder / "collector.log") as store:
            before_mib = peak_bytes(store) / 2**20
            command = [sys.executable, "-c", JUDGE, str(config)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=HERE.parent)
            figures = json.loads(done.stdout)
            figures["store_before_judging_mib"] = before_mib
            figures["store_peak_while_judging_mib"] = peak_bytes(store) / 2**20
    if figures["pairs"] < PAIRS * 0.99:
        raise RuntimeError(f"the judgement is about {figures['pairs']} pairs, not {PAIRS}")
    say("judge  " + " ".join(f"{name}={value:.4g}" for name, value in figures.items()))
    how = HOW.format(windows=WINDOWS, pairs=PAIRS)
    return {"settings": {"pairs": PAIRS, "windows": WINDOWS}, "figures": figures, "how": how}
