"""What a process of ours settles for itself before it works."""

from __future__ import annotations

import os
import signal
from ctypes import CDLL

from shadow.supervise import SUPERVISED

_PR_SET_PDEATHSIG = 1


def private() -> None:
    """What the services write holds prompts: nobody else on this machine may read it."""
    os.umask(0o077)


def die_with_supervisor() -> None:
    """Drain when the supervisor is gone, however it went; the proxy goes on serving instead."""
    supervisor = os.environ.get(SUPERVISED)
    if supervisor is None:
        return
    CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(supervisor):  # it went between the start and the line above
        os.kill(os.getpid(), signal.SIGTERM)
