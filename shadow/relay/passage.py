"""One request's way to the primary, and its answer's way back to the client.

What the upstream does, the client sees (status, bytes, a cut, a reset); what the client does, the
upstream sees. The passage owns the upstream's connection while it lasts, and drives the plan.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from shadow.relay.fields import CHUNKED, UNTIL_CLOSE
from shadow.relay.refusal import UNREADABLE
from shadow.relay.upload import Upload

if TYPE_CHECKING:
    from shadow.relay.answer import AnswerHead


class Passage(Upload):
    """See the module; of its owner's duties `upload` has `connected` and `connect_failed`."""

    __slots__ = ()

    # what the client does

    def client_left(self) -> None:
        """It closed or reset inside the passage: the primary learns of it at once."""
        self._relay.totals.client_disconnected += 1
        early = self.connection is None
        self._leave()
        plan, whole = self._plan, self._upload is None
        self._over(whole=True, publish=False)
        if plan is None:
            return
        if early and whole and not plan.settled:
            plan.capture.end(monotonic_ns(), "client_disconnected", "it left before the connection")
            self._relay.gone_early(plan)
        else:
            self._relay.client_gone(plan, whole=whole and plan.settled)

    def client_has_room(self) -> None:
        """It had held the answer back since `full_since`."""
        if self._plan is not None:
            self._plan.capture.client_wait_ns += monotonic_ns() - self._client.full_since
        if self.connection is not None:
            self.connection.read_on()

    def cut(self) -> None:
        """The drain's time is over."""
        self._relay.totals.cut_by_drain += 1
        if self._plan is not None:
            self._plan.capture.end(monotonic_ns(), "cut_by_drain", "the proxy was shut down")
        self._leave()
        settled = self._plan is None or self._plan.settled
        self._over(whole=self._upload is None and settled)
        self._client.reset()

    # what the primary does (see `owner.Owner`)

    def answer_interim(self, head: AnswerHead) -> None:
        """1xx, for clients that know it; the request was read, so it is not tried again."""
        self._sent = None
        if self._head.http11:
            self._client.transport.write(head.encode(http11=True, close=False))

    def answer_started(self, head: AnswerHead, raw: bytes, pieces: list[bytes]) -> None:
        """The final head."""
        self._sent = None
        self._answer_started = True
        if head.status == 101:
            self._switch(head, raw)
            return
        self._relay.totals.by_class[head.status // 100] += 1
        request = self._head
        self._close_after = (
            not request.keep
            or not head.sound
            or head.length == UNTIL_CLOSE
            or self._relay.draining
            or (request.expect and self._upload is not None)
        )
        self._end_unsaid = head.length == CHUNKED and not request.http11
        start = head.encode(http11=request.http11, close=self._close_after)
        self._client.transport.write(start + (raw if request.http11 else b"".join(pieces)))

    def answer_continued(self, raw: bytes, pieces: list[bytes]) -> None:
        """More body: as it came, or decoded for a 1.0 client."""
        self._client.transport.write(raw if self._head.http11 else b"".join(pieces))

    def answer_ended(self) -> None:
        """Whole. The upload may still be under way."""
        self._answer_ended = True
        if self._upload is None:
            self._finish()
        elif self._close_after:
            self._give_up_upload()
        elif self._plan is not None:
            plan, self._plan = self._plan, None
            self._relay.dropped(plan)

    def upstream_lost(self, error: Exception | None) -> None:
        """The upstream closed or reset inside the passage: the client sees the same."""
        connection, self.connection = self.connection, None
        assert connection is not None
        if self._answer_ended:  # the upload has lost its reader
            self._give_up_upload()
            return
        if self._retry(connection):
            return
        self._relay.totals.upstream_lost += not self.tunnel
        self._over(whole=self._upload is None)
        if error is None and not self._end_unsaid:
            self._client.close()
        else:  # undone chunks end by the connection's end: only a reset says that they were cut
            self._client.reset_soon()

    def answer_malformed(self, reason: str, raw: bytes) -> None:
        """No framing: 502 before the head; after it, what came and a reset."""
        self.connection = None
        self._relay.totals.bad_upstream_framing += 1
        self._over(whole=self._upload is None)
        if not self._answer_started:
            self._gateway_error(f"the primary's answer cannot be read: {reason}", UNREADABLE)
            return
        if self._head.http11:
            self._client.transport.write(raw)
        self._client.reset_soon()

    def capture_failed(self, error: Exception) -> None:
        """The stream goes on without its capture."""
        plan, self._plan = self._plan, None
        self._relay.mirror.failed(error, plan)

    def upstream_full(self) -> None:
        """The upstream reads slowly, or has caught up: so is the client read."""
        self._client.balance()

    def _switch(self, head: AnswerHead, raw: bytes) -> None:
        """101: from here on bytes pass both ways as they come; the client's have waited."""
        assert self.connection is not None
        self.tunnel = True
        self._relay.totals.upgrades += 1
        self._client.transport.write(head.encode(http11=True, close=False) + raw)
        self.connection.transport.write(self._client.held())
