"""Why nobody answered, in a person's words: of the driver's exceptions one plain line. Pure."""

from __future__ import annotations

import http.client
import re
import socket
import ssl

from urllib3.exceptions import HTTPError

_SENT = re.compile(r"executing HTTP request attempt \d+ \((?P<url>\S+)\)$")
_STATUS = re.compile(r"^HTTP driver received HTTP status (?P<status>\d{3})")
_FOR_URL = re.compile(r"\(for url (?P<url>\S+)\)$")
_TIMED_OUT = re.compile(r"\((?P<what>read|connect) timeout=(?P<seconds>[\d.]+)\)")
_CLOSED = (
    *(ConnectionResetError, BrokenPipeError),
    *(http.client.RemoteDisconnected, http.client.IncompleteRead),
)


def not_reached(error: Exception, url: str = "") -> str | None:
    """`store at URL: connection refused`; None where the driver had its answer.

    Args:
        error: the driver's, or what the connection itself raised.
        url: where it was asked, if the error itself does not say so.
    """
    said = " ".join(str(error).split())
    sent = _SENT.search(said)
    if sent is None and not (url and isinstance(error, (HTTPError, OSError))):
        return None
    return f"store at {sent['url'] if sent else url}: {_why(error, said)}"


def no_clickhouse(error: Exception, url: str = "") -> str | None:
    """What answers is no ClickHouse: one line with its HTTP status; None: it may well be one.

    Args:
        error: the driver's.
        url: where it was asked, if the error itself does not say so.
    """
    said = " ".join(str(error).split())
    at = _FOR_URL.search(said)
    where = f"store at {at['url'] if at else url}"
    if status := _STATUS.match(said):
        return f"{where}: HTTP status {status['status']}: no ClickHouse at that host, port, path"
    if said.startswith("Unexpected response to server version query"):
        return f"{where}: what answers is no ClickHouse"
    return None


def overloaded(error: Exception) -> str | None:
    """Of a status of somebody between us and the store: 429 or 5xx; None: none of these."""
    said = " ".join(str(error).split())
    status, at = _STATUS.match(said), _FOR_URL.search(said)
    if status is None or not (status["status"] >= "500" or status["status"] == "429"):
        return None
    return f"store at {at['url'] if at else ''}: HTTP status {status['status']}"


def _why(error: Exception, said: str) -> str:
    root, late = _root(error), _TIMED_OUT.search(said)
    if late is not None:
        return f"no {'answer' if late['what'] == 'read' else 'connection'} in {late['seconds']} s"
    if isinstance(root, _CLOSED) or "Connection closed" in said:
        return "it closed the connection without an answer"
    if isinstance(root, socket.gaierror):
        return f"the name cannot be looked up: {root.strerror}"
    return _of_tls(root) or _of_system(root)


def _of_tls(root: BaseException) -> str:
    if isinstance(root, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {root.verify_message}"
    return f"no TLS with it: {root.reason}" if isinstance(root, ssl.SSLError) else ""


def _of_system(root: BaseException) -> str:
    if isinstance(root, http.client.BadStatusLine):
        return "what answers there is no HTTP"
    strerror: str | None = getattr(root, "strerror", None)
    return strerror.lower() if strerror else f"{type(root).__name__}: {root}"


def _root(error: BaseException) -> BaseException:
    """What it all began with."""
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
    return error
