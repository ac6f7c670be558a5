"""Changes of a body: what a dictionary would say, and every other byte as it was."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relay.test_relay_body_scan import VALUES, members_spelled

from shadow.body.change import NotServed, changes
from shadow.body.edit import applied, edits
from shadow.body.names import STEERING
from shadow.body.parsed import soon_parsed, tree
from shadow.body.quick import located
from shadow.body.scan import Scanner, run
from shadow.body.wish import Wish, greedy, json_text, sought

CHAT = b"/v1/chat/completions"
NAMES = ["model", "a", "b", "temperature", "priority", "stream_options"]
SAFE = VALUES.filter(lambda value: value is not None)


@st.composite
def bodies(draw):
    """(members, with duplicates, their JSON text)."""
    members = draw(st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=7))
    return members, draw(members_spelled(members)).encode("utf-8", "surrogatepass")


def changed(body: bytes, wish: Wish, path: bytes = CHAT, **more) -> tuple[bytes, list[str]]:
    """What the arm gets, and what is said of it; whether the body is bytes or came in pieces."""
    made = []
    for kind in (bytes, bytearray):
        scanner = Scanner(kind(body))
        found = run(changes(scanner, run(scanner.whole()), wish, path, **more))
        made.append((b"".join(applied(scanner.body, found.edits)), found.names))
    assert made[0] == made[1]
    return made[0]


@settings(max_examples=80, deadline=None)
@given(
    bodies(),
    st.dictionaries(st.sampled_from(NAMES[1:]), st.integers() | st.text(max_size=3), max_size=3),
    st.lists(st.sampled_from(NAMES[1:]), max_size=3),
)
def test_a_dictionary_s_say(drawn, values, removed):
    """Replaced in each of its places, added at the end, taken away: as a list of pairs says. The
    kept members' own bytes stand there as they stood, in their order.
    """
    members, body = drawn
    removed = [name for name in removed if name not in values]
    texts = {name.encode(): json_text(value) for name, value in values.items()}
    found = run(Scanner(body).whole())
    made = edits(found, texts, [name.encode() for name in removed])
    new = b"".join(applied(body, made))
    expected = [(n, values.get(n, v)) for n, v in members if n not in removed]
    expected += [(n, v) for n, v in values.items() if n not in dict(expected)]
    again = run(Scanner(new).whole())
    assert [m.name.decode() for m in again.members] == [name for name, _ in expected]
    for member, (_, value) in zip(again.members, expected, strict=True):
        assert json.loads(new[member.at : member.end]) == value
    kept = [
        body[m.start : m.end] for m in found.members if m.name.decode() not in {*values, *removed}
    ]
    there = [new[m.start : m.end] for m in again.members if m.name.decode() not in values]
    assert there == kept
    assert new.count(b"\\") >= sum(text.count(b"\\") for text in kept)


@settings(max_examples=40, deadline=None)
@given(bodies())
def test_nothing_asked_nothing_changed(drawn):
    """No wish and no steering field: not one byte differs."""
    members, body = drawn
    new, names = changed(body, Wish({}, {}))
    if not any(name.encode() in STEERING for name, _ in members):
        assert (new, names) == (body, [])
    else:
        assert names == ["priority"]


def test_a_model_is_replaced_where_it_stands():
    """White space, order, escapes, number spelling and duplicates are the client's."""
    body = rb'{ "max_tokens" : 1.0e2 ,"mod\u0065l":  "ll\u0061ma" , "x":[1E5,"\u00e9"],"model":"llama"}'
    new, names = changed(body, Wish({"llama": "ll-8b é"}, {}))
    assert new == (
        rb'{ "max_tokens" : 1.0e2 ,"mod\u0065l":  "ll-8b ' + "é".encode()
        + rb'" , "x":[1E5,"\u00e9"],"model":"ll-8b ' + "é".encode() + rb'"}'
    )  # fmt: skip
    assert names == ["model"]


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"model":"other"}', b'{"model":null}', b'{"model":["llama"]}', b'{"model":"llam"}',
     b'{"model":"llama","model":"other"}', b'{"Model":"llama"}', b'{"model":"\\ud800"}'],
)  # fmt: skip
def test_any_other_model_is_not_served(body):
    """Missing, no string, another, or one of two another: never a guess."""
    with pytest.raises(NotServed):
        changed(body, Wish({"llama": "x"}, {}))


@pytest.mark.parametrize(
    ("body", "new", "names"),
    [
        (b'{"stream":true}', b'{"stream":true,"stream_options":{"include_usage":true}}', 1),
        (b'{"stream":true,"stream_options":null}', b'{"stream":true,"stream_options":{"include_usage":true}}', 1),
        (b'{"stream_options":{},"stream":true}', b'{"stream_options":{"include_usage":true},"stream":true}', 1),
        (b'{"stream":true,"stream_options":{"include_usage": false,"x":1}}',
         b'{"stream":true,"stream_options":{"include_usage": true,"x":1}}', 1),
        (b'{"stream":true,"stream_options":{"x":1}}', b'{"stream":true,"stream_options":{"x":1,"include_usage":true}}', 1),
        (b'{"stream":true,"stream_options":{"include_usage":true}}', None, 0),
        (b'{"stream":true,"stream_options":"odd"}', None, 0),
        (b'{"stream":false}', None, 0), (b'{"stream":1}', None, 0), (b"{}", None, 0),
        (b'{"stream":true,"stream":false}', None, 0),
    ],
)  # fmt: skip
def test_usage_is_asked_for(body, new, names):
    """Where the answer is streamed, and where chat/completions or completions are."""
    wish = Wish({}, {}, include_usage=True)
    said = ["stream_options.include_usage"][:names]
    assert changed(body, wish) == (body if new is None else new, said)
    assert changed(body, wish, b"/v1/messages") == (body, [])


@pytest.mark.parametrize(
    ("body", "new"),
    [
        (b'{"input":"hi"}', b'{"input":"hi","store":false}'),
        (b'{"input":"hi" ,"store":null }', b'{"input":"hi" ,"store":false }'),
        (rb'{"st\u006fre":null,"n":1}', rb'{"st\u006fre":false,"n":1}'),
        (b'{"store":false}', None),
        (b"{}", b'{"store":false}'),
    ],
)
def test_no_copy_is_stored(body, new):
    """The Responses API stores by default: a copy says that it must not, and the record says so.
    Elsewhere nothing is stored by default. What the operator says for the arm stands.
    """
    said = [] if new is None else ["store"]
    assert changed(body, Wish({}, {}), b"/v1/responses") == (body if new is None else new, said)
    for path in (CHAT, b"/v1/messages", b"/v1/completions", b"/v1/embeddings"):
        assert changed(body, Wish({}, {}), path) == (body, [])
    own, _ = changed(body, Wish({}, {"store": b"true"}), b"/v1/responses")
    assert json.loads(own)["store"] is True
    removed, _ = changed(body, Wish({}, {}, ("store",)), b"/v1/responses")
    assert "store" not in json.loads(removed)


def test_within_an_object():
    """A dotted name is set and taken away within its object, and only there."""
    wish = Wish({}, {"a.b": b"1", "c.d": b'"x"'}, ("a.gone", "e.gone", "f"))
    body = b'{"b":0,"a":{"gone":[1] , "b" : 2,"z":3},"e":{"gone":1},"f":{"b":1}, "gone":4}'
    new, names = changed(body, wish)
    assert new == b'{"b":0,"a":{"b" : 1,"z":3},"e":{},"gone":4,"c":{"d":"x"}}'
    assert names == ["a.b", "a.gone", "c.d", "e.gone", "f"]


def test_what_steers_an_engine_never_travels():
    """Whichever it is and however it is spelled; unless the operator sets it for the arm."""
    for name in sorted(STEERING):
        key = b'"' + rb"\u00%02x" % name[0] + name[1:] + b'"'
        body = b'{"model":"m",' + key + b':{"deep":["%b"]},"n":1}' % name
        assert changed(body, Wish({}, {})) == (b'{"model":"m","n":1}', [name.decode()])
    new, names = changed(b'{"priority":5,"rid":"r"}', Wish({}, {"priority": b"0"}))
    assert (new, names) == (b'{"priority":0}', ["priority", "rid"])


def test_greedy_is_stronger_than_the_arm_s_wish():
    """Temperature 0 and a seed where there is one; nothing where nothing is sampled."""
    wish = Wish({}, {"temperature": b"0.7"}, ("seed",))
    new, names = changed(b'{"temperature":1,"seed":9}', wish, more=greedy(CHAT))
    assert (json.loads(new), names) == ({"temperature": 0, "seed": 1}, ["seed", "temperature"])
    assert greedy(b"/v1/messages") == {"temperature": b"0"}
    assert greedy(b"/v1/embeddings") is None


def test_a_large_body_is_not_copied():
    """8 MiB: the pieces are views of it, made at once."""
    body = b'{"model":"m","x":"' + b"A" * 2**23 + b'"}'
    made = edits(run(Scanner(body).whole()), {b"model": b'"n"', b"k": b"1"})
    begun = time.thread_time_ns()
    pieces = applied(body, made)
    assert time.thread_time_ns() - begun < 1_000_000
    assert [type(piece) for piece in pieces].count(memoryview) == 3
    assert b"".join(pieces) == body.replace(b'"m"', b'"n"', 1)[:-1] + b',"k":1}'


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_quick_way_is_the_scanner_s(data):
    """Where a parsed body's names are located without a scan, the changed body is the same."""
    drawn = data.draw(st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5))
    members = list({"model": "m", **dict(drawn)}.items())
    plain = data.draw(st.booleans())
    text = (
        json.dumps(dict(members), ensure_ascii=False)
        if plain
        else data.draw(members_spelled(members))
    )
    body = text.encode("utf-8", "surrogatepass")
    wish = Wish({"m": "n"}, {"a": b"[1]", "temperature": b"0"}, include_usage=True)
    names, scanned = sought([wish], probed=True)
    found = tree(body)
    if found is None or not scanned.isdisjoint(found) or any(n.encode() in STEERING for n in found):
        return
    quick = located(body, found, names)
    if quick is not None:
        scanner = Scanner(body)
        try:
            made = run(changes(scanner, quick, wish, CHAT))
        except NotServed:
            with pytest.raises(NotServed):
                changed(body, wish)
            return
        assert (b"".join(applied(body, made.edits)), made.names) == changed(body, wish)


def test_what_is_parsed_at_once_takes_less_than_a_millisecond():
    """Dense or large texts are left to the scanner."""
    assert soon_parsed(b"{" + b"[],[]," * 1500)
    assert not soon_parsed(b"[" + b"{}," * 1500)
    assert not soon_parsed(b"[" + b"[]," * 30_000)
    assert not soon_parsed(b"[" + b"1," * 40_000)
    assert soon_parsed(b'["' + b"A" * 200_000)
    assert not soon_parsed(b'["' + b"A" * 300_000)
    assert tree(b"[]") is None
    assert tree(b'{"a":NaN}') is None


def test_a_plain_body_is_not_scanned():
    """As clients write it, its names are found at once; anything odd is left to the scanner."""
    body = b'{"messages":[{"role":"user","content":"a \\"model\\" \\n"}], "model": "m","n":1 }'
    found = located(body, json.loads(body), ["model", "n", "x"])
    assert found is not None
    assert [body[m.start : m.end] for m in found.members] == [b'"model": "m"', b'"n":1', b""]
    for odd in (rb'{"mod\u0065l":"m"}', b'{"a":"model","model":"m"}', b'{"model":{}}', b"{}"):
        assert located(odd, json.loads(odd), ["model"]) is None
