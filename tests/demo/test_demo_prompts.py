"""Generated prompts are repeatable, unlike one another, and of realistic lengths."""

from statistics import median

import orjson

from shadow.demo.prompts import body, chats


def test_a_seed_makes_the_same_prompts():
    """So that two runs of the demo ask the same."""
    assert list(chats(3, 50)) == list(chats(3, 50)) != list(chats(4, 50))


def test_no_two_are_alike_and_lengths_spread():
    """1,400 chats: all different, many short ones, a few long ones, some with earlier turns."""
    made = list(chats(1, 1400))
    lengths = [sum(len(m["content"]) for m in messages) for messages in made]
    assert len({orjson.dumps(m) for m in made}) == 1400
    assert 250 < median(lengths) < 900
    assert max(lengths) > 5 * median(lengths)
    assert 0.2 < sum(len(m) > 2 for m in made) / 1400 < 0.3


def test_every_chat_ends_with_the_user():
    """As engines' templates require."""
    assert all(messages[-1]["role"] == "user" for messages in chats(2, 100))


def test_body_is_a_request():
    """Model, messages and what else is asked for."""
    assert orjson.loads(body([{"role": "user", "content": "é"}], "m", stream=True)) == {
        "model": "m",
        "messages": [{"role": "user", "content": "é"}],
        "stream": True,
    }
