"""A poll in a second thread, so that what it calls back runs in the caller's own.

kafka-python awaits a rebalance's listener on its I/O thread, where any commit would wait for that
same thread; and a database's client may belong to the thread that polls. So the caller waits here
for its poll, and runs in between what the listener hands over.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kafka import AsyncConsumerRebalanceListener, TopicPartition
from kafka.future import Future
from kafka.net.compat import KafkaNetClient

T = TypeVar("T")


class Aside:
    """One caller's second thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "shadow-kafka-poll")
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._raised: Exception | None = None

    def run(self, work: Callable[[], T]) -> T:
        """`work()` in the second thread, and meanwhile here what is handed over.

        Raises what `work` raises; first of all what a handed-over call has raised.
        """
        done = self._thread.submit(work)
        done.add_done_callback(lambda _: self._calls.put(None))
        while (call := self._calls.get()) is not None:
            call()
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        return done.result()

    def hand_over(self, call: Callable[[], None], beneath: KafkaNetClient) -> Future:
        """From `beneath`'s I/O thread: what to await there while `call` runs in the caller's."""
        future = Future()

        def perform() -> None:
            try:
                call()
            except Exception as error:  # noqa: BLE001 `run` raises it again, once the poll has ended
                self._raised = raised = error
                beneath._net.call_soon_threadsafe(lambda: future.failure(raised))  # noqa: SLF001 only that thread may wake its tasks
            else:
                beneath._net.call_soon_threadsafe(lambda: future.success(None))  # noqa: SLF001

        self._calls.put(perform)
        return future

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()


class Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Awaits what is handed over; the I/O thread goes on with heartbeats meanwhile."""

    def __init__(self, revoked: Callable[[Iterable[TopicPartition]], Future]) -> None:
        self._revoked = revoked

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Before partitions go, and when they are lost."""
        await self._revoked(revoked)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Offsets are the group's; there is nothing to prepare."""
