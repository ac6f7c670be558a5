"""The configuration that a person writes: models, reading, identity.

`model` says what may stand in the file, a module for each group of keys. `document` makes a model
of a file: `yaml_file` reads strictly, `overrides` has the environment's word, `references` looks up
${NAME}, `secret_keys` says which keys need one, `mistakes` are one line with its path each.
`identity` hashes what is measured, `units` reads 8MiB and 120s, `moments` a point in time.
"""

from shadow.config.document import load
from shadow.config.identity import comparison_id, config_hash, masked
from shadow.config.mistakes import ConfigError
from shadow.config.model import Config
from shadow.config.operations import Limits
from shadow.config.upstream import Arm, Upstream

__all__ = [
    "Arm",
    "Config",
    "ConfigError",
    "Limits",
    "Upstream",
    "comparison_id",
    "config_hash",
    "load",
    "masked",
]
