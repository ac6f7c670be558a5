"""`shadow decode`: what one captured answer was, as one JSON object."""

from __future__ import annotations

import json
from pathlib import Path

import click

USAGE = 2


def decode(path: Path, tokenizer: Path | None, *, details: bool) -> int:
    """Print it; USAGE with one line where the file is no capture."""
    from collector.capture_file import NotACapture, decode_file
    from collector.tokenizer import NoTokenizer, token_counter

    try:
        count_tokens = token_counter(tokenizer) if tokenizer else None
    except NoTokenizer as error:
        raise click.UsageError(f"--tokenizer: {error}") from None
    try:
        document = decode_file(path, details=details, count_tokens=count_tokens)
    except NotACapture as error:
        click.echo(f"shadow decode: {' '.join(str(error).split())}", err=True)
        return USAGE
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    click.echo(text.encode())  # UTF-8, whatever the terminal's locale
    return 0
