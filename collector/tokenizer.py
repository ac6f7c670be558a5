"""Output tokens by a model's own tokenizer, for engines that give no count of their own.

The file is a tokenizer.json as Hugging Face's `tokenizers` writes it; the library is the optional
extra `tokenizer`. Special tokens are not counted: they are no text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

CountTokens: TypeAlias = Callable[[str], int]


class NoTokenizer(Exception):
    """It cannot be had; one line says why, and the way out."""


def token_counter(path: Path) -> CountTokens:
    """The counter of a tokenizer.json.

    Raises:
        NoTokenizer: the library is not installed, or the file is none that it reads.
    """
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise NoTokenizer(
            "the library tokenizers is not installed: pip install 'shadow-compare[tokenizer]'"
        ) from None
    try:
        tokenizer = Tokenizer.from_str(path.read_text("utf-8"))
    except OSError as error:
        raise NoTokenizer(f"{path}: {error.strerror}") from None
    except Exception as error:  # noqa: BLE001 - the library raises Exception itself
        raise NoTokenizer(f"{path} is no tokenizer.json: {' '.join(str(error).split())}") from None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def token_counters(paths: Mapping[str, Path]) -> dict[str, CountTokens]:
    """A counter an arm; one file is loaded once.

    Raises:
        NoTokenizer: as `token_counter`; the message begins with the arm's name.
    """
    loaded: dict[Path, CountTokens] = {}
    for arm, path in paths.items():
        if path in loaded:
            continue
        try:
            loaded[path] = token_counter(path)
        except NoTokenizer as error:
            raise NoTokenizer(f"{arm}.tokenizer: {error}") from None
    return {arm: loaded[path] for arm, path in paths.items()}
