"""What each key may say alone, but not beside another: ports, folders and bounds that collide."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from shadow.config.ends import EmbeddedStore, EmbeddedStream
from shadow.config.moments import show_moment
from shadow.config.units import show_bytes, show_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shadow.config.model import Config
    from shadow.config.units import Address

_EVERY_HOST = {"0.0.0.0", "::"}  # noqa: S104 compared with, not listened on
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


_PROCESS = {"listen": 1, "admin.health": 1, "admin.collector": 2, "store.listen": 2}
"""Which process listens there: proxy, collector, or else the analysis."""


def consistent(config: Config, *, one_machine: bool = False) -> None:
    """Nothing, where all of it can be true at once.

    Args:
        config: checked key by key.
        one_machine: whether all processes share its ports. They do where stream or store is
            embedded; else each may run in a pod of its own.

    Raises:
        ValueError: the first collision, as one line with the keys' paths.
    """
    embedded = isinstance(config.stream, EmbeddedStream) or isinstance(config.store, EmbeddedStore)
    ports = _ports(config, one_machine=one_machine or embedded)
    for said in (
        *ports,
        *_folders(config),
        *_term(config),
        *_loops(config),
        *_bounds(config),
        *_ages(config),
        *_parts(config),
    ):
        raise ValueError(said)


def listeners(config: Config) -> Iterator[tuple[str, Address, int]]:
    """(key, address, how many ports from there on); port 0 is chosen by the system."""
    yield "listen", config.listen, 1
    yield "admin.health", config.admin.health, config.workers
    for name in ("collector", "analysis", "control"):
        address: Address | None = getattr(config.admin, name)
        if address is not None:
            yield f"admin.{name}", address, 1
    if isinstance(config.store, EmbeddedStore):
        yield "store.listen", config.store.listen, 1


def _ports(config: Config, *, one_machine: bool) -> Iterator[str]:
    for (one, a, ports), (other, b, more) in combinations(listeners(config), 2):
        if not one_machine and _PROCESS.get(one) != _PROCESS.get(other):
            continue
        met = a.port < b.port + more and b.port < a.port + ports
        if a.port and b.port and met and _same_host(a.host, b.host):
            yield f"{other}: {b} is taken by {one} ({a}{_workers(config, one, other)})"


def _workers(config: Config, *keys: str) -> str:
    several = config.workers > 1 and "admin.health" in keys
    return f"; admin.health takes {config.workers} ports, one a worker" if several else ""


def _same_host(one: str, other: str) -> bool:
    return one == other or bool({one, other} & _EVERY_HOST) or {one, other} <= _LOOPBACK


def _folders(config: Config) -> Iterator[str]:
    places = [("state", config.state)]
    if isinstance(config.stream, EmbeddedStream):
        places.append(("stream.embedded", config.stream.embedded))
    else:
        places.append(("stream.kafka.spill", config.stream.kafka.spill))
    if isinstance(config.store, EmbeddedStore):
        places.append(("store.embedded", config.store.embedded))
    for (one, a), (other, b) in combinations(places, 2):
        if _absolute(a) == _absolute(b):
            yield f"{other}: {b} is the folder of {one}; each needs its own"


def _absolute(path: Path) -> Path:
    return Path.cwd() / path


def _loops(config: Config) -> Iterator[str]:
    upstreams = {"primary": config.primary, **{f"arms.{k}": arm for k, arm in config.arms.items()}}
    for name, upstream in upstreams.items():
        parts = urlsplit(upstream.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        near = {parts.hostname, config.listen.host} <= _LOOPBACK | _EVERY_HOST
        if port == config.listen.port and (near or parts.hostname == config.listen.host):
            yield f"{name}.url: {upstream.url} is where the proxy itself listens ({config.listen})"


def _term(config: Config) -> Iterator[str]:
    """An experiment starts before it stops, and the store remembers all of it."""
    start, stop = config.start_at, config.stop_at.time
    if start is None or stop is None:
        return
    kept_s = config.retention.measures
    if start >= stop:
        yield f"start_at: {show_moment(start)} is not before stop_at.time, {show_moment(stop)}"
    elif (stop - start).total_seconds() > kept_s:
        yield (
            f"retention.measures: {show_duration(kept_s)} is shorter than from start_at to"
            f" stop_at.time, {stop - start}: answers would leave the store before they are judged"
        )


def _ages(config: Config) -> Iterator[str]:
    """Rows that leave the store while their experiment goes on would count as lost."""
    hours, kept_s = config.stop_at.hours, config.retention.measures
    if hours is not None and hours * 3600 > kept_s:
        yield (
            f"retention.measures: {show_duration(kept_s)} is shorter than stop_at.hours, {hours:g}:"
            " answers would leave the store before they are judged"
        )


def _parts(config: Config) -> Iterator[str]:
    """Each worker has its part of what an arm may have open, and none has less than one."""
    bounds = {f"arms.{name}": arm.concurrency for name, arm in config.arms.items()}
    if config.attach == "tap":
        bounds["primary"] = config.primary.concurrency
    for name, bound in bounds.items():
        if bound < config.workers:
            few = f"{bound} is less than one for each of {config.workers} workers"
            yield f"{name}.concurrency: {few}"


def _bounds(config: Config) -> Iterator[str]:
    limits = config.limits
    for name in ("request_bytes", "queue_bytes"):
        bound: int = getattr(limits, name)
        if bound > limits.mirror_bytes:
            yield (
                f"limits.{name}: {show_bytes(bound)} is more than limits.mirror_bytes, "
                f"{show_bytes(limits.mirror_bytes)}, which holds it"
            )
