"""The count of what was delivered believes the stream, and nothing else."""

from bench.delivery import delivered, read, unaccounted
from shadow.exchange import Accounting, Count, Exchange, encode
from shadow.stream import Message
from shadow.stream.embedded import EmbeddedProducer


def exchange(arm, arrived_at):
    return encode(
        Exchange(
            experiment="bench", config_hash="c", pair_id="p", arm=arm, role="candidate",
            worker="0", boot_id="b", sequence=1, arrived_at=arrived_at, started_at=arrived_at,
            method="POST", path="/", transport="complete", body=b'"arm":"candidate"',
        )
    )  # fmt: skip


def accounting(**values):
    return encode(
        Accounting(
            experiment="bench", config_hash="c", worker="0", boot_id="b", sequence=1, at=1,
            counts=[
                Count(arm="candidate", counter="sampled", value=values["sampled"]),
                Count(arm="candidate", counter="captured", value=values["captured"]),
                Count(arm="candidate", counter="dropped", reason="queue_full", value=2),
                Count(arm="candidate", counter="skipped", reason="paused", value=0),
                Count(arm="primary", counter="captured", value=99),
            ],
        )
    )  # fmt: skip


def test_exchanges_are_counted_by_arm_and_arrival():
    """Another arm's exchange and an arrival outside of every span are not counted."""
    values = [exchange("candidate", 15), exchange("candidate", 25), exchange("candidate", 26)]
    values += [exchange("primary", 15), exchange("candidate", 99)]
    found = delivered(values, "candidate", {"json": (10, 20), "paced": (21, 30)})
    assert found.exchanges == {"json": 1, "paced": 2}
    assert found.stream_bytes == sum(map(len, values))


def test_the_last_accounting_record_is_kept():
    """Counters are cumulative; reasons stand in their names; zeros and other arms are left out."""
    found = delivered(
        [accounting(sampled=3, captured=1), accounting(sampled=9, captured=7)], "candidate", {}
    )
    assert found.counts == {"sampled": 9, "captured": 7, "dropped(queue_full)": 2}


def test_what_no_counter_explains_is_said():
    """9 sampled = 7 captured + 2 dropped; a tenth is unexplained."""
    counts = {"sampled": 9, "captured": 7, "dropped(queue_full)": 2, "skipped(paused)": 5}
    assert unaccounted(counts) == 0
    assert unaccounted(counts | {"sampled": 10}) == 1


def test_a_log_is_read_to_its_end(tmp_path):
    """Every record of a real embedded log, in order."""
    values = [exchange("candidate", n) for n in range(5)]
    producer = EmbeddedProducer(tmp_path, "0")
    producer.append([Message(b"k", value) for value in values])
    producer.close()
    assert list(read(tmp_path)) == values
