"""Packing is the identity for any batch, and what was cut is never taken for a message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shadow.stream import Message
from shadow.stream.embedded.batches import pack, unpack

BATCHES = st.lists(st.builds(Message, key=st.binary(max_size=40), value=st.binary(max_size=200)))


@given(BATCHES)
def test_what_was_packed_is_unpacked(batch):
    """Any keys and values, empty ones too, come back in order, and nothing is left."""
    assert unpack(pack(batch)) == (batch, b"")


@given(BATCHES.filter(len), st.data())
def test_a_cut_batch_is_its_whole_messages_and_the_rest(batch, data):
    """Cut anywhere, unpacking gives the whole messages before the cut and every byte behind them."""
    packed = pack(batch)
    cut = packed[: data.draw(st.integers(1, len(packed) - 1))]
    messages, rest = unpack(cut)
    assert messages == batch[: len(messages)]
    assert pack(messages) + rest == cut
    assert len(pack(batch[: len(messages) + 1])) > len(cut)


@given(st.binary(max_size=100))
def test_any_bytes_are_messages_and_a_rest(packed):
    """No value makes it fail, and no byte is lost."""
    messages, rest = unpack(packed)
    assert pack(messages) + rest == packed
