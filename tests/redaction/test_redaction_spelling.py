"""What is written over keeps its length, stays JSON, and does not show how it had been spelled."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.redaction.rules import Rule
from shadow.redaction.spelling import changed, class_of, masked, read

TEXTS = st.text(alphabet=st.sampled_from('ab1 *"\\/\n\t\x01é¡ü世•😀🔒\u2028'), max_size=12)
RULES = [Rule("r", action, b"0123456789abcdef") for action in ("mask", "hash")]


@st.composite
def spelled(draw, texts=TEXTS):
    """A text and one of the ways in which JSON spells it."""
    text = draw(texts)
    raw = b""
    for character in text:
        short = json.dumps(character, ensure_ascii=False)[1:-1].encode()
        ways = [short, json.dumps(character)[1:-1].encode()]
        if ord(character) < 0x10000:
            ways.append(b"\\u%04x" % ord(character))
        if character == "/":
            ways.append(b"\\/")
        raw += draw(st.sampled_from(ways))
    return text, raw


@given(spelled())
def test_a_string_is_read_as_json_reads_it(case):
    text, raw = case
    assert read(raw) == text == json.loads(b'"' + raw + b'"')


@settings(max_examples=300)
@given(spelled(), spelled(), spelled(), st.sampled_from(RULES))
def test_a_change_keeps_length_and_leaves_json(before, secret, after, rule):
    """As many bytes, a string still, its other characters as they were."""
    raw = before[1] + secret[1] + after[1]
    text = before[0] + secret[0] + after[0]
    start, end = len(before[0]), len(before[0]) + len(secret[0])
    new = changed(raw, [(start, end, rule.instead_of(secret[0]))])
    assert len(new) == len(raw)
    told = json.loads(b'"' + new + b'"')
    assert told == before[0] + rule.instead_of(secret[0]) + after[0]
    assert told[:start] + secret[0] + told[end:] == text


@given(spelled(), spelled(), spelled())
def test_what_is_dropped_leaves_white_space(before, secret, after):
    raw = before[1] + secret[1] + after[1]
    start, end = len(before[0]), len(before[0]) + len(secret[0])
    new = changed(raw, [(start, end, None)])
    assert new == before[1] + b" " * len(secret[1]) + after[1]


@given(st.data(), TEXTS, st.sampled_from(RULES))
def test_one_text_in_two_spellings_becomes_one(data, text, rule):
    """Engines differ in their escapes; a comparison of redacted texts must not."""
    told = set()
    for _ in range(2):
        _, raw = data.draw(spelled(st.just(text)))
        new = changed(raw, [(0, len(text), rule.instead_of(text))])
        told.add(json.loads(b'"' + new + b'"'))
    assert len(told) == 1


def test_equal_secrets_have_equal_hashes_and_others_do_not():
    mask, hashed = RULES
    assert hashed.instead_of("4111111111111111") == hashed.instead_of("4111111111111111")
    assert hashed.instead_of("4111111111111111") != hashed.instead_of("5500000000000004")
    other = Rule("r", "hash", b"another salt....")
    assert hashed.instead_of("4111111111111111") != other.instead_of("4111111111111111")
    assert mask.instead_of("4111111111111111") == mask.instead_of("5500000000000004")


def test_classes():
    assert [class_of(c) for c in 'a~\n/"é世😀\x7f'] == [*"**///·•🔒*"]


@given(st.binary(max_size=40))
def test_any_bytes_can_be_read_and_masked(raw):
    """Stray bytes and broken escapes too: as long as before."""
    for escaped in (True, False):
        text = read(raw, escaped=escaped)
        assert len(changed(raw, [(0, len(text), masked(text))], escaped=escaped)) == len(raw)
