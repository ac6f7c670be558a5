"""Which keys of the configuration hold secrets."""

from __future__ import annotations

import re

SECRET_KEYS = frozenset(
    {"password", "token", "sasl_password", "authorization", "x-api-key", "api-key", "salt"}
)
_LOOKS = re.compile(r"key|token|secret|auth|cookie|jwt|passw|credential|signature")
"""A header field that is a secret by its name."""


def is_secret(path: tuple[str, ...]) -> bool:
    """Whether it may not stand written out in the file."""
    if not path:
        return False
    name = path[-1].lower()
    return name in SECRET_KEYS or (path[-3:-1] == ("headers", "set") and bool(_LOOKS.search(name)))


def is_value_of_secret(path: tuple[str, ...]) -> bool:
    """Whether no hash covers it and no check reads it: a secret, or any header's value."""
    return is_secret(path) or path[-3:-1] == ("headers", "set")
