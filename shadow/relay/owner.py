"""Who an upstream's connection works for: a client's passage, or an arm's request.

What it is told, in this order: `connected` or `connect_failed`; `answer_interim` …;
`answer_started`, `answer_continued` …; then one of `answer_ended`, `upstream_lost`,
`answer_malformed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from shadow.relay.answer import AnswerHead
    from shadow.relay.upstream import Upstream


class Owner(Protocol):
    """Who a connection works for: a client's connection, or an arm's request."""

    __slots__ = ()

    def connected(self, connection: Upstream) -> None:
        """A connection that was asked for is there."""

    def connect_failed(self, reason: str) -> None:
        """It could not be had."""

    def answer_interim(self, head: AnswerHead) -> None:
        """A 1xx head."""

    def answer_started(self, head: AnswerHead, raw: bytes, pieces: list[bytes]) -> None:
        """The final head with the first bytes of the body, as they came and decoded."""

    def answer_continued(self, raw: bytes, pieces: list[bytes]) -> None:
        """More of the body, as it came and decoded."""

    def answer_ended(self) -> None:
        """The answer is whole; the connection is the owner's to release or abort."""

    def upstream_lost(self, error: Exception | None) -> None:
        """The connection ended inside the answer: by reset (an error) or by FIN (None)."""

    def answer_malformed(self, reason: str, raw: bytes) -> None:
        """No framing can be found, or it was broken; `raw` is what came last."""

    def capture_failed(self, error: Exception) -> None:
        """The capture cannot be gone on with: a fault of ours."""

    def upstream_full(self) -> None:
        """The connection's write buffer is `full`, or has room again."""
