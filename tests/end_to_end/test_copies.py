"""Copies and greedy probes through the whole product: sent, captured, paired and told."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from end_to_end.stage import crowd, engine, stage, until

QUICK = {"ttft_ms": 5, "itl_ms": 2, "tokens": 10}
REQUESTS = 60


@pytest.mark.whole
def test_copies_and_probes_reach_the_report(tmp_path):
    """Every copy and every probe is a pair, and coverage whole; the probes' texts differ from the
    control's where the engine answers otherwise, and nowhere else.
    """
    with contextlib.ExitStack() as stack:
        primary, other, same = (
            stack.enter_context(engine(tmp_path, name, differ=differ, **QUICK))
            for name, differ in (("primary", 0.0), ("other", 1.0), ("same", 0.0))
        )
        arms = {
            "other": {"role": "candidate", "url": other, "sample": 1.0, "amplify": 2},
            "equal": {"role": "candidate", "url": same, "sample": 1.0},
            "control": {"role": "control", "url": same, "sample": 1.0},
        }
        running = stack.enter_context(stage(tmp_path, primary, arms, greedy_probe=1.0))
        asyncio.run(crowd(running.port, REQUESTS, 10, "copies"))

        def judged():
            told = running.report().get("candidates", {})
            whole = told and all(one["probes"]["complete"] == REQUESTS for one in told.values())
            return told if whole else None

        told = until(judged, 60, "every probe judged")
    for name, copies, sampled, differ in (("other", 2, 180, 1.0), ("equal", 1, 120, 0.0)):
        part = told[name]
        assert part["pairs"]["sampled"] == sampled
        assert (part["pairs"]["complete"], part["pairs"]["copies"]) == (copies * REQUESTS, copies)
        assert (part["coverage"], part["probes"]["excluded"]) == (1.0, {})
        assert part["metrics"]["probe_mismatch.rate"]["candidate"] == differ
        assert part["metrics"]["failure.rate"]["pairs"] <= REQUESTS
