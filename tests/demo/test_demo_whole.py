"""The demo on the product itself, in small: engines, proxy, stream, store, analysis, report, gate."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def of_folder(folder):
    """Command lines of live processes that name the folder, and of engines that descend from us."""
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(folder) in line:
                lines.append(line)
    return lines


@pytest.mark.whole
def test_from_engines_to_a_verdict(tmp_path):
    """130 requests in 3 s: every one is a pair in the report, a verdict is had whatever it is,
    everything has ended, and the command that the demo names next works on what it left.
    """
    out = tmp_path / "demo"
    script = f"""
import sys
from pathlib import Path
from shadow.demo import run
sys.exit(run("slow", Path({str(out)!r}), pairs=130, seconds=3))
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=150, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "130 of 130 requests answered" in ran.stdout
    assert "shadow gate: fp8: " in ran.stdout
    report = json.loads((out / "report.json").read_text())
    assert report["verdict"] in {"promote", "hold", "reject"}
    assert report["candidates"]["fp8"]["pairs"]["sampled"] == 130
    assert set(report["accounting"]["arms"]) == {"primary", "fp8", "control"}
    assert (out / "report.md").read_text().startswith("#")
    assert of_folder(out) == []
    gate = [
        sys.executable,
        "-m",
        "shadow",
        "gate",
        "-c",
        str(out / "shadow.yaml"),
        "--format",
        "json",
    ]
    again = subprocess.run(gate, capture_output=True, text=True, timeout=60, check=False)
    assert json.loads(again.stdout)["comparison"] == report["comparison"]
