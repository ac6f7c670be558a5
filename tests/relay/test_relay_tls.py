"""https upstreams: verified by the configured authority, with a client's certificate, by name."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from relay.raw import answering, client, in_loop, proxy, upstream

from shadow.config import ConfigError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
POST = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
TLS = Path(__file__).parent / "tls"
TRUST = {"ca": str(TLS / "ca.pem"), "server_name": "engine.test"}
IDENTITY = {"certificate": str(TLS / "client.pem"), "key": str(TLS / "client.key")}


def server_side(*, wants_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "engine.pem", TLS / "engine.key")
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(TLS / "ca.pem")
    return context


async def through(tls: dict[str, str], *, wants_client: bool = False):
    """(what a client got twice over a TLS primary, how many connections that took)."""
    async with upstream(answering(OK), ssl=server_side(wants_client=wants_client)) as primary:
        url = primary.url.replace("http:", "https:")
        async with proxy({"url": url, "tls": tls}) as stage, client(stage.port) as user:
            got = []
            for _ in range(2):
                await user.write(POST)
                got.append(await user.request())
                if b" 502 " in got[0][0]:
                    break
        return got, len(primary.connections)


@in_loop
async def test_verified_by_its_authority_and_name():
    """The configured ca and server_name; the connection is reused like a plain one."""
    got, connections = await through(TRUST)
    assert [body for _, body in got] == [b"ok", b"ok"]
    assert connections == 1


@in_loop
async def test_a_client_s_certificate_is_shown():
    """An upstream that asks for one gets it."""
    got, _ = await through({**TRUST, **IDENTITY}, wants_client=True)
    assert got[1][1] == b"ok"


@pytest.mark.parametrize(
    "tls", [{"ca": TRUST["ca"]}, {"server_name": "engine.test"}], ids=["name", "authority"]
)
@in_loop
async def test_what_does_not_verify_is_a_502(tls, capsys):
    """Another name, or an authority that is not trusted: the operator is told why."""
    got, _ = await through(tls)
    assert got[0][0].startswith(b"HTTP/1.1 502 ")
    assert b"certificate" not in got[0][1].lower()
    said = capsys.readouterr()
    assert "certificate" in (said.out + said.err).lower()


@in_loop
async def test_an_arm_over_tls():
    """Arms use the same connections."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK), ssl=server_side()) as arm,
    ):
        arms = {"fp8": {"url": arm.url.replace("http:", "https:"), "tls": TRUST}}
        async with proxy(primary.url, arms) as stage, client(stage.port) as user:
            await user.write(POST)
            await user.request()
            exchanges = await stage.publisher.wait_for(2)
    assert [exchange.transport for exchange in exchanges] == ["complete", "complete"]


@in_loop
async def test_a_missing_file_stops_the_start():
    """One line that names the key and the file."""
    there = str(TLS / "client.pem")
    for key, files in {
        "ca": {"ca": "/nowhere.pem"},
        "certificate": {"certificate": "/nowhere.pem"},
        "key": {"certificate": there, "key": "/nowhere.pem"},
    }.items():
        said = rf"^primary\.tls\.{key}: /nowhere\.pem: No such file"
        with pytest.raises(ConfigError, match=said):
            async with proxy({"url": "https://127.0.0.1:1", "tls": files}):
                pass


@pytest.mark.parametrize("by", ["url", "server_name"])
@in_loop
async def test_the_name_is_said_in_the_handshake(by):
    """SNI: the URL's host as it is, or the configured server_name; and that name is verified."""
    said = []
    context = server_side()
    context.sni_callback = lambda _socket, name, _context: said.append(name)
    async with upstream(answering(OK), ssl=context) as primary:
        host = "engine.test" if by == "url" else "127.0.0.1"
        tls = {"ca": TRUST["ca"]} if by == "url" else TRUST
        url = f"https://{host}:{primary.port}"
        lookup = lambda *_: ["127.0.0.1"]  # noqa: E731
        async with (
            proxy({"url": url, "tls": tls}, lookup=lookup) as stage,
            client(stage.port) as user,
        ):
            await user.write(POST)
            assert (await user.request())[1] == b"ok"
    assert said == ["engine.test"]
