"""From a YAML file to a checked model: strict, with every mistake as one line and its path."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)

PREFIX = "SHADOW__"
SECRET_KEYS = frozenset(
    {"password", "token", "sasl_password", "authorization", "x-api-key", "api-key", "salt"}
)
_LOOKS = re.compile(r"key|token|secret|auth|cookie|jwt|passw|credential|signature")
"""A header field that is a secret by its name."""
_LEAST_SECRET = 4
"""Characters; what is shorter is none, and would be found in words."""
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class ConfigError(Exception):
    """A mistake in a file that a person wrote: one line, path first."""


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


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML in which a key may stand once only."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    loader.flatten_mapping(node)
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise ConfigError(f"a key must be plain text (line {line})")
        key = str(loader.construct_object(key_node, deep=True))
        if key in seen:
            raise ConfigError(f"{key}: the key stands twice (line {line})")
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


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
        _override(tree, env)
    _refuse_literal_secrets(tree, ())
    try:
        return check(_resolve(tree, env, (), secrets), model)
    except ConfigError as error:
        raise ConfigError(_unresolved(str(error), tree, env)) from None


def referring(
    path: Path, environment: Mapping[str, str] | None = None
) -> dict[tuple[str, ...], str]:
    """The texts with ${NAME} in them as the file and its overrides spell them, by their place.

    Raises:
        ConfigError: as of `load`.
    """
    tree = read_yaml(path)
    _override(tree, os.environ if environment is None else environment)
    return {place: text for place, text in _placed(tree, ()) if _REFERENCE.search(text)}


def without_references(text: str, sign: str) -> str:
    """The text with `sign` for each ${NAME}."""
    return _REFERENCE.sub(sign, text)


def _placed(node: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(node, str):
        yield place, node
    elif isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _placed(value, (*place, str(key)))


def _unresolved(message: str, tree: Any, env: Mapping[str, str]) -> str:
    """The message as the file spells it: what stands for ${NAME} may be a secret."""
    names = {name for text in _texts(tree) for name in _REFERENCE.findall(text)}
    for name in sorted(names & set(env), key=lambda each: -len(env[each])):
        for said in (env[name], " ".join(env[name].split()), repr(env[name])[1:-1]):
            if len(said) >= _LEAST_SECRET:
                message = message.replace(said, f"${{{name}}}")
    return message


def _texts(node: Any) -> Iterator[str]:
    for each in node.values() if isinstance(node, dict) else node:
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict | list):
            yield from _texts(each)


def read_yaml(path: Path) -> dict[str, Any]:
    """The file's mapping, keys as text, duplicates refused.

    Raises:
        ConfigError: unreadable, not YAML, or not a mapping.
    """
    try:
        tree = yaml.load(path.read_text("utf-8"), Loader=_StrictLoader)  # noqa: S506 a SafeLoader
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        problem = " ".join(str(getattr(error, "problem", "") or "cannot be read").split())
        raise ConfigError(f"{path}: not YAML: {problem}{where}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: the file must hold keys and values")
    return tree


def check(tree: Mapping[str, Any], model: type[M]) -> M:
    """The checked model.

    Raises:
        ConfigError: the first mistake, as one line with its path.
    """
    try:
        checked = model.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(_one_line(error)) from None
    for path, said in _taken_for_numbers(tree, checked.model_dump(), ()):
        raise ConfigError(f"{'.'.join(path)}: {str(said).lower()} is not a number")
    return checked


def _taken_for_numbers(
    said: Any, read: Any, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], bool]]:
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


def _one_line(error: ValidationError) -> str:
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


def _override(tree: dict[str, Any], env: Mapping[str, str]) -> None:
    """Write SHADOW__ARMS__FP8__SAMPLE=0.5 into arms.fp8.sample; values are YAML."""
    for variable in sorted(name for name in env if name.startswith(PREFIX)):
        steps = variable.removeprefix(PREFIX).split("__")
        node: Any = tree
        for depth, step in enumerate(steps[:-1]):
            node = _child(node, step, variable, made=not (depth == 1 and steps[0] == "ARMS"))
        if not isinstance(node, dict):
            raise ConfigError(f"{variable}: there is no such key to override")
        try:
            node[_spelling(node, steps[-1])] = yaml.safe_load(env[variable])
        except yaml.YAMLError:
            raise ConfigError(f"{variable}: the value is not YAML") from None


def _child(node: Any, step: str, variable: str, *, made: bool) -> Any:
    """A group that is left out may be made by an override; an arm may not."""
    if not isinstance(node, dict) or not (made or _spelling(node, step) in node):
        raise ConfigError(f"{variable}: there is no such key to override")
    return node.setdefault(_spelling(node, step), {})


def _spelling(node: dict[str, Any], step: str) -> str:
    """The key as the file spells it, compared without case and with - and . as _."""
    plain = step.lower()
    return next((k for k in node if re.sub("[-.]", "_", k.lower()) == plain), plain)


def _refuse_literal_secrets(node: Any, path: tuple[str, ...]) -> None:
    if isinstance(node, dict):
        for key, value in node.items():
            _refuse_literal_secrets(value, (*path, key))
    elif isinstance(node, str) and _is_secret(path) and node and not _REFERENCE.search(node):
        raise ConfigError(f"{'.'.join(path)}: a secret stands written out; use ${{NAME}}")


def _is_secret(path: tuple[str, ...]) -> bool:
    if not path:
        return False
    name = path[-1].lower()
    return name in SECRET_KEYS or (path[-3:-1] == ("headers", "set") and bool(_LOOKS.search(name)))


def _is_value_of_secret(path: tuple[str, ...]) -> bool:
    """Whether no hash covers it and no check reads it: a secret, or any header's value."""
    return _is_secret(path) or path[-3:-1] == ("headers", "set")


def _resolve(
    node: Any, env: Mapping[str, str], path: tuple[str, ...], secrets: Collection[str] | None
) -> Any:
    if isinstance(node, dict):
        return {key: _resolve(value, env, (*path, key), secrets) for key, value in node.items()}
    if isinstance(node, list):
        return [_resolve(value, env, (*path, str(i)), secrets) for i, value in enumerate(node)]
    if not isinstance(node, str):
        return node
    needed = secrets is None or path[0] in secrets or not _is_value_of_secret(path)

    def look_up(match: re.Match[str]) -> str:
        if match[1] not in env and not needed:
            return f"(the environment has no {match[1]})"
        if match[1] not in env:
            raise ConfigError(f"{'.'.join(path)}: the environment has no {match[1]}")
        return env[match[1]]

    return _REFERENCE.sub(look_up, node)
