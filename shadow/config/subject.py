"""What may stand under `subject`: by which header a person's records are found and purged."""

from __future__ import annotations

from pydantic import Field

from shadow.config.words import HeaderName, Part


class Subject(Part):
    """Whose request it was. Without it records carry no subject, and none can be purged."""

    header: HeaderName = "x-user-id"
    """The request's header that names the person; its value is never recorded."""
    salt: str = Field(min_length=16)
    """Only as ${NAME}. Whoever has it can find a person's records; a changed one loses them."""
