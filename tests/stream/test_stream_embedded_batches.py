"""Packing is the identity for any batch, and a value that was cut is never taken for a batch."""

from __future__ import annotations

from itertools import accumulate, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadow.stream import Message
from shadow.stream.embedded.batches import pack, unpack

BATCHES = st.lists(st.builds(Message, key=st.binary(max_size=40), value=st.binary(max_size=200)))


@given(BATCHES)
def test_what_was_packed_is_unpacked(batch):
    """Any keys and values, empty ones too, come back in order."""
    assert list(unpack(pack(batch))) == batch


@given(BATCHES.filter(len), st.data())
def test_a_cut_batch_is_never_more_than_its_whole_messages(batch, data):
    """Cut anywhere, unpacking gives the whole messages before the cut and then an error."""
    packed = pack(batch)
    cut = packed[: data.draw(st.integers(1, len(packed) - 1))]
    whole = list(accumulate(len(pack([message])) for message in batch))
    messages = unpack(cut)
    fitting = sum(end <= len(cut) for end in whole)
    assert list(islice(messages, fitting)) == batch[:fitting]
    if len(cut) in whole:
        assert list(messages) == []
    else:
        with pytest.raises(ValueError, match="cut short"):
            next(messages)


def test_an_empty_value_is_an_empty_batch():
    assert list(unpack(b"")) == []


def test_half_a_length_is_an_error():
    with pytest.raises(ValueError, match="cut short"):
        list(unpack(b"\x00\x00"))
