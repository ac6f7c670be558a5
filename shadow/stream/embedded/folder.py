"""What stands in an embedded log's folder beside the records: names, and how far groups have read.

`WORKER.sqlite3` is a partition, `WORKER.writer.lock` its writer's place, `GROUP.offsets.json` what
a group has committed, `GROUP.offsets.new` the spare for its next one, `GROUP.reader.lock` its
reader's place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from shadow.locks import PlaceTaken, lock
from shadow.stream import Partition, StreamUnavailable

PARTITION_SUFFIX = ".sqlite3"
_OFFSETS_SUFFIX = ".offsets.json"
_BLOCK_BYTES = 4096


def take_place(folder: Path, name: str, place: str) -> int:
    """Lock the file for `place`; closing the descriptor gives it back.

    Raises:
        StreamUnavailable: another process has it, or the folder cannot be used.
    """
    try:
        return lock(folder / name, place)
    except PlaceTaken as taken:
        raise StreamUnavailable(str(taken)) from taken
    except OSError as error:
        raise StreamUnavailable(f"{folder / name}: {error.strerror or error}") from error


def writer_place(folder: Path, worker: str) -> int:
    """The place of the partition's one writer, as `take_place` gives it."""
    return take_place(folder, f"{worker}.writer.lock", f"the partition {worker}")


def partitions(folder: Path) -> dict[Partition, Path]:
    """The partitions that exist now, by name."""
    files = sorted(folder.glob(f"*{PARTITION_SUFFIX}"))
    return {file.name.removesuffix(PARTITION_SUFFIX): file for file in files}


def read_offsets(folder: Path, group: str) -> dict[Partition, int]:
    """What the group has committed; empty before its first commit.

    Raises:
        StreamUnavailable: the file is there and cannot be read.
    """
    return _read(folder / f"{group}{_OFFSETS_SUFFIX}")


def write_offsets(folder: Path, group: str, offsets: Mapping[Partition, int]) -> None:
    """Replace the group's file in one step, on the disk before it is seen.

    A disk without a byte left is no hindrance: the file that was replaced stays as the spare
    (`GROUP.offsets.new`), and the next one is written over it, in the blocks that it has.
    """
    target = folder / f"{group}{_OFFSETS_SUFFIX}"
    spare, old = target.with_suffix(".new"), target.with_suffix(".old")
    text = json.dumps(offsets, sort_keys=True).encode("ascii")
    padded = text.ljust((len(text) // _BLOCK_BYTES + 1) * _BLOCK_BYTES - 1) + b"\n"
    old.unlink(missing_ok=True)
    _overwrite(spare, padded)
    with suppress(OSError):  # the first time there is none, and some file systems have no links
        os.link(target, old)
    spare.replace(target)
    if old.exists():
        old.replace(spare)
    else:
        _overwrite(spare, padded)


def _overwrite(file: Path, content: bytes) -> None:
    file.touch()
    with file.open("r+b") as open_file:
        open_file.write(content)
        open_file.flush()
        open_file.truncate()
        os.fsync(open_file.fileno())


def committed(folder: Path, partition: Partition) -> list[int]:
    """One offset a group that reads here: everything before it is done; 0: nothing yet."""
    files = folder.glob(f"*{_OFFSETS_SUFFIX}")
    return [_read(file).get(partition, 0) for file in files]


def _read(file: Path) -> dict[Partition, int]:
    try:
        offsets = json.loads(file.read_bytes())
        return {str(partition): int(offset) for partition, offset in offsets.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError):
        raise StreamUnavailable(
            f"{file}: not a file of offsets; remove it to read everything again"
        ) from None
