"""A writer that stores nothing of whoever was purged, however often it is delivered.

The tombstones are read before an insert, which leaves out what they name, and after it: a purge
that ran meanwhile is done once more, so that no moment between the two lets a text through.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from collector.patience import Backoff
from collector.purge import erase
from collector.tombstones import KEPT, PURGED, Purged, purges
from collector.writer import Refused, Writer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clickhouse_connect.driver.client import Client

_SUBJECTS = frozenset({"exchanges", "bodies"})
_LETTERS = "dead_letters"
_MARK = re.compile(rb'"subject":"([\x20-\x7e]{1,200}?)"')
"""As `purge.mark_of` writes it."""


class ForgetfulWriter(Writer):
    """A `Writer` that heeds the table `purges`.

    Args:
        client: of `collector.store`.
        cluster: that the tables are spread over, if any.
        more: as `Writer` takes it.
    """

    def __init__(
        self,
        client: Client,
        backoff: Backoff = Backoff(),  # noqa: B008 - it is frozen
        *,
        cluster: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(client, backoff, **more)
        self._cluster = cluster

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], token: str
    ) -> list[Refused]:
        """Store what is not to be forgotten; as `Writer.insert`."""
        named = named_in(table, columns, rows)
        if not named:
            return super().insert(table, columns, rows, token)
        purged = self.patiently(lambda: purges(self._client))
        kept = [forgotten(table, columns, row, purged) for row in rows]
        left = [at for at, row in enumerate(kept) if row is not None]
        gone = [at for at, row in enumerate(kept) if row is None]
        told = _token(token, [at for at, row in enumerate(kept) if row is not rows[at]])
        refused = super().insert(table, columns, [kept[at] or () for at in left], told)
        if table == "exchanges":
            remains = [_remains(columns, rows[at]) for at in gone]
            super().insert(table, (*KEPT, "outcome"), remains, f"{told}:remains")
        self._look_again(named)
        return [replace(each, index=left[each.index]) for each in refused]

    def _look_again(self, named: frozenset[str]) -> None:
        """Forget what a purge between the two looks could not see yet."""
        purged = self.patiently(lambda: purges(self._client))
        for subject in named & purged.keys():
            self.patiently(partial(erase, self._client, subject, purged[subject], self._cluster))


def forgotten(
    table: str, columns: Sequence[str], row: Sequence[Any], purged: Mapping[str, Purged]
) -> Sequence[Any] | None:
    """The row without what is to be forgotten; itself where nothing is, None where all is."""
    if table == _LETTERS:
        return _letter(columns, row, purged)
    at = columns.index("arrived_at")
    tombstone = purged.get(row[columns.index("subject")])
    if tombstone is None or row[at] > tombstone.texts_ns:
        return row
    if table == "bodies" or row[at] <= tombstone.measures_ns:
        return None
    return _with(columns, row, error="")


def _letter(
    columns: Sequence[str], row: Sequence[Any], purged: Mapping[str, Purged]
) -> Sequence[Any]:
    """Of a dead letter nobody knows when it had arrived: what names a purged subject goes."""
    if not _said(row[columns.index("value")]) & purged.keys():
        return row
    return _with(columns, row, reason=PURGED, key=b"", value=b"")


def _remains(columns: Sequence[str], row: Sequence[Any]) -> Sequence[Any]:
    """What stays of an exchange without its measures, as `purge` leaves it."""
    return (*(row[columns.index(name)] for name in KEPT), PURGED)


def _with(columns: Sequence[str], row: Sequence[Any], **changes: Any) -> Sequence[Any]:
    return [changes.get(name, value) for name, value in zip(columns, row, strict=True)]


def named_in(table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> frozenset[str]:
    """The subjects of rows, or those that dead letters' bytes speak of."""
    if table == _LETTERS:
        at = columns.index("value")
        return frozenset().union(*(_said(row[at]) for row in rows))
    if table not in _SUBJECTS:
        return frozenset()
    at = columns.index("subject")
    return frozenset(str(row[at]) for row in rows if row[at])


def _said(value: bytes) -> frozenset[str]:
    return frozenset(match.decode() for match in _MARK.findall(value))


def _token(token: str, changed: Sequence[int]) -> str:
    """Other rows have another token, or halves of the former batch would pass for theirs."""
    if not changed:
        return token
    return f"{token}:{hashlib.sha256(repr(changed).encode()).hexdigest()[:16]}"
