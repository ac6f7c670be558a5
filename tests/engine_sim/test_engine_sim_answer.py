"""The text is a function of the prompt; differing answers differ where and as often as asked."""

from collections import Counter
from dataclasses import replace
from statistics import mean

from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.engine_sim.answer import WORDS, compose, prompt_digest
from shadow.engine_sim.settings import Settings

PROMPTS = [prompt_digest(f"prompt {i}") for i in range(2000)]


def compose_all(one):
    return [compose(digest, one, None, 1) for digest in PROMPTS]


@given(st.integers(0, 2**31), st.sampled_from(["vllm", "sglang", "trtllm", "llama.cpp"]))
@settings(max_examples=30, deadline=None)
def test_text_depends_on_the_prompt_alone(seed, dialect):
    """Engines of any seed, speed and dialect give one prompt the same text."""
    slow = Settings(seed=seed, dialect=dialect, slowdown=3, ttft_ms=9, fault_reset=0.5)
    assert compose(PROMPTS[seed % 2000], slow, None, 1) == compose(
        PROMPTS[seed % 2000], Settings(), None, 1
    )


def test_key_order_and_other_fields_do_not_matter():
    """The digest is of the prompt's content, so a re-serialised request gets the same answer."""
    one = [{"role": "user", "content": "hi"}]
    other = [{"content": "hi", "role": "user"}]
    assert prompt_digest(one) == prompt_digest(other) != prompt_digest("hi")


def test_lengths_have_the_mean_that_was_asked_for():
    """Lengths vary from prompt to prompt around `tokens`."""
    lengths = [len(answer.tokens) for answer in compose_all(Settings(tokens=50))]
    assert 47 < mean(lengths) < 53
    assert min(lengths) < 25
    assert max(lengths) > 100


def test_max_tokens_cuts_the_same_text():
    """A bounded answer is a prefix of the unbounded one, with the finish reason `length`."""
    whole = compose(PROMPTS[0], Settings(), None, 1)
    part = compose(PROMPTS[0], Settings(), 3, 1)
    assert part.tokens == whole.tokens[:3]
    assert (part.finish, whole.finish) == ("length", "stop")


def test_the_asked_share_differs_at_equal_length():
    """`differ` answers of another text: about the share asked for, never another length."""
    pairs = list(
        zip(compose_all(Settings()), compose_all(Settings(differ=0.1, seed=3)), strict=True)
    )
    changed = [(a, b) for a, b in pairs if a != b]
    assert 160 <= len(changed) <= 240
    assert all(len(a.tokens) == len(b.tokens) for a, b in changed)
    assert all(
        " ".join("".join(a.tokens).split()) != " ".join("".join(b.tokens).split())
        for a, b in changed
    )


def test_which_answers_differ_comes_from_the_engines_seed():
    """Two engines with different seeds differ on different prompts; the same seed on the same."""
    common = compose_all(Settings())

    def differing(seed):
        other = compose_all(Settings(differ=0.1, seed=seed))
        return {i for i, (a, b) in enumerate(zip(common, other, strict=True)) if a != b}

    assert differing(1) == differing(1) != differing(2)


@given(st.integers(0, 1999), st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_short_answers_can_differ_too(index, limit):
    """Where every answer is to differ, an answer of one token does as well."""
    one = Settings(differ=1.0)
    assert (
        compose(PROMPTS[index], one, limit, 1).tokens
        != compose(PROMPTS[index], replace(one, differ=0.0), limit, 1).tokens
    )


def test_the_vocabulary_stays_distinct_when_white_space_is_collapsed():
    """Two different words are never taken for equal by a comparison that collapses white space."""
    assert max(Counter(" ".join(word.split()) for word in WORDS).values()) == 1
