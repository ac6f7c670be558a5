"""A collector that dies by SIGKILL at a named step: FOLDER URL DATABASE STEP(,before|after)."""

import os
import signal
import sys
from contextlib import closing
from pathlib import Path

from collector.batch import BatchLimits
from collector.collector import Collector
from collector.dead_letters import DeadLetters
from collector.forgetful import ForgetfulWriter
from collector.store import StoreSettings, connect
from shadow.stream.embedded import EmbeddedConsumer


def at(step, kind, when):
    if step == f"{kind},{when}":
        os.kill(os.getpid(), signal.SIGKILL)


class DyingWriter(ForgetfulWriter):
    """Dies before or after an insert into the named table."""

    def __init__(self, client, step):
        super().__init__(client)
        self._step = step

    def insert(self, table, columns, rows, token):
        at(self._step, table, "before")
        refused = super().insert(table, columns, rows, token)
        at(self._step, table, "after")
        return refused


class DyingConsumer:
    """Dies before or after a commit."""

    def __init__(self, consumer, step):
        self._consumer, self._step = consumer, step

    def commit(self, offsets):
        at(self._step, "commit", "before")
        self._consumer.commit(offsets)
        at(self._step, "commit", "after")

    def __getattr__(self, name):
        return getattr(self._consumer, name)


def main(folder, url, database, step):
    with (
        closing(EmbeddedConsumer(Path(folder), "killed")) as consumer,
        closing(
            connect(StoreSettings(url, database, password=os.environ["STORE_SECRET"]))
        ) as client,
    ):
        writer = DyingWriter(client, step)
        limits = BatchLimits(records=50, age_s=3600.0)
        Collector(DyingConsumer(consumer, step), writer, DeadLetters(writer), "text", limits).run(
            lambda: True
        )


main(*sys.argv[1:])
