"""What has to be free before a supervisor starts anything: its place, its workers', all ports."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from shadow.config import ConfigError
from shadow.config.consistency import listeners
from shadow.config.units import Address
from shadow.locks import PlaceTaken, lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shadow.config import Config


@contextmanager
def alone(config: Config, command: str) -> Iterator[None]:
    """Hold the place of the one supervisor of this kind in the state folder.

    A folder that cannot be written is the proxy's to judge: it can serve without one.

    Raises:
        ConfigError: it runs here already, or a worker that outlived its supervisor does.
    """
    held = _supervisors_place(config.state, command)
    try:
        for n in range(config.workers):
            _workers_place(config.state, n)
        yield
    finally:
        if held is not None:
            os.close(held)


def _supervisors_place(state: Path, command: str) -> int | None:
    try:
        return lock(state / f"{command}.lock", command)
    except PlaceTaken as taken:
        who = f"process {taken.owner}" if taken.owner else "another process"
        way = f"kill {taken.owner} drains it" if taken.owner else "end it first"
        raise ConfigError(f"{command} ({who}) runs here already (state: {state}); {way}") from None
    except OSError:
        return None


def _workers_place(state: Path, worker: int) -> None:
    """Nobody restarts a worker whose supervisor is gone: its process is the one to end."""
    try:
        with suppress(OSError):
            os.close(lock(state / f"{worker}.lock", f"the worker's place {worker}"))
    except PlaceTaken as taken:
        raise ConfigError(f"state: {taken}") from None


def ports_free(config: Config) -> None:
    """Nothing, where every process can listen: or a gateway would send to a proxy that soon ends.

    Raises:
        ConfigError: the first address that cannot be listened on, by its key.
    """
    for key, address, ports in listeners(config):
        for n in range(ports) if address.port else ():
            _free(key, Address(address.host, address.port + n))


def _free(key: str, address: Address) -> None:
    try:
        family, *_, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:  # as the servers do; who listens by IPv4 is no obstacle
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(place)
            probe.listen()
    except OSError as error:
        from shadow.control import why_not

        raise ConfigError(f"{key}: {address}: {why_not(error)}") from error
