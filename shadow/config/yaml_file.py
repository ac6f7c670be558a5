"""A YAML file as plain values, strictly: keys are text, and each stands once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from shadow.config.mistakes import ConfigError

UNREADABLE = (
    yaml.YAMLError,
    ValueError,
    LookupError,
    AttributeError,
    TypeError,
    RecursionError,
)
"""What PyYAML raises of a text: its own errors, and what its constructors let through (`!!int x`,
`!!bool x`, `!!timestamp x`)."""


class PlainLoader(yaml.SafeLoader):
    """Safe YAML in which a date that is none, of a thirteenth month, is text."""


def _date(loader: PlainLoader, node: yaml.ScalarNode) -> object:
    try:
        return loader.construct_yaml_timestamp(node)
    except ValueError:  # what is wrong with it is said with its key
        return node.value


PlainLoader.add_constructor("tag:yaml.org,2002:timestamp", _date)


class _StrictLoader(PlainLoader):
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
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    except UNREADABLE as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        problem = " ".join(str(getattr(error, "problem", "") or "cannot be read").split())
        raise ConfigError(f"{path}: not YAML: {problem}{where}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: the file must hold keys and values")
    return tree
