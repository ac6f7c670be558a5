"""What an arm's configuration may change in a request's body."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from shadow.body.wish import json_text
from shadow.config.words import Part

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)?")
USAGE = "stream_options.include_usage"


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a parameter's name, such as temperature, or with one dot,"
            f" such as {USAGE}"
        )
    if value == "model":
        raise ValueError("model: it is changed by `models`")
    return value


def _json(value: object) -> object:
    """NaN and infinities are floats to YAML, and nothing to JSON."""
    try:
        json_text(value)
    except (TypeError, ValueError):
        raise ValueError("not a JSON value: no NaN, no infinity, no date") from None
    return value


ParamName = Annotated[str, AfterValidator(_name)]
ParamValue = Annotated[JsonValue, BeforeValidator(_json)]
ModelName = Annotated[str, Field(min_length=1)]


class Params(Part):
    """Parameters of one arm's requests: set makes them so, remove takes them away."""

    set: dict[ParamName, ParamValue] = {}
    remove: list[ParamName] = []

    def collision(self, *, include_usage: bool) -> str:
        """Two wishes that cannot both be met; '' where there are none."""
        wanted = [*self.set, *self.remove, *([USAGE] if include_usage else [])]
        for name in wanted:
            if wanted.count(name) > 1 or name.partition(".")[0] in {
                other for other in wanted if other != name
            }:
                return f"{name} is asked for twice"
        return ""
