"""What may stand under `subject`: by which header a person's records are found and purged."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _header(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} is not a header name")
    return value.lower()


class Subject(BaseModel):
    """Whose request it was. Without it records carry no subject, and none can be purged."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    header: Annotated[str, AfterValidator(_header)] = "x-user-id"
    """The request's header that names the person; its value is never recorded."""
    salt: str = Field(min_length=16)
    """Only as ${NAME}. Whoever has it can find a person's records; a changed one loses them."""
