"""Framing: the same pieces, the same end, the same refusal, however the bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.relay import framing as framing_module
from shadow.relay.fields import CHUNKED, UNTIL_CLOSE
from shadow.relay.framing import Chunked, FramingError, answer_framing, request_framing


def follow(framing, data: bytes, cuts: tuple[int, ...] = ()):
    """(body, consumed, done), or the word 'refused'."""
    pieces: list[bytes] = []
    consumed = 0
    edges = [0, *cuts, len(data)]
    try:
        for begin, end in itertools.pairwise(edges):
            if end > begin and not framing.done:
                consumed += framing.feed(data[begin:end], pieces)
    except FramingError:
        return "refused"
    return b"".join(pieces), consumed, framing.done


GOOD = [
    b"0\r\n\r\nnext",
    b"5\r\nhello\r\n0\r\n\r\nnext",
    b"5;a=b;c\r\nhello\r\nA\r\n0123456789\r\n000\r\nT: v\r\nU: w\r\n\r\nnext",
    b'1;q="a b"\r\n\r\r\n2\r\n\r\n\r\n0\r\n\r\n',
]
BAD = [
    b"\r\n",
    b"x\r\n",
    b"0x5\r\nhello\r\n",
    b"+5\r\nhello\r\n",
    b"-5\r\nhello\r\n",
    b"5_0\r\n",
    b" 5\r\nhello\r\n",
    b"5 \r\nhello\r\n",
    b"5\nhello\r\n",
    b"5\r\nhello\n0\r\n\r\n",
    b"5\r\nhelloo\r\n",
    b"5\r\nhell\r\n0\r\n\r\n",
    b"5;\r\nhello\r\n",
    b"5;a=\x00\r\nhello\r\n",
    b"11111111111111111\r\n",
    b"0\r\n\n",
    b"0\r\nno field\r\n\r\n",
    b"0\r\nContent-Length: 1\r\n\r\n",
    b"0\r\nHost: h\r\n\r\n",
    b"0\r\n folded\r\n\r\n",
    b"0\r\nA: \x00\r\n\r\n",
]
LENIENT = [
    b"5 \r\nhello\r\n0\r\n\r\n",
    b"5\nhello\n0\n\n",
    b"5;what ever\r\nhello\r\n0 \r\n\r\n",
    b"0\r\nanything\r\n\r\n",
]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("data", GOOD + BAD + LENIENT)
def test_every_cut_of_chunks(data, strict):
    """Two-way splits and byte by byte: what the whole gives."""

    def fresh():
        return Chunked(strict=strict, trailer_bytes=100)

    expected = follow(fresh(), data)
    for at in range(1, len(data)):
        assert follow(fresh(), data, (at,)) == expected
    assert follow(fresh(), data, tuple(range(1, len(data)))) == expected


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("data", GOOD + BAD + LENIENT)
def test_a_size_that_was_seen_before_is_read_as_one_that_was_not(data, strict, monkeypatch):
    """Size lines are remembered by their spelling: what is refused stays refused, cut anywhere."""

    def fresh():
        return Chunked(strict=strict, trailer_bytes=4096)

    for cut in range(1, len(data)):
        monkeypatch.setattr(framing_module, "_sizes", {})
        first = follow(fresh(), data, (cut,))
        assert follow(fresh(), data) == first
        assert follow(fresh(), data, (cut,)) == first


def test_no_more_sizes_are_remembered_than_there_is_room_for(monkeypatch):
    """A client cannot fill the memory with them."""
    sizes: dict[bytes, int] = {}
    monkeypatch.setattr(framing_module, "_sizes", sizes)
    framing = Chunked(strict=True, trailer_bytes=4096)
    for length in range(1, 5000):
        framing.feed(b"%x\r\n" % length + b"x" * length + b"\r\n", [])
    assert len(sizes) == 4096


@pytest.mark.parametrize("data", GOOD)
def test_good_chunks(data):
    """Sizes, extensions, trailers; what follows is not consumed."""
    body, consumed, done = follow(Chunked(strict=True, trailer_bytes=100), data)
    assert done
    assert data[consumed:] in {b"next", b""}
    assert body in {b"", b"hello", b"hello0123456789", b"\r\r\n"}


@pytest.mark.parametrize("data", BAD)
def test_bad_chunks_are_refused_in_requests(data):
    """Everything that another parser might read differently."""
    assert follow(Chunked(strict=True, trailer_bytes=100), data) == "refused"


@pytest.mark.parametrize("data", LENIENT)
def test_sloppy_chunks_pass_in_answers_only(data):
    """White space after a size, bare LF, odd extensions and trailers."""
    assert follow(Chunked(strict=True, trailer_bytes=100), data) == "refused"
    assert follow(Chunked(strict=False, trailer_bytes=100), data)[2]


def test_trailers_and_lines_are_bounded():
    """A line or a trailer section that does not end is refused, whole or in pieces."""
    for data in (b"0\r\n" + b"A: b\r\n" * 100, b"5;" + b"a" * 5000, b"0\r\nA: " + b"b" * 200):
        for cuts in ((), tuple(range(1, len(data)))):
            assert follow(Chunked(strict=True, trailer_bytes=100), data, cuts) == "refused"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    st.lists(st.integers(1, 300), max_size=8),
    st.booleans(),
)
def test_any_body_comes_back(chunks, cuts, strict):
    """De-chunking undoes chunking for any body, any chunks, any cuts."""
    data = b"".join(b"%X\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    where = tuple(sorted({cut for cut in cuts if cut < len(data)}))
    framing = Chunked(strict=strict, trailer_bytes=100)
    assert follow(framing, data + b"rest", where) == (b"".join(chunks), len(data), True)


@given(st.binary(min_size=1, max_size=30), st.integers(0, 40), st.integers(1, 29))
def test_lengths(data, length, cut):
    """Exactly the length is taken, whole or in two pieces."""
    for cuts in ((), (min(cut, len(data)),)):
        framing = answer_framing(length, 0)
        body, consumed, done = follow(framing, data, cuts)
        assert body == data[:length]
        assert consumed == min(length, len(data))
        assert done == (len(data) >= length)


def test_until_close_takes_everything():
    """And never ends by itself."""
    assert follow(answer_framing(UNTIL_CLOSE, 0), b"abc", (1,)) == (b"abc", 3, False)


def test_requests_without_a_body_have_no_framing():
    """A length of nought is no body."""
    assert request_framing(0, 10) is None
    assert request_framing(CHUNKED, 10) is not None


def test_trailers_are_looked_at_in_slices():
    """As chunks are, and whatever their number: 64 KiB of the shortest held the loop for 22 ms."""
    data = b"0\r\n" + b"a:\r\n" * 16_000 + b"\r\n"
    followed = request_framing(CHUNKED, 65536)
    assert followed is not None
    at = calls = 0
    while not followed.done:
        pieces: list[bytes] = []
        at = followed.feed(data, pieces, at)
        assert not b"".join(pieces)
        calls += 1
    assert at == len(data)
    assert calls >= 16_000 // framing_module.SLICE_CHUNKS
