"""`capture: measures` as a whole: pairs and verdicts as with text, and books that balance."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from end_to_end.stage import crowd, engine, stage, until
from end_to_end.test_up import text_of
from privacy.sinks import ask

QUICK = {"ttft_ms": 5, "itl_ms": 2, "tokens": 20}


def rows(running, query: str) -> list[list[str]]:
    with contextlib.suppress(OSError):
        return [line.split("\t") for line in ask(running.store, query).decode().splitlines()]
    return []


@pytest.mark.whole
def test_killing_the_measuring_process_costs_no_client_a_byte(tmp_path):
    """kill -9 of it, again and again, under load: streams whole, every exchange accounted for, and
    texts compared where one process measured both sides of a pair, and nowhere else.
    """
    with contextlib.ExitStack() as stack:
        primary, same, other = (
            stack.enter_context(engine(tmp_path, name, differ=differ, **QUICK))
            for name, differ in (("primary", 0.0), ("same", 0.0), ("other", 1.0))
        )
        arms = {
            "same": {"role": "candidate", "url": same, "sample": 1.0},
            "other": {"role": "candidate", "url": other, "sample": 1.0},
        }
        running = stack.enter_context(stage(tmp_path, primary, arms, capture="measures"))
        killer = threading.Thread(target=lambda: [running.kill("measure") for _ in range(3)])
        seen = asyncio.run(crowd(running.port, 30, 5, "before"))
        killer.start()
        while killer.is_alive() or len(seen) < 150:
            seen += asyncio.run(crowd(running.port, 30, 5, "measure"))
        killer.join()
        count = len(seen)
        assert all(text_of(raw) for raw in seen)

        def settled():
            arms = running.report().get("accounting", {}).get("arms", {})
            whole = arms and all(
                arm["sampled"] == count == arm["captured"] + sum(arm["dropped"].values())
                for arm in arms.values()
            )
            return arms if whole else None

        for arm in until(settled, 60, "books that balance").values():
            assert (arm["pending"], arm["lost"]) == (0, 0)
        stored = "SELECT arm, count() FROM shadow.exchanges FINAL GROUP BY arm ORDER BY arm"
        captured = [[arm, str(count)] for arm in ("other", "primary", "same")]
        until(lambda: rows(running, stored) == captured, 60, "all of it stored")
        compared = (
            "SELECT arm, countIf(mismatch = 0), countIf(mismatch = 1), count()"
            " FROM shadow.pairs FINAL WHERE excluded = '' GROUP BY arm ORDER BY arm"
        )
        until(
            lambda: [row[3] for row in rows(running, compared)] == [str(count)] * 2,
            60,
            "every pair",
        )
        pairs = rows(running, compared)
        (_, other_equal, other_differ, _), (_, same_equal, same_differ, _) = pairs
        assert int(same_equal) > 50
        assert int(same_differ) == 0
        assert int(other_differ) > 50
        assert int(other_equal) < int(other_differ)
        assert rows(running, "SELECT count() FROM shadow.bodies") == [["0"]]
        keys = rows(running, "SELECT uniqExact(text_key) FROM shadow.exchanges")
        assert int(keys[0][0]) > 1
