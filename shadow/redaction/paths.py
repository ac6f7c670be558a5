"""Which values a path names: `messages[*].content`, a small part of JSONPath (RFC 9535).

Keys by dots, `*` for any key, `[0]` and `[*]` for elements, `**` for any depth; a `$.` may stand
first. A path names the value and all below it. Keys that hold dots are written with their dots.
A value's path is spelled with a dot before every key: `.messages[0].content`.

Rule: `**` passes over whatever stands there, and `*` over no letter too. A client makes keys up: ""
or `a[b]`, and may not hide a value below one.
"""

from __future__ import annotations

import re
from typing import Final

_STEP: Final = re.compile(r"\[(\*|\d+)\]|(?:^|\.)(\*\*|\*|[^.\[\]*]+)")
_END: Final = r"(?=$|[.\[])"
"""Of a key or an element."""
_ANYWHERE: Final = ".*?"
"""After an end. What comes before another `**` is sought once, at its first place, since the next
one passes over all others: or a client's key of `a.a.a…` would take its length squared, in one call
under the interpreter's lock.
"""


def path_pattern(path: str) -> re.Pattern[str]:
    """What matches the spelled path of every value that `path` names.

    Raises:
        ValueError: it is no path.
    """
    plain = path.removeprefix("$").removeprefix(".") if path.startswith("$") else path
    at, said = 0, [""]
    for step in _STEP.finditer(plain):
        if step.start() != at:
            break
        at = step.end()
        if step[2] == "**":
            said.append(_ANYWHERE)
        else:
            said[-1] += _spelled(step)
    if not plain or at != len(plain):
        raise ValueError(f"{path!r} is no path such as messages[*].content")
    *firsts, last = (part + _END for part in said)
    return re.compile("".join(f"(?>{part})" for part in firsts) + last, re.DOTALL)


def _spelled(step: re.Match[str]) -> str:
    if element := step[1]:
        return r"\[\d+\]" if element == "*" else rf"\[{element}\]"
    return r"\." + (r"[^.\[]*" if step[2] == "*" else re.escape(step[2]))
