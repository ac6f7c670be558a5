"""What is known: report, verdict, waiver, plan."""

from __future__ import annotations

from pathlib import Path

import click

from shadow.cli.commands.shape import (
    STORE,
    candidate,
    command,
    configured,
    file,
    form,
    number,
    seconds,
)

_REPORT = configured(
    "report",
    "reading:report",
    click.Option(["--experiment"], help="Another experiment than the configuration's."),
    form(
        ("md", "json"),
        "Markdown to read, or JSON for programs.  [a terminal: shown at its width]",
    ),
    file("-o", "--output", meaning="Write to a file."),
    secrets=STORE,
    help="Print the comparison, while it runs or afterwards.",
)

_GATE = configured(
    "gate",
    "reading:gate",
    candidate(),
    form(("text", "json"), "One line to read, or JSON for programs."),
    click.Option(
        ["--wait", "wait_s"],
        callback=seconds,
        help="While it holds, look again for so long (30m), then exit 3.",
    ),
    click.Option(
        ["--max-age", "max_age_s"],
        callback=seconds,
        help="Hold where the verdict is older than this (10m).",
    ),
    secrets=STORE,
    help="Print the verdict and exit with it: 0 promote, 1 reject, 3 hold.",
)

_JUDGE = command(
    "judge",
    "judging:judge",
    click.Argument(["pairs"], type=click.Path(path_type=Path)),
    file(
        "--policy",
        "policy_path",
        meaning="Margins and error levels (YAML).  [default: the default policy]",
    ),
    candidate(),
    form(("text", "json"), "Lines to read, or report.json for programs."),
    help="Judge a file of pairs (PAIRS), JSON a line, and exit as the gate does.",
)

_PLAN = configured(
    "plan",
    "planning:plan",
    number("--rate", 1e-6, 1e6, "Eligible requests a second."),
    number(
        "--sigma",
        1e-6,
        100,
        "Deviation of the log of one answer's time, where no control was measured.",
        0.5,
    ),
    number("--correlation", -0.99, 0.99, "Of the logs of a pair's two sides.", 0.5),
    number("--bad", 0, 1, "Share of answers that fail, or differ.", 0.002, inside=True),
    number(
        "--design", 1, 1e6, "How many times more pairs dependence costs (bursts: 2 to 10).", 1.0
    ),
    number("--gpus", 1e-6, 1e6, "GPUs a replica.", 1.0),
    form(("text", "json"), "Lines to read, or JSON for programs."),
    secrets=STORE,
    help="Say what a verdict will take: pairs, minutes, GPU-hours; and the rate of load parity.",
)

_WAIVE = configured(
    "waive",
    "waiving:waive",
    click.Argument(["metric"]),
    click.Option(["--by", "who"], required=True, help="Who waives it."),
    click.Option(["--reason"], required=True, help="Why."),
    click.Option(
        ["--until"], required=True, help="When it ends: a date or a time (ISO 8601, UTC)."
    ),
    click.Option(["--candidate"], help="For which candidate; required where there are several."),
    secrets=STORE,
    help="Take a gated METRIC out of the verdict for a time; report and gate show it.",
)

COMMANDS = (_REPORT, _GATE, _JUDGE, _PLAN, _WAIVE)
