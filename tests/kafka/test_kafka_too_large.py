"""A record that no shrinking makes small enough for the broker is dropped and counted so, in the store's books too."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource
from publishing.conftest import Item

from shadow.capture.shrink import shrink_value
from shadow.exchange import Accounting, Exchange, decode
from shadow.publish.accounting import Ledger
from shadow.publish.publisher import Publisher
from shadow.stream import Delivered
from shadow.stream.kafka import KafkaConsumerStream, KafkaProducerStream, KafkaSettings
from shadow.stream.kafka.topics import ensure_topic
from shadow.stream.spill import Spill

pytestmark = pytest.mark.kafka

LIMIT_BYTES = 2500
"""Of the topic: the bare fields of a record pass, those with a long error do not."""


def narrow(settings: KafkaSettings, admin: KafkaAdminClient) -> KafkaSettings:
    """The topic takes only small batches; nothing is compressed."""
    ensure_topic(settings, settings.topic)
    configs = {"max.message.bytes": str(LIMIT_BYTES)}
    admin.alter_configs([ConfigResource("TOPIC", settings.topic, configs=configs)])
    return replace(settings, compression="none")


class Wordy(Item):
    """A capture whose worth is in a field that nobody cuts."""

    def message(self, sequence):
        message = super().message(sequence)
        exchange = decode(message.value).model_copy(update={"error": "e" * 2 * LIMIT_BYTES})
        return type(message)(message.key, exchange.model_dump_json().encode())


def test_it_is_counted_dropped_and_its_neighbours_captured(
    settings, bootstrap, opened, read_all, tmp_path
):
    """Three captures: one passes, one is cut to its bare fields, one is refused. Each is one count."""
    there = narrow(settings, opened(KafkaAdminClient(bootstrap_servers=list(bootstrap))))
    ledger, _ = Ledger.open(tmp_path / "state", "0", "e", "c")
    spill = Spill(KafkaProducerStream(there), tmp_path / "spill", "0", shrink=shrink_value)
    publisher = Publisher(lambda: spill, ledger, 2**20)
    noise = random.Random(4).randbytes(50_000)
    for kind, body in ((Item, b""), (Item, noise), (Wordy, b"")):
        ledger.add("fp8", "sampled")
        assert publisher.offer(kind(ledger.opened(1), body=body))
    assert publisher.close(30.0)
    counted = {(counter, reason): n for (_, counter, reason), n in ledger.values().items()}
    assert counted["captured", ""] == 2
    assert counted["dropped", "record_too_large"] == 1
    assert (spill.refused_total, spill.spooled()) == (1, 0)
    records = read(read_all(opened(KafkaConsumerStream(there)), 4))
    exchanges = [record for record in records if isinstance(record, Exchange)]
    last = max((r for r in records if isinstance(r, Accounting)), key=lambda r: r.sequence)
    assert sorted(exchange.sequence for exchange in exchanges) == [1, 2]
    assert (last.final, last.high_sequence, last.dropped_sequences) == (True, 3, 1)
    ledger.close(published=True)


def read(delivered: list[Delivered]) -> list[Exchange | Accounting]:
    return [decode(each.value) for each in delivered]
