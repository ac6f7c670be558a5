"""A coding is undone read by read, within a bound, and each byte keeps the time of its read."""

import gzip
import zlib
from contextlib import suppress

import brotli
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.content_coding import CodingError, CodingUnread, undo

TEXT = b"".join(b"data: %d\n\n" % n for n in range(400))


def raw_deflate(data):
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


CODED = {
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT[:900]) + gzip.compress(TEXT[900:]),
    "GZIP": gzip.compress(TEXT) + b"\0" * 40,
    "deflate": zlib.compress(TEXT),
    "deflate ": raw_deflate(TEXT),
    "zstd": zstd.compress(TEXT),
    "zstd,": zstd.compress(TEXT[:900]) + zstd.compress(TEXT[900:]),
    "br": brotli.compress(TEXT),
    "gzip, br": brotli.compress(gzip.compress(TEXT)),
    "deflate, gzip": gzip.compress(zlib.compress(TEXT)),
    "identity": TEXT,
    "": TEXT,
}


@pytest.mark.parametrize("coding", CODED)
def test_whole_and_byte_by_byte(coding):
    """Members, padding, bare deflate, layers: the same bytes however they came, marks in step."""
    coded = CODED[coding]
    assert undo(coding, coded, [(7, len(coded))]).body == TEXT
    plain = undo(coding, coded, [(n, n + 1) for n in range(len(coded))])
    assert plain.body == TEXT
    ends = [end for _, end in plain.marks]
    assert ends == sorted(ends)
    assert ends[-1] == len(TEXT)


def flushed_gzip(texts):
    compressor = zlib.compressobj(wbits=31)
    return [compressor.compress(text) + compressor.flush(zlib.Z_SYNC_FLUSH) for text in texts]


def flushed_brotli(texts):
    compressor = brotli.Compressor()
    return [compressor.process(text) + compressor.flush() for text in texts]


@pytest.mark.parametrize(("coding", "flushed"), [("gzip", flushed_gzip), ("br", flushed_brotli)])
def test_a_flush_gives_each_read_its_own_bytes(coding, flushed):
    """What a read lets out gets that read's mark."""
    pieces = flushed(b"event %d\n\n" % n for n in range(3))
    body, marks = b"".join(pieces), []
    for n, piece in enumerate(pieces):
        marks.append((n * 100, (marks[-1][1] if marks else 0) + len(piece)))
    assert undo(coding, body, marks).marks == [(0, 9), (100, 18), (200, 27)]


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_an_early_end_gives_what_there_is(coding):
    """Truncated at every byte: a beginning of the text, no error."""
    coded = CODED[coding]
    for cut in range(len(coded)):
        assert TEXT.startswith(undo(coding, coded[:cut], [(1, cut)]).body)


COMPRESS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=4),
    "zstd": zstd.compress,
}


@pytest.mark.parametrize("coding", COMPRESS)
def test_a_bomb_is_cut(coding):
    """100 MB in 100 kB: refused at the bound, without unfolding it."""
    compress = COMPRESS[coding]
    bomb = compress(b"\0" * 100_000_000)
    with pytest.raises(CodingUnread, match="beyond its bound"):
        undo(coding, bomb, [(1, len(bomb))], most=1_000_000)
    assert len(undo(coding, compress(b"x" * 1000), [], most=1000).body) == 1000


def test_what_cannot_be_undone_says_so():
    """Unknown names, too many layers, and damage."""
    for coding in ("lzma", "compress", "gzip, lzma", "gzip, gzip, gzip, gzip"):
        with pytest.raises(CodingUnread, match="content coding"):
            undo(coding, b"x", [])
    for coding in ("gzip", "deflate", "br", "zstd"):
        with pytest.raises(CodingError, match=f"damaged {coding}"):
            undo(coding, b"\x07 this is not what it says", [])


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=100), st.sampled_from(["gzip", "deflate", "br", "zstd"]), st.integers(0, 80)
)
def test_junk_in_good_bytes(junk, coding, at):
    """Only the two exceptions ever come out."""
    coded = CODED[coding][:at] + junk + CODED[coding][at:]
    with suppress(CodingError, CodingUnread):
        undo(coding, coded, [(1, 5), (2, len(coded))], most=10_000)
