"""One client's request as the arms' records tell it, and what it is counted by."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from shadow.capture.facts import facts_of, request_facts
from shadow.capture.subject import subject_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shadow.body.copy import Copy
    from shadow.config.subject import Subject
    from shadow.redaction.records import Asked
    from shadow.relay.head import RequestHead


_SECRET: Final = secrets.token_bytes(32)
"""The process' own, never told: without it a guessed prompt could be tried against a record."""


def recorded(conversation: str) -> str:
    """What a record says of it: equal within one worker's life, and nothing to anybody else."""
    return hmac.new(_SECRET, conversation.encode(), hashlib.sha256).hexdigest()[:32]


@dataclass(slots=True)
class Request:
    """One client's request as every arm's record tells it; shared and not changed once whole."""

    head: RequestHead
    pair_id: str
    arrived_at: int
    """UTC, ns."""
    token: int
    """The ledger's."""
    body: bytes | bytearray = b""
    """One for all arms; not changed once the first of them was started."""
    expanded: bool = False
    """The client's body was in a coding, which was undone."""
    replica_copy: Copy | None = None
    """What a tapped baseline replica gets where that is not the body as it came."""
    conversation: str | None = None
    """Hash of how it began, where it is known: drawn for, and recorded under a secret."""
    mirroring: str = "on"
    """What the mirror did when it arrived; see `Exchange`."""
    weights: Mapping[str, float] | None = None
    """1 / the rate of each arm when it was decided on; None: each side's own."""
    rates: Mapping[str, float] | None = None
    """Those rates: what is drawn for later is drawn by them; None: by each arm's of that moment."""
    captures: int = 0
    """How many of it the loop still holds."""
    veiled: Asked | None = field(default=None, repr=False)
    """As records may tell it, where they are redacted."""
    _facts: dict[str, object] | None = field(default=None, repr=False)
    _subject: str | None = field(default=None, repr=False)
    _subject_known: bool = field(default=False, repr=False)

    def facts(self) -> dict[str, object]:
        """Known once; parsed in the sender thread where nobody parsed it before."""
        facts = self._facts
        if facts is None:
            facts = self._facts = request_facts(self.body)
        if self.conversation is not None and facts.get("conversation") is None:
            facts["conversation"] = recorded(self.conversation)
        return facts

    def parsed(self, tree: dict[str, Any]) -> None:
        """The body, parsed for another reason: what it says is not parsed again."""
        self._facts = facts_of(tree, len(self.body))

    def subject(self, by: Subject | None) -> str | None:
        """Whose it is, hashed once, in the sender thread; None where nothing says it."""
        if by is not None and not self._subject_known:
            self._subject = subject_in(self.head.lines[1:], by.header.encode(), by.salt)
            self._subject_known = True
        return self._subject
