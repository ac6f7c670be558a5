"""The shapes in which engines say that something went wrong, inside a 200 or not."""

from __future__ import annotations

from typing import Any

from collector.completion.model import Fault
from collector.json_text import Unreadable, clean, loads, said

_MOST_CHARACTERS = 2000


def fault_of(document: object) -> Fault | None:
    """The error that a JSON document of an answer or event carries, or None.

    Shapes: {"error": {message, type, code}} (vLLM, SGLang, llama.cpp), {"error": "…"} with or
    without "error_type" (TGI, Triton, TensorRT-LLM), a top-level {message, type, code} (Dynamo,
    TensorRT-LLM), {"object": "error", message}, {"type": "error", "error": {…}} (Anthropic).
    """
    if not isinstance(document, dict):
        return None
    error = document.get("error")
    if isinstance(error, dict):
        return _from_fields(error, error.get("message"))
    if error:
        return Fault(_word(document.get("error_type")), _short(_message(error)))
    if _is_bare_error(document):
        return _from_fields(document, document["message"])
    return None


def _is_bare_error(document: dict[str, Any]) -> bool:
    if not isinstance(document.get("message"), str) or "choices" in document:
        return False
    return document.get("object") == "error" or "code" in document or "type" in document


def fault_of_body(status: int, body: bytes) -> Fault:
    """Why an answer with an error status failed: its body's words, or the status alone."""
    try:
        document = loads(body)
    except Unreadable:
        text = body[: 4 * _MOST_CHARACTERS].decode("utf-8", "replace").strip()
        return Fault(None, _short(text) or f"HTTP {status}")
    found = fault_of(document)
    if found is None and isinstance(document, dict):
        detail = document.get("detail", document.get("message"))
        found = Fault(None, _short(_message(detail))) if detail else None
    return found or Fault(None, f"HTTP {status}")


def _from_fields(fields: dict[str, Any], message: object) -> Fault:
    kind = fields.get("type") or fields.get("code") or fields.get("http_status_code")
    return Fault(_word(kind), _short(_message(message or fields)))


def _word(value: object) -> str | None:
    return None if value is None else _short(_message(value))


def _message(value: object) -> str:
    return value if isinstance(value, str) else said(value)


def _short(text: str) -> str:
    return clean(text[:_MOST_CHARACTERS])
