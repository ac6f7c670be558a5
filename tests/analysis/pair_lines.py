"""Lines of a file of pairs, seeded."""

from __future__ import annotations

import json

import numpy as np

POLICY = {
    "blocks": {"by": "count", "pairs": 20, "planned": 50},
    "min_span": "0s",
    "warm_up": {"pairs": 0},
}


def lines(
    pairs: int = 1200,
    slower: float = 1.0,
    seed: int = 1,
    candidate: str = "fp8",
    *,
    control: bool = True,
    failures: float = 0.0,
    mismatch: float = 0.0,
    **fixed,
) -> list[dict]:
    """`slower` multiplies the candidate's times; `failures` and `mismatch` are its own shares."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(pairs):
        shared = rng.normal(0, 0.3)
        tpot = 20 * np.exp(shared + rng.normal(0, 0.08, 3)) * [1, slower, 1]
        bad = rng.random() < failures
        tree = {
            "pair_id": f"p{i}",
            "at": 1_796_036_480 + i / 22,
            "candidate": candidate,
            "tpot_ms": tpot.tolist(),
            "ok": [True, not bad, True],
            "mismatch": [None, int(rng.random() < mismatch), 0],
            "weight": 1.0,
            **fixed,
        }
        if bad:
            tree["tpot_ms"][1] = None
        if not control:
            for key in ("tpot_ms", "ok", "mismatch"):
                tree[key][2] = None
        made.append(tree)
    return made


def text(trees: list[dict]) -> str:
    return "".join(json.dumps(tree) + "\n" for tree in trees)
