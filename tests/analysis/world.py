"""A synthetic experiment: what a collector would have stored of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from analysis.policy import Policy
from analysis.settings import Settings

EPOCH_S = 1_790_000_000
T0 = EPOCH_S * 10**9
POLICY = {
    "blocks": {"by": "time", "every": "1s", "min_pairs": 20, "planned": 50},
    "min_span": "0s",
    "warm_up": {"pairs": 0},
}


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(EPOCH_S, UTC) + timedelta(seconds=seconds)


@dataclass
class World:
    """Writes exchanges, workers and counters as rows; remembers sequences."""

    client: object
    experiment: str
    sequences: dict[str, int] = field(default_factory=dict)
    pending_rows: list[dict] = field(default_factory=list)

    def settings(self, *, control: str | None = "control", policy: dict | None = None) -> Settings:
        arms = ("fp8",) if control is None else ("fp8", control)
        return Settings(
            experiment=self.experiment,
            config_hash="c1",
            candidates=("fp8",),
            comparisons={arm: f"{self.experiment}-{arm}" for arm in arms},
            control=control,
            policy=Policy.model_validate(POLICY if policy is None else policy),
        )

    def exchange(self, seconds: float, pair: str, arm: str, boot: str = "b1", **facts) -> dict:
        """One row of `exchanges`; a number in `facts` overrides a default."""
        self.sequences[boot] = self.sequences.get(boot, 0) + 1
        row = {
            "experiment": self.experiment,
            "config_hash": "c1",
            "arrived_at": at(seconds),
            "started_at": at(seconds),
            "pair_id": pair,
            "arm": arm,
            "role": {"primary": "primary", "control": "control"}.get(arm, "candidate"),
            "replica": 0,
            "probe": "none",
            "worker": "w1",
            "boot_id": boot,
            "sequence": self.sequences[boot],
            "status": 200,
            "transport": "complete",
            "outcome": "complete",
            "streamed": True,
            "weight": 1.0,
            "text_hash": 1,
            "output_tokens": 11,
            "ttft_any_ms": 100.0,
            "ttft_content_ms": 100.0,
            "ttft_answer_ms": 100.0,
            "e2e_ms": 300.0,
            "decode_ms": 200.0,
            "tpot_ms": 20.0,
            "itl_mean_ms": 20.0,
            "itl_p50_ms": 20.0,
            "itl_p95_ms": 20.0,
            "itl_p99_ms": 20.0,
            "itl_max_ms": 20.0,
            "tokens_per_s": 50.0,
            "failure": 0,
            "version": 1,
            **facts,
        }
        self.pending_rows.append(row)
        return row

    def store(self, rows: list[dict] | None = None) -> None:
        """Insert what was made since, or these rows (again)."""
        rows = self.pending_rows if rows is None else rows
        columns = list(rows[0])
        self.client.insert(
            "exchanges", [[row[name] for name in columns] for row in rows], column_names=columns
        )
        self.pending_rows = []

    def heard(self, seconds: float, low_water: float | None, boot: str = "b1", **facts) -> None:
        """The worker's accounting record: `low_water` None is a final one."""
        row = {
            "experiment": self.experiment,
            "config_hash": "c1",
            "worker": "w1",
            "boot_id": boot,
            "at": at(seconds),
            "high_sequence": self.sequences.get(boot, 0),
            "dropped_sequences": 0,
            "low_water": None if low_water is None else at(low_water),
            "final": low_water is None,
            "sequence": int(seconds * 1000),
            **facts,
        }
        self.client.insert("workers", [list(row.values())], column_names=list(row))

    def count(
        self,
        seconds: float,
        arm: str,
        counter: str,
        value: int,
        reason="",
        boot="b1",
        sequence: int | None = None,
    ) -> None:
        row = [self.experiment, "c1", "w1", boot, arm, counter, reason, value, at(seconds)]
        names = "experiment config_hash worker boot_id arm counter reason value at sequence"
        number = int(seconds * 1000) if sequence is None else sequence
        self.client.insert("accounting", [[*row, number]], column_names=names.split())

    def traffic(
        self,
        seconds: int,
        pairs_a_second: int,
        arms: dict[str, dict],
        seed: int = 1,
        first: int = 0,
    ) -> None:
        """Paired log-normal times; `arms` scales tpot and failures: {"fp8": {"tpot": 1.15}}."""
        rng = np.random.default_rng(seed)
        for second in range(first, first + seconds):
            for i in range(pairs_a_second):
                shared = rng.normal(0, 0.4)
                for arm in ("primary", *arms):
                    facts = arms.get(arm, {})
                    tpot = 20 * np.exp(rng.normal(0, 0.05)) * facts.get("tpot", 1.0)
                    ttft = 100 * np.exp(shared + rng.normal(0, 0.1))
                    failed = rng.random() < facts.get("failure", 0.0)
                    self.exchange(
                        second + (i + 0.5) / pairs_a_second,
                        f"p{second}-{i}",
                        arm,
                        tpot_ms=tpot,
                        decode_ms=10 * tpot,
                        ttft_any_ms=ttft,
                        e2e_ms=ttft + 10 * tpot,
                        failure=int(failed),
                        outcome="http_error" if failed else "complete",
                        text_hash=2 if rng.random() < facts.get("mismatch", 0.0) else 1,
                    )
