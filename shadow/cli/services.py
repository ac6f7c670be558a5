"""One part in this process: the configuration's words become its settings, and it runs."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from shadow.cli.beginning import alone
from shadow.cli.draining import draining
from shadow.cli.process import die_with_supervisor, private
from shadow.cli.settings import collector_settings
from shadow.cli.speaking import speaks_as
from shadow.cli.supervised import ANALYSIS_GRACE_S, SPARE_S, workers
from shadow.config import Config
from shadow.config.files import files_usable
from shadow.supervise import SUPERVISED, supervise

if TYPE_CHECKING:
    from pathlib import Path


def proxy(path: Path, config: Config, worker: int | None) -> int:
    """One worker in this process, or several under a supervisor.

    Raises:
        ConfigError: see `shadow.proxy.run`; a file cannot be used.
    """
    files_usable(config, "upstreams", "stream")
    if worker is None and config.workers > 1:
        with alone(config, "proxy"):
            return supervise(workers(path, config), draining=lambda: draining(config))
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
    die_with_supervisor()
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
    from analysis.service import run
    from analysis.status import Status
    from analysis.stopping import stopper
    from collector.store_errors import translated
    from shadow.cli.analysis import analysis_settings
    from shadow.cli.health import analysis_health
    from shadow.cli.serving import serving
    from shadow.cli.steering_port import add_mirror
    from shadow.cli.store import connect
    from shadow.steering.steer import tell_ended
    from shadow.steering.told_file import file_of

    speaks_as("analysis")
    die_with_supervisor()
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
    die_with_supervisor()
    return run(measure_settings(config))
