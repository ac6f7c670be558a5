"""Twenty-five real answers, chosen for their differences, against what a person read in their bytes."""

from pathlib import Path

import pytest

from collector.capture_file import decode_file

CAPTURES = Path(__file__).parents[1] / "captures"
VLLM, LLAMA = "vllm-0.32.0-e48dcda4", "b0-unknown"


def usage(prompt, completion, cached=None, reasoning=None):
    return {
        "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
        "cached_tokens": cached, "reasoning_tokens": reasoning,
    }  # fmt: skip


def failed(status, type_, message):
    return {"dialect": "openai_chat", "status": status, "outcome": "http_error", "failure": 1, "choices": [],
            "error": {"type": type_, "message": message}}  # fmt: skip


# what is named must be exactly so; of choices, what is named in each
EXPECTED = {
    "vllm/chat_n2": {
        "model": "tiny", "fingerprint": VLLM, "usage": usage(44, 16), "streamed": False,
        "choices": [
            {"index": 0, "text": "adjustednce',sig'tchomove std", "finish_reason": "length", "reasoning": None},
            {"index": 1, "text": "\ufffd de'\\Derozen tzinfosaveified", "finish_reason": "length"},
        ],
    },
    "vllm/chat_stop": {
        # one token that decodes to nothing, ended by the stop string "."
        "outcome": "complete", "usage": usage(44, 1), "e2e_ms": 32.419, "tpot_ms": None,
        "choices": [{"text": "", "finish_reason": "stop", "stop_reason": "."}],
    },
    "vllm/chat_stream_contusage": {
        # the role's chunk says 0 tokens; the last chunk alone has the fingerprint
        "fingerprint": VLLM, "usage": usage(44, 8), "tokens": {"count": 8, "source": "usage"}, "events": 11,
        "ttft_any_ms": 126.937, "choices": [{"text": "..defaultsmaildefaultsmaildefaultsmaildefaults", "finish_reason": "length"}],
    },
    "vllm/chat_stream_token_ids": {
        "usage": None, "fingerprint": None, "tokens": {"count": 6, "source": "token_ids"},
        "choices": [{"text": "..defaultsmaildefaultsmaildefaults", "token_ids": [612, 2001, 2738, 2001, 2738, 2001]}],
    },
    "vllm/chat_token_ids": {
        "usage": usage(44, 8), "tokens": {"count": 8, "source": "usage"},
        "choices": [{"text": "..defaultsmaildefaultsmaildefaultsmaildefaults", "token_ids": [612, 2001, 2738, 2001, 2738, 2001, 2738, 2001]}],
    },
    "vllm/completion_prompt_logprobs": {
        # echo: the text begins with the prompt, whose first token has no log-probability
        "dialect": "openai_completions", "usage": usage(3, 4),
        "choices": [{"text": "def main():ide fnameide fname"}],
    },
    "vllm/completion_stream_logprobs": {
        # the whole stream in one read
        "events": 14, "events_per_read": 14.0, "ttft_any_ms": 141.677, "ttft_content_ms": 141.677, "e2e_ms": 141.677,
        "decode_ms": 0.0, "tpot_ms": 0.0, "tokens_per_s": None, "usage": usage(9, 12), "fingerprint": VLLM,
    },
    "vllm/abort_stream": {
        "transport": "client_disconnected", "outcome": "client_disconnected", "failure": None, "e2e_ms": None,
        "usage": None, "ttft_any_ms": 21.144, "ttft_content_ms": 21.902, "events": 13,
        "error": {"type": "client_disconnected", "message": "end 117.961 ms aborted by client after 3116 bytes"},
    },
    "vllm/anthropic_messages": {
        "dialect": "anthropic_messages", "model": "tiny", "usage": {**usage(11, 8), "total_tokens": None}, "events": 13,
        "ttft_any_ms": 150.081, "ttft_content_ms": 161.181, "decode_ms": 930.717, "tpot_ms": 930.717 / 7,
        "choices": [{"text": "ber's50bit__() \". server status", "finish_reason": "max_tokens"}],
    },
    "vllm/responses": {
        "dialect": "openai_responses", "model": "tiny",
        "choices": [{"text": "..defaultsmaildefaultsmaildefaultsmaildefaults", "finish_reason": "max_output_tokens"}],
    },
    "vllm/responses_stream": {
        # response.created 216 ms before any token
        "ttft_any_ms": 16.661, "usage": usage(13, 8, 0, 0), "choices": [{"text": "..defaultsmaildefaultsmaildefaultsmaildefaults"}],
    },
    "vllm/err_missing_messages": failed(
        400, "Bad Request", "1 validation error:\n  {'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required', 'input': '<dict of 1 items>'}"
    ),
    "vllm/err_method": failed(405, None, "Method Not Allowed"),
    "llama.cpp/chat_json": {
        "model": "smollm2-135m", "fingerprint": LLAMA, "usage": usage(42, 27, 6),
        "choices": [{"text": '{\n    "city": "Paris",\n    "river": "Rue de la Lo"\n}', "finish_reason": "stop"}],
    },
    "llama.cpp/chat_stream_logprobs": {
        # a role with content null; no usage, log-probabilities count
        "usage": None, "tokens": {"count": 8, "source": "logprobs"}, "events": 11,
    },
    "llama.cpp/chat_stream_utf8": {
        "usage": None, "tokens": {"count": 23, "source": "events"}, "ttft_any_ms": 246.779, "choices": [{"finish_reason": "stop"}],
    },
    "llama.cpp/completion_batch": {
        "usage": usage(3, 6, 0), "choices": [{"text": "-digit numbers are 1"}, {"text": ", the color of the sky"}],
    },
    "llama.cpp/anthropic_messages": {
        # 7 new and 24 cached tokens are a prompt of 31; the first token shares its read with what precedes it
        "usage": {**usage(31, 8, 24), "total_tokens": None}, "ttft_any_ms": 123.264, "ttft_content_ms": 123.264,
        "choices": [{"text": "Hello! How can I assist you today"}],
    },
    "llama.cpp/responses_stream": {
        "usage": usage(31, 8, 24), "outcome": "complete", "ttft_any_ms": 126.337, "choices": [{"text": "Hello! How can I assist you today"}],
    },
    "llama.cpp/err_missing_messages": failed(400, "invalid_request_error", "'messages' is required"),
    "llama.cpp/err_unknown_model": {
        # it answers whatever model is asked for
        "status": 200, "outcome": "complete", "model": "smollm2-135m", "choices": [{"text": "The capital of France"}],
    },
    "dynamo/err_long_prompt_stream": {
        # an error inside a 200, after a comment, and [DONE] behind it
        "status": 200, "streamed": True, "outcome": "in_band_error", "failure": 1, "events": 2, "ttft_content_ms": None,
        "error": {"type": "internal_server_error", "message": "Internal server error"}, "choices": [],
    },
    "dynamo/err_unknown_model": failed(404, "Not Found", "Model not found"),
    "dynamo/chat_nvext": {
        # three annotations (an event type and a comment) are no data events; ids beside them are no JSON floats
        "events": 11, "ttft_any_ms": 5.3, "usage": usage(11, 8, 0),
        "server": {"request_received_ms": 1796036686336, "prefill_wait_time_ms": 0.45928599999999997, "prefill_time_ms": 3.756337,
                   "ttft_ms": 4.215623, "total_time_ms": 7.991646},
    },
    "dynamo/anthropic_messages": {
        # the prompt's 11 tokens come late, message_start says 2; [DONE] behind message_stop
        "usage": {**usage(11, 8), "total_tokens": None}, "events": 14, "outcome": "complete", "choices": [{"finish_reason": "max_tokens"}],
    },
}  # fmt: skip


def test_twenty_five():
    """So many were read by hand."""
    assert len(EXPECTED) == 25


@pytest.mark.parametrize("name", EXPECTED)
def test_as_read_by_hand(name):
    """Everything that is named, exactly."""
    got = decode_file(CAPTURES / f"{name}.json")
    for key, wanted in EXPECTED[name].items():
        if key == "choices":
            assert len(got["choices"]) == len(wanted)
            for choice, part in zip(got["choices"], wanted, strict=True):
                assert {field: choice[field] for field in part} == part
        elif isinstance(wanted, float):
            assert got[key] == pytest.approx(wanted), key
        else:
            assert got[key] == wanted, key
