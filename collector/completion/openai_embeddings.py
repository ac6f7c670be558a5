"""OpenAI embeddings: vectors, no text. Complete means that at least one vector is there."""

from __future__ import annotations

from typing import Any

from collector.completion.reading import NOTHING, Reading


def read_event(_reading: Reading, _chunk: dict[str, Any]) -> int:
    """Embeddings are never streamed."""
    return NOTHING


def read_document(reading: Reading, document: dict[str, Any]) -> bool:
    """Take a whole answer; False where it is no list of embeddings."""
    items = document.get("data")
    if type(items) is not list:
        return False
    reading.vectors = sum(
        1 for item in items if type(item) is dict and item.get("embedding") is not None
    )
    return True
