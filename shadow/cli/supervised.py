"""Several processes under one supervisor: everything, or the proxy's workers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from shadow.cli.beginning import alone, ports_free
from shadow.cli.draining import draining
from shadow.cli.process import private
from shadow.cli.showing import examine
from shadow.config import Config, ConfigError
from shadow.config.consistency import consistent
from shadow.supervise import Service, supervise

if TYPE_CHECKING:
    from collections.abc import Sequence

PUBLISHER_GRACE_S = 15.0
COLLECTOR_GRACE_S = 15.0
ANALYSIS_GRACE_S = 15.0
MEASURE_GRACE_S = 15.0
SPARE_S = 5.0
"""On top of each grace, so that a service's own bound is met before the supervisor's."""


def up(path: Path, config: Config) -> int:
    """Supervise everything. The proxy drains first, then the analysis looks until all is stored
    and judged, then the collector ends, and the store with it.

    Raises:
        ConfigError: two processes would listen on one port, a mistake in the policy, a file
            that cannot be used, it runs here already, or an address is taken.
    """
    try:
        consistent(config, one_machine=True)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    examine(config)  # a mistake in the policy stops the start, not the analysis alone
    private()
    with alone(config, "up"):
        ports_free(config)
        return supervise(
            [
                *workers(path, config),
                *_measure(path, config),
                Service("analysis", _argv("analyze", path), ANALYSIS_GRACE_S + SPARE_S),
                Service("collector", _argv("collect", path), COLLECTOR_GRACE_S + SPARE_S),
            ],
            draining=lambda: draining(config),
        )


def _measure(path: Path, config: Config) -> list[Service]:
    """It ends after the proxies: they hand it all they have, and before the collector."""
    if config.capture != "measures":
        return []
    return [Service("measure", _argv("measure", path), MEASURE_GRACE_S + SPARE_S)]


def workers(path: Path, config: Config) -> list[Service]:
    """The proxy, a process a worker."""
    grace = config.drain + PUBLISHER_GRACE_S + SPARE_S
    return [
        Service(f"proxy {n}", _argv("proxy", path, "--worker", str(n)), grace, hears_hangup=True)
        for n in range(config.workers)
    ]


def _argv(command: str, path: Path, *more: str) -> Sequence[str]:
    return [sys.executable, "-m", "shadow", command, "-c", str(path), *more]
