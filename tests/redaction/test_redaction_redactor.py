"""A secret is found wherever it stands in a body, and nothing but it is changed."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redaction.world import (
    JWT,
    SECRETS,
    chunk,
    event,
    events_in,
    redacted,
    redactor,
    stream,
    text_of,
)


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_in_a_request(name, ascii_only):
    """In values, keys, tools' arguments (JSON in JSON), beside what has to stay."""
    secret = SECRETS[name]
    document = {
        "model": "llama",
        "stream": True,
        "messages": [
            {"role": "system", "content": f"ü {secret}, please"},
            {"role": "user", "content": [{"type": "text", "text": f'say "{secret}"\n'}]},
            {"role": "assistant", "tool_calls": [{"function": {"arguments": json.dumps({"to": f"\n{secret}", secret: "ä\\"})}}]},
            {"role": "tool", "content": secret},
        ],
        "metadata": {secret: 1, "n": [1, 2.5, None]},
        "user": secret,
    }  # fmt: skip
    body = json.dumps(document, ensure_ascii=ascii_only).encode()
    new, counts = redacted(body)
    assert len(new) == len(body)
    assert secret.encode() not in new
    assert counts[name] >= 6
    told = json.loads(new)
    assert told["messages"][0]["content"].startswith("ü ")
    assert told["messages"][0]["content"].endswith(", please")
    arguments = json.loads(told["messages"][2]["tool_calls"][0]["function"]["arguments"])
    assert secret not in json.dumps(arguments)
    assert "ä\\" in arguments.values()
    assert told["metadata"]["n"] == [1, 2.5, None]


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(sorted(SECRETS)), st.sampled_from(["content", "reasoning_content", "refusal"]))  # fmt: skip
def test_in_a_stream_however_it_is_cut(data, name, field):
    """Any cut of the text into deltas: the same text is left, each event as long as before."""
    text = f'Grüße, it is {SECRETS[name]} and\n"that" is all 😀.'
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=12)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    body = stream(pieces, field)
    new, counts = redacted(body, "text/event-stream")
    whole, _ = redacted(stream([text], field), "text/event-stream")
    assert [len(line) for line in new.splitlines()] == [len(line) for line in body.splitlines()]
    assert text_of(new, field) == text_of(whole, field)
    assert SECRETS[name] not in text_of(new, field)
    assert text_of(new, field).startswith("Grüße, it is ")
    assert text_of(new, field).endswith(' and\n"that" is all 😀.')
    assert counts[name] >= 1


def test_choices_that_take_turns():
    """Deltas of several choices, interleaved, wherever in the list they stand."""
    mine, other = "john.doe@example.com", "no secret at all"
    body = b""
    for n, letter in enumerate(mine):
        pair = [chunk({"content": letter}, 1), chunk({"content": other[n % 16]}, 0)]
        if n % 2:
            pair[0]["choices"] += pair.pop()["choices"]
        body += b"".join(map(event, pair))
    new, _ = redacted(body, "text/event-stream")
    assert text_of(new, index=1) == "*" * len(mine)
    assert text_of(new, index=0) == text_of(body, index=0)


def test_other_dialects_deltas():
    """Tool calls' arguments, Responses, Messages, completions' text: joined by their own order."""
    secret = "john.doe@example.com"
    halves = [secret[:9], secret[9:]]
    shapes = [
        [chunk({"tool_calls": [{"index": 1, "function": {"arguments": f'{{"a":"{halves[0]}'}}]}), chunk({"tool_calls": [{"index": 1, "function": {"arguments": f'{halves[1]}"}}'}}]})],
        [{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": half} for half in halves],
        [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": half}} for half in halves],
        [{"choices": [{"index": 0, "text": half}]} for half in halves],
    ]  # fmt: skip
    for documents in shapes:
        body = b"".join(map(event, documents))
        new, counts = redacted(body, "text/event-stream")
        assert counts["email"] == 1, documents
        assert halves[0].encode() not in new, documents
        assert halves[1].encode() not in new, documents


def test_a_secret_whole_in_one_piece_is_found_beside_any_other():
    """Joined to its neighbours' digits it would be no card."""
    card = "4111111111111111"
    body = b"".join(event({"note": note}) for note in ("12", card, "34"))
    new, _ = redacted(body, "text/event-stream")
    assert card.encode() not in new
    assert events_in(new)[0] == {"note": "12"}


def test_what_every_event_repeats_is_one_text():
    """An id is not joined with itself; where it is a secret, it goes from every event."""
    body = b"".join(event({"id": "sk-abcdefghijklmnop1234", "n": n}) for n in range(5))
    new, counts = redacted(body, "text/event-stream")
    assert [each["id"] for each in events_in(new)] == ["*" * 23] * 5
    assert counts == {"key": 1}


@pytest.mark.parametrize(
    "spelling",
    [
        b'{"content":"john\\u002edoe\\u0040example.com"}',
        b'{"content":"john.doe@example.com","content":"x"}',
        b"{\"content\":NaN,'a':'john.doe@example.com'}",
        b'{"a":["john.doe@example.com',
        b'[{"content":"john.doe@example.com"},]]]}}',
        b'{"john.doe@example.com":1}',
        b'{"arguments":"{\\"a\\":\\"john.doe\\\\u0040example.com\\"}"}',
        b'{"a":"{\\"b\\":\\"{\\\\\\"c\\\\\\":\\\\\\"john.doe\\\\\\\\u0040example.com\\\\\\"}\\"}"}',
        b"john.doe@example.com is not allowed",
        b"john.doe@example.com\x00",
        b"<html>john.doe@example.com</html>",
    ],
)
@pytest.mark.parametrize("form", ["%b", "data: %b\n\n", ": %b\n\n", "event: %b\ndata: {}\n\n", "%b\n", "data: {}\n\n%b"])  # fmt: skip
def test_odd_bodies(spelling, form):
    """Escapes, duplicates, what is no JSON, errors in place of a stream, comments and fields."""
    body = form.encode() % spelling
    for kind in ("application/json", "text/event-stream", "text/plain", ""):
        new, counts = redacted(body, kind)
        assert len(new) == len(body)
        assert b"john" not in new, (kind, new)
        assert b"example" not in new, (kind, new)
        assert counts["email"] >= 1


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
@pytest.mark.parametrize("text", ["call john.doe@example.com", '{"content":"4111 1111 1111 1111"}'])
@pytest.mark.parametrize("before", ["", "\u4f60\u597d" * 5000])
def test_wide_letters_are_withheld(coding, text, before):
    """No rule reads UTF-16 or UTF-32, wherever its letters begin: it is not passed."""
    for kind in ("application/json", "text/plain", ""):
        new, counts = redacted((before + text).encode(coding), kind)
        assert new is None
        assert not counts


@pytest.mark.parametrize(
    "body",
    [
        b"[4111 1111 1111 1111]",
        b'"Al",4111 1111 1111 1111',
        b"data: [+49 30 1234567]\n\n",
        b"data: {4111-1111-1111-1111}\n\n",
    ],
)
def test_digits_in_groups_are_no_scalar(body):
    """What begins as JSON does and is none is looked through between its strings too."""
    for kind in ("text/plain", "text/csv", "text/event-stream", "application/json"):
        new, counts = redacted(body, kind)
        assert new is not None
        assert b"1111" not in new
        assert b"1234567" not in new
        assert sum(counts.values()) == 1


def test_an_event_of_several_data_lines():
    body = b'data: {"content":\ndata: "john.doe@example.com"}\n\n'
    new, _ = redacted(body, "text/event-stream")
    assert new == b'data: {"content":\ndata: "********************"}\n\n'


def test_numbers_stay_numbers():
    new, counts = redacted(b'{"a":4111111111111111,"b":-0.4111111111111111,"c":[5500000000000004]}')
    assert new == b'{"a":9999999999999999,"b":-0.4111111111111111,"c":[9999999999999999]}'
    assert counts["card"] == 2


def test_shapes_that_differ_in_numbers_only():
    """A frame that is used again is used where it fits: ordinals, cards, addresses, paths."""
    pieces = []
    for n, letter in enumerate("john.doe@example.com"):
        pieces += [event(chunk({"content": letter}, 11, usage={"total_tokens": 100 + n})), event(chunk({"content": "x"}, 12))]  # fmt: skip
    new, counts = redacted(b"".join(pieces), "text/event-stream")
    assert text_of(new, index=11) == "*" * 20
    assert text_of(new, index=12) == "x" * 20
    assert counts["email"] == 1
    odd = [b'data: {"a":4111111111111112}\n\n', b'data: {"a":4111111111111111}\n\n', b'data: {"a":300.20.30.40}\n\n', b'data: {"a":10.20.30.40}\n\n', b'data: {"b":12,"a":345}\n\n', b'data: {"b":13,"a":45}\n\n']  # fmt: skip
    new, counts = redacted(b"".join(odd), "text/event-stream", paths=[{"path": "b"}])
    assert b"4111111111111111" not in new
    assert b"10.20.30.40" not in new
    for kept in (b"4111111111111112", b"300.20.30.40", b'{"b":0 ,"a":345}', b'{"b":0 ,"a":45}'):
        assert kept in new
    assert counts == {"card": 1, "ip": 1, "path": 2}


def test_paths():
    """A rule of a path takes the whole value with all below it, streamed or not."""
    paths = [
        {"path": "messages[*].content", "action": "drop"},
        {"path": "$.metadata.*", "action": "mask"},
        {"path": "choices[*].delta.content", "action": "hash"},
        {"path": "**.secret"},
    ]
    body = b'{"messages":[{"role":"user","content":"hi \\n\xc3\xa9"},{"content":[{"type":"text","text":"yo"}]}],"metadata":{"a":12345,"b":"x","c":true},"messages2":"stays","x":{"y":[{"secret":[1,"two"]}]}}'
    new, counts = redacted(body, paths=paths)
    assert new == b'{"messages":[{"role":"user","content":"       "},{"content":[{"    ":"    ","    ":"  "}]}],"metadata":{"a":null ,"b":"*","c":null},"messages2":"stays","x":{"y":[{"secret":[0,"***"]}]}}'  # fmt: skip
    assert counts["path"] == 10
    json.loads(new)
    texts = {}
    for cut in ([6], [3, 9], []):
        text = "one secret sentence"
        pieces = [text[a:b] for a, b in zip([0, *cut], [*cut, len(text)], strict=True)]
        new, _ = redacted(stream(pieces), "text/event-stream", paths=paths)
        texts[tuple(cut)] = text_of(new)
        assert events_in(new)[0]["model"] == "llama"
    assert len(set(texts.values())) == 1
    assert not {"one", "secret", "sentence"} & set(texts[()].split())


def logprobs(token: str) -> dict:
    top = [{"token": token, "logprob": -0.5, "bytes": list(token.encode())}]
    return {"token": token, "logprob": -0.25, "bytes": list(token.encode()), "top_logprobs": top}


@pytest.mark.parametrize("streamed", [True, False])
def test_tokens_do_not_say_again_what_was_found(streamed):
    """Log-probabilities with their tokens and bytes, token ids: gone with what they spell, and
    still as many, with their numbers; where nothing was found they stay.
    """
    for secret in ("john.doe@example.com", "nothing at all is here"):
        tokens = [secret[at : at + 3] for at in range(0, len(secret), 3)]
        choices = [
            {"index": 0, "delta": {"content": t}, "logprobs": {"content": [logprobs(t)]}, "token_ids": [12345]}
            for t in tokens
        ]  # fmt: skip
        legacy = {"tokens": tokens, "top_logprobs": [{t: -0.5} for t in tokens], "token_logprobs": [-0.125]}  # fmt: skip
        whole = {"choices": [{"message": {"content": secret}, "logprobs": {"content": [logprobs(t) for t in tokens]}}, {"text": secret, "logprobs": legacy}]}  # fmt: skip
        body = (
            b"".join(event({"choices": [choice]}) for choice in choices)
            if streamed
            else json.dumps(whole).encode()
        )
        new, counts = redacted(body, "text/event-stream" if streamed else "application/json")
        assert len(new) == len(body)
        if "@" not in secret:
            assert new == body
            continue
        assert counts["tokens"] > 0
        for token in (*tokens, "106, 111, 104", "12345"):
            assert token.encode() not in new, token
        assert new.count(b"-0.25") == len(tokens)
        assert new.count(b"-0.5") == body.count(b"-0.5")
        told = events_in(new) if streamed else [json.loads(new)]
        if streamed:
            assert [each["choices"][0]["token_ids"] for each in told] == [[0]] * len(tokens)


def test_elements_of_a_list_by_their_number():
    new, _ = redacted(b'{"a":[10,20,[1],"x"],"b":[[1],20]}', paths=[{"path": "a[1]"}, {"path": "b[0]"}, {"path": "a[3]"}])  # fmt: skip
    assert new == b'{"a":[10,0 ,[1],"*"],"b":[[0],20]}'


def test_hashes_are_equal_for_equal_secrets_on_both_sides():
    """However two engines cut and spell it: comparisons of texts keep their meaning."""
    one = stream(["mail john.d", "oe@exam", "ple.com now"])
    two = b"".join(
        event(chunk({"content": c})).replace(b"@", b"\\u0040")
        for c in "mail john.doe@example.com now"
    )
    other = stream(["mail john.dof@example.com now"])
    texts = [text_of(redacted(body, "text/event-stream", action="hash")[0]) for body in (one, two, other)]  # fmt: skip
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("mail ")
    assert texts[0].endswith(" now")
    assert "@" not in texts[0]


def test_beside_a_gap():
    """The head and the tail of a cut stream are looked through; halves of lines are masked."""
    head = stream(["to john.d", "oe@example.com "])[: -len("data: [DONE]\n\n")] + b'data: {"choi'
    tail = b'x sk-half-of-one"}\n\n' + stream(["and a@b.io"])
    new, _ = redacted(head + tail, "text/event-stream", tail=len(tail))
    assert len(new) == len(head + tail)
    for secret in (b"john", b"example", b"half", b"b.io"):
        assert secret not in new
    assert b"*" * 20 + b"\n\ndata: {" in new
    document = b'{"choices":[{"text":"a@b.io and hal'
    new, _ = redacted(document + b'f of one"}]}', tail=12)
    assert new == b'{"choices":[{"text":"****** and hal' + b"*" * 12


@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
def test_a_long_text(kind):
    """Secrets on the borders of the windows that a long text is looked at in."""
    words = ["word"] * 40_000
    for n in range(0, 40_000, 700):
        words[n] = "john.doe@example.com"
    words[20_000] = JWT
    text = " ".join(words) + " é"
    body = json.dumps({"content": text}).encode() if kind.endswith("json") else text.encode()
    new, counts = redacted(body, kind)
    assert len(new) == len(body)
    assert b"john" not in new
    assert JWT.encode()[20:] not in new
    assert counts["email"] >= 58
    assert new.count(b"word") == body.count(b"word")


def test_what_cannot_be_looked_through_is_withheld(monkeypatch):
    """Beyond the bound, or where a pattern of one's own takes too long: no body, not a body as it came."""
    slow = {"name": "slow", "regex": r"(a|aa)+$"}
    body = b'{"content":"' + b"a" * 60 + b'b"}'
    begin = time.monotonic()
    assert redacted(body, patterns=[slow])[0] is None
    assert time.monotonic() - begin < 3
    assert redacted(bytes(33 * 2**20))[0] is None
    monkeypatch.setattr("shadow.redaction.redactor.MOST_SECONDS", 0.05)
    numbers = " ".join(f"415 555 {n:04} 4111" for n in range(3000))
    assert redacted(json.dumps([numbers]).encode())[0] is None
    monkeypatch.undo()
    assert redacted(b'{"a":' * 100_000, "application/json", paths=[{"path": "b"}])[0] is None


def test_short_texts_and_paths():
    """What is not a body: names, header values, paths with their percent-coding."""
    mine = redactor()
    from collections import Counter

    counts = Counter()
    assert mine.text("llama-70b", counts) == "llama-70b"
    assert mine.text("ft:john.doe@example.com", counts) == "ft:" + "*" * 20
    assert mine.path("/v1/john.doe%40example.com/x", counts) == "/v1/" + "*" * 20 + "/x"
    assert mine.path("/v1/a%20%2Fb", counts) == "/v1/a%20%2Fb"
    for codings in range(1, 9):  # however often a gateway coded it
        coded = "john.doe@example.com"
        for _ in range(codings):
            coded = quote(coded, safe="")
        assert "john" not in mine.path(f"/v1/{coded}", Counter())
    assert mine.path("/v1/a%20b", counts) == "/v1/a%20b"
    assert counts == {"email": 2}
