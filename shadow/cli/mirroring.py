"""`shadow mirror status`: what was said, the kill switch, what each proxy of this host does.

The proxies' own words decide: nothing says that mirroring is on but a proxy that mirrors.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Final
from urllib.request import ProxyHandler, build_opener

from prometheus_client.parser import text_string_to_metric_families

from shadow.config import Config, config_hash
from shadow.config.units import Address
from shadow.steering.kill_switch import kill_reason
from shadow.steering.term import term_of
from shadow.steering.told import Told

ASK_S: Final = 1.0
MOST_BYTES: Final = 4 * 2**20
EVERY_HOST: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 asked for, not listened on
STANDS_STILL: Final = {
    "kill_switch": "off: kill_switch",
    "stopped": "ended",
    "not_started": "not started yet",
    "lag": "stands still for the loop's lag",
    "shadow_off": "on, in one of its short windows without mirroring",
}
"""What a proxy's state is in words, where the state's own word does not say it."""

_OPENER: Final = build_opener(ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Worker:
    """One proxy worker, as its health port tells: its state, or why there is no answer."""

    address: str
    state: str = ""
    away: str = ""
    rates: Mapping[str, float] = field(default_factory=dict)
    open_streams: int = 0


def workers(config: Config) -> list[Worker]:
    """Every worker of this host; one whose port the system chose is away."""
    host = EVERY_HOST.get(config.admin.health.host, config.admin.health.host)
    port = config.admin.health.port
    if not port:
        return [Worker("admin.health", away="its port is chosen by the system")]
    return [_worker(str(Address(host, port + n))) for n in range(config.workers)]


def _worker(address: str) -> Worker:
    try:
        with _OPENER.open(f"http://{address}/metrics", timeout=ASK_S) as answer:
            text = answer.read(MOST_BYTES).decode()
        state, rates, streams = _figures(text)
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        return Worker(address, away=str(getattr(reason, "strerror", None) or reason))
    if not state:
        return Worker(address, away="it is no proxy of shadow's that answers there")
    return Worker(address, state, rates=rates, open_streams=streams)


def _figures(text: str) -> tuple[str, dict[str, float], int]:
    """(what the mirror does, the arms' rates, answers that have not ended) of an exposition."""
    state, rates, streams = "", {}, 0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "shadow_mirroring" and sample.value:
                state = sample.labels["state"]
            elif sample.name == "shadow_arm_rate":
                rates[sample.labels["arm"]] = sample.value
            elif sample.name == "shadow_relay_open_streams":
                streams = int(sample.value)
    return state, rates, streams


def standing(config: Config, told: Told, seen: list[Worker]) -> Iterator[str]:
    """The lines of `status`: the whole first, then what it is made of."""
    yield f"mirroring: {whole(config, told, seen)}"
    yield f"said: {said(told)}"
    yield f"kill switch: {_kill_switch(config)}"
    yield from term_of(config).standing(time.time())
    for n, worker in enumerate(seen):
        does = f"no answer: {worker.away}" if worker.away else in_words(worker.state)
        yield f"proxy {n} ({worker.address}): {does}"
    yield from arms(config, told)


def whole(config: Config, told: Told, seen: list[Worker]) -> str:
    """What mirrors at all, by the proxies that answer; `on` only where one of them mirrors."""
    answered = [worker for worker in seen if worker.state]
    if not answered:
        ended = bool(config.arms) and set(config.arms) <= ended_arms(config, told).keys()
        return "ended" if ended else "off: no proxy of this host answers"
    states = dict.fromkeys(in_words(worker.state) for worker in answered)
    silent = len(seen) - len(answered)
    rest = f"; {silent} of {len(seen)} proxies of this host do not answer" if silent else ""
    nothing = all(not any(worker.rates.values()) for worker in answered) and "on" in states
    return f"{'on, but every rate is 0' if nothing else ' | '.join(states)}{rest}"


def in_words(state: str) -> str:
    """A proxy's state for a person."""
    return STANDS_STILL.get(state, state)


def said(told: Told) -> str:
    """What people said last, by whom and when."""
    word = "paused" if told.paused else "not paused"
    if not told.by:
        return word
    at = datetime.fromtimestamp(told.at_ns / 1e9, UTC).isoformat(timespec="seconds")
    return f"{word} (by {told.by}, {at}{': ' + told.reason if told.reason else ''})"


def _kill_switch(config: Config) -> str:
    if config.kill_switch is None:
        return "none is configured"
    path = config.kill_switch.absolute()
    return kill_reason(path) or f"off ({path})"


def ended_arms(config: Config, told: Told) -> Mapping[str, str]:
    """Arm → why it has ended, of this configuration."""
    term = term_of(config)
    by_time = term.why("stopped") if term.skip(time.time()) == "stopped" else ""
    of_all = dict.fromkeys(config.arms, by_time) if by_time else {}
    return {**of_all, **(told.stopped if told.config_hash == config_hash(config) else {})}


def arms(config: Config, told: Told) -> Iterator[str]:
    """Each arm's rate and whose it is, or why it has ended."""
    ended = ended_arms(config, told)
    for name, arm in config.arms.items():
        rate = told.rates.get(name, arm.sample)
        source = "said" if name in told.rates else "configured"
        why = ended.get(name)
        yield f"{name}: {'ended, ' + why if why else f'rate {rate:g} ({source})'}"
