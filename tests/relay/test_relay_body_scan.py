"""The scanner finds the top level of any JSON body, in steps, and is never misled about it."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.body.scan import MOST_MEMBERS, MOST_VALUES, NotJson, Object, Scanner, TooMuch, run

MIB = 2**20
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
WHITE = st.text(" \t\r\n", max_size=3)


@st.composite
def spelled(draw, value):
    """One of a value's JSON texts: white space and escapes as drawn."""
    white = lambda: draw(WHITE)  # noqa: E731
    if isinstance(value, list):
        inside = ",".join(white() + draw(spelled(item)) + white() for item in value)
        return f"[{inside or white()}]"
    if isinstance(value, str):
        return text_spelled(draw, value)
    return (
        json.dumps(value)
        if not isinstance(value, dict)
        else draw(members_spelled([*value.items()]))
    )


def text_spelled(draw, text):
    said = []
    for character in text:
        if draw(st.booleans()) and ord(character) < 0x10000:
            said.append(f"\\u{ord(character):04{draw(st.sampled_from('xX'))}}")
        else:
            said.append(json.dumps(character, ensure_ascii=draw(st.booleans()))[1:-1])
    return '"' + "".join(said) + '"'


@st.composite
def members_spelled(draw, members):
    white = lambda: draw(WHITE)  # noqa: E731
    inside = ",".join(
        f"{white()}{text_spelled(draw, name)}{white()}:{white()}{draw(spelled(value))}{white()}"
        for name, value in members
    )
    return f"{{{inside or white()}}}"


@st.composite
def bodies(draw):
    """(members, with duplicates, their JSON text)."""
    name = st.text(max_size=5) | st.sampled_from(["model", "store", "a"])
    members = draw(st.lists(st.tuples(name, VALUES), max_size=6))
    text = draw(WHITE) + draw(members_spelled(members)) + draw(WHITE)
    return members, text.encode("utf-8", "surrogatepass")


def scanned(body: bytes) -> Object:
    return run(Scanner(body).whole())


@settings(max_examples=60, deadline=None)
@given(bodies())
def test_every_member_is_found(drawn):
    """Names, duplicates and order as a parser says; each span is the value's text, no byte more."""
    members, body = drawn
    found = scanned(body)
    assert [(m.name.decode("utf-8", "surrogatepass")) for m in found.members] == [
        n for n, _ in members
    ]
    for member, (name, value) in zip(found.members, members, strict=True):
        assert json.loads(body[member.at : member.end]) == value
        assert json.loads(body[member.start : member.at].rstrip(b" \t\r\n:")) == name
        assert body[member.at : member.end].strip() == body[member.at : member.end]
    assert json.loads(body[found.start : found.end]) is not None


@settings(max_examples=100, deadline=None)
@given(bodies(), st.data())
def test_a_damaged_body_is_refused_or_read_as_a_parser_reads_it(drawn, data):
    """Whatever byte is changed, lost or added: where a parser accepts it, the spans are its."""
    _, body = drawn
    at = data.draw(st.integers(0, max(len(body) - 1, 0)))
    new = data.draw(
        st.sampled_from([b"", b'"', b"\\", b"{", b"}", b"]", b",", b"'", b"/", b"\0", b"x"])
    )
    body = body[:at] + new + body[at + data.draw(st.integers(0, 2)) :]
    try:
        pairs = json.loads(body.decode(), object_pairs_hook=list)
    except (ValueError, RecursionError):
        pairs = None
    try:
        found = scanned(body)
    except (NotJson, TooMuch):
        return
    if pairs is not None:
        names = [m.name.decode("utf-8", "surrogatepass") for m in found.members]
        assert names == [name for name, _ in pairs]
        for member, (_, value) in zip(found.members, pairs, strict=True):
            said = body[member.at : member.end].decode()
            assert repr(json.loads(said, object_pairs_hook=list)) == repr(value)


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"[]", b"1", b"null", b'"a"', b"{", b"}", b'{"a"}', b'{"a":}', b'{"a":1,}', b"{,}",
        b'{"a":1}x', b'{"a":1}{"b":2}', b"{a:1}", b"{'a':1}", b'{"a":01}', b'{"a":+1}', b'{"a":.5}',
        b'{"a":NaN}', b'{"a":Infinity}', b'{"a":tru}', b'{"a":1 2}', b'{"a":"b}', b'{"a":"b\\"}',
        b'{"a":[1}', b'{"a":[}]}', b'{"a":["]}', b'{"a":{"b":[}}}', b'{"a":1/**/}', b"{\"a\":['\"']}",
        b'{"\\x":1}', b'{"a\n":1}', b'{"\\u12":1}', b'{"\xff":1}', b'\xef\xbb\xbf{"a":1}', b'{"a":\x00}',
        '{"a":1}'.encode("utf-16"), '{"a":1}'.encode("utf-32-le"), b'{"a":1', b'{"a" 1}', b'{"a"::1}',
    ],
)  # fmt: skip
def test_what_is_no_object_is_refused(body):
    """Not JSON, not an object, or JSON of some other kind: no member is ever guessed."""
    with pytest.raises(NotJson):
        scanned(body)


def test_a_name_is_read_through_its_escapes():
    """Any spelling of a key is the same name, lone surrogates too."""
    body = rb'{"\u0073tore":true,"st\u006fre":1,"\/":2,"\ud800":3}'
    names = [member.name for member in scanned(body).members]
    assert names == [b"store", b"store", b"/", b"\xed\xa0\x80"]


HUGE = {
    "one long text": b'{"messages":["' + b"A" * (8 * MIB) + b'"]}',
    "many texts": b'{"a":[' + b'"lorem ipsum dolor sit amet",' * (8 * MIB // 29) + b"0]}",
    "backslashes": b'{"a":"' + b"\\\\" * (4 * MIB) + b'","b":1}',
    "escapes": b'{"a":["' + b"\\n" * (4 * MIB) + b'"]}',
    "numbers": b'{"a":[' + b"1234," * MIB + b"1]}",
    "white space": b'{"a"' + b" " * (4 * MIB) + b":" + b"\n" * (2 * MIB) + b"1" + b" " * (2 * MIB) + b"}",
    "small texts": b'{"a":[' + b'"",' * MIB + b"1]}",
    "deep": b'{"a":' + b"[" * 60_000 + b"]" * 60_000 + b"}",
    "members": b"{" + b'"a":[%b],' % (b'"abc",' * 100 + b"1") * (MOST_MEMBERS - 1) + b'"b":2}',
}  # fmt: skip


def steps_of(begin, runs: int = 9) -> list[int]:
    """What each step takes of this thread's CPU, ns: the least of several runs, so that neither a
    busy machine nor a cold cache counts; one is enough where every step is short in it.

    Args:
        begin: gives the steps anew; they are as many each time.
        runs: how often they are run at most.
    """
    least: list[int] = []
    while runs and (not least or max(least) >= STEP_NS):
        steps, spent, more, runs = begin(), [], True, runs - 1
        while more:
            begun = time.thread_time_ns()
            more = next(steps, MISSING) is not MISSING
            spent.append(time.thread_time_ns() - begun)
        least = [min(each) for each in zip(least or spent, spent, strict=True)]
    return least


MISSING = object()
STEP_NS = 1_000_000
"""The promise: a step holds the loop for less."""


@pytest.mark.parametrize("name", HUGE)
def test_each_step_is_short(name):
    """8 MiB of anything: every step is below a millisecond, and the time is linear."""
    body = HUGE[name]
    assert scanned(body).end == len(body)
    spent = steps_of(lambda: Scanner(body).whole())
    assert max(spent) < STEP_NS
    assert sum(spent) < 1_000_000_000


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":[' + b"[]," * MOST_VALUES + b"1]}",
        b"{" + b'"a":1,' * MOST_MEMBERS + b'"a":1}',
        b'{"' + b"k" * MIB + b'":1}',
    ],
)
def test_what_takes_too_long_is_given_up(body):
    """Too many values, or a key of absurd length: said so, in bounded time."""
    with pytest.raises(TooMuch):
        scanned(body)


@settings(max_examples=60, deadline=None)
@given(bodies(), st.integers(1, 40))
def test_the_steps_do_not_matter(drawn, size):
    """However short a step is, the same is found."""
    members, body = drawn
    whole = scanned(body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "shadow.body.scan.STEP_BYTES",
            size + max((len(n) for n, _ in members), default=0) * 8 + 32,  # no number is cut
        )
        assert scanned(body) == whole
