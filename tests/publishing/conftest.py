"""A stream in memory that fails when it is told to, and captures to send."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shadow.exchange import Accounting, Exchange, decode, encode
from shadow.publish.accounting import Ledger
from shadow.stream import Message


class Memory:
    """A producer that keeps what it took; `failures` are raised by the next appends, in order.

    `before` runs ahead of each append, in the sender thread.
    """

    def __init__(self) -> None:
        self.batches: list[list[Message]] = []
        self.failures: list[Exception] = []
        self.connects = 0
        self.closes = 0
        self.before = lambda: None
        self.took = threading.Event()

    def connect(self) -> Memory:
        self.connects += 1
        return self

    def append(self, batch):
        self.before()
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append(list(batch))
        self.took.set()

    def close(self) -> None:
        self.closes += 1

    @property
    def messages(self) -> list[Message]:
        return [message for batch in self.batches for message in batch]

    @property
    def records(self) -> list[Exchange | Accounting]:
        return [decode(message.value) for message in self.messages]

    @property
    def sequences(self) -> list[int]:
        return [r.sequence for r in self.records if isinstance(r, Exchange)]


@dataclass(frozen=True)
class Item:
    """A capture of some size; `broken` cannot be encoded."""

    token: int
    arm: str = "fp8"
    size_bytes: int = 1000
    broken: bool = False
    body: bytes = b""

    def message(self, sequence: int) -> Message:
        if self.broken:
            raise ZeroDivisionError("no such figure")
        exchange = Exchange(
            experiment="llama", config_hash="c0ffee", pair_id=f"pair-{sequence}", arm=self.arm,
            role="candidate", worker="0", boot_id="b", sequence=sequence, arrived_at=1,
            started_at=1, method="POST", path="/v1/completions", body=self.body,
            transport="complete",
        )  # fmt: skip
        return Message(exchange.pair_id.encode(), encode(exchange))


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened, _ = Ledger.open(tmp_path / "state", "0", "llama", "c0ffee")
    yield opened
    opened.close(published=True)


@pytest.fixture
def item(ledger: Ledger):
    """A capture of a request that is open in the ledger and sampled."""

    def make(**changes) -> Item:
        ledger.add(changes.get("arm", "fp8"), "sampled")
        return Item(ledger.opened(1), **changes)

    return make


@pytest.fixture
def counted(ledger: Ledger):
    """The counters of an arm that are not zero: {"captured": 2, "dropped/log_full": 1}."""

    def read(arm: str = "fp8") -> dict[str, int]:
        return {
            "/".join(filter(None, (counter, reason))): value
            for (name, counter, reason), value in ledger.values().items()
            if name == arm and value
        }

    return read
