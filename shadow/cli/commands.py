"""The command line: options, and which part runs. No logic of the product lives here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shadow import __version__
from shadow.config.document import ConfigError

if TYPE_CHECKING:
    from shadow.config.model import Config

USAGE = 2

config_option = click.option(
    "-c",
    "--config",
    "config_path",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The experiment's configuration (YAML).",
)


def _finite(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    """A range lets through what is no number."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number")
    return value


def seconds(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """An option that is a duration: 90s, 30m, 2h."""
    from analysis.amounts import duration

    try:
        return None if value is None else duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Returns:
        Its exit status. A mistake in options or configuration is one line on stderr and 2.
    """
    try:
        result = cli.main(args=list(arguments), prog_name="shadow", standalone_mode=False)
    except ConfigError as error:
        click.echo(f"shadow: {error}", err=True)
        return USAGE
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.ClickException as error:
        click.echo(f"shadow: {error.format_message()}", err=True)
        return USAGE
    except click.Abort:
        raise KeyboardInterrupt from None
    return result if isinstance(result, int) else 0


def read_config(path: Path) -> Config:
    """The checked configuration; relative folders in it count from the current directory."""
    from shadow.config import Config, load

    return load(path, Config)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="shadow")
def cli() -> None:
    """Compare a new engine deployment with the one in production, on live traffic."""


@cli.command()
@config_option
def up(config_path: Path) -> int:
    """Run everything on this machine: proxy, collector with its store, analysis."""
    from shadow.cli.services import up as start

    return start(config_path, read_config(config_path))


@cli.command()
@config_option
@click.option("--worker", type=click.IntRange(0, 63), help="Run one worker of several, by number.")
def proxy(config_path: Path, worker: int | None) -> int:
    """Run the sidecar proxy: relay to the primary, mirror to the arms."""
    from shadow.cli.services import proxy as start

    return start(config_path, read_config(config_path), worker)


@cli.command()
@config_option
def collect(config_path: Path) -> int:
    """Run the collector: from the stream into the store."""
    from shadow.cli.services import collect as start

    return start(read_config(config_path))


@cli.command()
@config_option
def measure(config_path: Path) -> int:
    """With `capture: measures`: read what the proxies of this host captured, publish figures."""
    from shadow.cli.services import measure as start

    return start(read_config(config_path))


@cli.command()
@config_option
def analyze(config_path: Path) -> int:
    """Run the analysis: pair, compare, judge, again and again."""
    from shadow.cli.services import analyze as start

    return start(read_config(config_path))


@cli.command()
@config_option
def migrate(config_path: Path) -> int:
    """Create or update the store's tables; `up` and `collect` do it by themselves."""
    from shadow.cli.reading import migrate as start

    return start(read_config(config_path))


@cli.command()
@config_option
@click.option("--experiment", help="Another experiment than the configuration's.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "json"]),
    default="md",
    show_default=True,
    help="Markdown to read, or JSON for programs.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to a file."
)
def report(config_path: Path, experiment: str | None, form: str, output: Path | None) -> int:
    """Print the comparison, while it runs or afterwards."""
    from shadow.cli.reading import report as start

    return start(read_config(config_path), experiment, form, output)


@cli.command()
@config_option
@click.option("--candidate", help="Which candidate; required where there are several.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="One line to read, or JSON for programs.",
)
@click.option(
    "--wait", callback=seconds, help="While it holds, look again for so long (30m), then exit 3."
)
@click.option(
    "--max-age", callback=seconds, help="Hold where the verdict is older than this (10m)."
)
def gate(
    config_path: Path, candidate: str | None, form: str, wait: float | None, max_age: float | None
) -> int:
    """Print the verdict and exit with it: 0 promote, 1 reject, 3 hold."""
    from shadow.cli.reading import gate as start

    return start(read_config(config_path), candidate, form, wait or 0.0, max_age)


@cli.command()
@config_option
@click.option("--subject", required=True, help="The value of the header that `subject` configures.")
@click.option("--all", "measures", is_flag=True, help="Measures too, not only texts.")
def purge(config_path: Path, subject: str, measures: bool) -> int:  # noqa: FBT001 click calls by name
    """Forget whom a header's value names: in the store, and when records are delivered again."""
    from shadow.cli.purging import purge as start

    return start(read_config(config_path), subject, measures=measures)


@cli.command()
@config_option
@click.option(
    "--rate",
    type=click.FloatRange(1e-6, 1e6),
    callback=_finite,
    help="Eligible requests a second.",
)
@click.option(
    "--sigma",
    type=click.FloatRange(1e-6, 100),
    callback=_finite,
    default=0.5,
    show_default=True,
    help="Deviation of the log of one answer's time, where no control was measured.",
)
@click.option(
    "--correlation",
    type=click.FloatRange(-0.99, 0.99),
    callback=_finite,
    default=0.5,
    show_default=True,
    help="Of the logs of a pair's two sides.",
)
@click.option(
    "--bad",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    callback=_finite,
    default=0.002,
    show_default=True,
    help="Share of answers that fail, or differ.",
)
@click.option(
    "--design",
    type=click.FloatRange(1, 1e6),
    callback=_finite,
    default=1.0,
    show_default=True,
    help="How many times more pairs dependence costs (bursts: 2 to 10).",
)
@click.option(
    "--gpus",
    type=click.FloatRange(1e-6, 1e6),
    callback=_finite,
    default=1.0,
    show_default=True,
    help="GPUs a replica.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines to read, or JSON for programs.",
)
def plan(
    config_path: Path,
    rate: float | None,
    sigma: float,
    correlation: float,
    bad: float,
    design: float,
    gpus: float,
    form: str,
) -> int:
    """Say what a verdict will take: pairs, minutes, GPU-hours; and the rate of load parity."""
    from analysis.planning import Stated
    from shadow.cli.planning import plan as start

    stated = Stated(sigma, correlation, bad, design)
    return start(read_config(config_path), rate, stated, gpus, form)


@cli.command()
@config_option
@click.argument("metric")
@click.option("--by", "who", required=True, help="Who waives it.")
@click.option("--reason", required=True, help="Why.")
@click.option("--until", required=True, help="When it ends: a date or a time (ISO 8601, UTC).")
@click.option("--candidate", help="For which candidate; required where there are several.")
def waive(
    config_path: Path, metric: str, who: str, reason: str, until: str, candidate: str | None
) -> int:
    """Take a gated METRIC out of the verdict for a time; report and gate show it."""
    from shadow.cli.waiving import waive as start

    return start(read_config(config_path), metric, who, reason, until, candidate)


@cli.command()
@config_option
@click.argument("action", type=click.Choice(["status", "pause", "resume", "rate"]))
@click.argument("arm", required=False)
@click.argument("share", required=False)
@click.option("--by", "who", help="Who says it.  [default: the user]")
@click.option("--reason", default="", help="Why.")
def mirror(
    config_path: Path, action: str, arm: str | None, share: str | None, who: str | None, reason: str
) -> int:
    """Steer mirroring while it runs: {status|pause|resume|rate}; rate takes [ARM] and [SHARE].

    A SHARE of 0 to 1 stands instead of the arm's `sample`; `file` takes the configuration's again.
    """
    from shadow.cli.steering import mirror as start

    return start(read_config(config_path), action, arm, share, who, reason)


@cli.command()
@click.argument("pairs", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    "policy_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Margins and error levels (YAML).  [default: the default policy]",
)
@click.option("--candidate", help="Which candidate; required where there are several.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines to read, or report.json for programs.",
)
def judge(pairs: Path, policy_path: Path | None, candidate: str | None, form: str) -> int:
    """Judge a file of pairs (PAIRS), JSON a line, and exit as the gate does."""
    from shadow.cli.judging import judge as start

    return start(pairs, policy_path, candidate, form)


@cli.command()
@config_option
def config(config_path: Path) -> int:
    """Check a configuration and print it resolved, secrets masked."""
    from shadow.cli.services import show_config

    return show_config(read_config(config_path))


@cli.command()
@click.option("--details", is_flag=True, help="Add what was read beyond the documented object.")
@click.option(
    "--tokenizer",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A tokenizer.json that counts output tokens where the engine gives no count.",
)
@click.argument("file", type=click.Path(path_type=Path))
def decode(file: Path, tokenizer: Path | None, details: bool) -> int:  # noqa: FBT001 click calls by name
    """Say what one captured answer (FILE.json) was: how it ended, its text, its times, as JSON."""
    from shadow.cli.decoding import decode as start

    return start(file, tokenizer, details=details)


@cli.command()
@click.option(
    "--candidate",
    type=click.Choice(["slow", "same"]),
    default="slow",
    show_default=True,
    help="The simulated candidate: 15 % slower a token with 10 % other answers, or an equal one.",
)
@click.option(
    "--stream",
    type=click.Choice(["embedded", "kafka"]),
    default="embedded",
    show_default=True,
    help="What carries the exchanges; kafka is the one of KAFKA_BOOTSTRAP_SERVERS.",
)
@click.option("--engines", is_flag=True, help="Real llama.cpp servers (or your own), 40 prompts.")
@click.option("--primary", metavar="URL", help="With --engines: your own engine as the primary.")
@click.option("--candidate-url", metavar="URL", help="With --engines: your own candidate.")
@click.option("--control-url", metavar="URL", help="With --engines: your own control.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to write.  [default: out/demo or out/demo-engines]",
)
def demo(
    candidate: str,
    stream: str,
    engines: bool,  # noqa: FBT001 click calls by name
    primary: str | None,
    candidate_url: str | None,
    control_url: str | None,
    out: Path | None,
) -> int:
    """Show the whole path on this machine, with a verdict at its end."""
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
        out or Path("out/demo"),
        stream="kafka" if stream == "kafka" else "embedded",
    )


def _engine_sim() -> click.Command:
    from shadow.cli.simulation import command

    return command()


cli.add_command(_engine_sim())
