"""Which names are a credential's: however gateways spell them, and never a model's parameter."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import thread_time_ns
from urllib.parse import quote

import pytest

from shadow.body.names import _ANY_STEP as STEP
from shadow.body.names import named
from shadow.body.scan import Scanner, run
from shadow.body.staying import left_behind, nothing_stays
from shadow.config.upstream import HeaderChanges
from shadow.credentials import MOST, UNLISTED, credential
from shadow.mirror.headers import ArmHeaders
from shadow.relay.head import parse_request
from shadow.target import without_secrets

OPENING = [
    "api_key", "apiKey", "api-key", "APIKey", "API_KEY", "api.key", "api key", "apikey", "x-api-key", "apiKeys",
    "api_key_2", "api_key_id", "token", "Token", "bearer", "bearer_token", "auth", "auth_token", "authToken",
    "authorization", "Authorization", "authentication", "access_token", "accessToken", "refresh_token", "id_token",
    "oauth_token", "csrf_token", "key", "secret", "client_secret", "clientSecret", "password", "passwd", "passphrase",
    "pwd", "pass", "credential", "credentials", "customer_credentials", "jwt", "hmac", "sig", "signature", "cookie",
    "cookies", "session_token", "subscription-key", "private_key", "master_key", "aws_access_key_id",
    "AWSAccessKeyId", "aws_secret_access_key", "aws_session_token", "aws_web_identity_token", "azure_ad_token",
    "azureADToken", "azure_client_secret", "azure_password", "vertex_credentials", "litellm_credential_name",
    "watsonx_token", "langfuse_secret_key", "langfuse_public_key", "langsmith_api_key", "wandb_api_key", "hf_token",
    "service_account_json", "openai_api_key", "_api_key_", "my_new_gateways_token",
]  # fmt: skip
"""Names that gateways and clients of them are known to send, and some that nobody knows."""

PARAMETERS = [
    "model", "messages", "prompt", "input", "instructions", "system", "tools", "tool_choice", "stream",
    "stream_options", "temperature", "top_p", "top_k", "min_p", "n", "seed", "stop", "user", "metadata", "logit_bias",
    "logprobs", "top_logprobs", "max_tokens", "maxTokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens",
    "min_tokens", "min_new_tokens", "max_prompt_tokens", "max_thinking_tokens", "thinking_token_budget", "budget_tokens",
    "token_ids", "prompt_token_ids", "input_ids", "stop_token_ids", "bad_token_ids", "allowed_token_ids",
    "logprob_token_ids", "return_token_ids", "return_tokens_as_token_ids", "return_prompt_token_ids",
    "return_token_offsets", "return_tokens", "return_cached_tokens_details", "truncate_prompt_tokens",
    "skip_special_tokens", "spaces_between_special_tokens", "add_special_tokens", "include_stop_str_in_output",
    "tokenizer", "tokenize", "detokenize", "tokens", "draft_tokens", "top_n_tokens", "prompt_cache_key",
    "promptCacheKey", "prompt_cache_retention", "safety_identifier", "bos_token", "eos_token", "pad_token", "unk_token",
    "mask_token", "sep_token", "cls_token", "stop_token", "eosToken", "forced_bos_token", "timings_per_token",
    "input_cost_per_token", "presence_penalty", "frequency_penalty", "repetition_penalty", "no_repeat_ngram_size",
    "response_format", "structured_outputs", "guided_json", "guided_regex", "json_schema", "regex", "ebnf",
    "reasoning", "reasoning_effort", "chat_template", "chat_template_kwargs", "continue_final_message",
    "add_generation_prompt", "documents", "query", "passages", "bad_words", "ignore_eos", "use_beam_search",
    "length_penalty", "early_stopping", "best_of", "echo", "suffix", "service_tier", "modalities", "audio",
    "prediction", "parallel_tool_calls", "verbosity", "vllm_xargs", "custom_params", "custom_logit_processor",
    "mm_processor_kwargs", "media_io_kwargs", "lora_path", "lora_request", "end_id", "pad_id", "cache_prompt",
    "n_predict", "dry_multiplier", "mirostat", "samplers", "stream_interval", "watermark", "decoder_input_details",
    "author", "keywords", "passage", "signal", "design", "code", "account", "include", "truncation", "text",
]  # fmt: skip
"""Of OpenAI, Anthropic, vLLM, SGLang, TensorRT-LLM, TGI, llama.cpp; and words that only look odd."""


NEW = [
    "X-Passphrase", "X-ServiceAccount", "apikey_id", "service_account", "vertex_credentials_json", "userPwd",
    "X-PrivateKey", "x_account_key_2", "clientSecretName", "auth_key_file",
]  # fmt: skip
"""What some judge did not know."""


@pytest.mark.parametrize("name", [*OPENING, *NEW])
def test_what_opens_a_door(name):
    """Told by its words, however they are joined."""
    assert credential(name)


@pytest.mark.parametrize("name", PARAMETERS)
def test_what_a_model_is_told(name):
    """A token is a credential; tokens, and a token of the vocabulary, are not."""
    assert credential(name) == ""


def of_a_query(name: str) -> bool:
    return without_secrets(f"/p?{quote(name)}=s".encode())[0] == b"/p"


def of_a_head(name: str) -> bool:
    line = f"{name}: v".encode()
    head = parse_request(b"POST /p HTTP/1.1\r\nHost: h\r\n" + line)
    return line not in ArmHeaders("a", b"e", b"", HeaderChanges()).build(head, 0)


def of_a_body(name: str) -> bool:
    scanner = Scanner(json.dumps({name: "s"}).encode())
    found = run(scanner.whole())
    gone = name.encode() in run(left_behind(scanner.body, found, b"", ()))
    assert gone != nothing_stays({name: "s"}, bytes(scanner.body))
    return gone


def of_no_json(form: str) -> Callable[[str], bool]:
    """Wherever it stands in what is read in steps."""

    def judge(name: str) -> bool:
        said = form.replace("NAME", name).encode()
        long = [b" " * more + said for more in (STEP - len(said) // 2, STEP - 1)]
        return all(run(named(each)) for each in (said, *long))

    return judge


JUDGES = {
    "query": of_a_query,
    "header": of_a_head,
    "body": of_a_body,
    **{
        form: of_no_json(form)
        for form in (
            '{"odd":NaN,"NAME":"s"}',
            "{'NAME' : 's'}",
            "{NAME: 's'}",
            "a=1&NAME=s",
            'Content-Disposition: form-data; name="NAME"\r\n\r\ns',
            'Content-Disposition: form-data; name="NAME"; a=b\r\n\r\ns',
        )
    },
}


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("name", [*OPENING, *NEW])
def test_every_judge_knows_it(judge, name):
    """One table: what is a credential in a query is one in a head, in a body and in what is no JSON."""
    if judge == "header" and " " in name:
        return  # no field's name
    assert JUDGES[judge](name)


@pytest.mark.parametrize("judge", ["query", "body"])
@pytest.mark.parametrize("name", [name for name in PARAMETERS if name not in ("code", "metadata")])
def test_every_judge_knows_what_a_model_is_told(judge, name):
    """The same of parameters; a head holds none, and what is no JSON is refused sooner."""
    assert not JUDGES[judge](name)


@pytest.mark.parametrize("form", ['{"odd":NaN,"NAME":1}', "a=1&NAME=s"])
@pytest.mark.parametrize("name", PARAMETERS[:60])
def test_what_is_no_json_and_tells_a_model(form, name):
    """A body that only a lenient server reads goes to a candidate with its usual parameters."""
    if not name.endswith(("_token", "_key", "Key", "Token")):
        assert not of_no_json(form)(name)


def test_a_long_name_is_no_parameter():
    """Not looked at: what nobody knows is taken for one."""
    assert credential("x" * MOST) == ""
    assert credential("x" * (MOST + 1)) == UNLISTED


ODD = [
    "aBcD" * 14 + "Account",
    "aB" * 27 + "TokenIsh",
    "a-" * 28 + "key-aa",
    "aéB" * 18 + "Tokenish",
]


@pytest.mark.parametrize("name", [*ODD, *(each * 1000 for each in ODD), "x" * 100_000])
def test_no_name_takes_long(name):
    """However long and odd: the loop judges hundreds of them."""
    spent = []
    for _ in range(50):
        begun = thread_time_ns()
        credential(name)
        spent.append(thread_time_ns() - begun)
    assert min(spent) < 100_000
