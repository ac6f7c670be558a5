"""Which names are a credential's, in a query or a body: gateways and clients invent new ones.

A name is judged by its words, however they are joined: `api_key`, `API-KEY`, `apiKey`, `api.key`.
What opens a door by one of them is not what a model is told: `token` is a credential, `max_tokens`,
`eos_token` and `timings_per_token` are not.
"""

from __future__ import annotations

import re
from typing import Final

SECRETS: Final = frozenset(
    {
        "aws-access-key-id",
        "aws-secret-access-key",
        "aws-session-token",
        "aws-web-identity-token",
        "azure-ad-token",
        "azure-client-secret",
        "azure-password",
        "bearer-token",
        "cookie",
        "cookies",
        "csrf-token",
        "extra-headers",
        "extra-query",
        "hf-token",
        "jsessionid",
        "langfuse-public-key",
        "langfuse-secret-key",
        "langsmith-api-key",
        "litellm-credential-name",
        "master-key",
        "oauth-token",
        "ocp-apim-subscription-key",
        "openai-api-key",
        "passphrase",
        "phpsessid",
        "private-key",
        "proxy-authorization",
        "service-account",
        "service-account-json",
        "vertex-credentials",
        "vertex-credentials-json",
        "wandb-api-key",
        "watsonx-token",
        "x-auth-token",
        "x-pass",
        "x-session",
        "x-shib-session",
        "x-csrf-token",
        "x-forwarded-access-token",
        "x-goog-iap-jwt-assertion",
        "x-litellm-api-key",
        "x-xsrf-token",
        "access-key",
        "access-token",
        "api-key",
        "api-token",
        "apikey",
        "auth",
        "auth-token",
        "authkey",
        "authorization",
        "bearer",
        "client-secret",
        "credential",
        "credentials",
        "hmac",
        "id-token",
        "jwt",
        "key",
        "pass",
        "passwd",
        "password",
        "pw",
        "pwd",
        "refresh-token",
        "secret",
        "session",
        "session-token",
        "sid",
        "sig",
        "signature",
        "subscription-key",
        "token",
        "x-amz-credential",
        "x-amz-security-token",
        "x-amz-signature",
        "x-api-key",
        "x-goog-api-key",
        "x-goog-credential",
        "x-goog-signature",
    }
)
"""Names in small letters, `_`, `.` and blanks read as `-`. What a record says of a credential is
one of these or `UNLISTED`: clients make names up, and may make them of what is private."""
_PARAMETER: Final = re.compile(
    r"(?:prompt-)?cache-key"
    r"|(?:[a-z0-9-]*-)?(?:bos|eos|eot|eom|pad|unk|mask|sep|cls|fim|prefix|suffix|middle|stop|start"
    r"|end|begin|special|image|video|audio|think|thinking|reasoning|newline|space|decoder|draft"
    r"|prompt|completion|forced|per|max|min|m(?:ax|in)-new|first|last|next|sampled)-token"
)
"""Model parameters that end as a credential does: tokens of a vocabulary, and what is counted a
token (OpenAI, vLLM, SGLang, TensorRT-LLM, TGI, llama.cpp)."""
_LAST: Final = frozenset(
    {
        "assertion",
        "auth",
        "authentication",
        "authorization",
        "bearer",
        "cookie",
        "cookies",
        "credential",
        "credentials",
        "hmac",
        "jwt",
        "key",
        "otp",
        "passcode",
        "passphrase",
        "passwd",
        "password",
        "pin",
        "pwd",
        "secret",
        "secrets",
        "sig",
        "signature",
        "token",
    }
)
"""The last word of one that no list has, digits behind it apart."""
_WORDS_HELD: Final = (
    "(?:api|access|secret|private|auth|account|subscription)-key"
    "|(?:api|access|auth|bearer|refresh|session|security)-token"
    "|client-secret|service-account|credential"
)
_HELD: Final = re.compile(_WORDS_HELD.replace("-", ""))
"""What one holds, its words run together, before an `_id`, an `s` or a `_name`."""
ANYWHERE: Final = re.compile(
    (
        rf"(?:(?:{'|'.join(sorted(_LAST | {'keys', 'pass'}))})[-_0-9]{{0,4}}+"
        rf"|(?:{_WORDS_HELD.replace('-', '[-_. ]?')})[-_. a-z0-9]{{0,48}}+)"
        r"(?:[\"']?[ \t\r\n]{0,64}+[:=]|\"[ \t]{0,8}+[;\r\n])"
        r"|\\u00[2-7][0-9a-f][^\"':,\\]{0,24}+[\"']?[ \t\r\n]{0,64}+:"
        r"|%[2-7][0-9a-f][^&=%]{0,24}+="
    ).encode()
)
"""In small letters, in what is no JSON (a form, its parts, what a lenient server reads as JSON): a
name that may be a credential's, or that is spelled in escapes."""
_HINT: Final = re.compile(
    r"key|token|secret|auth|pass|pw|cred|sig|jwt|cookie|bearer|hmac|account|assert|extra|otp|pin|sess"
    r"|sid"
)
"""Each of them has one of these: most names are told by it at once."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN: Final = str.maketrans("_. :/", "-----")
UNLISTED: Final = "*"
"""In a record, in place of a name that neither the configuration nor a list of ours has."""
MOST: Final = 64
"""Characters. A longer name is no parameter of anybody; it is not looked at, and taken for one."""


def dashed(name: str) -> str:
    """In small letters and with dashes."""
    return name.lower().translate(_BETWEEN).strip("-")


def credential(name: str) -> str:
    """Its word in `SECRETS`, or `UNLISTED`, where it is a credential's; else ''. At most 25 µs."""
    if len(name) > MOST:
        return UNLISTED
    whole = dashed(name)
    if _HINT.search(whole) is None:
        return ""
    if whole in SECRETS:
        return whole
    humps = whole if name.islower() else dashed(_HUMP.sub("-", name))
    if humps in SECRETS:
        return humps
    return UNLISTED if _opens(whole) or (humps != whole and _opens(humps)) else ""


def _opens(name: str) -> bool:
    if name.rstrip("0123456789-").rpartition("-")[2] in _LAST:
        return _PARAMETER.fullmatch(name) is None
    return _HELD.search(name.replace("-", "")) is not None
