"""The configuration that a person writes: models, reading, identity.

`model` says what may stand in the file, `document` reads YAML strictly and turns every mistake
into one line with its path, `identity` hashes what is measured, `units` reads 8MiB and 120s.
"""

from shadow.config.document import ConfigError, load
from shadow.config.identity import comparison_id, config_hash, masked
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
