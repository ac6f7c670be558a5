"""The proxy's end of a handover."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shadow.stream import Message, MessageTooLarge, StreamFull, StreamUnavailable
from shadow.stream.handover.frames import packed, read, receive, send
from shadow.stream.handover.place import address

TIMEOUT_S: Final = 30.0
"""How long a batch may take to be on the stream; then it is sent again."""


class HandoverFault(Exception):
    """A fault of the other end's own in a batch; sent again, it would fail again."""


class HandoverProducer:
    """A `shadow.stream.Producer` for one thread; nothing of what it is given touches a disk.

    Args:
        folder: where the other end listens.
        worker: whose records they are.
        timeout_s: see `TIMEOUT_S`.

    Raises:
        StreamUnavailable: nobody listens there.
    """

    def __init__(self, folder: Path, worker: str, timeout_s: float = TIMEOUT_S) -> None:
        self._where = folder
        self._spooled = 0
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.settimeout(timeout_s)
        try:
            with address(folder) as path:
                self._connection.connect(path)
            send(self._connection, [worker.encode()])
        except OSError as error:
            self._connection.close()
            raise self._away(error) from None

    def append(self, batch: Sequence[Message]) -> None:
        """Hand it over and wait until it is on the stream; see `Producer`.

        Raises:
            HandoverFault: the batch is given up.
        """
        if not batch:
            return
        try:
            send(self._connection, packed(batch))
            frame = receive(self._connection)
            answer = None if frame is None else read(frame)
        except OSError as error:
            raise self._away(error) from None
        if answer is None:
            raise StreamUnavailable(f"{self._where}: shadow measure has ended")
        self._spooled = answer.spooled
        if answer.unavailable:
            raise StreamUnavailable(answer.unavailable)
        if answer.fault:
            raise HandoverFault(answer.fault)
        if answer.full:
            raise StreamFull(answer.full)
        if answer.too_large:
            raise MessageTooLarge(answer.too_large, answer.limit_bytes)

    def spooled(self) -> int:
        """How many of its last messages wait on the other end's disk."""
        return self._spooled

    def close(self) -> None:
        """Leave."""
        self._connection.close()

    def _away(self, error: OSError) -> StreamUnavailable:
        return StreamUnavailable(f"{self._where}: shadow measure: {error.strerror or error}")
