"""What a request to ClickHouse's HTTP interface says, read from its parts; pure."""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from collector.embedded.bounds import Bounds, bounded
from collector.embedded.engine import Frame
from collector.embedded.errors import AUTHENTICATION_FAILED, NOT_IMPLEMENTED, said
from collector.embedded.query import Query

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUIRED_PASSWORD = 194

_OWN = frozenset(
    {
        *("query", "query_id", "database", "default_format", "user", "password"),
        *("compress", "decompress", "enable_http_compression", "buffer_size"),
        *("wait_end_of_query", "client_protocol_version", "stacktrace", "add_http_cors_header"),
        *("send_progress_in_http_headers", "http_headers_progress_interval_ms"),
        "cancel_http_readonly_queries_on_client_close",
        # sessions, quotas and roles: each request stands alone here, of the one user
        *("session_id", "session_timeout", "session_check", "close_session", "quota_key", "role"),
    }
)
"""What is for the interface and no setting of the engine's."""


@dataclass(frozen=True)
class Access:
    """The one user of the embedded store.

    `open_reading`: who shows no password may read; else nobody does anything without it.
    """

    user: str = "default"
    password: str = field(default="", repr=False)
    open_reading: bool = False
    bounds: Bounds = field(default_factory=Bounds)
    """Of who reads without the password."""


def check_access(access: Access, params: Mapping[str, str], headers: Mapping[str, str]) -> bool:
    """Let the user in; says whether it may write.

    Raises:
        EngineError: another user or password, or none where one is needed.
    """
    user, password = _credentials(params, headers)
    same_user = hmac.compare_digest(_bytes(user), _bytes(access.user))
    same_password = hmac.compare_digest(_bytes(password), _bytes(access.password))
    if same_user and same_password:
        return True
    if same_user and not password and access.open_reading:
        return False
    if same_user and not password:
        message = f"{access.user}: Authentication failed: password is required"
        raise said(REQUIRED_PASSWORD, message, "REQUIRED_PASSWORD")
    message = (
        f"{user}: Authentication failed: password is incorrect, or there is no user with such name."
    )
    raise said(AUTHENTICATION_FAILED, message, "AUTHENTICATION_FAILED")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _credentials(params: Mapping[str, str], headers: Mapping[str, str]) -> tuple[str, str]:
    if "X-ClickHouse-User" in headers or "X-ClickHouse-Key" in headers:
        return headers.get("X-ClickHouse-User", "default"), headers.get("X-ClickHouse-Key", "")
    scheme, _, value = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        user, _, password = _basic(value).partition(":")
        return user, password
    return params.get("user", "default"), params.get("password", "")


def _basic(value: str) -> str:
    try:
        return base64.b64decode(value.strip(), validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        message = "Authentication failed: the Authorization header is not Basic's base64"
        raise said(AUTHENTICATION_FAILED, message, "AUTHENTICATION_FAILED") from None


def read_query(
    method: str,
    params: Mapping[str, str],
    headers: Mapping[str, str],
    bounds: Bounds | None = None,
) -> Query:
    """The statement (as far as it is not in the body) and all that it runs under.

    With `bounds` it may only read, and only so much.

    Raises:
        EngineError: ClickHouse's own block compression, which this interface does not speak.
    """
    for name in ("compress", "decompress"):
        if params.get(name, "0") not in {"", "0"}:
            message = f"{name}=1 is not supported here: use Accept-Encoding or Content-Encoding"
            raise said(NOT_IMPLEMENTED, message, "NOT_IMPLEMENTED")
    settings = {name: value for name, value in params.items() if _is_setting(name)}
    frame = Frame(
        database=params.get("database") or headers.get("X-ClickHouse-Database") or "default",
        settings=settings if bounds is None else bounded(settings, bounds),
        params={name[6:]: value for name, value in params.items() if name.startswith("param_")},
        readonly=bounds is not None or (method in {"GET", "HEAD"} and "readonly" not in params),
    )
    return Query(
        text=_bytes(params.get("query", "")),
        frame=frame,
        default_format=headers.get("X-ClickHouse-Format") or params.get("default_format"),
        whole=params.get("wait_end_of_query", "0") not in {"", "0"},
        bounds=bounds,
    )


def _is_setting(name: str) -> bool:
    return name not in _OWN and not name.startswith("param_")


def wants_coding(params: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """The codings that the answer may come in: Accept-Encoding, unless a setting forbids it."""
    if params.get("enable_http_compression", "1") in {"0", "false"}:
        return ""
    return headers.get("Accept-Encoding", "")
