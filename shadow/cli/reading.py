"""Commands that read verdicts from the store, while services run and after: report, gate."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from shadow.cli.analysis import analysis_settings
from shadow.cli.store import GATE_S, read_store
from shadow.config import Config

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from analysis.gate import Answer

HOLD = 3
USAGE = 2
LOOK_AGAIN_S = 2.0


def report(config: Config, experiment: str | None, form: str, output: Path | None) -> int:
    """The comparison on stdout or in a file, whatever it says; HOLD and a line without one.

    A terminal shows it at its width; `form` that was asked for, a pipe and a file are that form.
    """
    from analysis.report import markdown

    document, why = read_store(config, _comparison_of(config, experiment))
    if document is None and experiment not in {None, config.experiment}:
        why = _unknown(config, experiment or "", why)
    if document is None:
        click.echo(f"shadow report: {why}", err=True)
        return HOLD
    if output is None and _to_a_person():
        from rich.console import Console

        from shadow.demo.comparison import show

        show(Console(), markdown(document))
        return 0
    text = json.dumps(document, indent=2) + "\n" if form == "json" else markdown(document)
    return _deliver(text, output)


def _to_a_person() -> bool:
    """Standard output is a terminal, and no form was asked for."""
    asked = click.get_current_context().get_parameter_source("form")
    return asked is ParameterSource.DEFAULT and sys.stdout.isatty()


def _comparison_of(
    config: Config, experiment: str | None
) -> Callable[[Client], dict[str, Any] | None]:
    """The configuration's experiment is judged now; of another one, what was written is read."""
    from analysis.answers import report as compare
    from analysis.recorded import recorded

    settings = analysis_settings(config)
    if experiment is None or experiment == config.experiment:
        return lambda client: compare(client, settings)
    return lambda client: recorded(client, experiment)


def _unknown(config: Config, experiment: str, why: str) -> str:
    """Why there is nothing of another experiment; the store's reason where it cannot be read."""
    from analysis.recorded import unknown

    found, away = read_store(config, lambda client: {"why": unknown(client, experiment)})
    if found is None:
        return why if away == why else away
    return str(found["why"])


def gate(
    config: Config,
    candidate: str | None,
    form: str,
    wait_s: float | None = None,
    max_age_s: float | None = None,
) -> int:
    """The stored verdict as exit status; hold where none can be had, with the reason.

    Args:
        config: names the store and the experiment.
        candidate: which; required where there are several.
        form: text, or json.
        wait_s: how long to look again while it holds.
        max_age_s: a verdict that was judged longer ago holds.
    """
    until_s = time.monotonic() + (wait_s or 0.0)
    said = _gate(config, candidate, form, max_age_s)
    while said.code == HOLD and time.monotonic() < until_s:
        time.sleep(min(LOOK_AGAIN_S, max(until_s - time.monotonic(), 0)))
        said = _gate(config, candidate, form, max_age_s)
    mistaken = said.code == USAGE
    click.echo(f"shadow: {said.line}" if mistaken else said.line, err=mistaken)
    return said.code


def _gate(config: Config, candidate: str | None, form: str, max_age_s: float | None) -> Answer:
    from analysis.answers import stored
    from analysis.elsewhere import elsewhere
    from analysis.gate import aged
    from analysis.gate import gate as answer

    settings = analysis_settings(config)
    found, why = read_store(
        config,
        lambda client: {
            "report": stored(client, settings),
            "why": elsewhere(client, settings, time.time_ns()),
        },
        GATE_S,
    )
    document = found["report"] if found else None
    why = (found and found["why"]) or why
    if max_age_s is not None:
        document = aged(document, time.time(), max_age_s)
    return answer(
        document,
        candidate,
        "json" if form == "json" else "text",
        why,
        known=config.candidates,
        experiment=config.experiment,
    )


def _deliver(text: str, output: Path | None) -> int:
    """To stdout, or whole into a file: a reader never sees half of it."""
    if output is None:
        click.echo(text, nl=False)
        return 0
    partial = output.with_name(f".{output.name}.partial")
    try:
        partial.write_text(text, "utf-8")
        partial.replace(output)
    except OSError as error:
        with suppress(OSError):  # a full disk has no room for half a report
            partial.unlink(missing_ok=True)
        raise click.UsageError(f"-o {output}: {error.strerror or error}") from None
    return 0
