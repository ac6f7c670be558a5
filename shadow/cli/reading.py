"""Commands that read the store: report, gate, migrate. They work while services run, and after."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from analysis.policy import Policy, policy_hash
from analysis.settings import Settings, Stop
from shadow.cli.settings import store_settings
from shadow.config import Config, ConfigError, comparison_id, config_hash, load
from shadow.config.ends import EmbeddedStore
from shadow.config.units import show_duration

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from analysis.gate import Answer

HOLD = 3
USAGE = 2
LOOK_AGAIN_S = 2.0
NOT_MIGRATED = frozenset({60, 81})
"""ClickHouse's codes for an unknown table or database: nothing was collected yet."""
NO_SUCH_COLUMN = frozenset({16, 47})


def read_policy(config: Config) -> Policy:
    """The policy that the configuration names, or the default one.

    Raises:
        ConfigError: a mistake in it, as one line with its file; or nothing could ever be promoted.
    """
    policy, kept_s = _policy(config), config.retention.measures
    if policy.min_span > kept_s:
        raise ConfigError(
            f"retention.measures: {show_duration(kept_s)} is shorter than the policy's min_span, "
            f"{show_duration(policy.min_span)}: nothing could ever be promoted"
        )
    return policy


def _policy(config: Config) -> Policy:
    if config.policy is None:
        return Policy()
    try:
        return load(config.policy, Policy, overrides=False)
    except ConfigError as error:
        raise ConfigError(f"policy: {error}") from None


def analysis_settings(config: Config) -> Settings:
    """What the analysis is told of a configuration: names and identities, nothing else."""
    policy = read_policy(config)
    arms = {"primary": config.primary, **config.arms}
    measured = config_hash(config)
    return Settings(
        experiment=config.experiment,
        config_hash=measured,
        candidates=tuple(config.candidates),
        control=config.control,
        comparisons={arm: _comparison(config, arm, measured, policy) for arm in config.arms},
        policy=policy,
        builds={name: arm.build for name, arm in arms.items()},
        copies={name: arm.amplify for name, arm in config.arms.items()},
        factors={name: arm.factors for name, arm in config.arms.items()},
        attach=config.attach,
        replicas={
            name: upstream.replicas
            for name, upstream in arms.items()
            if upstream.replicas is not None
        },
        deadlines_s={name: arm.deadline for name, arm in config.arms.items()},
        off_period_s=None if config.isolated is None else config.isolated.period_s,
        stop=_stop(config),
    )


def _stop(config: Config) -> Stop:
    said = config.stop_at
    prices = {
        name: (arm.price.prompt_per_million, arm.price.completion_per_million)
        for name, arm in config.arms.items()
        if arm.price is not None
    }
    return Stop(said.pairs, said.hours, said.cost, prices, said.on_verdict == "stop")


def _comparison(config: Config, arm: str, measured: str, policy: Policy) -> str:
    builds = {"primary": config.primary.build, arm: config.arms[arm].build}
    if config.control is not None:
        builds[config.control] = config.arms[config.control].build
    return comparison_id(config.experiment, arm, measured, policy_hash(policy), builds, {})


def connect(config: Config, *, create: bool = False) -> Client:
    """A client of the store by HTTP, as every process but the collector has it.

    Args:
        config: where it is.
        create: whether the database may be missing, since it is about to be made.

    Raises:
        StoreUnavailable, StoreRefused: see collector.store.
    """
    from collector.store import connect as by_http

    settings = store_settings(config)
    return by_http(replace(settings, database=None) if create else settings)


def _open_folder(store: EmbeddedStore, *, create: bool) -> Client:
    from collector.store import open_folder

    if create:
        store.embedded.mkdir(parents=True, exist_ok=True)
    return open_folder(store.embedded, None if create else store.database)


@contextmanager
def store(config: Config, *, create: bool = False) -> Iterator[Client]:
    """The store by HTTP; when nothing serves an embedded one, its folder, in this process.

    Raises:
        StoreUnavailable, StoreRefused: see collector.store.
    """
    from collector.store import StoreUnavailable

    try:
        client = connect(config, create=create)
    except StoreUnavailable:
        if not isinstance(config.store, EmbeddedStore):
            raise
        client = _open_folder(config.store, create=create)
    with closing(client):
        yield client


def migrate(config: Config) -> int:
    """Bring the store's tables up to date; says what was applied."""
    from collector.migrate import MigrationError, Retention
    from collector.migrate import migrate as apply
    from collector.store import StoreError

    retention = Retention(int(config.retention.bodies), int(config.retention.measures))
    try:
        with store(config, create=True) as client:
            known = store_settings(config)
            database = known.database or "default"
            applied = apply(client, database, retention, cluster=known.cluster)
    except (StoreError, MigrationError) as error:
        raise ConfigError(f"store: {error}") from None
    for name in applied:
        click.echo(name)
    return 0


def report(config: Config, experiment: str | None, form: str, output: Path | None) -> int:
    """The comparison on stdout or in a file; HOLD with one line where none can be had."""
    from analysis.report import markdown

    document, why = read_store(config, _comparison_of(config, experiment))
    if document is None and experiment not in {None, config.experiment}:
        why = _unknown(config, experiment or "", why)
    if document is None:
        click.echo(f"shadow report: {why}", err=True)
        return HOLD
    text = json.dumps(document, indent=2) + "\n" if form == "json" else markdown(document)
    return _deliver(text, output)


def _comparison_of(
    config: Config, experiment: str | None
) -> Callable[[Client], dict[str, Any] | None]:
    """The configuration's experiment is judged now; of another one, what was written is read."""
    from analysis.answers import report as compare
    from analysis.recorded import recorded

    settings = analysis_settings(config)
    if experiment is None or experiment == config.experiment:
        return lambda client: compare(client, settings)
    return lambda client: recorded(client, experiment)


def _unknown(config: Config, experiment: str, why: str) -> str:
    """Why there is nothing of another experiment; the store's reason where it cannot be read."""
    from analysis.recorded import unknown

    found, away = read_store(config, lambda client: {"why": unknown(client, experiment)})
    if found is None:
        return why if away == why else away
    return str(found["why"])


def gate(
    config: Config,
    candidate: str | None,
    form: str,
    wait_s: float = 0.0,
    max_age_s: float | None = None,
) -> int:
    """The stored verdict as exit status; hold where none can be had, with the reason.

    Args:
        config: names the store and the experiment.
        candidate: which; required where there are several.
        form: text, or json.
        wait_s: how long to look again while it holds.
        max_age_s: a verdict that was judged longer ago holds.
    """
    until_s = time.monotonic() + wait_s
    said = _gate(config, candidate, form, max_age_s)
    while said.code == HOLD and time.monotonic() < until_s:
        time.sleep(min(LOOK_AGAIN_S, max(until_s - time.monotonic(), 0)))
        said = _gate(config, candidate, form, max_age_s)
    click.echo(said.line, err=said.code == USAGE)
    return said.code


def _gate(config: Config, candidate: str | None, form: str, max_age_s: float | None) -> Answer:
    from analysis.answers import stored
    from analysis.gate import aged
    from analysis.gate import gate as answer

    settings = analysis_settings(config)
    document, why = read_store(config, lambda client: stored(client, settings))
    if max_age_s is not None:
        document = aged(document, time.time(), max_age_s)
    return answer(
        document,
        candidate,
        "json" if form == "json" else "text",
        why,
        known=config.candidates,
        experiment=config.experiment,
    )


def read_store(
    config: Config, read: Callable[[Client], dict[str, Any] | None]
) -> tuple[dict[str, Any] | None, str]:
    """What `read` finds in the store, or None and the reason."""
    from collector.store import StoreError, StoreRefused, store_errors

    try:
        with store(config) as client, store_errors():
            found = _migrated(client, read)
    except StoreRefused as error:
        if error.code not in NOT_MIGRATED:
            raise
        return None, "no data yet"
    except StoreError as error:
        return None, f"the store cannot be read: {error}"
    return found, "no verdict was written yet"


def _migrated(
    client: Client, read: Callable[[Client], dict[str, Any] | None]
) -> dict[str, Any] | None:
    """What `read` finds; without a column of a later migration the store is not ready."""
    from collector.migrate import behind
    from collector.store import StoreRefused, StoreUnavailable, store_errors

    try:
        with store_errors():
            return read(client)
    except StoreRefused as error:
        lacking = behind(client) if error.code in NO_SUCH_COLUMN else None
        if lacking is None:
            raise
        raise StoreUnavailable(lacking) from error


def _deliver(text: str, output: Path | None) -> int:
    """To stdout, or whole into a file: a reader never sees half of it."""
    if output is None:
        click.echo(text, nl=False)
        return 0
    partial = output.with_name(f".{output.name}.partial")
    try:
        partial.write_text(text, "utf-8")
        partial.replace(output)
    except OSError as error:
        raise click.UsageError(f"-o {output}: {error.strerror or error}") from None
    return 0
