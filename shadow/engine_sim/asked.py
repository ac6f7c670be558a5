"""What a request asks for, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shadow.engine_sim import answer
from shadow.engine_sim.dialect import DIALECTS
from shadow.engine_sim.frames import Kind
from shadow.engine_sim.settings import Settings


@dataclass(frozen=True, slots=True)
class Asked:
    """A checked request body."""

    kind: Kind
    digest: bytes
    """Of the prompt."""
    prompt_tokens: int
    streamed: bool
    usage: bool
    """A usage event at the stream's end (stream_options.include_usage)."""
    max_tokens: int | None


class BadRequest(ValueError):
    """The request cannot be answered: a status, an error type and one line."""

    def __init__(self, status: int, type_: str, message: str) -> None:
        super().__init__(message)
        self.status, self.type_ = status, type_


def read(payload: Any, kind: Kind, settings: Settings) -> Asked:
    """Check a request's JSON.

    Raises:
        BadRequest: no prompt, a wrong type, or a model that this dialect refuses.
    """
    wanted = "messages" if kind == "chat" else "prompt"
    if not isinstance(payload, dict) or not payload.get(wanted):
        raise BadRequest(400, "BadRequestError", f"{wanted}: missing")
    model = payload.get("model", settings.model)
    if DIALECTS[settings.dialect].refuses_other_models and model != settings.model:
        raise BadRequest(404, "NotFoundError", f"The model `{model}` does not exist.")
    options = payload.get("stream_options")
    return Asked(
        kind=kind,
        digest=answer.prompt_digest(payload[wanted]),
        prompt_tokens=answer.prompt_tokens(payload[wanted]),
        streamed=bool(payload.get("stream")),
        usage=isinstance(options, dict) and bool(options.get("include_usage")),
        max_tokens=_max_tokens(payload),
    )


def _max_tokens(payload: dict[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        limit = payload.get(name)
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise BadRequest(400, "BadRequestError", f"{name}: must be at least 1")
        if limit is not None:
            return int(limit)
    return None
