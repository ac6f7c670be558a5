"""The interface's answers: status, header fields and text as ClickHouse words them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collector.embedded.errors import EngineError
    from collector.embedded.query import Head

_CONTENT_TYPES = {
    "CSV": "text/csv; charset=UTF-8; header=absent",
    "CSVWithNames": "text/csv; charset=UTF-8; header=present",
    "JSON": "application/json; charset=UTF-8",
    "JSONCompact": "application/json; charset=UTF-8",
    "JSONEachRow": "application/x-ndjson; charset=UTF-8",
    "Native": "application/octet-stream",
    "RowBinary": "application/octet-stream",
    "TSV": "text/tab-separated-values; charset=UTF-8",
    "TabSeparated": "text/tab-separated-values; charset=UTF-8",
    "TabSeparatedWithNames": "text/tab-separated-values; charset=UTF-8",
}


def head_fields(head: Head, query_id: str, timezone: str, coding: str | None) -> dict[str, str]:
    """The header fields of an answer to a statement."""
    fields = {
        "X-ClickHouse-Query-Id": query_id,
        "X-ClickHouse-Timezone": timezone,
        "X-ClickHouse-Summary": head.summary_json,
        "Content-Type": _CONTENT_TYPES.get(head.format or "", "text/plain; charset=UTF-8"),
    }
    if head.format:
        fields["X-ClickHouse-Format"] = head.format
        if coding:
            fields["Content-Encoding"] = coding
    return fields


def error_response(error: EngineError) -> web.Response:
    """ClickHouse's status, code and text."""
    fields = {"X-ClickHouse-Exception-Code": str(error.code)}
    if error.status == web.HTTPUnauthorized.status_code:
        fields["WWW-Authenticate"] = 'Basic realm="ClickHouse server HTTP API"'
    body = f"{error.text}\n".encode("utf-8", "replace")
    return web.Response(status=error.status, body=body, headers=fields, content_type="text/plain")
