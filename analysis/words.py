"""Words that came with the traffic or from people, as they may stand in a report."""

from __future__ import annotations

MOST = 80
_MARKUP = str.maketrans({"|": "¦", "<": "‹", ">": "›", "`": "'"})  # noqa: RUF001 look-alikes


def plain(text: str) -> str:
    """One printable line of at most `MOST` characters: no terminal and no table obeys it."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    shown = shown.translate(_MARKUP)
    return shown if len(shown) <= MOST else f"{shown[: MOST - 1]}…"
