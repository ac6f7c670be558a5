"""`shadow mirror` and the control port's part of it: pause, resume, rates; who said so is kept."""

from __future__ import annotations

import asyncio
import getpass
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import structlog
from aiohttp import web

from shadow.cli.mirroring import EVERY_HOST, Worker, arms, standing, workers
from shadow.cli.mirroring import said as said_of
from shadow.config import Config, ConfigError
from shadow.config.units import Address
from shadow.steering.followed import MIRROR_PATH, Followed, ask, fetched
from shadow.steering.told import NotSteering, Told, is_rate, told_of
from shadow.steering.told_file import change, file_of, read

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

MOST_CHARACTERS = 500
RECORD_S = 1.0
UNRECORDED = "who said it is not in the store"

_log = structlog.get_logger("shadow.mirror")

Connect = Callable[[], "Client"]


class Unfit(ValueError):
    """What was said cannot hold; one line."""


def steer(told: Told, action: str, said: Mapping[str, object], arms: Mapping[str, float]) -> Told:
    """What holds after `action`: pause, resume, or rate with {arm, rate}. Pure but for the clock.

    Args:
        told: what held before.
        action: which.
        said: `by` (needed), `reason`, and the action's own.
        arms: the configured rates.

    Raises:
        Unfit: nobody says it, or of an arm or rate that is none.
    """
    by, reason = said.get("by"), said.get("reason", "")
    if not isinstance(by, str) or not by.strip():
        raise Unfit("by: say who")
    if not isinstance(reason, str):
        raise Unfit("reason: not a text")
    at_ns = max(time.time_ns(), told.at_ns + 1)  # a clock set back makes no word an older one
    signed = replace(told, by=by[:MOST_CHARACTERS], reason=reason[:MOST_CHARACTERS], at_ns=at_ns)
    if action in {"pause", "resume"}:
        return replace(signed, paused=action == "pause")
    arm, rate = said.get("arm"), said.get("rate")
    if not isinstance(arm, str) or arm not in arms:
        raise Unfit(f"arm: there is no {arm}; there are: {', '.join(arms)}")
    if rate is not None and not is_rate(rate):
        raise Unfit("rate: a share from 0 to 1, or `file` (by the control port null)")
    return signed.rate(arm, rate)  # type: ignore[arg-type]  # is_rate has looked


def tell_ended(file: Path, config_hash: str, ended: Mapping[str, str]) -> bool:
    """Say which arms have ended; whether that is news. What cannot be said is logged: it is tried
    again after the next look.
    """
    news = False

    def how(told: Told) -> Told:
        nonlocal news
        ours = told.stopped if told.config_hash == config_hash else {}
        news = set(ours) != set(ended)
        return replace(told, stopped=dict(ended), config_hash=config_hash) if news else told

    try:
        change(file, how)
    except OSError as error:
        _log.error("the end of mirroring cannot be said", file=str(file), why=str(error))
        return False
    return news


def add_mirror(app: web.Application, file: Path, config: Config, connect: Connect) -> None:
    """GET /api/v1/mirror; POST /api/v1/mirror/pause, /resume, /rate; behind the app's own guard.

    What is said holds at once, whether or not the store can be told of it.
    """
    rates = {name: arm.sample for name, arm in config.arms.items()}

    async def state(_request: web.Request) -> web.Response:
        try:
            return web.json_response(read(file).document() | {"experiment": config.experiment})
        except NotSteering as error:
            return web.json_response({"error": str(error)}, status=500)

    def said_by(action: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def post(request: web.Request) -> web.Response:
            if request.content_type != "application/json":  # a browser's page cannot send that
                return _refusal("send Content-Type: application/json", 415)
            try:
                said = await _said_in(request)
                told = await asyncio.to_thread(  # another who changes it may hold it
                    change, file, lambda told: steer(told, action, said, rates)
                )
            except ValueError as error:
                return _refusal(str(error), 400)
            except OSError as error:
                return _refusal(f"it cannot be kept: {error}", 500)
            why = await _soon(lambda: _record(connect, config.experiment, action, said))
            return web.json_response(told.document() | {"recorded": not why})

        return post

    app.router.add_get(MIRROR_PATH, state)
    for action in ("pause", "resume", "rate"):
        app.router.add_post(f"{MIRROR_PATH}/{action}", said_by(action))


async def _said_in(request: web.Request) -> dict[str, Any]:
    """The body's JSON object.

    Raises:
        ValueError: it is none.
    """
    try:
        said = await request.json()
    except RecursionError:
        raise Unfit("the JSON is nested too deep") from None
    if not isinstance(said, dict):
        raise Unfit("not a JSON object")
    return said


async def _soon(record: Callable[[], str]) -> str:
    """Why it was not recorded within a second, logged; a slow store goes on in its thread."""
    try:
        why = await asyncio.wait_for(asyncio.shield(asyncio.to_thread(record)), RECORD_S)
    except TimeoutError:
        why = f"the store takes more than {RECORD_S:g} s"
    if why:
        _log.warning("what was said of mirroring is not in the store", why=why)
    return why


def _refusal(why: str, status: int) -> web.Response:
    return web.json_response({"error": why}, status=status)


def _record(connect: Connect, experiment: str, action: str, said: Mapping[str, Any]) -> str:
    """Write down who said it, and when; why it could not be."""
    from analysis.events import append

    detail = {key: said[key] for key in ("by", "reason", "rate") if key in said}
    try:
        with closing(connect()) as client:
            arm = str(said.get("arm", ""))
            append(client, experiment, f"mirror_{action}", arm, detail, time.time_ns())
    except Exception as error:  # noqa: BLE001 whatever keeps us from the store
        return " ".join(str(error).split())[:300]
    return ""


def mirror(
    config: Config, action: str, arm: str | None, rate: str | None, by: str | None, reason: str
) -> int:
    """Ask or say, by the control port where there is one, else by the state folder."""
    if (action == "rate") != (arm is not None and rate is not None):
        raise click.UsageError("rate takes an arm and a share from 0 to 1, or `file`; others none")
    said: dict[str, Any] = {"by": by or getpass.getuser(), "reason": reason}
    if action == "rate":
        said |= {"arm": arm, "rate": _rate(rate or "")}
    told, where = _ask(config, action, said)
    seen = workers(config) if action == "status" or where else []
    if action == "status":
        click.echo("\n".join(standing(config, told, seen)))
    else:
        click.echo("\n".join((f"said: {said_of(told)}", *arms(config, told))))
        where = _where(config, where, seen)
    if where:
        click.echo(f"shadow mirror: {where}", err=True)
    return 0


def _where(config: Config, where: str, seen: list[Worker]) -> str:
    """Where it holds; where nothing runs, that it does once something does, and nothing else."""
    if not where or any(worker.state for worker in seen):
        return where
    file = file_of(config.state, config.experiment).absolute()
    return f"no proxy answers on this machine: kept in {file}, it holds from the next start"


def _rate(text: str) -> float | None:
    if text == "file":
        return None
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"{text}: a share from 0 to 1, or `file`") from None


def _ask(config: Config, action: str, said: dict[str, Any]) -> tuple[Told, str]:
    """(what holds now, what to say of where it does)."""
    port = control_port(config)
    if port is not None:
        try:
            return _by_port(port, action, said)
        except NotSteering as error:
            if config.admin.follow is not None:  # this host's proxies hear that port alone
                raise ConfigError(f"admin.follow: {error}") from None
            where = f"the control port is away ({error}): it holds on this machine"
    else:
        where = "it holds on this machine: no admin.control is set"
    told, why = _by_file(config, action, said)
    if action == "status":
        return told, "" if port is None else where
    return told, f"{where}; {UNRECORDED}: {why}" if why else where


def _by_port(port: Followed, action: str, said: dict[str, Any]) -> tuple[Told, str]:
    if action == "status":
        return ask(port), ""
    answer = fetched(port, f"{MIRROR_PATH}/{action}", said)
    recorded = not isinstance(answer, dict) or answer.get("recorded") is not False
    if not recorded:
        click.echo(f"shadow mirror: {UNRECORDED}", err=True)
    return told_of(answer), ""


def _by_file(config: Config, action: str, said: dict[str, Any]) -> tuple[Told, str]:
    """(what holds now, why who said it is not in the store)."""
    from shadow.cli.store import connect

    file = file_of(config.state, config.experiment)
    rates = {name: arm.sample for name, arm in config.arms.items()}
    try:
        if action == "status":
            return read(file), ""
        told = change(file, lambda told: steer(told, action, said, rates))
    except NotSteering as error:
        raise ConfigError(f"state: {error}") from None
    except Unfit as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise ConfigError(f"state: {file}: {error.strerror or error}") from None
    return told, _record(lambda: connect(config), config.experiment, action, said)


def control_port(config: Config) -> Followed | None:
    """Where to say it: the followed host's port, or our own."""
    admin = config.admin
    if admin.follow is not None:
        return Followed(admin.follow, admin.token)
    if admin.control is None:
        return None
    host = EVERY_HOST.get(admin.control.host, admin.control.host)
    return Followed(f"http://{Address(host, admin.control.port)}", admin.token)
