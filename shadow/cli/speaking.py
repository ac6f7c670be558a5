"""How a process speaks: under a supervisor several write to one terminal, each line says whose;
of its own faults it tells kind and place, nothing that they were about.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import structlog

from shadow.fault import keep_quiet
from shadow.supervise import SUPERVISED

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger


def speaks_as(name: str) -> None:
    """Every line of this process's log has the key `process`; alone, it needs none.

    By a processor and not by the context: the lines of threads have it too.
    """
    keep_quiet()
    if SUPERVISED not in os.environ:
        return

    def named(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {**event, "process": name}

    structlog.configure(processors=[named, *structlog.get_config()["processors"]])
