"""docs/kubernetes.md's cluster in docs/attach.md's configuration: Envoy takes it, and finds shadow healthy."""

from __future__ import annotations

import asyncio
import re
import subprocess
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml
from gateways import gateway
from relay.raw import Connection, upstream

from bench.peers import envoy_path, free_ports

KUBERNETES = gateway.PAGE.with_name("kubernetes.md")


def whole(ports: dict[int, int] | None = None) -> str:
    """The inline configuration with the page's cluster; with `ports`, all of it on this machine."""
    block = re.search(r"```yaml\n# envoy: kubernetes\n(.*?)```", KUBERNETES.read_text(), re.DOTALL)
    assert block is not None
    config = yaml.safe_load(gateway.shown("envoy: inline", {}))
    config["static_resources"]["clusters"] = yaml.safe_load(block[1])
    text = yaml.safe_dump(config)
    if ports is None:
        return text
    for port, free in ports.items():
        text = re.sub(rf"\b{port}\b", str(free), text)
    return re.sub(r"address: (shadow-proxy|engine)\n", "address: 127.0.0.1\n", text)


@pytest.mark.gateway
@pytest.mark.usefixtures("with_envoy")
def test_envoy_takes_it(tmp_path):
    """As it stands on the page."""
    path = tmp_path / "envoy.yaml"
    path.write_text(whole())
    command = [str(envoy_path()), "--mode", "validate", "-c", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr


async def answering(name: bytes, connection: Connection) -> None:
    """200 to all, with the name of who says so."""
    while True:
        try:
            await connection.request()
        except EOFError:
            return
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(name)
        await connection.write(head + name)


async def answers(folder: Path, *, checked: bool) -> bytes:
    """Who answers a client: with a port for the check that answers, and with one that does not."""
    front, closed = free_ports(2)
    shadow, health, engine = (
        upstream(partial(answering, name)) for name in (b"shadow", b"alive", b"engine")
    )
    async with shadow as proxy, health as alive, engine as primary:
        check = alive.port if checked else closed
        ports = {10000: front, 8080: proxy.port, 9091: check, 8000: primary.port}

        def ask() -> bytes:
            url = f"http://127.0.0.1:{front}/v1/models"
            with (
                gateway.envoy_of(folder, whole(ports), front),
                urlopen(url, timeout=10) as answer,
            ):
                return bytes(answer.read())

        return await asyncio.to_thread(ask)


@pytest.mark.gateway
@pytest.mark.usefixtures("with_envoy")
@pytest.mark.parametrize(("checked", "who"), [(True, b"shadow"), (False, b"engine")])
def test_the_second_port_decides(tmp_path, checked, who):
    """Where it answers, clients go through shadow; were it not in the Service, all would go past it."""
    assert asyncio.run(answers(tmp_path, checked=checked)) == who
