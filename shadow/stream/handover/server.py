"""The other end of a handover: a thread a connection, each with a producer of its own."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

from shadow.fault import Faults
from shadow.stream import Message, MessageTooLarge, Producer, StreamFull, StreamUnavailable
from shadow.stream.handover.frames import Answer, receive, send, told, unpacked
from shadow.stream.handover.place import NAME, address, is_ours, prepare

_log = structlog.get_logger("shadow.handover")

_LOOK_S: Final = 0.25
"""How late an end may be noticed."""
_BATCH_S: Final = 60.0
"""How long a batch may take to arrive."""

Through = Callable[[bytes], bytes]
"""What becomes of a value before it is on the stream."""


class Handover:
    """Listens in a folder; `serve` until it is told to stop.

    Args:
        folder: of the socket; made 0700.
        connect: makes a worker's producer, in the thread that uses it.
        through: pure; what it raises withholds the message, which is then too large for ever.

    Raises:
        StreamUnavailable: the folder is no place of ours, or the socket cannot be made.
    """

    def __init__(self, folder: Path, connect: Callable[[str], Producer], through: Through) -> None:
        self._connect, self._through = connect, through
        self._threads: list[threading.Thread] = []
        self._faults = Faults()
        self.records_total = 0
        self.withheld_total = 0
        """Messages that `through` could make nothing of."""
        prepare(folder)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            (folder / NAME).unlink(missing_ok=True)
            with address(folder) as path:
                self._listener.bind(path)
            self._listener.listen(64)
        except OSError as error:
            self._listener.close()
            raise StreamUnavailable(f"{folder}: {error.strerror or error}") from None

    def serve(self, stopping: Callable[[], bool]) -> None:
        """Until `stopping`; batches that are in hand then are brought to the stream."""
        while not stopping():
            if _readable(self._listener):
                connection, _ = self._listener.accept()
                name = f"shadow-handover-{connection.fileno()}"
                thread = threading.Thread(
                    target=self._follow, args=(connection, stopping), name=name
                )
                thread.start()
                self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _follow(self, connection: socket.socket, stopping: Callable[[], bool]) -> None:
        with contextlib.closing(connection), contextlib.suppress(OSError):
            connection.settimeout(_BATCH_S)
            worker = receive(connection) if is_ours(connection) else None
            if worker is not None:
                self._batches(connection, worker.decode("utf-8", "replace"), stopping)

    def _batches(
        self, connection: socket.socket, worker: str, stopping: Callable[[], bool]
    ) -> None:
        producer: Producer | None = None
        try:
            while not stopping():
                if not _readable(connection):
                    continue
                frame = receive(connection)
                if frame is None:
                    return
                try:
                    producer = producer or self._connect(worker)
                    answer = self._store(producer, unpacked(frame))
                except StreamUnavailable as error:
                    answer = Answer(unavailable=" ".join(str(error).split()) or "unavailable")
                except Exception as error:  # noqa: BLE001 unsaid, the batch would come for ever
                    answer = Answer(fault=self._faults.say("batch dropped", error))
                send(connection, [told(answer)])
                if answer.unavailable or answer.fault:
                    return  # the next one begins anew
        finally:
            if producer is not None:
                producer.close()

    def _store(self, producer: Producer, batch: Sequence[Message]) -> Answer:
        out, kept, gone = [], [], []
        for n, message in enumerate(batch):
            try:
                out.append(Message(message.key, self._through(message.value)))
                kept.append(n)
            except Exception as error:  # noqa: BLE001 nothing may pass as it came
                _log.error("record withheld", kind=type(error).__name__)  # its words may quote it
                gone.append(n)
        self.records_total += len(out)
        self.withheld_total += len(gone)
        limit_bytes = 0
        try:
            producer.append(out)
        except StreamFull as full:
            return Answer(full=str(full) or "full", spooled=_spooled(producer))
        except MessageTooLarge as large:
            gone += [kept[n] for n in large.indices]
            limit_bytes = large.limit_bytes
        return Answer(
            too_large=tuple(sorted(gone)), limit_bytes=limit_bytes, spooled=_spooled(producer)
        )


def _spooled(producer: Producer) -> int:
    spooled = getattr(producer, "spooled", None)
    return int(spooled()) if spooled is not None else 0


def _readable(connection: socket.socket) -> bool:
    return bool(select.select([connection], [], [], _LOOK_S)[0])
