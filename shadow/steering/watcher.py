"""What changes mirroring from outside, watched in threads of their own: files, another host's word.

The loop never waits for a disk or a network: what was seen is handed to it. If the thread that
watches the kill switch hangs (a mount that is gone), that counts as unreadable: mirroring stops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from shadow.fault import told
from shadow.steering.followed import Followed
from shadow.steering.looks import Configuration, ControlPort, KillSwitch, Said
from shadow.steering.told import Told

LOOK_S: Final = 0.25
FOLLOW_S: Final = 1.0
_KILL_SWITCH, _TOLD = "the kill switch", "what was said of mirroring"
_CONFIG, _PORT = "the configuration", "the control port"

_log = structlog.get_logger("shadow.watcher")


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
        self._over, self._wake = threading.Event(), threading.Event()
        self._kill_switch = KillSwitch(places.kill_switch, ears.killed)
        self._said = Said(places.told, ears.told)
        self._config = Configuration(places.config, ears.config)
        self._faults = dict.fromkeys((_KILL_SWITCH, _TOLD, _CONFIG, _PORT), "")
        self.faults_total = 0
        """How often a fault of ours began; see `fault`."""
        self._looks: dict[str, Callable[[], bool]] = {_KILL_SWITCH: self._kill_switch.look}
        if places.followed is None:
            self._looks[_TOLD] = self._said.look
        self._looks[_CONFIG] = self._config.look
        self._threads = [threading.Thread(target=self._files, daemon=True)]
        if places.followed is not None:
            port = ControlPort(places.followed, self._said)
            self._threads.append(threading.Thread(target=self._follow, args=(port,), daemon=True))

    def first_look(self) -> None:
        """Before anything is served: what was said of mirroring holds from its first request."""
        self._config.first_look()
        self._said.first_look()
        self._kill_switch.look()

    def start(self) -> None:
        """Begin to watch."""
        for thread in self._threads:
            thread.start()

    def reload(self) -> None:
        """Read the configuration again, now (SIGHUP)."""
        self._config.ask()
        self._wake.set()

    def stuck(self) -> str:
        """Why the kill switch counts as unreadable; '': it was looked at."""
        return self._kill_switch.stuck(self._faults[_KILL_SWITCH])

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
            for what, look in self._looks.items():
                self._guarded(what, look)
            self._wake.wait(LOOK_S)
            self._wake.clear()

    def _follow(self, port: ControlPort) -> None:
        while not self._over.is_set():
            self._guarded(_PORT, port.look)
            self._over.wait(FOLLOW_S)

    def _guarded(self, what: str, look: Callable[[], bool]) -> None:
        """A fault of ours ends no watching: it is said once, and stands until `look` says True."""
        before = self._faults[what]
        try:
            if look() and before:
                self._faults[what] = ""
                _log.info("a fault in watching is over", what=what)
        except Exception as error:  # noqa: BLE001 whatever it is, the thread goes on
            if not before:
                said = self._faults[what] = told(error)
                self.faults_total += 1
                _log.error("a fault of shadow in watching; it goes on", what=what, error=said)
