"""What changes while a worker runs reaches its mirror: kill switch, what was said, a new file."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

import structlog

from shadow.config import Config, ConfigError, load
from shadow.steering.followed import Followed
from shadow.steering.reload import Refused, accepted
from shadow.steering.term import term_of
from shadow.steering.told_file import file_of
from shadow.steering.watcher import Ears, Places, Watcher

if TYPE_CHECKING:
    from shadow.mirror.mirror import Mirror

_log: Final = structlog.get_logger("shadow.live")


def places_of(config: Config, path: Path | None) -> Places:
    """What a worker watches; `path` is its configuration's file."""
    follow = config.admin.follow
    return Places(
        told=file_of(config.state, config.experiment),
        kill_switch=config.kill_switch,
        config=path,
        followed=None if follow is None else Followed(follow, config.admin.token),
    )


@contextmanager
def live(mirror: Mirror, config: Config, path: Path | None) -> Iterator[None]:
    """Inside of the block, on the running loop, changes reach the mirror; SIGHUP reads the file."""
    loop = asyncio.get_running_loop()

    here = threading.get_ident()

    def on_loop(how: Callable[[], None]) -> None:
        if threading.get_ident() == here:  # the first look, before anything is served
            how()
            return
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(how)

    reader = _Reader(mirror, config, path, on_loop)
    switch = mirror.switch
    watcher = Watcher(
        places_of(config, path),
        Ears(
            killed=lambda why: on_loop(lambda: setattr(switch, "killed", why)),
            told=lambda told: on_loop(lambda: switch.hear(told)),
            config=reader.read,
        ),
    )
    watcher.first_look()
    switch.unseen, switch.fault = watcher.stuck, watcher.fault
    switch.faults_total = lambda: watcher.faults_total
    mirror.tick(monotonic_ns())
    before = signal.getsignal(signal.SIGHUP)
    loop.add_signal_handler(signal.SIGHUP, watcher.reload)
    watcher.start()
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, before)  # not the default: a drain's records still go out
        watcher.stop()


class _Reader:
    """Reads the changed file in the watching thread; a mistake in it changes nothing."""

    def __init__(
        self,
        mirror: Mirror,
        config: Config,
        path: Path | None,
        on_loop: Callable[[Callable[[], None]], None],
    ) -> None:
        self._mirror, self._config, self._path, self._on_loop = mirror, config, path, on_loop

    def read(self) -> None:
        """Once; what holds is handed to the loop."""
        if self._path is None:
            return
        try:
            changed = load(self._path, Config)
            merged, waiting = accepted(self._config, changed)
        except ConfigError as error:
            _log.error("the changed configuration is a mistake; the old one holds", why=str(error))
            return
        except Refused as error:
            _log.error("the changed configuration is refused; the old one holds", why=str(error))
            return
        if waiting:
            _log.warning("changed keys that wait for the next start", keys=waiting)
        self._config = merged
        samples = {name: arm.sample for name, arm in merged.arms.items()}
        term = term_of(merged)
        self._on_loop(lambda: self._mirror.configure(samples, merged.limits, term))
        _log.info("the configuration was read again", rates=samples)
