"""A request's work in its thread: run the statement, code the answer, hand it to the loop."""

from __future__ import annotations

import itertools
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from collector.embedded.coding import Unpacked, packed
from collector.embedded.errors import STD_EXCEPTION, EngineError, said
from collector.embedded.pipe import Left, Pipe
from collector.embedded.query import Head, Query
from collector.embedded.work import perform

if TYPE_CHECKING:
    from collections.abc import Iterator

    from collector.embedded.engine import Engine


@dataclass(frozen=True)
class Job:
    """What a worker needs. `tag` marks an error in the middle of an answer."""

    query: Query
    body: IO[bytes]
    body_coding: str
    coding: str | None
    tag: str


@dataclass(frozen=True)
class Opening:
    """An answer's beginning; `complete`: its end too."""

    head: Head
    first: bytes
    complete: bool


Item = Opening | bytes | EngineError | None
"""An Opening or an EngineError; then pieces, and None at the end, or the error that cut it."""


def run(engine: Engine, job: Job, pipe: Pipe[Item]) -> None:
    """Do the job and close its body. Every failure goes through the pipe."""
    with job.body, suppress(Left):
        try:
            _answer(engine, job, pipe)
        except EngineError as error:
            pipe.send(error)
        except Left:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            pipe.send(said(STD_EXCEPTION, f"{type(error).__name__}: {error}", "STD_EXCEPTION"))


def _answer(engine: Engine, job: Job, pipe: Pipe[Item]) -> None:
    body = Unpacked(job.body, job.body_coding)
    with closing(perform(engine, job.query, body)) as answer:
        head = next(answer)
        assert isinstance(head, Head)
        fault: list[EngineError] = []
        plain = _until_fault((piece for piece in answer if isinstance(piece, bytes)), job, fault)
        pieces = packed(plain, job.coding if head.format else None)
        first, second = next(pieces, b""), next(pieces, None)
        pipe.send(Opening(head, first, complete=second is None and not fault))
        if second is None and not fault:
            return
        for piece in itertools.chain([second or b""], pieces):
            pipe.send(piece)
        pipe.send(fault[0] if fault else None)


def _until_fault(pieces: Iterator[bytes], job: Job, fault: list[EngineError]) -> Iterator[bytes]:
    """The pieces; where one fails, ClickHouse's words for it in the middle of an answer."""
    try:
        yield from pieces
    except EngineError as error:
        fault.append(error)
        text = error.text.encode("utf-8", "replace")
        tag = job.tag.encode()
        marker = b"\r\n__exception__\r\n"
        yield marker + tag + b"\r\n" + text + b"\n%d " % (len(text) + 1) + tag + marker
