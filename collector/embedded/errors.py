"""ClickHouse's errors as its HTTP interface words them."""

from __future__ import annotations

import re

_CODE = re.compile(r"Code: (\d+)\. ")

_STATUS = {
    194: 401,  # REQUIRED_PASSWORD
    **dict.fromkeys((192, 193, 497, 512, 516), 403),  # users, passwords, rights
    **dict.fromkeys((46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 152, 336, 511), 404),  # UNKNOWN_…
    # what was sent does not parse or does not fit
    **dict.fromkeys((6, 8, 15, 25, 26, 27, 36, 37, 38, 41, 44, 53, 62, 72, 117, 123), 400),
    **dict.fromkeys((167, 168, 223, 321, 376, 427, 441, 675, 676), 400),
    159: 408,  # TIMEOUT_EXCEEDED
    381: 411,  # HTTP_LENGTH_REQUIRED
    229: 413,  # QUERY_IS_TOO_LARGE
    779: 415,  # UNSUPPORTED_MEDIA_TYPE
    48: 501,  # NOT_IMPLEMENTED
    **dict.fromkeys((76, 209, 439), 503),  # CANNOT_OPEN_FILE, SOCKET_TIMEOUT, CANNOT_SCHEDULE_TASK
}

ACCESS_DENIED = 497
AUTHENTICATION_FAILED = 516
BAD_ARGUMENTS = 36
NOT_IMPLEMENTED = 48
READONLY = 164
SYNTAX_ERROR = 62
QUERY_IS_TOO_LARGE = 229
TOO_MANY_SIMULTANEOUS_QUERIES = 202
UNKNOWN_COMPRESSION_METHOD = 89
STD_EXCEPTION = 1001


class EngineError(Exception):
    """What the engine said: `code` and `text` ("Code: 47. DB::Exception: …")."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    @property
    def status(self) -> int:
        """The HTTP status of this error."""
        return status_of(self.code)


def status_of(code: int) -> int:
    """ClickHouse's HTTP status for an error code; 500 where it has none of its own."""
    return _STATUS.get(code, 500)


def engine_error(error: Exception) -> EngineError:
    """The engine's exception, with what chDB wraps around the text taken off."""
    text = str(error)
    found = _CODE.search(text)
    if found is None:
        return EngineError(STD_EXCEPTION, f"Code: {STD_EXCEPTION}. DB::Exception: {text}")
    return EngineError(int(found[1]), text[found.start() :].strip())


def said(code: int, message: str, name: str) -> EngineError:
    """An error of this interface's own, in ClickHouse's words."""
    return EngineError(code, f"Code: {code}. DB::Exception: {message} ({name})")
