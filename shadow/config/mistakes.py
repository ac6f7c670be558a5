"""What is wrong with a file that a person wrote, in one line and a person's words."""

from __future__ import annotations

from pydantic import ValidationError

_PLAIN = {
    "float_parsing": "not a number",
    "float_type": "not a number",
    "int_parsing": "not a whole number",
    "int_type": "not a whole number",
    "int_from_float": "not a whole number",
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


def one_line(error: ValidationError) -> str:
    """The first mistake, its path first; of several the one that most often explains the others."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    # A key that nobody knows is most often the one that is missed, spelt wrongly.
    first = min(found, key=lambda each: each["type"] != "extra_forbidden")
    path = ".".join(str(part) for part in first["loc"] if not _inner(part))
    message = {
        "extra_forbidden": "unknown key",
        "missing": "missing; it has no default and must be stated",
        **_PLAIN,
    }.get(first["type"], first["msg"].removeprefix("Value error, "))
    return " ".join(f"{path}: {message}".removeprefix(": ").split())


def _inner(part: int | str) -> bool:
    """A step of the models that no key of the file stands for."""
    return isinstance(part, str) and (part == "[key]" or part.startswith("<"))
