"""Two answers are the same when their comparable texts are: what counts in it, and what does not."""

import pytest
from collecting.answers import DONE, delta, finish, streamed, text, whole
from hypothesis import given
from hypothesis import strategies as st

from collector.comparable import canonical, comparable, normal, text_hash


def chat(*messages):
    return whole(
        {"choices": [{"index": n, "message": message} for n, message in enumerate(messages)]}
    )


def calls(*arguments, content=None):
    return {
        "content": content,
        "tool_calls": [
            {"id": str(n), "function": {"name": "f", "arguments": a}}
            for n, a in enumerate(arguments)
        ],
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"content": " Hello\n\n world "}, {"content": "Hello world"}),
        ({"content": "e\u0301"}, {"content": "\u00e9"}),
        ({"content": "a\u00a0b\u2003c"}, {"content": "a b c"}),
        (calls('{"b":1,"a":2}'), calls('{ "a": 2, "b": 1 }')),
        ({"content": "Yes", "reasoning": "one way"}, {"content": "Yes", "reasoning": "another"}),
        ({"content": "Yes", "refusal": None}, {"content": "Yes"}),
    ],
)
def test_the_same(one, other):
    """White space, normal form, the order of arguments, call ids and reasoning make no difference."""
    assert comparable(chat(one)) == comparable(chat(other)) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([{"content": "Hello"}], [{"content": "hello"}]),
        ([{"content": "ab"}], [{"content": "a b"}]),
        ([calls('{"a":1}')], [calls('{"a":2}')]),
        ([calls('{"a":1}')], [calls('{"a":1}', content="See:")]),
        ([calls('{"a":1}', '{"a":1}')], [calls('{"a":1}')]),
        ([{"content": "No."}, {"content": "x"}], [{"content": "No. x"}]),
        ([{"content": "a"}, {"content": "b"}], [{"content": "b"}, {"content": "a"}]),
        ([{"content": None, "reasoning": "a"}], [{"content": None, "reasoning": "b"}]),
    ],
)
def test_different(one, other):
    """Words, case, calls and choices do; reasoning does where there is nothing else."""
    assert comparable(chat(*one)) != comparable(chat(*other))


def test_nothing_to_compare():
    """A broken answer, or one with a gap has none."""
    assert comparable(streamed(text("Hel"))) is None
    assert comparable(streamed(text("Hel"), {"error": "x"}, DONE)) is None


@pytest.mark.parametrize("content", [" \n", "", None])
def test_nothing_said_is_a_text(content):
    """It differs from an answer with words: some engines end at once, having counted one token."""
    document = {"choices": [{"message": {"content": content}}], "usage": {"completion_tokens": 1}}
    assert comparable(whole(document)) == ""


def test_streamed_and_whole_agree():
    """The same answer either way has one text."""
    pieces = [delta(role="assistant", content=""), text("Hé"), text("llo \n"), finish(), DONE]
    assert (
        comparable(streamed(*pieces))
        == comparable(chat({"content": "Hé llo".replace(" ", "")}))
        == "Héllo"
    )


def test_the_hash_never_changes():
    """A stored hash is compared with one of a later release."""
    assert text_hash("Héllo") == 0x0F4AB3DCF22C9A9A


@given(st.text())
def test_normal_is_idempotent(words):
    """Normalising twice changes nothing more."""
    assert normal(normal(words)) == normal(words)


@pytest.mark.parametrize(
    "odd", ["", "not json", "[" * 5000, '{"a":NaN}', '"\\ud800"', "[" * 1020 + "]" * 1020]
)
def test_arguments_of_any_kind(odd):
    """What is no JSON stands as it is; nothing raises, and the text can be encoded."""
    canonical(odd).encode()
    comparable(chat(calls(odd)))
