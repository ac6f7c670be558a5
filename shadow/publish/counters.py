"""Named 64-bit counters in a file mapped into memory: what was counted survives `kill -9`.

Layout: a page with a magic word and the identity as JSON, then entries of 128 bytes: the value,
the length of the name (0: free), the name. A store of 8 aligned bytes is one store of the
machine, so a reader after a kill sees the old value or the new one. Not safe against power loss
beyond what the system wrote back by then.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path

Name = tuple[str, str, str]
"""(arm, counter, reason)."""

MAGIC = b"shadow-counters-1\n"
CAPACITY = 4096
_HEAD_BYTES = 4096
_ENTRY_BYTES = 128
_NAME_BYTES = _ENTRY_BYTES - 16
_FILE_BYTES = _HEAD_BYTES + CAPACITY * _ENTRY_BYTES
_LENGTH = struct.Struct("=q")


class NotCounters(Exception):
    """The file is not a file of counters; one line with the way out."""


class Counters:
    """A file of counters that this process writes. `view[cell]` is a counter's value.

    The owner guards `cell` and `view` against its own threads.
    """

    def __init__(self, path: Path, identity: Mapping[str, str]) -> None:
        _make(path, identity)
        self.path = path
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _FILE_BYTES)
        self.view = memoryview(self._map).cast("q")
        self.cells: dict[Name, int] = {}

    def cell(self, name: Name) -> int:
        """The index of the named counter in `view`; a new name starts at 0.

        Raises:
            ValueError: the name is too long, or the file is full.
        """
        known = self.cells.get(name)
        return self._add(name) if known is None else known

    def _add(self, name: Name) -> int:
        text = "\0".join(name).encode()
        if len(text) > _NAME_BYTES or len(self.cells) == CAPACITY:
            raise ValueError(f"{self.path}: no room for the counter {name}")
        at = _HEAD_BYTES + len(self.cells) * _ENTRY_BYTES
        self._map[at + 16 : at + 16 + len(text)] = text
        self._map[at + 8 : at + 16] = _LENGTH.pack(len(text))  # last: from here on it exists
        self.cells[name] = at // 8
        return at // 8

    def close(self) -> None:
        """Unmap; the file stays."""
        self.view.release()
        self._map.close()


def read_counters(path: Path) -> tuple[dict[str, str], dict[Name, int]]:
    """The identity and the counters of a file, also of one that is still written.

    Raises:
        NotCounters: it is something else.
    """
    content = path.read_bytes()
    head, _, rest = content[:_HEAD_BYTES].removeprefix(MAGIC).partition(b"\n")
    if not content.startswith(MAGIC) or not rest or len(content) != _FILE_BYTES:
        raise NotCounters(f"{path}: not a file of counters; remove it")
    values: dict[Name, int] = {}
    for at in range(_HEAD_BYTES, _FILE_BYTES, _ENTRY_BYTES):
        value, length = struct.unpack_from("=qq", content, at)
        if not 0 < length <= _NAME_BYTES:
            break
        arm, counter, reason = content[at + 16 : at + 16 + length].decode().split("\0")
        values[arm, counter, reason] = value
    return json.loads(head), values


def _make(path: Path, identity: Mapping[str, str]) -> None:
    """Make the file beside its place, on the disk, then move it there whole."""
    head = MAGIC + json.dumps(dict(identity)).encode() + b"\n"
    if len(head) >= _HEAD_BYTES:
        raise ValueError(f"{path}: the identity is too long")
    fresh = path.with_suffix(".new")
    try:
        with fresh.open("wb") as file:
            file.write(head)
            # Reserved, not sparse: the first touch of a page on a full disk would be a SIGBUS.
            os.posix_fallocate(file.fileno(), 0, _FILE_BYTES)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:  # a full disk: each start would leave one more
        fresh.unlink(missing_ok=True)
        raise
