"""What changes mirroring from outside, watched in threads of their own: files, another host's word.

The loop never waits for a disk or a network: what was seen is handed to it. If the thread that
watches the kill switch hangs (a mount that is gone), that counts as unreadable: mirroring stops.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from time import monotonic
from typing import Any, Final
from urllib.error import URLError
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import structlog

from shadow.steering import MOST_BYTES, NotSteering, Told, damaged, later, read, told_of, write

LOOK_S: Final = 0.25
FOLLOW_S: Final = 1.0
FOLLOW_TIMEOUT_S: Final = 2.0
STUCK_S: Final = 5.0
"""Without a look at the kill switch for so long, it counts as unreadable."""
MOST_KILL_BYTES: Final = 4096
_OFF: Final = frozenset({"", "off", "0", "false", "no"})
MIRROR_PATH: Final = "/api/v1/mirror"

_log = structlog.get_logger("shadow.watcher")


def kill_reason(path: Path) -> str:
    """Why mirroring must stop by this file; '' where it says off, or is not there.

    It is read by its path each time, so links that are swapped (a ConfigMap's) are followed.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return f"{path} cannot be read: it is no file"
            read = file.read(MOST_KILL_BYTES + 1)
    except FileNotFoundError:
        if path.is_symlink():
            return f"{path} leads nowhere"
        return "" if path.parent.is_dir() else f"{path.parent} is missing"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    if len(read) > MOST_KILL_BYTES:
        return f"{path} is longer than {MOST_KILL_BYTES} bytes"
    said = read.decode("utf-8", "replace").strip()
    return "" if said.lower() in _OFF else f"{path} says {said.splitlines()[0][:60]!r}"


def _without_waiting(path: str, flags: int) -> int:
    """Opened so that a pipe without a writer does not hold the thread for good."""
    return os.open(path, flags | os.O_NONBLOCK)


def stamp(path: Path) -> tuple[int, ...] | None:
    """What changes when the file that the path leads to does; None: it cannot be looked at."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


@dataclass(frozen=True, slots=True)
class Followed:
    """Another host's control port."""

    url: str
    token: str = ""


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
        self._stamps: dict[Path, tuple[int, ...] | None] = {}
        self._threads = [threading.Thread(target=self._files, daemon=True)]
        if places.followed is not None:
            self._threads.append(
                threading.Thread(target=self._follow, args=(places.followed,), daemon=True)
            )

    def first_look(self) -> None:
        """Before anything is served: what was said of mirroring holds from its first request."""
        if self._places.config is not None:
            self._stamps[self._places.config] = stamp(self._places.config)
        self._look_at_told()
        self._look_at_kill_switch()

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
        return f"{self._places.kill_switch} was not looked at for {STUCK_S:g} s: its disk hangs"

    def stop(self) -> None:
        """End it; a thread that hangs is left behind."""
        self._over.set()
        self._wake.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(1.0)

    def _files(self) -> None:
        while not self._over.is_set():
            self._look_at_kill_switch()
            if self._places.followed is None and self._moved(self._places.told):
                self._look_at_told()
            config = self._places.config
            if self._asked or (config is not None and self._moved(config)):
                self._asked = False
                self._ears.config()
            self._wake.wait(LOOK_S)
            self._wake.clear()

    def _moved(self, path: Path) -> bool:
        seen = stamp(path)
        before = self._stamps.get(path, seen)
        self._stamps[path] = seen
        return seen != before

    def _look_at_kill_switch(self) -> None:
        if self._places.kill_switch is None:
            return
        killed = kill_reason(self._places.kill_switch)
        self._looked_s = monotonic()
        if killed != self._killed:
            self._killed = killed
            self._ears.killed(killed)

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
            self._told = told
            self._ears.told(told)

    def _follow(self, followed: Followed) -> None:
        while not self._over.is_set():
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
                    self._keep(told)
            self._over.wait(FOLLOW_S)

    def _keep(self, told: Told) -> None:
        """For the next start, should the control port be away then."""
        try:
            self._places.told.parent.mkdir(parents=True, exist_ok=True)
            write(self._places.told, told)
        except OSError as error:
            _log.warning("what was said of mirroring cannot be kept", why=str(error))


class _NoRedirect(HTTPRedirectHandler):
    """The token goes to the host that was named, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER: Final = build_opener(ProxyHandler({}), _NoRedirect())


def ask(followed: Followed) -> Told:
    """What a control port says of mirroring.

    Raises:
        NotSteering: it is away, refuses, or says something else; one line.
    """
    return told_of(fetched(followed))


def fetched(followed: Followed, path: str = MIRROR_PATH, said: object = None) -> object:
    """The JSON that a control port answers; `said` is posted to it.

    Raises:
        NotSteering: it is away, refuses, or answers something else; one line.
    """
    fields = {"Authorization": f"Bearer {followed.token}"} if followed.token else {}
    body = None if said is None else json.dumps(said).encode()
    if body is not None:
        fields["Content-Type"] = "application/json"
    url = f"{followed.url}{path}"
    request = Request(url, data=body, headers=fields)  # noqa: S310 http or https, by the model
    try:
        with _OPENER.open(request, timeout=FOLLOW_TIMEOUT_S) as answer:
            return json.loads(answer.read(MOST_BYTES))
    except URLError as error:
        raise NotSteering(f"{url}: {_why(error)}") from error
    except (OSError, ValueError, HTTPException, RecursionError) as error:
        raise NotSteering(f"{url}: {' '.join(str(error).split())}") from error


def _why(error: URLError) -> str:
    """What the port itself said of its refusal, if it did."""
    read_on = getattr(error, "read", None)
    if read_on is None:
        return str(error.reason)
    with error:  # type: ignore[attr-defined]
        try:
            return str(json.loads(read_on(MOST_BYTES))["error"])
        except (OSError, ValueError, KeyError, TypeError, HTTPException, RecursionError):
            return str(error)
