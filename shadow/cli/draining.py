"""What a drain waits for, for whoever pressed Ctrl-C: how many streams, and how long at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shadow.config import Config


def draining(config: Config) -> str:
    """One line; of proxies that do not answer on their health ports only the bound is said."""
    from shadow.cli.mirroring import workers

    seen = workers(config)
    most = f"at most {config.drain * config.workers:g} s"  # the workers drain one after the other
    if not all(worker.state for worker in seen):
        return f"draining: open streams have {most}; Ctrl-C again cuts them"
    streams = sum(worker.open_streams for worker in seen)
    if not streams:
        return "draining: no stream is open, what was captured is stored; Ctrl-C again cuts that"
    them = "it" if streams == 1 else "them"
    counted = f"{streams} stream{'' if streams == 1 else 's'} open"
    return f"draining: {counted}, {most}; Ctrl-C again cuts {them}"
