"""From the configuration's words to the settings of each part; the parts do not know it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shadow.config import Config, ConfigError
from shadow.config.ends import ClickHouseStore
from shadow.config.kafka import KafkaStream

if TYPE_CHECKING:
    from collector.measuring import Settings as MeasureSettings
    from collector.settings import Embedded, Settings
    from collector.store import StoreSettings
    from collector.tokenizer import CountTokens
    from shadow.stream.kafka import KafkaSettings


def collector_settings(config: Config) -> Settings:
    """What `shadow collect` is told.

    Raises:
        ConfigError: a tokenizer cannot be had.
    """
    from collector.settings import Settings

    return Settings(
        stream=_stream(config),
        store=_store(config),
        retention_bodies_s=config.retention.bodies,
        retention_measures_s=config.retention.measures,
        capture=config.capture,
        count_tokens=_tokenizers(config),
        bad_records=config.limits.bad_records,
    )


def measure_settings(config: Config) -> MeasureSettings:
    """What `shadow measure` is told.

    Raises:
        ConfigError: the configuration captures texts, or a tokenizer cannot be had.
    """
    from collector.measuring import Settings, ToKafka, ToLog

    if config.capture != "measures":
        raise ConfigError(f"capture: {config.capture}: nothing to measure; it is for measures")
    said = config.stream
    stream: ToLog | ToKafka
    if isinstance(said, KafkaStream):
        stream = ToKafka(said.settings(), said.kafka.spill, said.kafka.spill_bytes)
    else:
        stream = ToLog(said.embedded, said.max_bytes, said.max_age)
    return Settings(config.measure_folder, stream, _tokenizers(config))


def _tokenizers(config: Config) -> dict[str, CountTokens]:
    from collector.tokenizer import NoTokenizer, token_counters

    upstreams = {"primary": config.primary, **config.arms}
    paths = {name: each.tokenizer for name, each in upstreams.items() if each.tokenizer}
    try:
        return token_counters(paths)
    except NoTokenizer as error:
        where = "" if str(error).startswith("primary.") else "arms."
        raise ConfigError(f"{where}{error}") from None


def store_settings(config: Config) -> StoreSettings:
    """How every process but the collector reaches the store: by HTTP."""
    from collector.folder import secret_of
    from collector.store import StoreSettings

    store = config.store
    if isinstance(store, ClickHouseStore):
        said = store.clickhouse
        return StoreSettings(
            said.url, said.database, said.user, said.password, said.ca, said.cluster
        )
    password = store.password or secret_of(store.embedded)
    return StoreSettings(f"http://{store.listen}", store.database, store.user, password)


def _stream(config: Config) -> Path | KafkaSettings:
    stream = config.stream
    return stream.settings() if isinstance(stream, KafkaStream) else stream.embedded


def _store(config: Config) -> Embedded | StoreSettings:
    from collector.settings import Embedded

    store = config.store
    if isinstance(store, ClickHouseStore):
        return store_settings(config)
    return Embedded(
        store.embedded,
        (store.listen.host, store.listen.port),
        store.database,
        store.user,
        store.password,
    )
