"""What a person reads in a terminal: at 80 and 120 columns no cell of a table is cut or broken."""

import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GATED = """# demo

## same: PROMOTE

| metric        | primary |    same | control |    delta | vs primary |              interval |   margin | pairs |    state |
| ------------- | ------: | ------: | ------: | -------: | ---------: | --------------------: | -------: | ----: | -------: |
| ttft_any.p50  | 62.5 ms | 62.1 ms | 61.9 ms |   +0.2 % |     -0.7 % |      -2.1 % to +2.2 % |   +5.0 % | 1,166 |     pass |
| mismatch.rate |   0.00% |   9.58% |   0.00% | +9.58 pp |   +9.58 pp | +6.05 pp to +12.55 pp | +2.00 pp | 1,295 | **FAIL** |

| metric                | primary |    same | control |   delta | vs primary |           interval | pairs |
| --------------------- | ------: | ------: | ------: | ------: | ---------: | -----------------: | ----: |
| events_per_read.ratio |    1.09 |    1.08 |    1.09 |  -0.3 % |     -0.2 % |   -1.3 % to +0.6 % | 1,166 |

| arm  | eligible | sampled | captured | pending | lost |                          dropped |                         skipped |
| ---- | -------: | ------: | -------: | ------: | ---: | -------------------------------: | ------------------------------: |
| same |    1,400 |   1,400 |    1,400 |       0 |    0 | breaker_open 12, queue_full 1,20 | not_sampled 140, shadow_off 200 |
"""
CELLS = {
    cell.strip(" *")
    for line in GATED.splitlines()
    if line.startswith("| ") and "---" not in line
    for cell in line.strip("|").split("|")
}
SHOW = """
import sys
from shadow.demo import comparison, stage
comparison.show(stage.terminal(), sys.argv[1])
"""
REPORT = """
import sys
import analysis.report
from shadow.cli import reading
text, config = sys.argv[1:3]
reading.read_store = lambda *_: ({"the": "report"}, "")
analysis.report.markdown = lambda _: text
from shadow.cli.commands import run
sys.exit(run(["report", "-c", config, *sys.argv[3:]]))
"""


def in_terminal(columns: int, *words: str) -> list[str]:
    """The lines that a program prints in a terminal of this width, without colours."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    away = {"COLUMNS", "LINES", "NO_COLOR"}
    env = {name: value for name, value in os.environ.items() if name not in away}
    child = subprocess.Popen(
        [sys.executable, "-c", *words],
        stdin=slave, stdout=slave, stderr=subprocess.PIPE,
        env={**env, "TERM": "xterm", "PYTHONPATH": str(ROOT)}, cwd=ROOT,
    )  # fmt: skip
    os.close(slave)
    seen = b""
    try:
        while chunk := os.read(master, 65536):
            seen += chunk
    except OSError:  # the program has ended
        pass
    os.close(master)
    _, errors = child.communicate(timeout=30)
    assert child.returncode == 0, errors
    text = re.sub(r"\x1b\[[0-9;]*m", "", seen.decode())
    return text.replace("\r\n", "\n").split("\n")


def whole(lines: list[str]) -> list[str]:
    """The cells that stand whole in one line, broken lists apart."""
    return [cell for cell in sorted(CELLS) if ", " in cell or any(cell in line for line in lines)]


@pytest.mark.parametrize("columns", [80, 120])
def test_every_cell_stands_whole_in_one_line(columns):
    """No metric is shortened, no interval runs over lines, and nothing is beyond the edge."""
    lines = in_terminal(columns, SHOW, GATED)
    assert whole(lines) == sorted(CELLS)
    assert max(map(len, lines)) <= columns
    assert not any("…" in line for line in lines)


def test_a_row_folds_only_where_it_must():
    """120 columns have a metric in a line; 80 have it in two, the interval under its heading."""
    wide, narrow = (in_terminal(columns, SHOW, GATED) for columns in (120, 80))
    row = next(line for line in wide if "mismatch.rate" in line)
    assert re.search(r"\+6.05 pp to \+12.55 pp +\+2.00 pp +1,295 +FAIL", row)
    at = next(n for n, line in enumerate(narrow) if "mismatch.rate" in line)
    assert "9.58%" in narrow[at]
    assert re.search(r"\+6.05 pp to \+12.55 pp +\+2.00 pp +1,295 +FAIL", narrow[at + 1])
    head = next(n for n, line in enumerate(narrow) if "metric" in line)
    assert narrow[head + 1].index("interval") + len("interval") == narrow[at + 1].index(
        "+12.55 pp"
    ) + len("+12.55 pp")


def test_a_terminal_too_narrow_for_any_fold_is_no_fault():
    """It is shown as it can be."""
    assert any("same" in line for line in in_terminal(20, SHOW, GATED))


def report_config(tmp_path: Path) -> str:
    path = tmp_path / "shadow.json"
    tree = {"experiment": "demo", "capture": "text", "primary": {"url": "http://engine:8000"}}
    ends = {"stream": {"embedded": "./stream"}, "store": {"embedded": "./store"}}
    arm = {"role": "candidate", "url": "http://same:8000", "sample": 0.5}
    path.write_text(json.dumps(tree | ends | {"arms": {"same": arm}}))
    return str(path)


@pytest.mark.parametrize("columns", [80, 120])
def test_a_report_in_a_terminal_is_shown_at_its_width(tmp_path, columns):
    """`shadow report` prints as the demo does, not raw Markdown."""
    lines = in_terminal(columns, REPORT, GATED, report_config(tmp_path))
    assert whole(lines) == sorted(CELLS)
    assert max(map(len, lines)) <= columns
    assert not any("| " in line for line in lines)


def test_a_form_that_was_asked_for_is_that_form(tmp_path):
    """`--format md` is Markdown in a terminal too, `--format json` is JSON; -o writes Markdown."""
    config, output = report_config(tmp_path), tmp_path / "report.md"
    asked = in_terminal(80, REPORT, GATED, config, "--format", "md")
    assert "\n".join(asked) == GATED
    told = in_terminal(80, REPORT, GATED, config, "--format", "json")
    assert json.loads("\n".join(told)) == {"the": "report"}
    assert in_terminal(80, REPORT, GATED, config, "-o", str(output)) == [""]
    assert output.read_text() == GATED


def test_a_pipe_has_the_markdown(tmp_path):
    """A program that reads stdout gets what it got."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, GATED, report_config(tmp_path)],
        capture_output=True, text=True, timeout=30, check=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout == GATED
