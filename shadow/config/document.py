"""From a YAML file to a checked model: strict, with every mistake as one line and its path."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from shadow.config.mistakes import ConfigError, one_line
from shadow.config.overrides import override
from shadow.config.references import Place, references, refuse_literal_secrets, resolve, unresolved
from shadow.config.yaml_file import read_yaml

__all__ = ["ConfigError", "check", "load", "referring"]

M = TypeVar("M", bound=BaseModel)


def load(
    path: Path,
    model: type[M],
    environment: Mapping[str, str] | None = None,
    *,
    overrides: bool = True,
    secrets: Collection[str] | None = None,
) -> M:
    """Read, override from the environment, resolve ${NAME}, check.

    Args:
        path: the YAML file.
        model: what it must be.
        environment: defaults to the process's.
        overrides: whether SHADOW__A__B=… applies (it does to the configuration, not to a policy).
        secrets: the top-level keys whose secrets are used; another secret's variable may be
            missing, and the value is then a text that says so. None: all are used.

    Raises:
        ConfigError: one line, with the path of the key.
    """
    env = os.environ if environment is None else environment
    tree = read_yaml(path)
    if overrides:
        override(tree, env)
    refuse_literal_secrets(tree)
    try:
        return check(resolve(tree, env, secrets), model)
    except ConfigError as error:
        raise ConfigError(unresolved(str(error), tree, env)) from None


def referring(path: Path, environment: Mapping[str, str] | None = None) -> dict[Place, str]:
    """The texts with ${NAME} in them as the file and its overrides spell them, by their place.

    Raises:
        ConfigError: as of `load`.
    """
    tree = read_yaml(path)
    override(tree, os.environ if environment is None else environment)
    return references(tree)


def check(tree: Mapping[str, Any], model: type[M]) -> M:
    """The checked model.

    Raises:
        ConfigError: the first mistake, as one line with its path.
    """
    try:
        checked = model.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(one_line(error, model)) from None
    for path, said in _taken_for_numbers(tree, checked.model_dump(), ()):
        raise ConfigError(f"{'.'.join(path)}: {str(said).lower()} is not a number")
    return checked


def _taken_for_numbers(said: Any, read: Any, path: Place) -> Iterator[tuple[Place, bool]]:
    """Where a true or false stands that the models read as 1 or 0: so does a bare yes or on."""
    if isinstance(said, bool):
        if isinstance(read, int | float) and not isinstance(read, bool):
            yield path, said
    elif isinstance(said, dict) and isinstance(read, dict):
        for key in said.keys() & read.keys():
            yield from _taken_for_numbers(said[key], read[key], (*path, str(key)))
    elif isinstance(said, list) and isinstance(read, list | tuple):
        for at, each in enumerate(zip(said, read, strict=False)):
            yield from _taken_for_numbers(*each, (*path, str(at)))
