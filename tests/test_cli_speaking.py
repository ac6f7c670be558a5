"""Under a supervisor each line of a log says which process speaks, whatever thread writes it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shadow.supervise import SUPERVISED

SPEAK = """
import threading, structlog
from shadow.cli.speaking import speaks_as
log = structlog.get_logger("early")
speaks_as("proxy 1")
log.info("here")
thread = threading.Thread(target=lambda: log.info("there"))
thread.start()
thread.join()
"""


@pytest.mark.parametrize("supervised", [True, False])
def test_each_line_has_its_process(supervised):
    """In the main thread and in others; a process that runs alone says nothing more."""
    environment = {name: value for name, value in os.environ.items() if name != SUPERVISED}
    environment |= {SUPERVISED: "1"} if supervised else {}
    said = subprocess.run(
        [sys.executable, "-c", SPEAK], capture_output=True, text=True, env=environment, check=True
    ).stdout.splitlines()
    assert len(said) == 2
    assert ["process" in line and "proxy 1" in line for line in said] == [supervised] * 2
