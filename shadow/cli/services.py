"""From a configuration to running services: its words become each part's settings."""

from __future__ import annotations

import os
import signal
import sys
from ctypes import CDLL
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from shadow.cli.settings import collector_settings
from shadow.cli.speaking import speaks_as
from shadow.config import Config, ConfigError, masked
from shadow.config.consistency import consistent
from shadow.config.document import referring
from shadow.config.files import EVERY, files_usable
from shadow.supervise import SUPERVISED, Service, supervise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PUBLISHER_GRACE_S = 15.0
COLLECTOR_GRACE_S = 15.0
ANALYSIS_GRACE_S = 15.0
MEASURE_GRACE_S = 15.0
SPARE_S = 5.0
"""On top of each grace, so that a service's own bound is met before the supervisor's."""

_PR_SET_PDEATHSIG = 1


def show_config(path: Path, config: Config) -> int:
    """Print it resolved, as YAML that loads again but for its masked secrets.

    Raises:
        ConfigError: a mistake in the policy that it names, or a file that cannot be used.
    """
    from shadow.cli.analysis import read_policy
    from shadow.cli.planning import warnings

    read_policy(config)
    files_usable(config, *EVERY)
    for warning in warnings(config):
        click.echo(f"shadow: warning: {warning}", err=True)
    click.echo(
        yaml.safe_dump(masked(config, referring(path)), sort_keys=False, allow_unicode=True),
        nl=False,
    )
    for line in _parts(config):
        click.echo(f"# {line}")
    return 0


def _parts(config: Config) -> Iterator[str]:
    """What each worker may give an arm of its limits."""
    for name, arm in config.arms.items():
        limits = arm.limits.model_dump(exclude_none=True)
        for key, value in limits.items():
            part = f"{value / config.workers:.6g}"
            yield f"each of {config.workers} workers gives arms.{name}: {key} {part}"


def private() -> None:
    """What the services write holds prompts: nobody else on this machine may read it."""
    os.umask(0o077)


def up(path: Path, config: Config) -> int:
    """Supervise everything. The proxy drains first, then the analysis looks until all is stored
    and judged, then the collector ends, and the store with it.

    Raises:
        ConfigError: two processes would listen on one port, a mistake in the policy, or a file
            that cannot be used.
    """
    from shadow.cli.analysis import read_policy
    from shadow.cli.planning import warnings

    try:
        consistent(config, one_machine=True)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    read_policy(config)  # a mistake in it stops the start, not the analysis alone
    files_usable(config, *EVERY)
    for warning in warnings(config):
        click.echo(f"shadow: warning: {warning}", err=True)
    private()
    return supervise(
        [
            *_workers(path, config),
            *_measure(path, config),
            Service("analysis", _argv("analyze", path), ANALYSIS_GRACE_S + SPARE_S),
            Service("collector", _argv("collect", path), COLLECTOR_GRACE_S + SPARE_S),
        ]
    )


def proxy(path: Path, config: Config, worker: int | None) -> int:
    """One worker in this process, or several under a supervisor.

    Raises:
        ConfigError: see `shadow.proxy.run`; a file cannot be used.
    """
    files_usable(config, "upstreams", "stream")
    if worker is None and config.workers > 1:
        return supervise(_workers(path, config))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is heard: a worker is not ended by it
    from shadow.proxy import run

    private()
    speaks_as(f"proxy {worker or 0}")
    return run(config, str(worker or 0), path)


def collect(config: Config) -> int:
    """The collector in this process.

    Raises:
        ConfigError: a file cannot be used.
    """
    files_usable(config, "stream", "store", "tokenizers")
    from collector.service import run
    from collector.status import Status
    from shadow.cli.health import collector_health
    from shadow.cli.serving import serving

    private()
    speaks_as("collector")
    _die_with_supervisor()
    status = Status()
    with serving(config.admin.collector, lambda: collector_health(status), "admin.collector"):
        return run(collector_settings(config), status)


def analyze(config: Config) -> int:
    """The analysis in this process.

    Raises:
        ConfigError: a mistake in the policy, or a file that cannot be used.
    """
    files_usable(config, "store")
    from analysis.api import api
    from analysis.service import Status, run
    from analysis.stopping import stopper
    from collector.store import translated
    from shadow.cli.analysis import analysis_settings
    from shadow.cli.health import analysis_health
    from shadow.cli.serving import serving
    from shadow.cli.steering_port import add_mirror
    from shadow.cli.store import connect
    from shadow.steering.steer import tell_ended
    from shadow.steering.told_file import file_of

    speaks_as("analysis")
    _die_with_supervisor()
    settings, status, admin = analysis_settings(config), Status(), config.admin
    settle_s = ANALYSIS_GRACE_S - SPARE_S if SUPERVISED in os.environ else 0.0
    file = file_of(config.state, config.experiment)
    reports = api(settings, lambda: connect(config), admin.token)
    add_mirror(reports, file, config, lambda: connect(config))
    with (
        serving(admin.analysis, lambda: analysis_health(status), "admin.analysis"),
        serving(admin.control, lambda: reports, "admin.control"),
    ):
        return run(
            settings,
            lambda: connect(config),
            settle_s=settle_s,
            status=status,
            words=lambda error: str(translated(error)),
            then=stopper(settings, lambda ended: tell_ended(file, settings.config_hash, ended)),
        )


def measure(config: Config) -> int:
    """The process that measures, of this host's proxies.

    Raises:
        ConfigError: a file cannot be used.
    """
    files_usable(config, "stream", "tokenizers")
    from collector.measuring import run
    from shadow.cli.settings import measure_settings

    private()
    speaks_as("measure")
    _die_with_supervisor()
    return run(measure_settings(config))


def _measure(path: Path, config: Config) -> list[Service]:
    """It ends after the proxies: they hand it all they have, and before the collector."""
    if config.capture != "measures":
        return []
    return [Service("measure", _argv("measure", path), MEASURE_GRACE_S + SPARE_S)]


def _workers(path: Path, config: Config) -> list[Service]:
    grace = config.drain + PUBLISHER_GRACE_S + SPARE_S
    return [
        Service(f"proxy {n}", _argv("proxy", path, "--worker", str(n)), grace, hears_hangup=True)
        for n in range(config.workers)
    ]


def _argv(command: str, path: Path, *more: str) -> Sequence[str]:
    return [sys.executable, "-m", "shadow", command, "-c", str(path), *more]


def _die_with_supervisor() -> None:
    """Drain when the supervisor is gone, however it went; the proxy goes on serving instead."""
    supervisor = os.environ.get(SUPERVISED)
    if supervisor is None:
        return
    CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(supervisor):  # it went between the start and the line above
        os.kill(os.getpid(), signal.SIGTERM)
