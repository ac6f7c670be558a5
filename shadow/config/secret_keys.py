"""Which keys of the configuration hold secrets."""

from __future__ import annotations

from shadow.body.names import CREDENTIALS
from shadow.credentials import credential

SECRET_KEYS = frozenset(
    {"password", "token", "sasl_password", "authorization", "x-api-key", "api-key", "salt"}
)


def is_secret(path: tuple[str, ...]) -> bool:
    """Whether it may not stand written out in the file, nor be shown."""
    if not path:
        return False
    if path[-3:-1] == ("headers", "set"):
        return bool(credential(path[-1]))
    return path[-1].lower() in SECRET_KEYS or _in_parameters(path)


def is_value_of_secret(path: tuple[str, ...]) -> bool:
    """Whether no hash covers it and no check reads it: a secret, or any header's value."""
    return is_secret(path) or path[-3:-1] == ("headers", "set")


def _in_parameters(path: tuple[str, ...]) -> bool:
    """Below `params.set`: by its own name, or within what holds credentials anywhere in it."""
    for at in range(len(path) - 2):
        if path[at : at + 2] == ("params", "set"):
            names = [step.split(".") for step in path[at + 2 :] if not step.isdecimal()]
            held = any(words[0].encode() in CREDENTIALS for words in names)
            return held or any(map(credential, names[-1]))
    return False
