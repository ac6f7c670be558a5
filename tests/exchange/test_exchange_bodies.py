"""A body's wire form is a RFC 1950 stream at every size, however it was made."""

from __future__ import annotations

import base64
import random
import zlib

import pytest

from shadow.exchange import STORED_BYTES, deflated

SIZES = [
    0,
    1,
    STORED_BYTES - 1,
    STORED_BYTES,
    STORED_BYTES + 1,
    32_768,
    32_769,
    65_535,
    65_536,
    65_537,
    200_000,
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["text", "noise"])
def test_any_inflater_reads_it(size, kind):
    """Stored, compressed with small tables or with full ones: zlib itself reads all three."""
    text = (b'data: {"choices":[{"delta":{"content":" word"}}]}\n\n' * (size // 40 + 1))[:size]
    body = text if kind == "text" else random.Random(size).randbytes(size)
    stream = base64.b64decode(deflated(body), validate=True)
    assert zlib.decompress(stream) == body
    assert len(stream) <= size + size // 300 + 64
