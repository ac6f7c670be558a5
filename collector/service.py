"""`shadow collect`: a store (the embedded one with its interface), and the loop that fills it."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import ExitStack, closing

import structlog

from collector.bad_ratio import BadRatio, TooManyBadValues
from collector.collector import Collector
from collector.ends import consumer_of, letters_of, read_from, store_of, stored_in
from collector.folder import Misconfigured
from collector.forgetful import ForgetfulWriter
from collector.migrate import MigrationError
from collector.process import BAD_WORLD, NICENESS, USAGE, Stopped, sleep_until, stop_on_signals
from collector.settings import Settings
from collector.status import STARTING, Status
from collector.store import StoreSettings
from collector.store_errors import StoreError
from shadow.stream import StreamUnavailable

log = structlog.get_logger("collector")

_MISTAKES = (StoreError, StreamUnavailable, MigrationError, TooManyBadValues)


def run(settings: Settings, status: Status | None = None) -> int:
    """Collect until SIGTERM or SIGINT, then drain.

    What cannot be reached is waited for, with backoff, and said in `status`.

    Returns:
        Exit status: 0 after a drain; 2 where the configuration cannot work on this machine; 75
        after a bad world that did not mend.
    """
    os.nice(NICENESS)
    status = status or Status()
    with stop_on_signals() as stopping:
        try:
            _collect(settings, status, stopping)
        except Stopped:
            return 0
        except Misconfigured as error:
            sys.stderr.write(f"shadow collect: {error}\n")
            return USAGE
        except _MISTAKES as error:
            sys.stderr.write(f"shadow collect: {error}\n")
            return BAD_WORLD
    return 0


def _collect(settings: Settings, status: Status, stopping: threading.Event) -> None:
    sleep = sleep_until(stopping)
    with ExitStack() as stack:
        consumer = stack.enter_context(closing(consumer_of(settings)))
        status.reason = f"{STARTING}: the store is being opened"
        client = stack.enter_context(store_of(settings, status, sleep))
        cluster = settings.store.cluster if isinstance(settings.store, StoreSettings) else None
        writer = ForgetfulWriter(client, cluster=cluster, sleep=sleep, told=status.told)
        letters = stack.enter_context(letters_of(settings, writer))
        collector = Collector(
            consumer,
            writer,
            letters,
            settings.capture,
            settings.batch,
            settings.count_tokens,
            ratio=BadRatio(least=settings.bad_records),
            status=status,
            sleep=sleep,
        )
        read = f"reading {read_from(settings)}, storing in {stored_in(settings)}"
        status.reason = f"{STARTING}: {read}; no answer of the stream yet"
        log.info(read, capture=settings.capture)
        collector.run(stopping.is_set, settings.drain_s)
