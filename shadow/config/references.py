"""${NAME} in the configuration's texts: looked up in the environment, and never told."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from shadow.config.mistakes import ConfigError
from shadow.config.secret_keys import is_secret, is_value_of_secret

_LEAST_SECRET = 4
"""Characters; what is shorter is none, and would be found in words."""
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

Place = tuple[str, ...]
"""The keys on the way to a value; elements by their number."""


def references(tree: Any) -> dict[Place, str]:
    """The texts with ${NAME} in them, by their place."""
    return {place: text for place, text in _placed(tree, ()) if _REFERENCE.search(text)}


def without_references(text: str, sign: str) -> str:
    """The text with `sign` for each ${NAME}."""
    return _REFERENCE.sub(sign, text)


def _placed(node: Any, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(node, str):
        yield place, node
    elif isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _placed(value, (*place, str(key)))


def unresolved(message: str, tree: Any, env: Mapping[str, str]) -> str:
    """The message as the file spells it: what stands for ${NAME} may be a secret."""
    names = {name for _, text in _placed(tree, ()) for name in _REFERENCE.findall(text)}
    for name in sorted(names & set(env), key=lambda each: -len(env[each])):
        for said in (env[name], " ".join(env[name].split()), repr(env[name])[1:-1]):
            if len(said) >= _LEAST_SECRET:
                message = message.replace(said, f"${{{name}}}")
    return message


def refuse_literal_secrets(node: Any, path: Place = ()) -> None:
    """Nothing, where each secret is a reference.

    Raises:
        ConfigError: one stands written out.
    """
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            refuse_literal_secrets(value, (*path, str(key)))
    elif isinstance(node, str) and is_secret(path) and node and not _REFERENCE.search(node):
        raise ConfigError(f"{'.'.join(path)}: a secret stands written out; use ${{NAME}}")


def resolve(
    node: Any, env: Mapping[str, str], secrets: Collection[str] | None, path: Place = ()
) -> Any:
    """The tree with the environment's values; `secrets` as of `document.load`.

    Raises:
        ConfigError: the environment lacks one that is needed.
    """
    if isinstance(node, dict):
        return {key: resolve(value, env, secrets, (*path, key)) for key, value in node.items()}
    if isinstance(node, list):
        return [resolve(value, env, secrets, (*path, str(i))) for i, value in enumerate(node)]
    if not isinstance(node, str):
        return node
    needed = secrets is None or path[0] in secrets or not is_value_of_secret(path)

    def look_up(match: re.Match[str]) -> str:
        if match[1] not in env and not needed:
            return f"(the environment has no {match[1]})"
        if match[1] not in env:
            raise ConfigError(f"{'.'.join(path)}: the environment has no {match[1]}")
        return env[match[1]]

    return _REFERENCE.sub(look_up, node)
