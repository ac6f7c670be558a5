"""Which values a path names: `messages[*].content`, a small part of JSONPath (RFC 9535).

Keys by dots, `*` for any key, `[0]` and `[*]` for elements, `**` for any depth; a `$.` may stand
first. A path names the value and all below it. Keys that hold dots are written with their dots.
A value's path is spelled with a dot before every key: `.messages[0].content`.
"""

from __future__ import annotations

import re
from typing import Final

_STEP: Final = re.compile(r"\[(\*|\d+)\]|(?:^|\.)(\*\*|\*|[^.\[\]*]+)")


def path_pattern(path: str) -> re.Pattern[str]:
    """What matches the spelled path of every value that `path` names.

    Raises:
        ValueError: it is no path.
    """
    plain = path.removeprefix("$").removeprefix(".") if path.startswith("$") else path
    at, said = 0, []
    for step in _STEP.finditer(plain):
        if step.start() != at:
            break
        at = step.end()
        said.append(_spelled(step))
    if not plain or at != len(plain):
        raise ValueError(f"{path!r} is no path such as messages[*].content")
    return re.compile("".join(said) + r"(?=$|[.\[])", re.DOTALL)


def _spelled(step: re.Match[str]) -> str:
    if element := step[1]:
        return r"\[\d+\]" if element == "*" else rf"\[{element}\]"
    key = step[2]
    if key == "**":
        return r"(?:\.[^.\[]+|\[\d+\])*?"
    return r"\." + (r"[^.\[]+" if key == "*" else re.escape(key))
