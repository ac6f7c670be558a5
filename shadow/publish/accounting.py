"""The ledger: what one worker has counted, where its sequences stand, what is still open.

Its counters lie in a mapped file of the worker's place, so a killed process's last counts are
published by the next process of that place. Equations (per arm):
eligible = sampled + skipped(reason); sampled = captured + dropped(reason) + pending + lost.
"""

from __future__ import annotations

import itertools
import os
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import structlog

from shadow.exchange import Accounting, Count
from shadow.locks import lock
from shadow.publish.counters import Counters, Name, NotCounters, read_counters

SUFFIX = ".counters"
OPENING_NS = 100_000_000
"""A request is stamped before it is opened here; the low water stays this far behind the clock."""

_log = structlog.get_logger("shadow.accounting")

_HIGH: Name = ("", "high_sequence", "")
_DROPPED: Name = ("", "dropped_sequences", "")
_RECORDS: Name = ("", "accounting_sequence", "")


class Ledger:
    """One worker's counters. Every method may be called from any thread; see `open`."""

    def __init__(
        self, folder: Path, place: str, experiment: str, config_hash: str, host: str = ""
    ) -> None:
        self._lock_file = lock(folder / f"{place}.lock", f"the worker's place {place}")
        self.place, self.boot_id = place, secrets.token_hex(8)
        # Every host's first worker has place 0; a newer boot of a worker takes an older's place.
        self.worker = f"{host}/{place}" if host else place
        self._folder = folder
        self._experiment, self._config_hash = experiment, config_hash
        self._counters = Counters(
            folder / f"{place}@{self.boot_id}{SUFFIX}",
            {
                "experiment": experiment,
                "config_hash": config_hash,
                "worker": self.worker,
                "boot_id": self.boot_id,
                "opened_at": str(time.time_ns()),
            },
        )
        self._view, self._cells = self._counters.view, self._counters.cells
        self._high, self._dropped, self._records = map(
            self._counters.cell, (_HIGH, _DROPPED, _RECORDS)
        )
        # One lock for all: 0.1 µs, and no figure of a snapshot is from another moment.
        self._lock = threading.Lock()
        self._tokens = itertools.count(1)
        self._arrivals: dict[int, int] = {}
        self._holds: dict[int, int] = {}

    @classmethod
    def open(
        cls, folder: Path, place: str, experiment: str, config_hash: str, host: str = ""
    ) -> tuple[Ledger, list[Accounting]]:
        """Take the worker's place; also the last counts of its dead predecessors, oldest first.

        A predecessor's counts stay in the folder until `settle` says that they were published.
        Records name the worker `host/place`, so that two hosts' are told apart.

        Raises:
            PlaceTaken: another live process is this worker.
        """
        folder.mkdir(parents=True, exist_ok=True)
        ledger = cls(folder, place, experiment, config_hash, host)
        try:
            return ledger, ledger._predecessors()
        except BaseException:
            ledger.close(published=True)
            raise

    def add(self, arm: str, counter: str, reason: str = "", n: int = 1) -> None:
        """Count. About 0.4 µs."""
        with self._lock:
            self._view[self._counters.cell((arm, counter, reason))] += n

    def add_all(self, names: Iterable[Name]) -> None:
        """Count each once, all at the same moment; half of what as many `add` take."""
        cells, view = self._cells, self._view
        with self._lock:
            for name in names:
                cell = cells.get(name)
                view[self._counters.cell(name) if cell is None else cell] += 1

    def opened(self, arrived_at: int) -> int:
        """A request that arrived at `arrived_at` (UTC, ns) is open: its token, held once."""
        with self._lock:
            token = next(self._tokens)
            self._arrivals[token] = arrived_at
            self._holds[token] = 1
        return token

    def hold(self, token: int) -> None:
        """One more record of that request is on its way."""
        with self._lock:
            self._holds[token] += 1

    def release(self, token: int) -> None:
        """One less; at zero the request is closed. One that is closed already is left alone: a
        client's stream must not break over it.
        """
        with self._lock:
            self._let_go(token)

    def captured(self, records: Iterable[tuple[str, int]]) -> None:
        """These (arm, token) are on the stream: counted and released in one go."""
        view, cell = self._view, self._counters.cell
        with self._lock:
            for arm, token in records:
                view[cell((arm, "captured", ""))] += 1
                self._let_go(token)

    def _let_go(self, token: int) -> None:
        left = self._holds.get(token, 0) - 1
        if left > 0:
            self._holds[token] = left
        elif left == 0:
            del self._holds[token], self._arrivals[token]

    def low_water(self, now: int) -> int:
        """The oldest open arrival, `now` at most (UTC, ns)."""
        with self._lock:
            return min(now, min(self._arrivals.values(), default=now))

    def next_sequence(self) -> int:
        """The next exchange's sequence, from 1."""
        with self._lock:
            self._view[self._high] += 1
            return self._view[self._high]

    def dropped_sequence(self) -> None:
        """A sequence that was given is dropped."""
        with self._lock:
            self._view[self._dropped] += 1

    def values(self) -> dict[Name, int]:
        """Every counter as it was counted, those of no arm ("") too."""
        with self._lock:
            return {name: self._view[cell] for name, cell in self._cells.items()}

    def snapshot(self, now: int, final: bool = False) -> Accounting:  # noqa: FBT001, FBT002 the interface's word
        """The accounting record of `now` (UTC, ns); `final`: this worker has ended."""
        low_water = None if final else self.low_water(now - OPENING_NS)  # before the sequences
        with self._lock:
            self._view[self._records] += 1
        identity = {
            "experiment": self._experiment,
            "config_hash": self._config_hash,
            "worker": self.worker,
            "boot_id": self.boot_id,
        }
        return _record(identity, self.values(), now, low_water, final=final)

    def settle(self, boot_id: str) -> None:
        """A predecessor's last counts are on the stream: forget its file."""
        (self._folder / f"{self.place}@{boot_id}{SUFFIX}").unlink(missing_ok=True)

    def close(self, *, published: bool) -> None:
        """Give the place back; unless the final record was published, leave it to the next."""
        self._view.release()
        self._counters.close()
        if published:
            self.settle(self.boot_id)
        os.close(self._lock_file)

    def _predecessors(self) -> list[Accounting]:
        files = self._folder.glob(f"{self.place}@*{SUFFIX}")
        dead = [
            counted
            for file in files
            if file != self._counters.path and (counted := _read_or_set_aside(file)) is not None
        ]
        dead.sort(key=lambda counted: int(counted[0].get("opened_at", "0")))
        return [_last_record(identity, values, time.time_ns()) for identity, values in dead]


def _read_or_set_aside(file: Path) -> tuple[Mapping[str, str], Mapping[Name, int]] | None:
    """A predecessor's counts. A file that holds none is renamed: it must not keep a proxy down."""
    try:
        return read_counters(file)
    except (NotCounters, ValueError) as error:
        aside = file.with_suffix(".damaged")
        file.replace(aside)
        _log.error("counters cannot be read; set aside", file=str(aside), reason=str(error))
        return None


def _last_record(identity: Mapping[str, str], values: Mapping[Name, int], now: int) -> Accounting:
    """A dead process's final record, its sequence one above the last it can have published."""
    following = {**values, _RECORDS: values.get(_RECORDS, 0) + 1}
    return _record(identity, following, now, None, final=True)


def _record(
    identity: Mapping[str, str],
    values: Mapping[Name, int],
    now: int,
    low_water: int | None,
    *,
    final: bool,
) -> Accounting:
    return Accounting(
        experiment=identity["experiment"],
        config_hash=identity["config_hash"],
        worker=identity["worker"],
        boot_id=identity["boot_id"],
        sequence=values[_RECORDS],
        at=now,
        high_sequence=values.get(_HIGH, 0),
        dropped_sequences=values.get(_DROPPED, 0),
        low_water=low_water,
        final=final,
        counts=tally(values, final=final),
    )


def tally(values: Mapping[Name, int], *, final: bool) -> list[Count]:
    """The counts of a record, by arm: with `pending`, or with `lost` where the worker has ended.

    A request whose decision is not counted yet is not eligible yet, so the equations hold at any
    moment. What was counted wrong stays visible: nothing is filled up to make them hold.
    """
    counts = [
        Count(arm=arm, counter=counter, reason=reason, value=value)
        for (arm, counter, reason), value in values.items()
        if arm and counter != "eligible"
    ]
    for arm in dict.fromkeys(arm for arm, _, _ in values if arm):
        mine = {name[1:]: value for name, value in values.items() if name[0] == arm}
        sampled = mine.get(("sampled", ""), 0)
        decided = sampled + _sum(mine, "skipped")
        eligible = min(mine.get(("eligible", ""), 0), decided)
        open_ = max(0, sampled - _sum(mine, "captured") - _sum(mine, "dropped"))
        counts.append(Count(arm=arm, counter="eligible", value=eligible))
        counts.append(Count(arm=arm, counter="lost" if final else "pending", value=open_))
    return counts


def _sum(mine: Mapping[tuple[str, str], int], counter: str) -> int:
    return sum(value for (name, _), value in mine.items() if name == counter)
