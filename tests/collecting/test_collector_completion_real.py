"""Twenty-five real answers, chosen for their differences, against what was read in their bytes by hand.

tests/captures/expected/ENGINE-NAME.json is the whole object that `shadow decode` prints of
tests/captures/ENGINE/NAME.json. Why each was chosen:
"""

import json
from pathlib import Path

import pytest

from collector.capture_file import decode_file

CAPTURES = Path(__file__).parents[1] / "captures"
VLLM, LLAMA = "vllm-0.32.0-e48dcda4", "b0-unknown"

CHOSEN = {
    "vllm/chat_n2": "two choices",
    "vllm/chat_stop": "one token that decodes to nothing, ended by the stop string",
    "vllm/chat_stream_contusage": "usage on every chunk: the role's says 0 tokens",
    "vllm/chat_stream_token_ids": "no usage: token ids count",
    "vllm/chat_token_ids": "token ids beside usage",
    "vllm/completion_prompt_logprobs": "echo: the text begins with the prompt",
    "vllm/completion_stream_logprobs": "the whole stream in one read",
    "vllm/abort_stream": "the client left",
    "vllm/anthropic_messages": "message_start long before the first token",
    "vllm/responses": "an incomplete response, whole",
    "vllm/responses_stream": "response.created 216 ms before any token",
    "vllm/err_missing_messages": "an error with a nested text",
    "vllm/err_method": "405 with a detail",
    "llama.cpp/chat_json": "JSON mode; cached tokens",
    "llama.cpp/chat_stream_logprobs": "a role with content null; no usage, log-probabilities count",
    "llama.cpp/chat_stream_utf8": "no usage, token events count",
    "llama.cpp/completion_batch": "two prompts, two choices",
    "llama.cpp/anthropic_messages": "7 new and 24 cached tokens are a prompt of 31",
    "llama.cpp/responses_stream": "timings in the last event",
    "llama.cpp/err_missing_messages": "400 with type and message",
    "llama.cpp/err_unknown_model": "it answers whatever model is asked for",
    "dynamo/err_long_prompt_stream": "an error inside a 200, after a comment, and [DONE] behind it",
    "dynamo/err_unknown_model": "404 with a flat body",
    "dynamo/chat_nvext": "annotations (an event type and a comment) are no data events; nvext.timing",
    "dynamo/anthropic_messages": "message_start says a prompt of 2 tokens, message_delta 11",
}

# what `--details` adds, where it is telling; of choices, what is named in each
DETAILS = {
    "vllm/chat_n2": {"fingerprint": VLLM, "choices": [{"index": 0, "token_ids": None}, {"index": 1}]},
    "vllm/chat_stream_contusage": {"fingerprint": VLLM},  # the last chunk alone has it
    "vllm/chat_stream_token_ids": {"fingerprint": None, "choices": [{"token_ids": [612, 2001, 2738, 2001, 2738, 2001]}]},
    "vllm/chat_token_ids": {"choices": [{"token_ids": [612, 2001, 2738, 2001, 2738, 2001, 2738, 2001]}]},
    "vllm/completion_stream_logprobs": {"fingerprint": VLLM},
    "llama.cpp/chat_json": {"fingerprint": LLAMA},
    "dynamo/chat_nvext": {
        # ids beside them are no JSON floats
        "server": {"request_received_ms": 1796036686336, "prefill_wait_time_ms": 0.45928599999999997, "prefill_time_ms": 3.756337,
                   "ttft_ms": 4.215623, "total_time_ms": 7.991646},
    },
}  # fmt: skip


def test_twenty_five():
    """So many were read by hand, and each has its file."""
    files = {path.name for path in (CAPTURES / "expected").glob("*.json")}
    assert files == {f"{name.replace('/', '-')}.json" for name in CHOSEN}
    assert len(files) == 25


def near(wanted):
    """Times are given to their last digit, quotients of them to what a float holds."""
    return pytest.approx(wanted, rel=1e-9) if isinstance(wanted, float) else wanted


@pytest.mark.parametrize("name", CHOSEN)
def test_as_read_by_hand(name):
    """Every key, in its order, with its value."""
    wanted = json.loads((CAPTURES / "expected" / f"{name.replace('/', '-')}.json").read_text())
    got = decode_file(CAPTURES / f"{name}.json")
    assert list(got) == list(wanted)
    assert got == {key: near(value) for key, value in wanted.items()}


@pytest.mark.parametrize("name", DETAILS)
def test_details_as_read_by_hand(name):
    """Beyond the documented object: everything that is named, exactly."""
    got = decode_file(CAPTURES / f"{name}.json", details=True)["details"]
    for key, wanted in DETAILS[name].items():
        if key != "choices":
            assert got[key] == wanted, key
            continue
        for choice, part in zip(got["choices"], wanted, strict=True):
            assert {field: choice[field] for field in part} == part


DOCUMENTED = [
    "dialect", "streamed", "status", "transport", "outcome", "error", "model", "choices", "usage", "tokens", "events",
    "events_per_read",
]  # fmt: skip


@pytest.mark.parametrize("name", ["vllm/chat_n2", "vllm/health", "dynamo/err_unknown_model"])
def test_the_object_has_the_documented_keys(name):
    """Whatever the answer: the documented keys, every metric of the list by its name, nothing else."""
    got = decode_file(CAPTURES / f"{name}.json")
    listed = [line for line in METRICS if line not in DOCUMENTED]
    assert set(got) == {*DOCUMENTED, *listed}
    for choice in got["choices"]:
        assert list(choice) == [
            "text",
            "reasoning",
            "refusal",
            "tool_calls",
            "finish_reason",
            "stop_reason",
        ]
    assert list(got["tokens"]) == ["count", "source"]
    assert got["error"] is None or list(got["error"]) == ["type", "message"]


def metric_keys():
    """The names of metrics.toml as they stand in the object."""
    import tomllib

    text = (CAPTURES.parents[1] / "analysis" / "metrics.toml").read_text()
    return [
        f"{name}_ms" if facts["unit"] == "ms" else name
        for name, facts in tomllib.loads(text).items()
        if not facts.get("probe")  # which are figures of two probes, not of an answer
    ]


METRICS = metric_keys()
