"""What is read of a request's body: never fails, never keeps its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadow.capture.facts import PARSED_BYTES
from shadow.capture.facts import request_facts as fields_of
from shadow.exchange import RequestFacts


def request_facts(body: bytes) -> RequestFacts:
    """As a reader gets them."""
    return RequestFacts(**fields_of(body))


def test_a_chat_request():
    """The facts by their names."""
    body = b'{"model":"m","stream":true,"max_tokens":5,"temperature":0,"messages":[{},{}],"tools":[{}]}'
    facts = request_facts(body)
    assert facts == RequestFacts(
        model="m", streamed=True, max_tokens=5, temperature=0.0, bytes=len(body), turns=2, tools=1
    )


@pytest.mark.parametrize("key", ["max_completion_tokens", "max_output_tokens", "max_tokens"])
def test_spellings_of_the_limit(key):
    """Three APIs, three names."""
    assert request_facts(b'{"%b": 9}' % key.encode()).max_tokens == 9


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[1]",
        b"not json",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"model": 3, "stream": "yes", "max_tokens": true, "temperature": "x", "messages": "hi"}',
        b'{"max_tokens": 1e400, "temperature": 99999999999999999999999}',
        b'{"model": "m"}' + b" " * PARSED_BYTES,
    ],
)
def test_odd_bodies_give_their_size_alone(body):
    """What is not what it should be is None."""
    facts = request_facts(body)
    assert facts.bytes == len(body)
    assert facts.model is None
    assert facts.max_tokens is None


@given(st.binary(max_size=200))
def test_any_bytes(body):
    """No body makes it fail."""
    assert request_facts(body).bytes == len(body)
