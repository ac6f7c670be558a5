"""A record that was given up is told apart by its bytes, or not at all: never as another one."""

from collecting.records import accounting, exchange
from hypothesis import given
from hypothesis import strategies as st

from collector.origin import UNKNOWN, Origin, origin_of, records_in
from shadow.exchange import encode

TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters='"\\'), min_size=1, max_size=20)  # fmt: skip
LIE = '"worker":"liar","boot_id":"liar","experiment":"liar","sequence":666,"record":"exchange"'


@given(TEXT, TEXT, TEXT, st.integers(1, 2**53), st.text(max_size=20))
def test_a_cut_record_is_told_by_its_head(experiment, worker, boot_id, sequence, junk):
    """Cut anywhere: the whole origin once all of it is there, else nothing; what headers, errors
    and bodies say is not the record's own."""
    record = exchange(
        experiment=experiment, worker=worker, boot_id=boot_id, sequence=sequence,
        headers=[("x", LIE), ("y", junk)], error=LIE, body=LIE.encode(), measures={"worker": "liar", "sequence": 5},
    )  # fmt: skip
    value = encode(record)
    origin = Origin(experiment, worker, boot_id, sequence)
    told = [origin_of(value[:cut]) for cut in range(0, len(value), 7)]
    assert origin_of(value) == origin
    complete = value.index(b'"arrived_at"')
    assert all(each == origin for cut, each in enumerate(told) if cut * 7 > complete)
    before = [each for cut, each in enumerate(told) if cut * 7 < value.index(b'"sequence":')]
    assert set(before) <= {UNKNOWN}
    assert origin_of(value[:-1] + b"\xff{") == origin


def test_what_is_no_exchange_has_no_origin():
    """An accounting record numbers other things; bytes that name a part alone tell nothing."""
    assert origin_of(encode(accounting())) == UNKNOWN
    assert origin_of(b"") == UNKNOWN
    assert origin_of(b'{"record":"exchange","worker":"w","sequence":3}') == UNKNOWN


@given(st.lists(st.integers(1, 9), max_size=3), st.binary(max_size=12), st.binary(max_size=12))
def test_records_in_damaged_bytes(sequences, before, between):
    """Every record that begins in them is a piece of its own, and no byte is lost."""
    values = [encode(exchange(sequence=sequence)) for sequence in sequences]
    damaged = before + between.join(values)
    pieces = records_in(damaged)
    assert b"".join(pieces) == damaged
    told = [origin.sequence for origin in map(origin_of, pieces) if origin != UNKNOWN]
    assert told == sequences
