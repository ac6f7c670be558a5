"""The words of the configuration: names, URLs, header fields."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a name: small letters, digits, '_', '.', '-', at most 63"
        )
    return value


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"{value!r} is not a URL such as http://engine:8000")
    return value.rstrip("/")


def _header(value: str) -> str:
    if not HEADER.fullmatch(value):
        raise ValueError(f"{value!r} is not a header name")
    return value.lower()


def _header_value(value: str) -> str:
    if any((ord(c) < 32 and c != "\t") or ord(c) == 127 for c in value):
        raise ValueError("a header value holds a control character")
    return value


Name = Annotated[str, AfterValidator(_name)]
Url = Annotated[str, AfterValidator(_url)]
HeaderName = Annotated[str, AfterValidator(_header)]
HeaderValue = Annotated[str, AfterValidator(_header_value)]


class Part(BaseModel):
    """A part of the file: frozen, unknown keys refused, values kept out of errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
