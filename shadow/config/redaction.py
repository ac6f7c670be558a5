"""What may stand under `redaction`: what is taken out of records before they leave the process."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, model_validator

from shadow.config.words import HeaderName, Name, Part
from shadow.redaction.paths import path_pattern

Action = Literal["drop", "mask", "hash"]
"""drop: blanks; mask: a sign a character; hash: letters of a salted hash, the same for the same."""

_RESERVED = ("email", "phone", "card", "iban", "key", "jwt", "ip", "path", "withheld")
Detector = Literal["email", "phone", "card", "iban", "key", "jwt", "ip"]


def _path(value: str) -> str:
    path_pattern(value)
    return value


def _regex(value: str) -> str:
    import regex  # noqa: PLC0415 only where it is configured

    try:
        regex.compile(value)
    except regex.error as error:
        raise ValueError(f"{value[:60]!r} is no regular expression: {error}") from None
    except (RecursionError, OverflowError):
        raise ValueError(f"{value[:20]!r}… is nested too deeply, or counts too far") from None
    return value


def _region(value: str) -> str:
    from shadow.redaction.detectors import builtin  # noqa: PLC0415 only where it is configured

    builtin((value,))
    return value


class PathRule(Part):
    """Values by where they stand."""

    path: Annotated[str, AfterValidator(_path)]
    action: Action | None = None


class PatternRule(Part):
    """One's own pattern."""

    name: Name
    regex: Annotated[str, AfterValidator(_regex)]
    action: Action | None = None


class Redaction(Part):
    """Without it, records are as they came, but for the headers that are not on the list."""

    action: Action = "mask"
    """Where a rule states none."""
    detectors: list[Detector] = ["email", "phone", "card", "iban", "key", "jwt", "ip"]
    phone_regions: list[Annotated[str, AfterValidator(_region)]] = ["US"]
    """Whose national numbers are known without a country code."""
    patterns: list[PatternRule] = []
    paths: list[PathRule] = []
    headers: list[HeaderName] = []
    """Further header fields to record, their values redacted like any text."""
    salt: str = ""
    """Of hashes; only as ${NAME}."""

    @model_validator(mode="after")
    def _salted(self) -> Self:
        own = [each.action for each in self.patterns] + [each.action for each in self.paths]
        actions = [self.action, *own]
        if "hash" in actions and len(self.salt) < 16:
            raise ValueError("salt: hash needs one of 16 characters at least, as ${NAME}")
        taken = [each.name for each in self.patterns]
        if len({*taken, *_RESERVED}) < len(taken) + len(_RESERVED):
            raise ValueError("patterns: each needs a name of its own, not a detector's")
        return self
