"""Finds and reads an upstream's heads, interim ones first, in the bytes that come; sans-IO."""

from __future__ import annotations

import re
from typing import Final, cast

from shadow.relay.answer import (
    AnswerHead,
    BadAnswer,
    find_answer_head,
    parse_answer,
    within_bounds,
)

_HEAD_FACTOR: Final = 4
"""An answer's head may be this much longer than a request's."""
SMALL_HEAD_BYTES: Final = 2048
"""Up to here an arm's head is parsed without counting its fields first."""
MAX_INTERIM: Final = 16
"""An arm that says 1xx more often, for one request, is given up."""
_BLANK: Final = re.compile(rb"[\r\n]*")


class AnswerReader:
    """One connection's; `begin` for each request."""

    __slots__ = ("_bodyless", "_interim", "_limit", "_sacred", "_upgrade", "kept")

    def __init__(self, header_bytes: int, *, sacred: bool) -> None:
        """`header_bytes` is a request's bound; `sacred` answers pass whatever they are."""
        self._limit = header_bytes * _HEAD_FACTOR
        self._sacred = sacred
        self.kept = bytearray()
        """A part of a head, whose end has not come."""

    def begin(self, *, head: bool, upgrade: bool) -> None:
        """The next request: `head` says that it is a HEAD, `upgrade` that it asks for 101."""
        self._bodyless = head
        self._upgrade = upgrade
        self._interim = 0

    def whole(self, data: bytes) -> bytes | None:
        """What was kept, with `data` behind it, once there is a head in it; else both are kept.

        Raises:
            BadAnswer: it is longer than any head.
        """
        start = max(len(self.kept) - 2, 0)
        self.kept += data
        if find_answer_head(self.kept, start) is not None:
            data, self.kept = bytes(self.kept), bytearray()
            return data
        if len(self.kept) > self._limit:
            raise BadAnswer("the answer's head is too long")
        return None

    def read(self, data: bytes, at: int) -> tuple[AnswerHead, int] | None:
        """The head at `at` and where what follows it begins; None, and kept, if it has no end.

        Raises:
            BadAnswer: no framing can be found, or an arm's head costs more than it can be worth.
        """
        if data[at] in b"\r\n":
            at = cast("re.Match[bytes]", _BLANK.match(data, at)).end()
        found = find_answer_head(data, at)
        if found is None:
            if len(data) - at > self._limit:
                raise BadAnswer("the answer's head is too long")
            self.kept += data[at:]
            return None
        raw = data[at : found[0]]
        if len(raw) > SMALL_HEAD_BYTES and not self._sacred:
            within_bounds(raw)
        head = parse_answer(raw, bodyless=self._bodyless, upgrade=self._upgrade)
        if 100 <= head.status < 200:
            self._judge_interim(head.status)
        return head, found[1]

    def _judge_interim(self, status: int) -> None:
        if status == 101:
            if not self._upgrade:
                raise BadAnswer("a 101 that nobody asked for")
            return
        self._interim += 1
        if self._interim > MAX_INTERIM and not self._sacred:
            raise BadAnswer(f"more than {MAX_INTERIM} interim answers")
