"""The bytes of one answer and when they arrived, kept within bounds.

`answer_bytes` from the answer's beginning, then the last `answer_tail` bytes, and a million marks
(the last one moves on from there); less where `limits.mirror_bytes` has no more room.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shadow.capture.side import Side

MAX_MARKS: Final = 1_000_000
OVERHEAD_BYTES: Final = 2048
"""What a capture's objects weigh beside its bytes, about."""
MARK_BYTES: Final = 16
FIRST_BYTES: Final = 8 * 1024
_FIRST_MARKS: Final = 256
"""What every capture may keep; more is asked for in steps, so that a small answer asks never."""
_STEP_BYTES: Final = 64 * 1024
_STEP_MARKS: Final = 4096
CAPTURE_BYTES: Final = OVERHEAD_BYTES + FIRST_BYTES + _FIRST_MARKS * MARK_BYTES
"""What an open capture counts at first."""


class Arrivals:
    """See the module. `append` runs at every arrival; nothing of it looks at a byte."""

    __slots__ = (
        "_ends",
        "_kept",
        "_mark_room",
        "_room",
        "_side",
        "_tail",
        "_taken",
        "_times",
        "_total",
    )

    def __init__(self, side: Side) -> None:
        self._side = side
        self._room = side.first_bytes
        self._mark_room = _FIRST_MARKS
        self._taken = CAPTURE_BYTES
        side.held.open_bytes += CAPTURE_BYTES
        self.restart()

    def restart(self) -> None:
        """Nothing has arrived yet."""
        self._times = array("q")
        self._ends = array("q")
        self._kept = bytearray()
        self._tail: bytearray | None = None
        self._total = 0

    def append(self, now: int, pieces: list[bytes]) -> None:
        """By `now` these bytes of body had arrived. About a microsecond."""
        total = self._total
        for piece in pieces:
            total += len(piece)
        if total == self._total:
            return
        self._total = total
        times = self._times
        if len(times) < self._mark_room or self._more_marks():
            times.append(now)
            self._ends.append(total)
        else:
            times[-1], self._ends[-1] = now, total
        if total <= self._room or (self._tail is None and self._more_room(total)):
            kept = self._kept
            for piece in pieces:
                kept += piece
        else:
            self._overflow(pieces)

    def _take(self, more_bytes: int) -> bool:
        """Ask for more to keep."""
        held = self._side.held
        if self._taken < 0 or not held.room(more_bytes):
            return False
        held.open_bytes += more_bytes
        self._taken += more_bytes
        return True

    def _more_room(self, total: int) -> bool:
        """Whether the answer's first `total` bytes may be kept."""
        most = self._side.answer_bytes
        target = min(-(-total // _STEP_BYTES) * _STEP_BYTES, most)
        if target > self._room and self._take(target - self._room):
            self._room = target
        return total <= self._room

    def _more_marks(self) -> bool:
        """Whether another mark may be kept."""
        more = min(_STEP_MARKS, MAX_MARKS - self._mark_room)
        if more <= 0 or not self._take(more * MARK_BYTES):
            return False
        self._mark_room += more
        return True

    def _overflow(self, pieces: list[bytes]) -> None:
        """Beyond the head: keep the newest bytes, at least `answer_tail` of them."""
        most = 2 * self._side.answer_tail
        if self._room < 0:
            return  # forgotten
        if self._tail is None:
            self._tail = bytearray()
            if self._taken >= 0:  # without asking: the end of an answer says what became of it
                self._side.held.open_bytes += most
                self._taken += most
        tail = self._tail
        for whole in pieces:
            room = self._room - len(self._kept)
            if room > 0:
                self._kept += whole[:room]
            tail += whole[room:] if room > 0 else whole
            if len(tail) > most:
                del tail[: len(tail) - self._side.answer_tail]

    def ends(self, first: int, last: int) -> tuple[bytes, bytes]:
        """So many bytes at most of the body's beginning and of its end, as far as they are kept."""
        kept, tail = self._kept, self._tail
        end = kept if tail is None else tail
        return bytes(kept[:first]), bytes(end[max(len(end) - last, 0) :])

    @property
    def total_bytes(self) -> int:
        """How much of the body has come, kept or not."""
        return self._total

    def _body(self) -> tuple[bytes | bytearray, int, int]:
        """(kept bytes, how many are missing before the tail, the tail's length if any are)."""
        head, tail = self._kept, self._tail
        if tail is None:
            return head, 0, 0
        missing = max(self._total - len(head) - self._side.answer_tail, 0)
        if missing:
            tail = tail[len(tail) - self._side.answer_tail :]
        return head + tail, missing, len(tail) if missing else 0
