"""What changes mirroring from outside, watched in threads of their own: files, another host's word.

The loop never waits for a disk or a network: what was seen is handed to it. If the thread that
watches the kill switch hangs (a mount that is gone), that counts as unreadable: mirroring stops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

import structlog

from shadow.steering.followed import Followed, ask
from shadow.steering.kill_switch import kill_reason
from shadow.steering.told import NotSteering, Told, damaged, later, read, tidied, write

LOOK_S: Final = 0.25
FOLLOW_S: Final = 1.0
_KILL_SWITCH, _TOLD = "the kill switch", "what was said of mirroring"
_CONFIG, _PORT = "the configuration", "the control port"
STUCK_S: Final = 5.0
"""Without a look at the kill switch for so long, it counts as unreadable."""

_log = structlog.get_logger("shadow.watcher")


def stamp(path: Path) -> tuple[int, ...] | None:
    """What changes when the file that the path leads to does; None: it cannot be looked at."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


@dataclass(frozen=True, slots=True)
class Places:
    """What is watched; None: it is not."""

    told: Path
    kill_switch: Path | None = None
    config: Path | None = None
    followed: Followed | None = None


@dataclass(frozen=True, slots=True)
class Ears:
    """Who hears of it; called in the watching threads."""

    killed: Callable[[str], None]
    told: Callable[[Told], None]
    config: Callable[[], None]


class Watcher:
    """See the module. `start`, `stop`; `reload` makes it read the configuration at once."""

    def __init__(self, places: Places, ears: Ears) -> None:
        self._places, self._ears = places, ears
        self._over, self._wake = threading.Event(), threading.Event()
        self._asked = False
        self._looked_s = monotonic()
        self._killed = ""
        self._told: Told | None = None
        self._away = ""
        self._kept = True
        self._stamps: dict[Path, tuple[int, ...] | None] = {}
        self._unheard = False
        """What was said has moved, and a fault kept us from hearing it."""
        self._unread = False
        """The same of the configuration."""
        self._faults = dict.fromkeys((_KILL_SWITCH, _TOLD, _CONFIG, _PORT), "")
        self.faults_total = 0
        """How often a fault of ours began; see `fault`."""
        self._threads = [threading.Thread(target=self._files, daemon=True)]
        if places.followed is not None:
            self._threads.append(
                threading.Thread(target=self._follow, args=(places.followed,), daemon=True)
            )

    def first_look(self) -> None:
        """Before anything is served: what was said of mirroring holds from its first request."""
        if self._places.config is not None:
            self._stamps[self._places.config] = stamp(self._places.config)
        self._tidy()
        self._look_at_told()
        self._look_at_kill_switch()

    def _tidy(self) -> None:
        try:
            tidied(self._places.told)
        except OSError as error:
            _log.warning("what a killed process left cannot be removed", why=str(error))

    def start(self) -> None:
        """Begin to watch."""
        for thread in self._threads:
            thread.start()

    def reload(self) -> None:
        """Read the configuration again, now (SIGHUP)."""
        self._asked = True
        self._wake.set()

    def stuck(self) -> str:
        """Why the kill switch counts as unreadable; '': it was looked at."""
        if self._places.kill_switch is None or monotonic() - self._looked_s < STUCK_S:
            return ""
        why = self._faults[_KILL_SWITCH] or "its disk hangs"
        return f"{self._places.kill_switch} was not looked at for {STUCK_S:g} s: {why}"

    def fault(self) -> str:
        """Which change may not be heard, for a fault of ours; '': each is."""
        return next((f"{what}: {why}" for what, why in self._faults.items() if why), "")

    def stop(self) -> None:
        """End it; a thread that hangs is left behind."""
        self._over.set()
        self._wake.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(1.0)

    def _files(self) -> None:
        while not self._over.is_set():
            self._guarded(_KILL_SWITCH, self._look_at_kill_switch)
            self._guarded(_TOLD, self._hear_changes)
            self._guarded(_CONFIG, self._read_changes)
            self._wake.wait(LOOK_S)
            self._wake.clear()

    def _guarded(self, what: str, look: Callable[[], bool]) -> None:
        """A fault of ours ends no watching: it is said once, and stands until `look` says True."""
        before = self._faults[what]
        try:
            if look() and before:
                self._faults[what] = ""
                _log.info("a fault in watching is over", what=what)
        except Exception as error:  # noqa: BLE001 whatever it is, the thread goes on
            if not before:
                self._faults[what] = f"{type(error).__name__}: {error}"
                self.faults_total += 1
                _log.exception("a fault of shadow in watching; it goes on", what=what)

    def _hear_changes(self) -> bool:
        if self._places.followed is not None:
            return True
        self._unheard = self._moved(self._places.told) or self._unheard
        if self._unheard:
            self._look_at_told()
            self._unheard = False
        return True

    def _read_changes(self) -> bool:
        """False where the last could not be read: it is not tried again, the old one goes on."""
        config = self._places.config
        moved = config is not None and self._moved(config)
        if moved or self._asked:
            self._asked, self._unread = False, True
            self._ears.config()
            self._unread = False
        return not self._unread

    def _moved(self, path: Path) -> bool:
        seen = stamp(path)
        before = self._stamps.get(path, seen)
        self._stamps[path] = seen
        return seen != before

    def _look_at_kill_switch(self) -> bool:
        if self._places.kill_switch is not None:
            killed = kill_reason(self._places.kill_switch)
            if killed != self._killed:
                self._ears.killed(killed)
                self._killed = killed
            self._looked_s = monotonic()
        return True

    def _look_at_told(self) -> None:
        self._stamps[self._places.told] = stamp(self._places.told)
        try:
            told = read(self._places.told)
        except NotSteering as error:  # nobody knows whether it said pause: the safe side
            _log.error("what was said of mirroring cannot be read; it pauses", reason=str(error))
            told = damaged(error)
        if told == Told() and self._told not in (None, told):
            _log.warning("what was said of mirroring is gone; the last word stands")
            return
        self._hear(told)

    def _hear(self, told: Told) -> None:
        if told != self._told:
            self._ears.told(told)
            self._told = told

    def _follow(self, followed: Followed) -> None:
        while not self._over.is_set():
            self._guarded(_PORT, lambda: self._ask(followed))
            self._over.wait(FOLLOW_S)

    def _ask(self, followed: Followed) -> bool:
        try:
            told = later(self._told or Told(), ask(followed))
        except NotSteering as error:
            if not self._away:
                _log.warning("the control port is away; its last word stands", why=str(error))
            self._away = str(error)
        else:
            if self._away:
                _log.info("the control port is back")
            self._away = ""
            if told != self._told:
                self._hear(told)
                self._kept = False
            if not self._kept:
                self._keep(told)
        return True

    def _keep(self, told: Told) -> None:
        """For the next start, should the control port be away then."""
        try:
            write(self._places.told, told, waits=False)
        except BlockingIOError:  # another process keeps it just now: again in a second
            return
        except OSError as error:
            _log.warning("what was said of mirroring cannot be kept", why=str(error))
        self._kept = True
