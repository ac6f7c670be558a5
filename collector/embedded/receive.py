"""A request's body, received before anything of it is run."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from aiohttp import BodyPartReader

from collector.embedded.errors import BAD_ARGUMENTS, NOT_IMPLEMENTED, QUERY_IS_TOO_LARGE, said
from collector.embedded.query import STATEMENT_BYTES

if TYPE_CHECKING:
    from aiohttp import web

BODY_BYTES = 2**30
"""A request's body; it waits in a temporary file, and the insert starts once it is complete."""


async def receive(
    request: web.Request, body: IO[bytes], most_bytes: int = BODY_BYTES
) -> dict[str, str]:
    """Read the request's body into the file, rewound, or give a form's fields: parameters.

    Raises:
        EngineError: it is too long, or brings external data.
    """
    if request.content_type == "multipart/form-data":
        return await _form(request)
    async for piece in request.content.iter_any():
        if body.tell() + len(piece) > most_bytes:
            message = f"The request's body is longer than {most_bytes} bytes"
            raise said(QUERY_IS_TOO_LARGE, message, "QUERY_IS_TOO_LARGE")
        body.write(piece)
    body.seek(0)
    return {}


async def _form(request: web.Request) -> dict[str, str]:
    fields: dict[str, str] = {}
    left = STATEMENT_BYTES
    try:
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader) or part.filename is not None or not part.name:
                message = "External data are not supported here"
                raise said(NOT_IMPLEMENTED, message, "NOT_IMPLEMENTED")
            value = await _bounded(part, left)
            left -= len(value)
            fields[part.name] = value.decode("utf-8", "surrogateescape")
    except ValueError as error:  # aiohttp's word for a form that is none
        raise said(BAD_ARGUMENTS, f"Not a form: {error}", "BAD_ARGUMENTS") from error
    return fields


async def _bounded(part: BodyPartReader, left: int) -> bytes:
    value = bytearray()
    while piece := await part.read_chunk():
        value += piece
        if len(value) > left:
            message = f"The form is longer than {STATEMENT_BYTES} bytes"
            raise said(QUERY_IS_TOO_LARGE, message, "QUERY_IS_TOO_LARGE")
    return bytes(value)


def peek(body: IO[bytes]) -> bytes:
    """The body's first bytes; it stays where it was, at its start."""
    head = body.read(256)
    body.seek(0)
    return head
