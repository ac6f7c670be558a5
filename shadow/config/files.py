"""The files that a configuration names: whether this machine can read them, before anything starts.

Not a rule of the models: a file may be there on one host only, so each process asks for its own.
"""

from __future__ import annotations

import json
import ssl
from typing import TYPE_CHECKING, Literal

from shadow.config.ends import ClickHouseStore
from shadow.config.kafka import KafkaStream
from shadow.config.mistakes import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shadow.config.kafka import KafkaTls
    from shadow.config.model import Config
    from shadow.config.upstream import Tls, Upstream

Use = Literal["upstreams", "stream", "store", "tokenizers"]
"""Who reads them: the proxy its upstreams' and the stream's, the collector all the others."""
EVERY: tuple[Use, ...] = ("upstreams", "stream", "store", "tokenizers")


def files_usable(config: Config, *uses: Use) -> None:
    """Nothing, where every file that these uses need can be read and is what it should be.

    Raises:
        ConfigError: the first that is not, as one line with its key's path.
    """
    for said in _unusable(config, uses):
        raise ConfigError(said)


def _unusable(config: Config, uses: tuple[Use, ...]) -> Iterator[str]:
    if "upstreams" in uses:
        for name, upstream in _upstreams(config):
            yield from _tls(f"{name}.tls", upstream.tls)
    if "stream" in uses and isinstance(config.stream, KafkaStream) and config.stream.kafka.tls:
        yield from _tls("stream.kafka.tls", config.stream.kafka.tls)
    if "store" in uses and isinstance(config.store, ClickHouseStore):
        yield from _authorities("store.clickhouse.ca", config.store.clickhouse.ca)
    if "tokenizers" in uses:
        for name, upstream in _upstreams(config):
            yield from _document(f"{name}.tokenizer", upstream.tokenizer)


def _upstreams(config: Config) -> Iterator[tuple[str, Upstream]]:
    yield "primary", config.primary
    for name, arm in config.arms.items():
        yield f"arms.{name}", arm


def _tls(path: str, tls: Tls | KafkaTls) -> Iterator[str]:
    yield from _authorities(f"{path}.ca", tls.ca)
    yield from _certificate(path, tls.certificate, tls.key)


def _authorities(path: str, ca: Path | None) -> Iterator[str]:
    if ca is None:
        return
    yield from _unreadable(path, ca)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(ca)
    except OSError:  # ssl.SSLError is one
        yield f"{path}: {ca}: no certificates in PEM form"


def _certificate(path: str, certificate: Path | None, key: Path | None) -> Iterator[str]:
    if key is not None and certificate is None:
        yield f"{path}.key: stands without {path}.certificate"
    if certificate is None:
        return
    yield from _unreadable(f"{path}.certificate", certificate)
    if key is not None:
        yield from _unreadable(f"{path}.key", key)
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_cert_chain(certificate, key, password="")  # never asked for on a terminal
    except OSError:
        yield (
            f"{path}.certificate: {certificate}: no certificate in PEM form with its key, unlocked"
            + ("" if key is None else f", in {path}.key")
        )


def _document(path: str, file: Path | None) -> Iterator[str]:
    if file is None:
        return
    yield from _unreadable(path, file)
    try:
        json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        yield f"{path}: {file} is no tokenizer.json"


def _unreadable(path: str, file: Path) -> Iterator[str]:
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        yield f"{path}: {file}: {error.strerror or error}"
