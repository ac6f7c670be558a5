"""The folder of the socket: of this user alone. Its path may be longer than a socket's may."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from shadow.stream import StreamUnavailable

NAME: Final = "socket"
_CREDENTIALS: Final = struct.Struct("3i")


def prepare(folder: Path) -> None:
    """Make the folder, 0700.

    Raises:
        StreamUnavailable: it cannot be made, or others may look into it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise StreamUnavailable(f"{folder}: {error.strerror or error}") from None
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise StreamUnavailable(f"{folder}: others may look into it; make it yours, with mode 0700")


@contextmanager
def address(folder: Path) -> Iterator[str]:
    """The socket's path, short: by way of the open folder.

    Raises:
        OSError: there is no such folder.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{NAME}"
    finally:
        os.close(descriptor)


def is_ours(connection: socket.socket) -> bool:
    """Whether the other end is a process of this user."""
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(said)[1] == os.getuid())
