"""What opens something: keys of providers, private keys, bearer tokens, JSON web tokens."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Final

import regex

from shadow.redaction.detectors.search import Span, found

_TOKEN = regex.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{2,}\.[\w-]*")
_KEY = regex.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?:ant-|proj-|svcacct-|or-v1-)?[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic and who copied them
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}"  # AWS
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{22,}|glpat-[\w-]{20,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}"  # Slack
    r"|AIza[\w-]{30,}|ya29\.[\w-]{20,}"  # Google
    r"|(?:hf|gsk|nvapi|r8|pplx|dop_v1|shpat|lin_api|npm)[_-][A-Za-z0-9_-]{20,}"
    r"|[rsp]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,}"  # Stripe
    r"|SG\.[\w-]{16,}\.[\w-]{16,}|pypi-[\w-]{40,}"
    r")"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END)[\s\S]){0,6000}"
    r"(?:-----END [A-Z ]*PRIVATE KEY-----)?"
    r"|(?<![A-Za-z])(?i:bearer) +[A-Za-z0-9._~+/-]{16,}=*"
)
_KEY_HINTS: Final = (
    *("sk-", "AKIA", "ASIA", "glpat-", "xox", "AIza", "ya29.", "hf_", "gsk_", "nvapi-"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "r8_"),
    *("pplx-", "dop_v1_", "shpat_", "lin_api_", "npm_", "k_live_", "k_test_", "whsec_", "SG."),
    *("pypi-", "PRIVATE KEY", "earer ", "EARER "),
)


def keys(text: str) -> Iterator[Span]:
    """Keys of providers by their prefixes, private keys, bearer tokens."""
    return found(_KEY, text) if any(hint in text for hint in _KEY_HINTS) else iter(())


def jwts(text: str) -> Iterator[Span]:
    """JSON web tokens: three parts, the first of which says how it was signed."""
    if "eyJ" not in text:
        return
    for start, end in found(_TOKEN, text):
        if _is_header(text[start:end].partition(".")[0]):
            yield start, end


def _is_header(part: str) -> bool:
    try:
        head = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error):
        return False
    return isinstance(head, dict) and ("alg" in head or "enc" in head or "typ" in head)
