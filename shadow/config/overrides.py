"""The environment's word over the file's: SHADOW__ARMS__FP8__SAMPLE=0.5 is arms.fp8.sample."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from shadow.config.mistakes import ConfigError
from shadow.config.yaml_file import UNREADABLE, PlainLoader

PREFIX = "SHADOW__"


def override(tree: dict[str, Any], env: Mapping[str, str]) -> None:
    """Write every such variable into the tree; values are YAML.

    Raises:
        ConfigError: there is no such key, or the value is not YAML.
    """
    for variable in sorted(name for name in env if name.startswith(PREFIX)):
        steps = variable.removeprefix(PREFIX).split("__")
        node: Any = tree
        for depth, step in enumerate(steps[:-1]):
            node = _child(node, step, variable, made=not (depth == 1 and steps[0] == "ARMS"))
        if not isinstance(node, dict):
            raise ConfigError(f"{variable}: there is no such key to override")
        try:
            said = yaml.load(env[variable], Loader=PlainLoader)  # noqa: S506 a SafeLoader
            node[_spelling(node, steps[-1])] = said
        except UNREADABLE:
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
