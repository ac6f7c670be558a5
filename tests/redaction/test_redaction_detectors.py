"""Every detector finds what it is for, at its exact ends, and leaves alone what only looks like it."""

from __future__ import annotations

import pytest

from shadow.redaction.detectors import builtin
from shadow.redaction.detectors.search import LONG_CHARACTERS

FIND = builtin(("US", "DE"))
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r"

FOUND = [
    ("email", "write to john.doe+x@mail.example.co.uk, please", ["john.doe+x@mail.example.co.uk"]),
    ("email", "<a@b.io>;c_d@e-f.org.", ["a@b.io", "c_d@e-f.org"]),
    ("email", "jörg@müller.de", ["jörg@müller.de"]),
    ("email", "root@[10.0.0.1]", ["root@[10.0.0.1]"]),
    ("phone", "call +49 30 1234567 now", ["+49 30 1234567"]),
    ("phone", "0049 30 1234567", ["0049 30 1234567"]),
    ("phone", "+14155552671,+1 (415) 555-2671", ["+14155552671", "+1 (415) 555-2671"]),
    ("phone", "at (415) 555-2671 12 times", ["(415) 555-2671"]),
    ("phone", "in 2024 415-555-2671", ["415-555-2671"]),
    ("card", "4111 1111 1111 1111 12/27", ["4111 1111 1111 1111"]),
    ("card", "exp 12 5500-0000-0000-0004.", ["5500-0000-0000-0004"]),
    ("card", "378282246310005", ["378282246310005"]),
    ("iban", "pay GB82 WEST 1234 5698 7654 32 AND", ["GB82 WEST 1234 5698 7654 32"]),
    ("iban", "DE89370400440532013000", ["DE89370400440532013000"]),
    ("key", "sk-proj-abcdEFGH1234ijklMNOP", ["sk-proj-abcdEFGH1234ijklMNOP"]),
    ("key", "key=AKIAIOSFODNN7EXAMPLE;", ["AKIAIOSFODNN7EXAMPLE"]),
    ("key", "ghp_0123456789abcdefghijABCDEFGHIJ012345", ["ghp_0123456789abcdefghijABCDEFGHIJ012345"]),
    ("key", "Authorization: Bearer abcdef0123456789abc", ["Bearer abcdef0123456789abc"]),
    ("key", "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", ["-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"]),
    ("jwt", f"token {JWT} end", [JWT]),
    ("ip", "from 10.20.30.40, then", ["10.20.30.40"]),
    ("ip", "at 192.168.0.1.", ["192.168.0.1"]),
    ("ip", "[2001:db8::8a2e:370:7334]:80", ["2001:db8::8a2e:370:7334"]),
    ("ip", "fe80::1 ::1", ["fe80::1", "::1"]),
]  # fmt: skip

NEAR = [
    ("email", "a@b, @name.org, x@y., john @ example.com, user@localhost"),
    ("phone", "2024-05-06 12:30, 3.14159265, 10 000 000 000, +1 23, 4155552671, v1.2.3-4567890"),
    ("phone", "+49 and 000-000-0000 and 555-2671"),
    ("card", "4111 1111 1111 1112, 0000000000000000, 1700000000000000005, 0.4111111111111111"),
    ("card", "x4111111111111111, 4111111111111111x"),
    ("iban", "GB82 WEST 1234 5698 7654 33, DE8937040044053201300, fp16 weights of a model that is"),
    ("key", "sk-learn is a library, gh_pages, AKIA, hf_hub, task-force-of-many-people"),
    ("key", "the bearer of this letter"),
    ("jwt", "eyJhbGci.eyJ.x, eyJub3QiOiJhIGhlYWRlciJ9.eyJzdWIiOiIx.abc"),
    ("ip", "1.2.3, 1.2.3.4.5, 300.1.2.3, v10.0.0.1, 12:30:45, std::vector, a::b, ::"),
]


def said(name: str, text: str) -> list[str]:
    return [text[start:end] for start, end in FIND[name](text) if start < end]


@pytest.mark.parametrize(("name", "text", "wanted"), FOUND)
def test_what_is_one_is_found(name, text, wanted):
    assert said(name, text) == wanted


@pytest.mark.parametrize(("name", "text"), NEAR)
def test_what_only_looks_like_one_is_not(name, text):
    assert said(name, text) == []


@pytest.mark.parametrize(("name", "text", "wanted"), FOUND)
def test_a_long_text_is_searched_alike(name, text, wanted):
    """Beyond the length from which on the search lets go of the interpreter's lock."""
    long = "some words " * (LONG_CHARACTERS // 10) + text + " and more words" * 100
    assert said(name, long) == wanted


def test_a_region_without_telephones_is_a_mistake():
    with pytest.raises(ValueError, match="'XX' is no region"):
        builtin(("XX",))
