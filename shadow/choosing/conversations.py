"""Which conversation a request belongs to: what a sampler may draw for instead of the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shadow.body.conversation import Beginning, Hash
from shadow.choosing.selection import sole_value

if TYPE_CHECKING:
    from shadow.relay.head import RequestHead


class Conversations:
    """Which conversation a request belongs to, by its tenant and its beginning."""

    __slots__ = ("_hash", "_header")

    def __init__(self, experiment: str, header: str | None) -> None:
        self._hash = Hash(experiment)
        self._header = None if header is None else header.encode()

    def of(self, head: RequestHead, begun: Beginning) -> str:
        """Its hash, salted by the experiment: the same on every worker, so that they draw alike."""
        tenant = "" if self._header is None else sole_value(head, self._header)
        return self._hash.of(tenant.encode(), begun)
