"""What may be said of a fault of our own: its kind and its places, never its message.

A message may quote what a client sent or a secret of the configuration, as may the variables of a
frame, and a log goes where redaction does not reach.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

if TYPE_CHECKING:
    from types import TracebackType

    _ExcInfo = (
        tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    )

MOST_PLACES: Final = 6
MOST_KINDS: Final = 100

_log = structlog.get_logger("shadow.fault")


def told(error: BaseException) -> str:
    """`KeyError at capture/wire.py:88 put_body < publish/sender.py:166 _encode`: inner first."""
    frames = list(traceback.walk_tb(error.__traceback__))[: -MOST_PLACES - 1 : -1]
    places = [
        f"{_short(frame.f_code.co_filename)}:{line} {frame.f_code.co_name}"
        for frame, line in frames
    ]
    return " at ".join(filter(None, (type(error).__name__, " < ".join(places))))


class Faults:
    """Says each kind of fault in the log once; a counter says how often."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, event: str, error: BaseException, **more: str) -> str:
        """The fault as it was told."""
        kind = told(error)
        if kind not in self._said and len(self._said) < MOST_KINDS:
            self._said.add(kind)
            _log.error(event, **more, error=kind)
        return kind


def keep_quiet() -> None:
    """Faults that only Python or a library speaks of are told without their messages as well."""
    threading.excepthook = _say_ended
    last = logging.StreamHandler()
    last.setLevel(logging.WARNING)
    last.setFormatter(_Told())
    logging.lastResort = last


def say_unhandled(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """An event loop's exception handler; asyncio's own prints messages and representations."""
    error = context.get("exception")
    what = context.get("message", "")
    _log.error("a fault in the event loop", what=what, error=told(error) if error else "")


def _say_ended(args: threading.ExceptHookArgs) -> None:
    thread = args.thread.name if args.thread is not None else ""
    error = told(args.exc_value) if args.exc_value is not None else args.exc_type.__name__
    _log.error("a fault has ended a thread", thread=thread, error=error)


class _Told(logging.Formatter):
    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 the library's name
        return told(ei[1]) if ei[1] is not None else ""


def _short(filename: str) -> str:
    return "/".join(Path(filename).parts[-2:])
