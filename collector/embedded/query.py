"""A statement as it was sent, and the beginning of its answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Protocol

from collector.embedded.bounds import Bounds
from collector.embedded.engine import Frame

HEAD_BYTES = 256 * 1024
"""An insert's statement must end within this, as with ClickHouse's max_query_size."""
STATEMENT_BYTES = 16 * 2**20
"""A statement without data may be this long."""
SPOOL_BYTES = 4 * 2**20
"""What a request or an answer holds in memory; beyond it, in a temporary file."""


class Body(Protocol):
    """A request's body, decoded."""

    def read(self, size: int, /) -> bytes: ...  # noqa: D102 - as a file's


@dataclass(frozen=True)
class Query:
    """What was asked.

    Attributes:
        text: what stood in `query=`; the statement may also go on, or begin, in the body.
        default_format: of an answer or of data that do not say theirs.
        whole: the answer may start only once it is complete, so that an error can be a status.
        bounds: of who did not show the store's password, and may only read; None: who did.
    """

    text: bytes
    frame: Frame
    default_format: str | None = None
    whole: bool = False
    bounds: Bounds | None = None


@dataclass(frozen=True)
class Head:
    """What the answer's header fields say; `format` is None where the statement has no rows."""

    format: str | None
    summary: dict[str, str] = field(default_factory=dict)

    @property
    def summary_json(self) -> str:
        """As in X-ClickHouse-Summary."""
        return json.dumps(self.summary, separators=(",", ":"))
