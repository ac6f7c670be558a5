"""What is wrong with a file that a person wrote, in one line and a person's words."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

_NUMBER, _WHOLE = "not a number, such as 0.5", "not a whole number, such as 2"
_PLAIN = {
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "int_parsing": _WHOLE,
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "bool_parsing": "neither true nor false",
    "string_type": "not a text; put it in quotes",
    "dict_type": "not a group of keys and values",
    "model_type": "not a group of keys and values",
    "list_type": "not a list",
    "path_type": "not a path",
}
"""What is wrong, in a person's words, by pydantic's name of it."""


class ConfigError(Exception):
    """A mistake in a file that a person wrote: one line, path first."""


EXAMPLES = 2
"""So many keys are named of a group that is none."""


def one_line(error: ValidationError, model: type[BaseModel]) -> str:
    """The first mistake, its path first; of several the one that most often explains the others.

    Args:
        error: what was found.
        model: of the whole file, for the keys that there are.
    """
    found = error.errors(include_url=False, include_input=False, include_context=False)
    # A key that nobody knows is most often the one that is missed, spelt wrongly.
    first = min(found, key=lambda each: each["type"] != "extra_forbidden")
    path = ".".join(str(part) for part in first["loc"] if not _inner(part))
    message = {
        "extra_forbidden": "unknown key",
        "missing": "missing; it has no default and must be stated",
        **_PLAIN,
    }.get(first["type"], first["msg"].removeprefix("Value error, "))
    hint = _hint(first["type"], first["loc"], model)
    return " ".join(f"{path}: {message}{hint}".removeprefix(": ").split())


def _hint(kind: str, place: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """Which key was meant, or which keys a group has."""
    if kind == "extra_forbidden":
        near = get_close_matches(str(place[-1]), _keys(place[:-1], model), n=1)
        return f"; did you mean {near[0]}?" if near else ""
    if kind == "model_type":
        keys = list(islice(_keys(place, model), EXAMPLES))
        return f", such as {{{', '.join(f'{key}: …' for key in keys)}}}" if keys else ""
    return ""


def _keys(place: tuple[int | str, ...], model: type[BaseModel]) -> dict[str, None]:
    """The keys that may stand at this place, in the models' order."""
    at = [model]
    for step in place:  # a name, a number and a step of the models stay within the same models
        fields = [one.model_fields[step] for one in at if step in one.model_fields]
        at = [each for one in fields for each in _models(one.annotation)] if fields else at
    return dict.fromkeys(key for one in at for key in one.model_fields)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a field's type, whatever they stand in."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _inner(part: int | str) -> bool:
    """A step of the models that no key of the file stands for."""
    return isinstance(part, str) and (part == "[key]" or part.startswith("<"))
