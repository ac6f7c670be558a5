"""What both demos do once their engines run: start the product, send, wait, print, write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from shadow.demo import comparison, files, load, path
from shadow.demo.children import Child, Children
from shadow.demo.failure import DemoFailed
from shadow.demo.files import Engine

WIDTH = 120
DEFINITIONS = "\n## What the figures mean"
"""Where the report's reference part begins; it is written, not printed."""


@dataclass(frozen=True, slots=True)
class Done:
    """A demo that came to its end."""

    config: Path
    out: Path
    verdict: str


def guarded(show: Callable[[], None], out: Path) -> int:
    """Exit status of a demo: 0; 1 with one line; 130 after Ctrl-C."""
    try:
        show()
    except DemoFailed as failed:
        logs = f" (logs: {out / 'logs'})" if (out / "logs").is_dir() else ""
        sys.stderr.write(f"demo: {failed}{logs}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("demo: stopped; everything that it started has ended\n")
        return 130
    return 0


def compare(
    console: Console,
    processes: Children,
    out: Path,
    *,
    experiment: str,
    engines: Sequence[Engine],
    policy: str,
    bodies: Sequence[bytes],
    due: Sequence[float],
    at_once: int = 0,
    kafka: str | None = None,
) -> Done:
    """Write the configuration, run the product, send, print the comparison and the verdict.

    Raises:
        DemoFailed: no verdict was had.
    """
    ports = files.Ports(*files.free_ports(3))
    config = files.write(out, experiment, engines, ports, policy, kafka)
    console.print("Starting the proxy, the collector with its store, and the analysis.")
    up = path.start(processes, config, ports)
    url = f"http://127.0.0.1:{ports.proxy}/v1/chat/completions"
    totals = send(console, url, bodies, due, at_once)
    return Done(config, out, show(console, config, out, totals, up))


def send(
    console: Console, url: str, bodies: Sequence[bytes], due: Sequence[float], at_once: int
) -> load.Totals:
    """Send all with a progress bar, and say what became of them.

    Raises:
        DemoFailed: not one was answered.
    """
    with _bar(console, len(bodies)) as tick:
        totals = uvloop.run(load.send(url, bodies, due, at_once=at_once, answered=tick))
    failures = "".join(f", {count} {how}" for how, count in sorted(totals.failures.items()))
    console.print(
        f"{totals.answered} of {totals.sent} requests answered in {totals.seconds:.1f} s{failures}."
    )
    if not totals.answered:
        raise DemoFailed("no request was answered through the proxy")
    return totals


@contextmanager
def _bar(console: Console, count: int) -> Iterator[Callable[[], None]]:
    columns = (TextColumn("Sending requests"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("", total=count)
        yield lambda: progress.advance(task)


def show(console: Console, config: Path, out: Path, totals: load.Totals, up: Child) -> str:
    """Wait for the pairs, write report.json and .md, print the comparison and the verdict."""
    with console.status("Waiting for the last pairs to be stored and judged"):
        document, complete = path.settle(config, out / "report.json", totals.sent, up)
    if not complete:
        console.print(f"After {path.SETTLE_S:g} s some pairs are still missing; see the report.")
    if not any(c["pairs"]["complete"] for c in document["candidates"].values()):
        raise DemoFailed("the report has no complete pair")
    text, _, definitions = path.report(config, out / "report.md").partition(DEFINITIONS)
    comparison.show(console, text)
    if definitions:
        console.print(f"What each figure means stands in {near(out)}/report.md.")
    verdict, line = path.gate(config, up)
    console.print()
    plainly(console, f"shadow gate: {line}", style="bold")
    return verdict


def terminal() -> Console:
    """Where a demo prints: the terminal as it is, anything else wide enough for the table."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def plainly(console: Console, text: str, style: str = "") -> None:
    """Print as it is: no colours guessed, no lines broken, so that a command can be copied."""
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def say_killed(console: Console, killed: Sequence[str]) -> None:
    """Which processes did not end by themselves."""
    if killed:
        console.print(f"Had to be killed: {', '.join(killed)}.", style="yellow")


def next_steps(done: Done, seconds: float, more: Mapping[str, str]) -> str:
    """What was written, and what to type next."""
    command, config = near(Path(sys.executable).parent / "shadow"), near(done.config)
    steps = {
        f"{command} report -c {config}": "the comparison again, from the store",
        f"{command} gate -c {config}; echo $?": "0 promote, 1 reject, 3 hold",
        **more,
    }
    width = max(map(len, steps))
    lines = [f"  {typed:<{width}}   {meaning}" for typed, meaning in steps.items()]
    written = f"Done in {seconds:.0f} s. Written: {near(done.out)}/report.md and report.json."
    return "\n".join(["", written, "Next:", *lines])


def near(full: Path) -> Path:
    """Relative to the current directory where it lies below it."""
    here = Path.cwd()
    return full.relative_to(here) if full.is_relative_to(here) else full
