"""What is looked at from a watching thread: the kill switch, what was said, the configuration,
the control port. A look is True where what it saw was heard; else it is to be looked at again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final

import structlog

from shadow.steering.followed import Followed, ask
from shadow.steering.kill_switch import kill_reason
from shadow.steering.told import NotSteering, Told, damaged, later
from shadow.steering.told_file import read, tidied, write

STUCK_S: Final = 5.0
_ASKED_S: Final = 0.5
"""A longer gap between two questions is one in which the whole process stood still."""
"""Without a look at the kill switch for so long, it counts as unreadable."""

_log = structlog.get_logger("shadow.watcher")


def stamp(path: Path) -> tuple[int, ...] | None:
    """What changes when the file that the path leads to does; None: it cannot be looked at."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


class KillSwitch:
    """The kill switch; None: there is none."""

    def __init__(self, path: Path | None, heard: Callable[[str], None]) -> None:
        self._path, self._heard = path, heard
        self._looks = self._looks_known = 0
        self._asked_s, self._unlooked_s = monotonic(), 0.0
        self._killed = ""

    def look(self) -> bool:
        """Hear that it is on, or off again."""
        if self._path is not None:
            killed = kill_reason(self._path)
            if killed != self._killed:
                self._heard(killed)
                self._killed = killed
            self._looks += 1
        return True

    def stuck(self, fault: str) -> str:
        """Why it counts as unreadable, where no look has ended for long; '': it was looked at.

        Asked by the loop, many times a second: time in which nobody asked does not count, for then
        the process was stopped, its looks with it.
        """
        now = monotonic()
        if self._looks != self._looks_known:
            self._looks_known, self._unlooked_s = self._looks, 0.0
        else:
            self._unlooked_s += min(now - self._asked_s, _ASKED_S)
        self._asked_s = now
        if self._path is None or self._unlooked_s < STUCK_S:
            return ""
        why = fault or "its disk hangs"
        return f"{self._path} was not looked at for {STUCK_S:g} s: {why}"


class Said:
    """The file of what was said."""

    def __init__(self, path: Path, heard: Callable[[Told], None]) -> None:
        self.path, self._heard = path, heard
        self.last: Told | None = None
        """What was heard last."""
        self._stamp: tuple[int, ...] | None = None
        self._unheard = False
        """It has moved, and a fault kept us from hearing it."""

    def first_look(self) -> None:
        """Remove what a killed process left, and hear what holds."""
        try:
            tidied(self.path)
        except OSError as error:
            _log.warning("what a killed process left cannot be removed", why=str(error))
        self._read()

    def look(self) -> bool:
        """Hear it where the file has moved."""
        self._unheard = self._unheard or stamp(self.path) != self._stamp
        if self._unheard:
            self._read()
            self._unheard = False
        return True

    def _read(self) -> None:
        self._stamp = stamp(self.path)
        try:
            told = read(self.path)
        except NotSteering as error:  # nobody knows whether it said pause: the safe side
            _log.error("what was said of mirroring cannot be read; it pauses", reason=str(error))
            told = damaged(error)
        if told == Told() and self.last not in (None, told):
            _log.warning("what was said of mirroring is gone; the last word stands")
            return
        self.hear(told)

    def hear(self, told: Told) -> bool:
        """Pass it on; whether it is news."""
        if told == self.last:
            return False
        self._heard(told)
        self.last = told
        return True


class Configuration:
    """The configuration's file; None: it is not watched."""

    def __init__(self, path: Path | None, heard: Callable[[], None]) -> None:
        self._path, self._heard = path, heard
        self._stamp: tuple[int, ...] | None = None
        self._asked = False
        self._unread = False
        """The last could not be read: it is not tried again, the old one goes on."""

    def first_look(self) -> None:
        """What is there was read already."""
        self._moved()

    def ask(self) -> None:
        """Have it read at the next look, moved or not."""
        self._asked = True

    def look(self) -> bool:
        """Have it read where it has moved, or was asked for."""
        if self._moved() or self._asked:
            self._asked, self._unread = False, True
            self._heard()
            self._unread = False
        return not self._unread

    def _moved(self) -> bool:
        if self._path is None:
            return False
        before, self._stamp = self._stamp, stamp(self._path)
        return self._stamp != before


class ControlPort:
    """Another host's control port; its word is heard, and kept in the file."""

    def __init__(self, followed: Followed, said: Said) -> None:
        self._followed, self._said = followed, said
        self._away = False
        self._kept = True

    def look(self) -> bool:
        """Ask it; while it is away its last word stands."""
        try:
            told = later(self._said.last or Told(), ask(self._followed))
        except NotSteering as error:
            if not self._away:
                _log.warning("the control port is away; its last word stands", why=str(error))
            self._away = True
            return True
        if self._away:
            _log.info("the control port is back")
        self._away = False
        if self._said.hear(told):
            self._kept = False
        if not self._kept:
            self._keep(told)
        return True

    def _keep(self, told: Told) -> None:
        """For the next start, should the control port be away then."""
        try:
            write(self._said.path, told, waits=False)
        except BlockingIOError:  # another process keeps it just now: again in a second
            return
        except OSError as error:
            _log.warning("what was said of mirroring cannot be kept", why=str(error))
        self._kept = True
