"""Writing: sizes are judged as the broker will, and what is too large harms nothing beside it."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from shadow.capture.shrink import BODY_CUT, shrink_value
from shadow.exchange import Exchange, decode, encode
from shadow.stream import Message, MessageTooLarge, StreamUnavailable
from shadow.stream.kafka import KafkaConsumerStream, KafkaProducerStream, KafkaSettings
from shadow.stream.kafka.writer import MAX_REQUEST_BYTES, Record, too_large
from shadow.stream.spill import Spill

NOISE = random.Random(5).randbytes(2_000_000)
TEXT = b"data: {'choices': [{'delta': {'content': 'token'}}]}\n\n" * 100_000


@pytest.mark.parametrize("compression", ["zstd", "lz4", "gzip", "none"])
def test_a_record_is_judged_as_it_will_be_sent(compression):
    """Small ones are never compressed for it; large ones count compressed; giants are refused."""
    limit = 1_048_588
    assert not too_large(Record(b"k", NOISE[:1_000_000]), limit, compression)
    assert too_large(Record(b"k", NOISE), limit, compression)
    assert too_large(Record(b"k", TEXT), limit, compression) == (compression == "none")
    assert too_large(Record(b"k", bytes(MAX_REQUEST_BYTES + 1)), limit, compression)
    assert too_large(Record(b"k", b"v", (("reason", NOISE),)), limit, "none")


@pytest.mark.kafka
@pytest.mark.parametrize("compression", ["zstd", "lz4", "gzip", "none"])
def test_every_compression_goes_there_and_back(settings, opened, read_all, compression):
    """Compressible values beyond the broker's limit pass, whatever codec packs them."""
    there = replace(settings, compression=compression)
    values = [b"", b"v", NOISE[:900_000], *([TEXT] if compression != "none" else [])]
    opened(KafkaProducerStream(there)).append([Message(b"k", value) for value in values])
    found = read_all(opened(KafkaConsumerStream(there)), len(values))
    assert [record.value for record in found] == values


@pytest.mark.kafka
def test_the_too_large_are_named_and_the_others_stored_once(settings, opened, read_all):
    """The caller learns which and how small they must be; shrunk so, they pass."""
    producer = opened(KafkaProducerStream(settings))
    values = [b"1", NOISE, b"2", NOISE[::-1], b"3"]
    with pytest.raises(MessageTooLarge) as refused:
        producer.append([Message(b"k", value) for value in values])
    assert refused.value.indices == (1, 3)
    assert 1_000_000 < refused.value.limit_bytes < 1_048_588
    producer.append([Message(b"k" * 36, NOISE[: refused.value.limit_bytes])])
    producer.append([Message(b"k", b"4")])
    found = read_all(opened(KafkaConsumerStream(settings)), 5)
    small = [record.value for record in found if len(record.value) == 1]
    assert small == [b"1", b"2", b"3", b"4"]


@pytest.mark.kafka
def test_an_exchange_too_large_for_the_broker_arrives_cut_and_says_so(
    settings, opened, read_all, tmp_path
):
    """Behind the spill nobody has to think of it: one record, readable, with its gap counted."""
    facts = {
        "experiment": "e", "config_hash": "c", "pair_id": "p", "arm": "fp8", "role": "candidate",
        "worker": "0", "boot_id": "b", "sequence": 1, "arrived_at": 1, "started_at": 1,
        "method": "POST", "path": "/v1/chat/completions", "transport": "complete",
    }  # fmt: skip
    whole = Exchange(**facts, body=NOISE, captured_bytes=len(NOISE))
    spill = opened(Spill(KafkaProducerStream(settings), tmp_path, "w", shrink=shrink_value))
    spill.append([Message(b"p", encode(whole)), Message(b"p", b"small")])
    small, cut = read_all(opened(KafkaConsumerStream(settings)), 2)
    assert small.value == b"small"
    exchange = decode(cut.value)
    assert isinstance(exchange, Exchange)
    assert exchange.truncated_bytes + len(exchange.body) == len(NOISE)
    assert len(exchange.body) > 500_000
    assert exchange.request_changes == [BODY_CUT]
    assert (spill.spooled(), spill.refused_total) == (0, 0)


@pytest.mark.kafka
def test_a_limit_that_was_lowered_meanwhile_is_learned(settings, bootstrap, opened, read_all):
    """The broker's refusal ends kafka-python's producer; ours goes on with the new limit."""
    from kafka import KafkaAdminClient
    from kafka.admin import ConfigResource

    producer = opened(KafkaProducerStream(settings))
    producer.append([Message(b"k", b"0")])
    admin = opened(KafkaAdminClient(bootstrap_servers=list(bootstrap)))
    lower = ConfigResource("TOPIC", settings.topic, configs={"max.message.bytes": "100000"})
    admin.alter_configs([lower])
    with pytest.raises(MessageTooLarge) as refused:
        producer.append([Message(b"a", b"1"), Message(b"b", NOISE[:300_000]), Message(b"c", b"2")])
    assert refused.value.indices == (1,)
    assert refused.value.limit_bytes < 100_000
    producer.append([Message(b"k", b"3")])
    found = read_all(opened(KafkaConsumerStream(settings)), 4)
    assert sorted(record.value for record in found) == [b"0", b"1", b"2", b"3"]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # kafka-python's, see conftest.py
def test_nobody_there_is_unavailable_within_the_bound_and_again():
    """The constructor asks nobody; each append ends in its time, so a sender thread can back off."""
    settings = KafkaSettings(("127.0.0.1:1",), connect_timeout=0.5)
    producer = KafkaProducerStream(settings)
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(StreamUnavailable, match=r"kafka at 127\.0\.0\.1:1: could not connect"):
            producer.append([Message(b"", b"")])
        assert time.monotonic() - began < 5.0
    producer.close()
