"""Shadow-off windows are one and the same in every process of an experiment."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

WORKER = """
import json, sys
from shadow.config.lifecycle import Isolation
from shadow.steering.switch import Switch
windows = Switch(sys.argv[1], "hash", ["fp8"], Isolation())._windows
print(json.dumps([windows.of(4_500_000 + n) for n in range(50)]))
"""


def workers(*experiments: str) -> list[list[list[float]]]:
    """What a process of its own for each says, all at once."""
    running = [
        subprocess.Popen([sys.executable, "-c", WORKER, name], stdout=subprocess.PIPE)
        for name in experiments
    ]
    said = [process.communicate(timeout=30)[0] for process in running]
    return [json.loads(each) for each in said]


def test_two_processes_have_the_same_windows():
    """Workers and hosts that know nothing of each other mirror nothing at the same times: neither a
    process's id, nor its start, nor its random seed tells them apart; the experiment's name does."""
    one, another, other = workers("llama70b-fp8", "llama70b-fp8", "llama70b-int4")
    assert one == another
    assert len({start for start, _ in one}) == 50
    assert all(mine != theirs for mine, theirs in zip(one, other, strict=True))
    assert one[0][1] - one[0][0] == pytest.approx(20, abs=10)
