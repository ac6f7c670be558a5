"""The console entry. Only the standard library before the guard: a broken install is exit 70,
never a status that a rollout could take for a verdict.

Rules:
1. What stdout did not take whole is 70, whatever the verdict was: 0 and 1 are said only after it.
2. What stderr does not take changes no status: a mistake is 2 though nobody reads its line.
3. Nothing but the command line's own return is a 0 or a 1.
4. What serves goes on without a reader of its log.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

    from typing_extensions import Buffer

UNCAUGHT = 70
INTERRUPTED = 130
SERVING = frozenset({"up", "proxy", "collect", "measure", "analyze", "engine-sim"})
"""Commands whose stdout is a log."""


def main() -> None:
    """Run the command line; the exit status is documented in docs/operations.md."""
    out = _open_streams()
    status = _status(out)
    sys.exit(status if _taken(out) else UNCAUGHT)


def _status(out: _Descriptor) -> int:
    try:
        from shadow.cli.commands import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as left:
        return left.code if isinstance(left.code, int) and left.code > 1 else UNCAUGHT
    except BaseException:  # noqa: BLE001 the last guard
        if _taken(out):
            traceback.print_exc()
            sys.stderr.write("shadow: this is a fault of shadow itself; see the lines above\n")
        return UNCAUGHT


class _Descriptor(io.FileIO):
    """Standard output or error. It knows why it did not take something; a deaf one goes on."""

    def __init__(self, number: int, *, deaf: bool) -> None:
        super().__init__(number, "w", closefd=False)
        self.lost, self.told, self.deaf = "", False, deaf

    def write(self, text: Buffer, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self.lost = error.strerror or str(error)
            if self.deaf:
                return memoryview(text).nbytes
            raise


def _open_streams() -> _Descriptor:
    """The streams made anew: a deaf stderr, and a stdout that fails where it was closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: or the next file that is opened would be written to
            os.open(os.devnull, os.O_RDONLY)
    out = _Descriptor(1, deaf=bool(SERVING.intersection(sys.argv[1:2])))
    at_once = os.isatty(1) or bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdout = _stream(out, sys.stdout, at_once=at_once)
    sys.stderr = _stream(_Descriptor(2, deaf=True), sys.stderr, at_once=True)
    return out


def _stream(into: io.FileIO, was: TextIO | None, *, at_once: bool) -> TextIO:
    """Buffered, even by PYTHONUNBUFFERED: without a buffer, half a write is no error."""
    encoding = was.encoding if was is not None else "utf-8"
    buffer = io.BufferedWriter(into)
    return io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=at_once)


def _taken(out: _Descriptor) -> bool:
    """Whether stdout has all that was written to it; if not, what is left is given up."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    if not out.lost or out.deaf:
        return True
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes once more at its end
    if not out.told:
        sys.stderr.write(f"shadow: what was to be said could not be written: {out.lost}\n")
    out.told = True
    return False
