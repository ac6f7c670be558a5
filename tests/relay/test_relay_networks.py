"""Nothing is sent outside of the named networks: not at the start, not when DNS changes later."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
import structlog
from relay.raw import answering, client, in_loop, proxy, until, upstream

from shadow.config import Config, ConfigError
from shadow.config.choice import NETWORKS, Inside
from shadow.config.document import check
from shadow.relay import addresses
from shadow.relay.addresses import Addresses

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CLOSING = OK.replace(b"Content-Length", b"Connection: close\r\nContent-Length")
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.31.0.1",
        "192.168.1.1",
        "169.254.1.1",
        "::1",
        "fd00::1",
        "fe80::1",
        "fe80::1%eth0",
        "::ffff:10.0.0.1",
    ],
)
def test_what_is_inside_by_default(address):
    """Loopback, RFC 1918, unique local, link-local, and the same as mapped addresses."""
    assert Inside(NETWORKS).address(address)


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "172.32.0.1",
        "172.15.255.255",
        "11.0.0.1",
        "0.0.0.0",
        "2001:4860::1",
        "::ffff:8.8.8.8",
        "::",
        "64:ff9b::a00:1",
        "100.64.0.1",
    ],
)
def test_what_is_outside_by_default(address):
    """Everything else, however it is written."""
    assert not Inside(NETWORKS).address(address)


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("e.corp.example", True),
        ("E.CORP.EXAMPLE.", True),
        ("corp.example", False),
        ("evilcorp.example", False),
        ("corp.example.evil", False),
    ],
)
def test_names_are_vouched_for_by_their_suffix(name, inside):
    """`*.corp.example` is what lies under it, and no name that merely ends alike."""
    assert Inside(["*.corp.example"]).name(name) is inside
    assert not Inside(NETWORKS).name(name)


def configured(url: str, **more: object) -> Config:
    arm = {"role": "candidate", "url": url, "sample": 1.0, "allow_external": False}
    return check(
        {
            "experiment": "e",
            "capture": "full",
            "primary": {"url": "http://203.0.113.1"},
            "arms": {"fp8": arm | {k: more.pop(k) for k in list(more) if k == "allow_external"}},
            "stream": {"embedded": "unused"},
            "store": {"embedded": "unused-store"},
            **more,
        },
        Config,
    )


@pytest.mark.parametrize("host", ["203.0.113.9", "203.0.113.9:8000", "[2001:db8::1]:80"])
def test_a_literal_address_outside_is_refused_at_the_start(host):
    """One line with the key, the address and both ways out; the primary may be anywhere."""
    with pytest.raises(ConfigError) as caught:
        configured(f"http://{host}")
    line = str(caught.value)
    assert line.startswith("arms.fp8.url: ")
    assert "networks" in line
    assert "allow_external: true" in line
    assert configured(f"http://{host}", allow_external=True)
    assert configured(f"http://{host}", networks=["203.0.113.0/24", "2001:db8::/32"])


@pytest.mark.parametrize("network", ["10.0.0.1/8", "nowhere", "*corp", "*.", "", "*"])
def test_a_network_is_one(network):
    """What is neither a network nor a suffix of names is a mistake with its path."""
    with pytest.raises(ConfigError, match=r"^networks\.0: "):
        configured("http://e", networks=[network])


def test_addresses_outside_are_as_if_there_were_none(monkeypatch):
    """Those inside serve, each other one is warned of once; when none is left, none serves."""
    monkeypatch.setattr(addresses, "REFRESH_S", 0.005)
    answers = [["10.0.0.1", "203.0.113.9"]] * 5 + [["203.0.113.9"]] * 10_000
    with structlog.testing.capture_logs() as logs:
        known = Addresses("e.test", 1, lambda *_: answers.pop(0), Inside(NETWORKS).address)
        assert known.first.wait(5)
        seen = [known.rotation()]
        for _ in range(2000):
            seen.append(known.rotation())
            if not seen[-1]:
                break
            asyncio.run(asyncio.sleep(0.001))
        known.close()
    assert seen[0] == ["10.0.0.1"]
    assert seen[-1] == []
    assert {address for each in seen for address in each} == {"10.0.0.1"}
    assert "203.0.113.9" in known.refused
    assert [log["address"] for log in logs] == ["203.0.113.9"]


@asynccontextmanager
async def listening(host: str, port: int, heard: list[object]):
    """Whoever connects there is kept in `heard`."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(writer)
        writer.close()

    server = await asyncio.start_server(accept, host, port)
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()


@in_loop
async def test_a_name_that_moves_outside_is_never_connected_to(monkeypatch):
    """DNS that changes under a running proxy (rebinding): the outside address hears nothing, the
    arm's records say why, the client's answers are as ever."""
    monkeypatch.setattr(addresses, "REFRESH_S", 0.005)
    monkeypatch.setattr(addresses, "RETRY_S", 0.005)
    heard = []
    now = ["127.0.0.1"]
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(CLOSING, keep=False)) as candidate,
        proxy(
            primary.url,
            {"fp8": f"http://e.test:{candidate.port}"},
            lookup=lambda *_: list(now),
            networks=["127.0.0.1/32"],
        ) as stage,
        client(stage.port) as user,
        listening("127.0.0.2", candidate.port, heard),
    ):
        pool = stage.proxy.mirror.arms[0].pool
        for turn, (address, word) in enumerate(
            [
                ("127.0.0.1", "complete"),
                ("127.0.0.2", "connect_failed"),
                ("127.0.0.1", "complete"),
            ]
        ):
            now[0] = address
            await until(lambda a=address: pool.addresses.rotation() == [a] * (a == "127.0.0.1"))
            for _ in range(3):
                await user.write(CHAT)
                assert await user.exactly(len(OK)) == OK
            told = await stage.publisher.wait_for(6 * (turn + 1))
            assert [e.transport for e in told if e.arm == "fp8"][-3:] == [word] * 3
        refused = [e for e in stage.publisher.exchanges if e.transport == "connect_failed"]
    assert len(refused) == 3
    assert all("e.test is at 127.0.0.2, outside of `networks`" in e.error for e in refused)
    assert not heard
    assert len(candidate.connections) == 6


@in_loop
async def test_allow_external_and_a_vouched_name_are_connected_to():
    """Both ways out work, and each is the arm's own."""
    async with (
        upstream(answering(OK)) as primary,
        upstream(answering(OK)) as candidate,
        proxy(
            primary.url,
            {
                "ext": {"url": candidate.url, "allow_external": True},
                "named": f"http://e.corp.example:{candidate.port}",
                "other": f"http://e.test:{candidate.port}",
            },
            lookup=lambda *_: ["127.0.0.1"],
            networks=["192.0.2.0/24", "*.corp.example"],
        ) as stage,
        client(stage.port) as user,
    ):
        await user.write(CHAT)
        assert await user.exactly(len(OK)) == OK
        exchanges = await stage.publisher.wait_for(4)
    assert {e.arm: e.transport for e in exchanges} == {
        "primary": "complete",
        "ext": "complete",
        "named": "complete",
        "other": "connect_failed",
    }
