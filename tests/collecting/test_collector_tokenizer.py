"""A configured tokenizer counts where the engine does not, and says clearly when it cannot be had."""

import builtins
import json

import pytest
from collecting.answers import DONE, delta, event, streamed, text, usage, whole
from collecting.records import exchange

from collector.decode import rows_of
from collector.tokenizer import NoTokenizer, token_counter, token_counters
from shadow.exchange import encode

WORDS = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"?": 0, "Hi": 1}, "unk_token": "?"},
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A tokenizer of words and signs."""
    path = tmp_path_factory.mktemp("t") / "tokenizer.json"
    path.write_text(json.dumps(WORDS))
    return path


def test_the_order_of_sources(file):
    """After usage and log-probabilities, before events; reasoning, refusal and calls are counted."""
    count = token_counter(file)
    hi = text("Hi there, you")
    done = streamed(hi, DONE, count_tokens=count)
    assert (done.tokens.count, done.tokens.source) == (4, "tokenizer")
    assert streamed(hi, usage(7), DONE, count_tokens=count).tokens.source == "usage"
    logged = text("Hi")
    logged["choices"][0]["logprobs"] = {"content": [{"token": "Hi", "logprob": -1}]}
    assert streamed(logged, DONE, count_tokens=count).tokens.source == "logprobs"
    assert streamed(hi, DONE).tokens.source == "events"
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
    rich = streamed(
        delta(reasoning="so so"),
        delta(refusal="No"),
        delta(tool_calls=[call]),
        DONE,
        count_tokens=count,
    )
    assert (rich.tokens.count, rich.tokens.source) == (2 + 1 + 1 + 1, "tokenizer")
    message = {"choices": [{"message": {"content": "Hi you"}}]}
    assert whole(message, count_tokens=count).tokens.count == 2
    assert streamed({"error": "x"}, count_tokens=count).tokens.count is None


def test_each_arm_has_its_own(file):
    """By the arm's name; an arm without one counts events."""
    record = exchange(body=event(text("Hi there")) + DONE)
    for counters, wanted in (
        ({"primary": token_counter(file)}, (2, "tokenizer")),
        ({"fp8": token_counter(file)}, (1, "events")),
    ):
        row = rows_of(encode(record), "text", counters)["exchanges"][0]
        assert (row["output_tokens"], row["token_source"]) == wanted


def test_one_file_is_loaded_once(file):
    """Arms of one model share its tokenizer."""
    made = token_counters({"primary": file, "fp8": file})
    assert made["primary"] is made["fp8"]


def test_what_cannot_be_had_says_so(tmp_path, file, monkeypatch):
    """One line: the arm, the file or the library, and the way out."""
    (tmp_path / "bad.json").write_text("{}")
    for name, why in (
        ("none.json", "No such file"),
        ("bad.json", "is no tokenizer.json"),
        ("", "Is a directory"),
    ):
        with pytest.raises(NoTokenizer, match=rf"^fp8\.tokenizer: [^\n]*{why}[^\n]*$"):
            token_counters({"fp8": tmp_path / name})
    real = builtins.__import__

    def without(name, *rest):
        if name == "tokenizers":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        NoTokenizer, match=r"not installed: pip install 'shadow-compare\[tokenizer\]'$"
    ):
        token_counter(file)
