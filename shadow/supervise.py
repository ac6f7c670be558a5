"""One machine, several processes: start them, restart what dies, stop them in the right order.

User traffic shares no process with decoding or the database, so killing a collector interrupts
nobody. Children lead sessions of their own: a terminal's Ctrl-C reaches the supervisor alone,
which then drains them in their order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

FIRST_BACKOFF_S = 0.25
LAST_BACKOFF_S = 30.0
STEADY_S = 60.0
USAGE = 2
SUPERVISED = "SHADOW_SUPERVISED"
"""Set in a child's environment: the supervisor's process id."""


@dataclass(frozen=True, slots=True)
class Service:
    """What to run, and how long it may take to end after SIGTERM."""

    name: str
    argv: Sequence[str]
    grace_s: float
    hears_hangup: bool = False
    """SIGHUP is passed on to it: it reads its configuration again."""


def backoff(restarts: int) -> float:
    """Seconds to wait before the n-th restart in a row (from 0)."""
    return min(FIRST_BACKOFF_S * 2.0 ** min(restarts, 16), LAST_BACKOFF_S)


@dataclass(slots=True)
class _Child:
    service: Service
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    restarts: int = 0
    due_s: float = 0.0
    first: bool = True
    """It has not ended yet since the supervisor began."""

    def start(self, now_s: float) -> None:
        self.started_s = now_s
        self.process = subprocess.Popen(  # noqa: S603 our own command line
            self.service.argv,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, SUPERVISED: str(os.getpid())},
        )

    def reap(self, now_s: float) -> int | None:
        """The exit status of a child that has just ended, once."""
        if self.process is None or (status := self.process.poll()) is None:
            return None
        self.process = None
        self.first = False
        self.restarts = 0 if now_s - self.started_s > STEADY_S else self.restarts
        self.wait(now_s)
        return status

    def wait(self, now_s: float) -> None:
        """Not before its time, which is ever later, is it started again."""
        self.due_s = now_s + backoff(self.restarts)
        self.restarts += 1

    def end(self, sig: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(sig)


@dataclass(slots=True)
class _Signals:
    received: list[int] = field(default_factory=list)
    hangups: int = 0

    def __call__(self, signum: int, _frame: FrameType | None) -> None:
        if signum == signal.SIGHUP:
            self.hangups += 1
        else:
            self.received.append(signum)


@contextmanager
def _stop_signals() -> Iterator[_Signals]:
    signals = _Signals()
    heard = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    previous = {number: signal.signal(number, signals) for number in heard}
    try:
        yield signals
    finally:
        for number, old in previous.items():
            signal.signal(number, old)


def _say(text: str) -> None:
    sys.stderr.write(f"shadow up: {text}\n")
    sys.stderr.flush()


def supervise(
    services: Sequence[Service],
    *,
    say: Callable[[str], None] = _say,
    tick_s: float = 0.05,
    draining: Callable[[], str] = lambda: "draining",
) -> int:
    """Run until SIGTERM or SIGINT, then drain `services` in order; a second signal ends at once.

    Args:
        services: what to run, in the order of the drain.
        say: a line to the person who watches.
        tick_s: how often to look.
        draining: what a drain waits for, and how long; asked when one begins.

    Returns:
        0 after a drain; 128 and the signal's number (130: Ctrl-C) where something was cut, by a
        second signal or because it outlasted its time; 2 when a service refused its configuration
        at its first start. A refusal later (somebody has changed a file) stops nothing: the others
        go on, and it is tried again. SIGHUP is passed on to those that hear it.
    """
    children = [_Child(service) for service in services]
    with _stop_signals() as signals:
        status = cut = 0
        try:
            while not signals.received and not status:
                status = _keep_up(children, say)
                _pass_on(children, signals)
                time.sleep(tick_s)
        finally:
            patience = max(len(signals.received), 1)  # one press may come as two signals
            if signals.received:
                say(draining())
            cut = _drain(children, lambda: len(signals.received) > patience, say, tick_s)
    return status or (128 + signals.received[-1] if cut and signals.received else 0)


def _pass_on(children: Sequence[_Child], signals: _Signals) -> None:
    if not signals.hangups:
        return
    signals.hangups = 0
    for child in children:
        if child.service.hears_hangup:
            child.end(signal.SIGHUP)


def _keep_up(children: Sequence[_Child], say: Callable[[str], None]) -> int:
    now = time.monotonic()
    for child in children:
        first = child.first
        ended = child.reap(now)
        if ended == USAGE and first and now - child.started_s < STEADY_S:
            say(f"{child.service.name} refused to start (see its line above); stopping")
            return USAGE
        if ended is not None:
            why = signal.Signals(-ended).name if ended < 0 else f"exit {ended}"
            say(f"{child.service.name} ended ({why}); again in {child.due_s - now:g} s")
        if child.process is None and now >= child.due_s:
            _start(child, now, say)
    return 0


def _start(child: _Child, now: float, say: Callable[[str], None]) -> None:
    """Where the system refuses (no process is left, an upgrade has moved the interpreter), the
    others go on: a collector that cannot come back must not take the proxy with it.
    """
    try:
        child.start(now)
    except OSError as error:
        child.wait(now)
        why = error.strerror or error
        say(f"{child.service.name} cannot be started ({why}); again in {child.due_s - now:g} s")


def _drain(
    children: Sequence[_Child],
    at_once: Callable[[], bool],
    say: Callable[[str], None],
    tick_s: float,
) -> int:
    """End them one after the other; how many had to be cut."""
    cut = 0
    for child in children:
        child.end(signal.SIGTERM)
        deadline = time.monotonic() + child.service.grace_s
        while child.process is not None and child.process.poll() is None:
            if at_once() or time.monotonic() > deadline:
                say(f"{child.service.name} was cut")
                child.end(signal.SIGKILL)
                child.process.wait()
                cut += 1
            time.sleep(tick_s)
    return cut
