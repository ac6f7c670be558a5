"""CPU time, cores and the machine's facts, read from /proc. Linux only, as the product."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_UTIME, _STIME = 11, 12  # positions behind the command's name in /proc/PID/stat
_IDLE, _IOWAIT = 3, 4  # positions in a cpu line of /proc/stat


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """What is started inside runs on this core alone (children inherit the affinity); None: any."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if core is None else {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def tree(pid: int) -> list[int]:
    """The process and its living descendants."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in children.read_text().split()]
    return found


def cpu_s(pid: int) -> float:
    """User and system time that the process and its living descendants have used, all threads.

    Raises:
        ProcessLookupError: one of them is gone.
    """
    return sum(_ticks(member) for member in tree(pid)) * TICK_S


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        raise ProcessLookupError(f"process {pid} is gone") from None
    return int(fields[_UTIME]) + int(fields[_STIME])


def peak_bytes(pid: int) -> int:
    """The largest resident size so far, summed over the process and its living descendants."""
    return sum(_peak_kib(member) for member in tree(pid)) * 1024


def forget_peak(pid: int) -> None:
    """Let `peak_bytes` count from now."""
    for member in tree(pid):
        Path(f"/proc/{member}/clear_refs").write_text("5")


def _peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def core_busy_s(core: int) -> float:
    """How long this core has worked, for whomever."""
    lines = Path("/proc/stat").read_text().splitlines()
    line = next(line for line in lines if line.startswith(f"cpu{core} "))
    ticks = [int(value) for value in line.split()[1:9]]
    return (sum(ticks) - ticks[_IDLE] - ticks[_IOWAIT]) * TICK_S


def settle(
    pid: int, *, quiet_s: float = 0.25, share: float = 0.05, patience_s: float = 90.0
) -> float:
    """Wait until the process has done what it put off; returns the seconds that this took.

    Work that a proxy leaves for later (a queue, a log) belongs to the load that caused it.

    Raises:
        TimeoutError: it is still busy after `patience_s`.
    """
    begin = time.monotonic()
    before = cpu_s(pid)
    while time.monotonic() - begin < patience_s:
        time.sleep(quiet_s)
        now = cpu_s(pid)
        if now - before <= share * quiet_s:
            return time.monotonic() - begin - quiet_s
        before = now
    raise TimeoutError(f"process {pid} is still busy after {patience_s:g} s")


def machine() -> dict[str, str | int]:
    """What the figures were measured on."""
    cpu = next(
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_bytes / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
