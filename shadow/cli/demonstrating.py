"""`shadow demo`: which of the two demos, and where it writes."""

from __future__ import annotations

from pathlib import Path

import click


def demo(
    candidate: str,
    stream: str,
    *,
    engines: bool,
    primary: str | None,
    candidate_url: str | None,
    control_url: str | None,
    out: Path | None,
) -> int:
    """Run it."""
    if not engines and (primary or candidate_url or control_url):
        raise click.UsageError("--primary, --candidate-url and --control-url go with --engines")
    if engines and stream != "embedded":
        raise click.UsageError("--stream goes with the simulated engines")
    from shadow import demo as shown

    if engines:
        folder = out or Path("out/demo-engines")
        return shown.run_engines(primary, candidate_url, control_url, folder)
    return shown.run(
        "same" if candidate == "same" else "slow",
        out,
        stream="kafka" if stream == "kafka" else "embedded",
    )
