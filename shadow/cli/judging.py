"""`shadow judge`: a file of pairs, judged, with the gate's exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shadow.config import ConfigError, load

if TYPE_CHECKING:
    from analysis.policy import Policy

USAGE = 2


def judge(pairs: Path, policy_path: Path | None, candidate: str | None, form: str) -> int:
    """Print the verdict on FILE, as lines or as report.json, and exit as the gate does."""
    from analysis.gate import gate
    from analysis.pair_file.judging import judge_file, known
    from analysis.pair_file.reading import Malformed, read

    policy = _policy(policy_path)
    try:
        with pairs.open("rb") as lines:
            file = read(lines, known(policy))
    except (Malformed, OSError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        click.echo(f"shadow judge: {pairs}: {said}", err=True)
        return USAGE
    report = judge_file(file, policy, pairs.stem, candidate)
    empty = not report["candidates"]
    answer = gate(
        report,
        candidate,
        "json" if empty and form == "json" else "text",
        "no data yet",
        known=tuple(file.candidates) or None,
        experiment=pairs.stem,
    )
    if answer.code == USAGE or empty:
        mistaken = answer.code == USAGE
        click.echo(f"shadow: {answer.line}" if mistaken else answer.line, err=mistaken)
        return answer.code
    click.echo(json.dumps(report, indent=2) if form == "json" else _text(answer.line, report))
    return answer.code


def _policy(path: Path | None) -> Policy:
    from analysis.policy import Policy

    if path is None:
        return Policy()
    try:
        return load(path, Policy, overrides=False)
    except ConfigError as error:
        said = str(error).removeprefix(f"{path}: ")
        raise ConfigError(f"--policy {path}: {said}") from None


def _text(line: str, report: dict[str, Any]) -> str:
    """The gate's line, then a line a metric, then what a reader should know."""
    from analysis.report.candidate import segments

    (part,) = report["candidates"].values()
    sentences = [f"- {figures['sentence']}" for figures in part["metrics"].values()]
    notes = [f"- Note: {note}." for note in part["warnings"]]
    return "\n".join([line, *sentences, *notes, *segments(part.get("segments"), part["metrics"])])
