"""The framing core against two independent parsers, llhttp (httptools) and h11.

A request that the relay accepts, they frame the same: same method, target and body, the same end.
What either of them finds ambiguous, the relay refuses. SHADOW_FUZZ_SECONDS=600 runs for that long.
"""

from __future__ import annotations

import os
import random
import re
import time
from contextlib import suppress

import h11
import httptools
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shadow.relay.framing import FramingError, request_framing
from shadow.relay.head import BadRequest, RequestReader

SECONDS = float(os.environ.get("SHADOW_FUZZ_SECONDS", "0"))

LINES = [
    b"GET / HTTP/1.1",
    b"POST /v1/chat/completions HTTP/1.1",
    b"POST /a?b=%7E&&c#d HTTP/1.1",
    b"POST /x HTTP/1.0",
    b"PURGE //a/../b HTTP/1.1",
    b"OPTIONS * HTTP/1.1",
    b"GET http://h/p HTTP/1.1",
    b"M-SEARCH /caf\xc3\xa9 HTTP/1.1",
    b"GET  / HTTP/1.1",
    b"GET / HTTP/1.2",
    b"GET / HTTP/2.0",
    b"GET /\tx HTTP/1.1",
    b"G@T / HTTP/1.1",
    b"GET / HTTP/1.1 ",
    b"GET /",
]
FIELDS = [
    b"Host: h",
    b"host:h",
    b"Host : h",
    b"Content-Length: 5",
    b"Content-Length:5",
    b"content-length: 05",
    b"Content-Length: 5, 5",
    b"Content-Length: +5",
    b"Content-Length: -5",
    b"Content-Length: 5_0",
    b"Content-Length: 0x5",
    b"Content-Length:",
    b"Content-Length: 5 ",
    b"Content-Length: \x0b5",
    b"Content-Length: 99999999999999999999",
    b"Content Length: 5",
    b"Content-Length: 0",
    b"Content-Length: 7",
    b"Transfer-Encoding: chunked",
    b"transfer-encoding:CHUNKED",
    b"Transfer-Encoding: chunked ",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding:\x0bchunked",
    b"Transfer-Encoding : chunked",
    b"Transfer_Encoding: chunked",
    b" folded",
    b"\tTransfer-Encoding: chunked",
    b"X: a\r\n b",
    b"X: a\rb",
    b"X: a\nContent-Length: 3",
    b"X: a\x00b",
    b"X: a\x7fb",
    b"X: a\xff\xfeb",
    b"X:",
    b": empty",
    b"Connection: close",
    b"Connection: keep-alive",
    b"Connection: Content-Length",
    b"Connection: Transfer-Encoding",
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Upgrade: h2c",
    b"Expect: 100-continue",
]
BODIES = [
    b"",
    b"hello",
    b"hello world",
    b"0\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"5;a=b\r\nhello\r\n0\r\n\r\n",
    b'5;a="b c"\r\nhello\r\n0\r\n\r\n',
    b"5;\r\nhello\r\n0\r\n\r\n",
    b"5 \r\nhello\r\n0\r\n\r\n",
    b"5\nhello\r\n0\r\n\r\n",
    b"5\r\nhello\n0\r\n\r\n",
    b"5\r\nhelloX\r\n0\r\n\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n",
    b"+5\r\nhello\r\n0\r\n\r\n",
    b"005\r\nhello\r\n000\r\n\r\n",
    b"5\r\nhello\r\n0\r\nT: v\r\n\r\n",
    b"5\r\nhello\r\n0\r\nContent-Length: 3\r\n\r\nabc",
    b"5\r\nhello\r\n0\r\n bad\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\nGET",
    b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n",
]
ODD_BYTES = [b"\r", b"\n", b"\r\n", b" ", b"\t", b"\x00", b"\x0b", b"\x80", b":", b";", b"0", b"_"]


def accepted(stream: bytes) -> list[tuple[bytes, bytes, bytes, bytes, bytes]]:
    """(method, target, body, its bytes, the bytes passed on) of each message that the relay
    accepts, until it refuses one."""
    messages = []
    reader = RequestReader(64 * 1024)
    while stream:
        try:
            found = reader.feed(stream)
            if found is None:
                break
            head, rest = found
            pieces: list[bytes] = []
            end = 0
            framing = request_framing(head.length, 64 * 1024)
            if framing is not None:
                end = framing.feed(rest, pieces)
                if not framing.done:
                    break
        except (BadRequest, FramingError):
            break
        size = len(stream) - len(rest) + end
        passed = head.encode(b"engine") + rest[:end]
        messages.append((head.method, head.target, b"".join(pieces), stream[:size], passed))
        stream = stream[size:]
    return messages


def by_h11(message: bytes) -> tuple[bytes, bytes, bytes, bool]:
    """(method, target, body, whether it ended exactly at the message's end)."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(message)
    method = target = b""
    body = b""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            method, target = event.method, event.target
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return bytes(method), bytes(target), body, connection.trailing_data == (b"", False)
        else:
            return bytes(method), bytes(target), body, False


class Llhttp:
    def __init__(self) -> None:
        self.target = self.body = b""
        self.ended = 0
        self.parser = httptools.HttpRequestParser(self)

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.ended += 1

    def feed(self, data: bytes) -> None:
        with suppress(httptools.HttpParserUpgrade):
            self.parser.feed_data(data)


def by_llhttp(message: bytes) -> tuple[bytes, bytes, bytes, bool]:
    seen = Llhttp()
    seen.feed(message[:-1])
    early = seen.ended
    seen.feed(message[-1:])
    return seen.parser.get_method(), seen.target, seen.body, (early, seen.ended) == (0, 1)


def check(stream: bytes) -> int:
    """Every accepted message means the same to all three; how many there were."""
    messages = accepted(stream)
    for method, target, body, came, passed in messages:
        expected = (method, target, body, True)
        for message in (came.removeprefix(b"\r\n"), passed):  # §2.2 forgives CRLF, h11 does not
            if target.isascii():  # h11's targets are ASCII: its alphabet, not framing
                assert by_h11(message) == expected, message
            # httptools takes what follows any Upgrade for another protocol, a body too
            upgrade = message is not passed and re.search(rb"\nupgrade:", message, re.IGNORECASE)
            if method in KNOWN_TO_LLHTTP and not upgrade:
                with suppress(httptools.HttpParserInvalidURLError):  # its idea of URLs, likewise
                    assert by_llhttp(message) == expected, message
    return len(messages)


KNOWN_TO_LLHTTP = {b"GET", b"POST", b"OPTIONS", b"PURGE", b"M-SEARCH", b"HEAD", b"PUT", b"DELETE"}
"""llhttp refuses other methods: its list of names, not framing."""


@st.composite
def streams(draw) -> bytes:
    """One to three messages, then up to three bytes put in, taken out or changed."""
    data = b""
    for _ in range(draw(st.integers(1, 3))):
        fields = draw(st.lists(st.sampled_from(FIELDS), max_size=5))
        if draw(st.booleans()):
            fields = [b"Host: h", *[f for f in fields if not f.lower().startswith(b"host")]]
        data += b"\r\n".join([draw(st.sampled_from(LINES)), *fields]) + b"\r\n\r\n"
        data += draw(st.sampled_from(BODIES))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        put = draw(st.sampled_from([b"", *ODD_BYTES]))
        data = data[:at] + put + data[at + draw(st.integers(0, 1)) :]
    return data


@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(streams())
def test_three_parsers_agree(stream):
    """Whatever the bytes: what the relay accepts, llhttp and h11 read as the same one message."""
    check(stream)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("field", FIELDS)
def test_every_field_with_every_body(field, body):
    """The catalogue of ambiguities, each alone: accepted only where all three agree."""
    for line in LINES:
        check(line + b"\r\nHost: h\r\n" + field + b"\r\n\r\n" + body)


def test_the_fuzz_reaches_accepted_messages():
    """The comparison is not empty: a plain upload and a chunked one are accepted."""
    for field, body in (
        (b"Content-Length: 5", BODIES[1]),
        (b"Transfer-Encoding: chunked", BODIES[4]),
    ):
        assert check(LINES[1] + b"\r\nHost: h\r\n" + field + b"\r\n\r\n" + body) == 1


def cut_anywhere(stream: bytes, rng: random.Random) -> list[bytes]:
    parts = []
    while stream:
        size = rng.choice([1, 1, 2, 3, 7, len(stream)])
        parts.append(stream[:size])
        stream = stream[size:]
    return parts


def accepted_in_parts(parts: list[bytes]) -> list[tuple[bytes, bytes, bytes]]:
    """As `accepted`, with the bytes coming in parts."""
    messages: list[tuple[bytes, bytes, bytes]] = []
    reader = RequestReader(64 * 1024)
    head = framing = None
    pieces: list[bytes] = []
    try:
        for part in parts:
            data = part
            while True:
                if head is None:
                    found = reader.feed(data) if data else None
                    if found is None:
                        break
                    head, data = found
                    framing = request_framing(head.length, 64 * 1024)
                    pieces = []
                if framing is not None and not framing.done:
                    data = data[framing.feed(data, pieces) :] if data else data
                if framing is not None and not framing.done:
                    break
                messages.append((head.method, head.target, b"".join(pieces)))
                head = framing = None
                if not data:
                    break
    except (BadRequest, FramingError):
        pass
    return messages


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(streams(), st.randoms(use_true_random=False))
def test_splits_change_nothing(stream, rng):
    """However the bytes are cut: the same messages are accepted, up to the same refusal."""
    whole = [message[:3] for message in accepted(stream)]
    assert accepted_in_parts(cut_anywhere(stream, rng)) == whole


@pytest.mark.skipif(not SECONDS, reason="SHADOW_FUZZ_SECONDS is not set")
def test_long_fuzz():
    """For as long as one likes: random streams of the same alphabet, seeds printed on failure."""
    seed = int(os.environ.get("SHADOW_FUZZ_SEED", time.time_ns()))
    rng = random.Random(seed)
    end = time.monotonic() + SECONDS
    reached = 0
    while time.monotonic() < end:
        fields = [b"Host: h", *rng.choices(FIELDS, k=rng.randrange(4))]
        stream = b"\r\n".join([rng.choice(LINES), *fields]) + b"\r\n\r\n" + rng.choice(BODIES)
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(stream) + 1)
            stream = stream[:at] + rng.choice([b"", *ODD_BYTES]) + stream[at + rng.randrange(2) :]
        try:
            reached += check(stream)
            whole = [message[:3] for message in accepted(stream)]
            assert accepted_in_parts(cut_anywhere(stream, rng)) == whole
        except Exception as error:
            raise AssertionError(f"seed {seed}: {stream!r}") from error
    assert reached
