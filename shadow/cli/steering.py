"""`shadow mirror`: ask or say, by the control port where there is one, else by the state folder."""

from __future__ import annotations

import getpass
import os
import time
from typing import Any

import click

from shadow.cli.mirroring import EVERY_HOST, Worker, arms, standing, workers
from shadow.cli.mirroring import said as said_of
from shadow.cli.recording import record
from shadow.config import Config, ConfigError
from shadow.config.units import Address
from shadow.steering.followed import MIRROR_PATH, Followed, ask, fetched
from shadow.steering.steer import Unfit, steer
from shadow.steering.told import NotSteering, Told, told_of
from shadow.steering.told_file import change, file_of, read

HEARD_S = 3.0
"""A proxy looks at what was said every half a second."""
UNRECORDED = "who said it is not in the store"


def mirror(
    config: Config, action: str, arm: str | None, rate: str | None, by: str | None, reason: str
) -> int:
    """The command, without its options; arguments as they were written."""
    if (action == "rate") != (arm is not None and rate is not None):
        raise click.UsageError("rate takes an arm and a share from 0 to 1, or `file`; others none")
    said: dict[str, Any] = {"by": by or _who(), "reason": reason}
    if action == "rate":
        said |= {"arm": arm, "rate": _rate(rate or "")}
    told, where = _ask(config, action, said)
    seen = workers(config) if action == "status" or where else []
    if action == "status":
        click.echo("\n".join(standing(config, told, seen)))
    else:
        click.echo("\n".join((f"said: {said_of(told)}", *arms(config, told))))
        if action == "pause" and where:
            _refuse_the_deaf(config)
        where = _where(config, where, seen)
    if where:
        click.echo(f"shadow mirror: {where}", err=True)
    return 0


def _who() -> str:
    """Who runs this; a container's user may have no name: that keeps nobody from pausing."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the latter from Python 3.13 on
        return f"user {os.getuid()}"


def _refuse_the_deaf(config: Config) -> None:
    """Whoever pauses in an emergency hears of a proxy that goes on, and gets no 0.

    Raises:
        ConfigError: one of this machine mirrors though it had the time to hear of the pause.
    """
    over = time.monotonic() + HEARD_S
    while on := [worker for worker in workers(config) if worker.state == "on"]:
        if time.monotonic() > over:
            file = file_of(config.state, config.experiment).absolute()
            raise ConfigError(
                f"state: the proxy at {on[0].address} still mirrors: it does not read {file}; "
                "say it in the folder where the proxy was started"
            )
        time.sleep(0.1)


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
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise click.UsageError(f"{text}: a share from 0 to 1, or `file`")
    return share


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
    return told, record(lambda: connect(config), config.experiment, action, said)


def control_port(config: Config) -> Followed | None:
    """Where to say it: the followed host's port, or our own."""
    admin = config.admin
    if admin.follow is not None:
        return Followed(admin.follow, admin.token)
    if admin.control is None:
        return None
    host = EVERY_HOST.get(admin.control.host, admin.control.host)
    return Followed(f"http://{Address(host, admin.control.port)}", admin.token)
