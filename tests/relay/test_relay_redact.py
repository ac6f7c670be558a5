"""What is recorded of fields and targets: an allow-list."""

from __future__ import annotations

import pytest

from shadow.capture import redact
from shadow.capture.redact import recorded_path, redacted
from shadow.relay.fields import known
from shadow.relay.head import parse_request
from shadow.target import path_of


def test_names_are_remembered_within_bounds():
    """A client that makes up long names fills no memory, neither here nor where heads are read."""
    lines = [b"X-%d-%b: v" % (n, b"y" * 50_000) for n in range(20)]
    for line in lines:
        assert parse_request(b"GET / HTTP/1.1\r\nHost: h\r\n" + line).lines[-1] == line
    assert redacted(lines) == []
    assert max(map(len, known), default=0) <= 64
    assert max(map(len, redact._known), default=0) <= 64


def test_only_the_list_passes():
    """Keys, cookies and unknown fields are never recorded; spelling and order of the rest stay."""
    lines = [
        b"Content-Type: application/json",
        b"AUTHORIZATION: Bearer k",
        b"Set-Cookie: a",
        b"Cookie: a",
        b"X-Api-Key: k",
        b"X-Internal: v",
        b"x-request-ID:  r ",
        b"OpenAI-Processing-Ms: 3",
        b"retry-after: 1",
    ]
    assert redacted(lines) == [
        ("Content-Type", "application/json"),
        ("x-request-ID", "r"),
        ("OpenAI-Processing-Ms", "3"),
        ("retry-after", "1"),
    ]


def test_values_are_cut():
    """At 256 bytes, as latin-1."""
    assert redacted([b"Server: " + b"\xe9" * 300]) == [("Server", "é" * 256)]


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/a/b?key=secret", "/a/b"),
        (b"/a#f", "/a"),
        (b"http://h:1/a?b", "/a"),
        (b"http://user:secret@h", "/"),
        (b"*", "*"),
        (b"/\xff", "/ÿ"),
        (b"/a/../b", "/a/../b"),
    ],
)
def test_paths_lose_their_query(target, path):
    """Queries can hold keys; so can the authority of an absolute target."""
    assert recorded_path(target) == path
    assert path_of(target).decode("latin-1") == path
