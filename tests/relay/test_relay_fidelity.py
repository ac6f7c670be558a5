"""What passes the relay is identical: one test for each sentence of the contract's first part."""

from __future__ import annotations

import asyncio

import pytest
from relay.raw import answering, client, in_loop, proxy, until, upstream

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"

TARGETS = [
    b"/",
    b"/a/../b/./c",
    b"//double//slash/",
    b"/%7Euser/%2e%2E/%2f",
    b"/%aB%Cd",
    b"/?",
    b"/a?",
    b"/a?b=c&b=d&=&&e",
    b"/a?q=%20+%2B",
    b"/a;v=1;w",
    b"/a#fragment",
    b"/caf\xc3\xa9",
    b'/[x]{y}|z^`"<>\\',
    b"*",
    b"http://other:81/p?q",
    b"/" + b"a" * 9000,
]


async def passed(head: bytes, answer: bytes = OK, read: int | None = None, **settings):
    """(what the upstream got, what the client got) of one request."""
    async with (
        upstream(answering(answer)) as primary,
        proxy(primary.url, **settings) as stage,
        client(stage.port) as user,
    ):
        await user.write(head)
        size = len(answer) if read is None else read
        got = await user.exactly(size) if size else await user.rest()
        received = primary.connections[0].received if primary.connections else b""
        return received, got


@pytest.mark.parametrize("target", TARGETS)
@in_loop
async def test_targets_are_byte_identical(target):
    """A request target arrives as it was sent, however odd."""
    request = b"OPTIONS " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n"
    got, answer = await passed(request)
    assert got == request
    assert answer == OK


@in_loop
async def test_fields_keep_order_spelling_repeats_and_bytes():
    """End-to-end fields pass untouched both ways: case, order, repeats, white space, odd bytes."""
    fields = (
        b"X-B: 2\r\nx-a:1\r\nX-B:   3  \r\nACCEPT: */*\r\nx-Odd: caf\xe9 \xff\xfe\r\nEmpty:\r\n"
    )
    big = b"X-Big: " + b"v" * 20000 + b"\r\n"
    request = b"GET /p HTTP/1.1\r\nhOsT: h\r\n" + fields + big + b"\r\n"
    answer = b"HTTP/1.1 207 What's  This\xe9\r\n" + fields + b"content-LENGTH: 2\r\n\r\nok"
    got, back = await passed(request, answer)
    assert got == request
    assert back == answer


@in_loop
async def test_unregistered_methods_pass():
    """A method is any token."""
    request = b"FROB /x HTTP/1.1\r\nHost: h\r\n\r\n"
    assert (await passed(request))[0] == request


@pytest.mark.parametrize(
    "line", [b"HTTP/1.1 200 ", b"HTTP/1.1 200", b"HTTP/1.1 599 Odd", b"HTTP/1.1 200 \xc3\xa9"]
)
@in_loop
async def test_status_and_reason_are_identical(line):
    """Any status, any reason, none at all."""
    answer = line + b"\r\nContent-Length: 2\r\n\r\nok"
    assert (await passed(GET, answer))[1] == answer


@in_loop
async def test_coded_bodies_stay_coded():
    """A gzip upload and a gzip answer are opaque bytes."""
    body = b"\x1f\x8b\x08\x00not really"
    head = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    request = b"POST /v1/x HTTP/1.1\r\nHost: h\r\n" + head + body
    answer = b"HTTP/1.1 200 OK\r\n" + head + body
    got, back = await passed(request, answer)
    assert got == request
    assert back == answer


@in_loop
async def test_hop_by_hop_fields_stay_on_their_hop():
    """Connection, what it names, Keep-Alive, Proxy-Connection, TE, Upgrade end here, both ways."""
    hop = (
        b"Connection: keep-alive, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\n"
        b"Proxy-Connection: keep-alive\r\nTE: trailers\r\nUpgrade: foo\r\n"
    )
    got, back = await passed(
        b"GET / HTTP/1.1\r\nHost: h\r\n" + hop + b"X-Yours: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + hop + b"X-Yours: 2\r\nContent-Length: 2\r\n\r\nok",
        read=len(b"HTTP/1.1 200 OK\r\nX-Yours: 2\r\nContent-Length: 2\r\n\r\nok"),
    )
    assert got == b"GET / HTTP/1.1\r\nHost: h\r\nX-Yours: 2\r\n\r\n"
    assert back == b"HTTP/1.1 200 OK\r\nX-Yours: 2\r\nContent-Length: 2\r\n\r\nok"


@in_loop
async def test_connection_cannot_name_the_framing_away():
    """`Connection: content-length, host` takes neither away."""
    request = b"POST / HTTP/1.1\r\nHost: h\r\nConnection: Content-Length, host\r\nContent-Length: 2\r\n\r\nhi"
    assert (await passed(request))[0] == request.replace(
        b"Connection: Content-Length, host\r\n", b""
    )


CHUNKED = b"3;ext=1\r\nabc\r\n0A\r\n0123456789\r\n0\r\nX-Trailer: t\r\n\r\n"


@in_loop
async def test_chunks_and_trailers_pass_as_they_came():
    """Between two 1.1 sides chunk boundaries, extensions and trailers are the same bytes."""
    request = (
        b"POST /x HTTP/1.1\r\nHost: h\r\nTrailer: X-Trailer\r\nTransfer-Encoding: chunked\r\n\r\n"
        + CHUNKED
    )
    answer = (
        b"HTTP/1.1 200 OK\r\nTrailer: X-Trailer\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED
    )

    async def script(connection):
        await connection.until(b"X-Trailer: t\r\n\r\n")
        await connection.write(answer)

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(request)
        assert await user.exactly(len(answer)) == answer
        assert primary.connections[0].received == request


@in_loop
async def test_chunks_arrive_when_they_are_sent():
    """A chunk is passed at once, not when the message is whole."""
    gate = asyncio.Event()

    async def script(connection):
        await connection.request()
        await connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        await gate.wait()
        await connection.write(b"1\r\nb\r\n0\r\n\r\n")

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(GET)
        await user.until(b"1\r\na\r\n")
        gate.set()
        assert await user.until(b"0\r\n\r\n") == b"1\r\nb\r\n0\r\n\r\n"


@in_loop
async def test_a_1_0_client_gets_the_body_dechunked_and_a_close():
    """Towards upstreams always 1.1; a 1.0 client gets no chunks, no trailers, no 1xx, and a close."""
    answer = (
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED
    )
    got, back = await passed(b"GET /p HTTP/1.0\r\nX: 1\r\n\r\n", answer, read=0)
    assert got.startswith(b"GET /p HTTP/1.1\r\nX: 1\r\nHost: 127.0.0.1:")
    assert back == b"HTTP/1.1 200 OK\r\nX: y\r\nConnection: close\r\n\r\nabc0123456789"


@in_loop
async def test_a_1_0_upstream_is_heard():
    """An answer in HTTP/1.0 without a length ends with its connection; ours says 1.1."""
    answer = b"HTTP/1.0 200 Fine\r\nX: y\r\n\r\nbody"
    async with (
        upstream(answering(answer, keep=False)) as primary,
        proxy(primary.url) as stage,
        client(stage.port) as user,
    ):
        await user.write(GET)
        assert await user.rest() == b"HTTP/1.1 200 Fine\r\nX: y\r\nConnection: close\r\n\r\nbody"


@pytest.mark.parametrize(
    ("request_head", "answer_head"),
    [
        (b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
        (
            b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
        (GET, b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n"),
        (GET, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\nETag: e\r\n\r\n"),
    ],
)
@in_loop
async def test_answers_without_a_body(request_head, answer_head):
    """HEAD, 204 and 304 end with their head, and the connection serves the next request."""
    async with (
        upstream(answering(answer_head)) as primary,
        proxy(primary.url) as stage,
        client(stage.port) as user,
    ):
        for _ in range(2):
            await user.write(request_head)
            assert await user.until(b"\r\n\r\n") == answer_head
        assert len(primary.connections) == 1


@in_loop
async def test_100_continue_and_103_pass():
    """The client's Expect reaches the upstream, its 100 and 103 reach the client, then the upload."""

    async def script(connection):
        head = await connection.until(b"\r\n\r\n")
        assert b"Expect: 100-continue" in head
        await connection.write(b"HTTP/1.1 100 Continue\r\nX-A: 1\r\n\r\n")
        assert await connection.exactly(5) == b"hello"
        await connection.write(b"HTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\n" + OK)

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(
            b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        )
        assert await user.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\nX-A: 1\r\n\r\n"
        await user.write(b"hello")
        assert await user.until(b"\r\n\r\n") == b"HTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\n"
        assert await user.exactly(len(OK)) == OK


@in_loop
async def test_a_redirect_and_cookies_are_only_passed():
    """Nothing is followed, kept or added."""
    answer = b"HTTP/1.1 302 Found\r\nLocation: /x\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n"
    assert (await passed(GET, answer))[1] == answer


@in_loop
async def test_no_hidden_body_limit():
    """12 MiB up and down pass whole, whatever the mirror's caps."""
    body = bytes(range(256)) * 4096 * 12
    head = b"Content-Length: %d\r\n\r\n" % len(body)
    got, back = await passed(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n" + head + body,
        b"HTTP/1.1 200 OK\r\n" + head + body,
    )
    assert got.endswith(body)
    assert back.endswith(body)


BAD = {
    "length and coding": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
    "two lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n",
    "two equal lengths": b"Content-Length: 2\r\nContent-Length: 2\r\n",
    "an odd length": b"Content-Length: +2\r\n",
    "a list of lengths": b"Content-Length: 2, 2\r\n",
    "gzip, chunked": b"Transfer-Encoding: gzip, chunked\r\n",
    "identity": b"Transfer-Encoding: identity\r\n",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "folding": b"X: a\r\n b\r\n",
    "bare LF": b"X: a\nY: b\r\n",
    "bare CR": b"X: a\rb\r\n",
    "NUL": b"X: a\x00b\r\n",
    "space before the colon": b"X : a\r\n",
    "two hosts": b"Host: other\r\n",
    "no colon": b"nonsense\r\n",
}


@pytest.mark.parametrize("name", BAD)
@in_loop
async def test_ambiguous_requests_are_refused(name):
    """400 and close, and the upstream never hears of it."""
    got, back = await passed(
        b"POST / HTTP/1.1\r\nHost: h\r\n" + BAD[name] + b"\r\n0\r\n\r\n", read=0
    )
    assert back.startswith(b"HTTP/1.1 400 ")
    assert b"Connection: close" in back
    assert got == b""


@in_loop
async def test_a_1_1_request_names_its_host():
    """None in 1.1: 400; in 1.0 it may be missing."""
    assert (await passed(b"GET / HTTP/1.1\r\n\r\n", read=0))[1].startswith(b"HTTP/1.1 400 ")


@in_loop
async def test_a_bare_lf_head_is_refused_at_once():
    """A head in bare LF never ends by our reading: it is not waited for."""
    assert (await passed(b"GET / HTTP/1.1\nHost: h\n\n", read=0))[1].startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(("size", "status"), [(65000, b"200"), (66000, b"431"), (300000, b"431")])
@in_loop
async def test_fields_up_to_64_kib(size, status):
    """Up to 64 KiB pass, beyond it 431."""
    request = b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"v" * size + b"\r\n\r\n"
    back = (await passed(request, read=12))[1]
    assert back == b"HTTP/1.1 " + status


@in_loop
async def test_a_broken_upload_ends_before_its_breach():
    """A malformed chunk is answered 400; what was judged good went on, the breach did not."""
    async with (
        upstream(answering(OK)) as primary,
        proxy(primary.url) as stage,
        client(stage.port) as user,
    ):
        await user.write(
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
        )
        await until(lambda: primary.connections)
        await until(lambda: primary.connections[0].received.endswith(b"a\r\n"))
        await user.write(b"0x1\r\nb\r\n0\r\n\r\n")
        assert (await user.rest()).startswith(b"HTTP/1.1 400 ")
        assert primary.connections[0].received.endswith(b"1\r\na\r\n")


LENIENT = {
    "length and coding": (
        b"Content-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\na\r\n0\r\n\r\n",
    ),
    "folding": (
        b"X: a\r\n \t b\r\nContent-Length: 1\r\n\r\na",
        b"X: a b\r\nContent-Length: 1\r\n\r\na",
    ),
    "equal lengths": (
        b"Content-Length: 1\r\nX: y\r\ncontent-length: 1\r\n\r\na",
        b"Content-Length: 1\r\nX: y\r\n\r\na",
    ),
    "equal lengths in one field": (
        b"Content-Length: 1, 1\r\n\r\na",
        b"Content-Length: 1\r\n\r\na",
    ),
    "space before the colon": (
        b"Content-Length : 1\r\n\r\na",
        b"Content-Length: 1\r\n\r\na",
    ),
    "a line that is no field": (
        b"what is this\r\nContent-Length: 1\r\n\r\na",
        b"what is this\r\nContent-Length: 1\r\n\r\na",
    ),
    "sloppy chunks": (
        b"Transfer-Encoding: Chunked\r\n\r\n1 ;x\r\na\r\n0  \r\n\r\n",
        b"Transfer-Encoding: Chunked\r\n\r\n1 ;x\r\na\r\n0  \r\n\r\n",
    ),
}


@pytest.mark.parametrize("name", LENIENT)
@in_loop
async def test_answers_are_read_leniently(name):
    """No client gets an error that it would not have had: one reading is chosen, and passed on."""
    came, expected = LENIENT[name]
    got = (await passed(GET, b"HTTP/1.1 200 OK\r\n" + came, read=17 + len(expected)))[1]
    assert got == b"HTTP/1.1 200 OK\r\n" + expected


@in_loop
async def test_answers_in_bare_lf():
    """Line ends of an answer's head may be bare LF; the client gets CRLF."""
    got = (await passed(GET, b"HTTP/1.1 200 OK\nContent-Length: 4\n\n\r\n\r\n", read=42))[1]
    assert got == b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\r\n\r\n"


@in_loop
async def test_length_beside_coding_ends_both_connections():
    """Chunked wins and the length goes; neither connection serves another request."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    async with upstream(answering(answer)) as primary, proxy(primary.url) as stage:
        for _ in range(2):
            async with client(stage.port) as user:
                await user.write(GET)
                assert (await user.rest()).endswith(b"Connection: close\r\n\r\n0\r\n\r\n")
        assert len(primary.connections) == 2


NO_FRAMING = {
    "no status line": b"hello there\r\n\r\n",
    "differing lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "an odd length": b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nab",
    "HTTP/2": b"HTTP/2 200 OK\r\n\r\n",
    "a 101 that nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
}


@pytest.mark.parametrize("name", NO_FRAMING)
@in_loop
async def test_502_only_without_framing(name):
    """502 where no framing can be found, and it is counted."""
    async with (
        upstream(answering(NO_FRAMING[name])) as primary,
        proxy(primary.url) as stage,
        client(stage.port) as user,
    ):
        await user.write(GET)
        assert (await user.rest()).startswith(b"HTTP/1.1 502 ")
        assert stage.totals.bad_upstream_framing == 1


@in_loop
async def test_connect_is_501():
    """CONNECT is not spoken here, whatever follows it."""
    got, back = await passed(b"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n\x16\x03", read=0)
    assert back.startswith(b"HTTP/1.1 501 ")
    assert got == b""


@in_loop
async def test_other_versions_are_505():
    """Only 1.0 and 1.1 are spoken here."""
    got, back = await passed(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", read=0)
    assert back.startswith(b"HTTP/1.1 505 ")
    assert got == b""


@in_loop
async def test_pipelined_requests_are_answered_in_order():
    """Three requests in one segment, with bodies, answered one after the other, on one connection."""

    async def script(connection):
        while True:
            head, body = await connection.request()
            text = head.split(b" ")[1] + b"=" + body
            await connection.write(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text
            )

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        await user.write(
            b"\r\n".join(
                b"POST /%d HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n%d" % (n, n)
                for n in range(3)
            )
        )
        for n in range(3):
            assert (await user.request())[1] == b"/%d=%d" % (n, n)
        assert len(primary.connections) == 1


@in_loop
async def test_byte_by_byte():
    """A request and an answer that come one byte at a time are the same as whole ones."""
    request = b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED

    async def script(connection):
        await connection.until(b"X-Trailer: t\r\n\r\n")
        for at in range(len(answer)):
            await connection.write(answer[at : at + 1])
            await asyncio.sleep(0)

    async with upstream(script) as primary, proxy(primary.url) as stage, client(stage.port) as user:
        for at in range(len(request)):
            await user.write(request[at : at + 1])
            await asyncio.sleep(0)
        assert await user.exactly(len(answer)) == answer
        assert primary.connections[0].received == request
