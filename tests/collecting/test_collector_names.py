"""A forged record's names reach no table: it is a dead letter; what clients chose is cut."""

from __future__ import annotations

import pytest
from collecting.records import accounting, exchange

from collector.decode import rows_of
from collector.names import MOST_WORD, NAME, misnamed
from shadow.config import words
from shadow.exchange import Count, MalformedRecord, encode

HUGE = "x" * 70_000


@pytest.mark.parametrize("name", [HUGE, "", "Fp8", "a b", "<b>", "fp8\n", "é", "-x", "x" * 64])
@pytest.mark.parametrize("field", ["arm", "experiment"])
def test_a_name_that_no_configuration_holds_is_a_bad_value(field, name):
    """The reason is short, whatever the name is, and says which field it was."""
    with pytest.raises(MalformedRecord) as bad:
        rows_of(encode(exchange(**{field: name})), "full")
    assert str(bad.value).startswith(f"record: {field}: ")
    assert len(str(bad.value)) < 200


@pytest.mark.parametrize(
    "field",
    ["config_hash", "worker", "boot_id", "pair_id", "role", "probe", "attach", "transport"],
)
def test_an_identity_is_a_short_word(field):
    """200 printable characters are more than a proxy ever gives."""
    for value in (HUGE, "a b", "\x07", "x" * (MOST_WORD + 1)):
        assert str(misnamed(exchange(**{field: value}))).startswith(f"{field}: ")
    assert misnamed(exchange(**{field: "x" * MOST_WORD})) is None


def test_counters_are_held_to_the_same():
    """Accounting's arms, counters and reasons; a worker's own figures have no arm."""
    for field in ("arm", "counter", "reason"):
        count = Count(**{"arm": "fp8", "counter": "eligible", "value": 1} | {field: HUGE})
        with pytest.raises(MalformedRecord, match=f"counts.{field}: "):
            rows_of(encode(accounting(counts=[count])), "full")
    ours = Count(arm="", counter="high_sequence", reason="", value=1)
    assert misnamed(accounting(counts=[ours])) is None


def test_what_a_client_chose_is_cut():
    """A path, a method, a list of changes: a row stays small, and the record is no bad value."""
    record = exchange(method=HUGE, path="/" + HUGE, request_changes=[HUGE] * 1000)
    (row,) = rows_of(encode(record), "measures")["exchanges"]
    assert (len(row["method"]), len(row["path"])) == (200, 2000)
    assert sum(map(len, row["request_changes"])) == 100 * 200


def test_names_are_the_configurations():
    """The collector reads no configuration; its pattern is the same."""
    assert NAME.pattern == words.NAME.pattern
