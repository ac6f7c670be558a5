"""An engine that gives secrets away in every way there is, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import re
import threading
from collections.abc import Iterator
from functools import partial

MARK = "leakmark"
TICKET = f"{MARK.upper()}-4711"
CARD = "4111 1111 1111 1111"
IBAN = "DE89370400440532013000"
IP = "10.20.30.40"
PHONE = "+1 415-555-2671"
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ0aGUgdGVzdHMifQ.c2lnbmVkLWJ5LXRoZS10ZXN0cw"
NEEDLES = tuple(
    each.encode()
    for each in (MARK, MARK.upper(), CARD, IBAN, IP, PHONE.removeprefix("+1 "), *JWT.split("."))
)
"""What no sink may hold, and what it holds where nothing is redacted."""
CLOSE_TO = tuple(each.encode() for each in (CARD.replace(" ", ""), "14155552671", PHONE))
"""Nor this."""


def email(field: str) -> str:
    """Says where it stood, wherever it turns up."""
    return f"{MARK}.{field}@{MARK}.example.com"


def key(field: str) -> str:
    return f"sk-proj-{MARK}{field.replace('_', '')}0123456789ABCDEF"


def all_of(field: str) -> str:
    """One of each kind."""
    return f"{email(field)} {key(field)} {TICKET} {CARD}, {IBAN} {IP} {PHONE} {JWT}"


def fields_in(content: bytes) -> set[str]:
    """Of which fields secrets stand there."""
    return {each.decode() for each in re.findall(rb"leakmark\.(\w+)@", content)}


KINDS = ("stream", "document", "error", "gzip", "in_band", "plain", "cut", "exotic", "tools")


def events(pieces: list[str], field: str = "content") -> list[bytes]:
    chunks = [
        {
            "id": f"chatcmpl-{email('answer_id')}",
            "object": "chat.completion.chunk",
            "model": f"ft:{email('answer_model')}",
            "system_fingerprint": f"fp {email('fingerprint')}",
            "choices": [{"index": 0, "delta": {field: piece}, "finish_reason": None}],
        }
        for piece in pieces
    ]
    chunks[-1]["choices"][0]["finish_reason"] = email("finish_reason")
    return [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]


def pieces(text: str, size: int = 5) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def reply(kind: str) -> tuple[int, dict[str, str], list[bytes]]:
    """(status, fields, what is written, piece by piece)."""
    sse, js = {"Content-Type": "text/event-stream"}, {"Content-Type": "application/json"}
    told = pieces(f"It is {all_of('content')}, é\n")
    if kind in ("stream", "cut"):
        return 200, sse, [*events(told), *([] if kind == "cut" else [b"data: [DONE]\n\n"])]
    if kind == "tools":
        arguments = json.dumps({"to": f"a\n{email('argument')}", key("name"): all_of("arguments")})
        calls = [
            {"tool_calls": [{"index": 0, "id": f"call_{email('call_id')}", "function": {"name": "mail", "arguments": p}}]}
            for p in pieces(arguments, 7)
        ]  # fmt: skip
        lines = [
            b"data: " + json.dumps({"choices": [{"index": 0, "delta": d}]}).encode() + b"\n\n"
            for d in calls
        ]
        thought = pieces(f"hm {all_of('reasoning')}")
        return 200, sse, [*lines, *events(thought, "reasoning_content"), b"data: [DONE]\n\n"]
    if kind == "gzip":
        coded = gzip.compress(b"".join(events(told)) + b"data: [DONE]\n\n")
        return 200, sse | {"Content-Encoding": "gzip"}, [coded[:100], coded[100:]]
    if kind == "exotic":
        return 200, sse | {"Content-Encoding": "exotic"}, events(told)
    if kind == "in_band":
        error = {"error": {"message": f"no {all_of('message')}", "type": email("type"), "code": email("code")}}  # fmt: skip
        last = (
            b"data: "
            + json.dumps(error).encode()
            + b"\n\n: "
            + all_of("comment").encode()
            + b"\n\n"
        )
        return 200, sse, [*events(told), *borders(last)]
    if kind == "error":
        error = {"error": {"message": f"bad: {all_of('message')}", "type": email("type"), "param": email("param")}}  # fmt: skip
        return 400, js, borders(json.dumps(error).encode())
    if kind == "plain":
        page = f"<html>{all_of('page')}".encode()
        return 200, {"Content-Type": f"text/plain; x={email('content_type')}"}, borders(page)
    message = {
        "content": all_of("content"),
        "refusal": all_of("refusal"),
        "reasoning_content": f"hm {all_of('reasoning')}",
    }
    document = {
        "id": email("answer_id"),
        "model": email("answer_model"),
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, email("usage"): 4111111111111111},
    }
    return 200, js, borders(json.dumps(document, ensure_ascii=False).encode())


def borders(body: bytes, size: int = 13) -> list[bytes]:
    """Chunks that end within each secret."""
    return [body[at : at + size] for at in range(0, len(body), size)]


OF_STREAMS = {"answer_id", "answer_model", "fingerprint", "finish_reason", "content"}
ANSWERED = {
    "stream": OF_STREAMS,
    "cut": OF_STREAMS,
    "tools": (OF_STREAMS - {"content"}) | {"argument", "arguments", "call_id", "reasoning"},
    "gzip": OF_STREAMS,
    "exotic": OF_STREAMS - {"content"},  # nobody can join its pieces
    "in_band": OF_STREAMS | {"message", "type", "code", "comment"},
    "error": {"message", "type", "param"},
    "plain": {"page", "content_type"},
    "document": {"answer_id", "answer_model", "content", "refusal", "reasoning", "usage"},
}
"""Kind → the fields of its answer that hold a secret."""
ASKED = {
    *("model", "system", "name", "user_text", "tool_arguments", "tool_result", "tool_description"),
    *("user", "metadata", "metadata_name", "key_top", "key_metadata", "key_extra"),
}
"""Those of every request's body."""


async def serve_one(
    seen: set[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, KeyError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            seen |= fields_in(head.encode())
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            body = json.loads(await reader.readexactly(int(fields["content-length"])))
            kind = body["kind"]
            status, more, parts = reply(kind)
            more |= {
                "X-Request-Id": f"r {email('answer_header')}",
                "X-Own": all_of("answer_own"),
                "Transfer-Encoding": "chunked",
            }
            lines = "".join(f"{name}: {value}\r\n" for name, value in more.items())
            writer.write(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode())
            for part in parts:
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                await writer.drain()
                await asyncio.sleep(0)
            if kind == "cut":
                writer.transport.abort()
                return
            writer.write(b"0\r\n\r\n")
            await writer.drain()
    writer.close()


@contextlib.contextmanager
def loose_engine() -> Iterator[tuple[str, set[str]]]:
    """Its URL, while the block runs, and of which fields it saw secrets in heads."""
    seen: set[str] = set()
    begun, over, where = threading.Event(), threading.Event(), []

    async def run() -> None:
        server = await asyncio.start_server(partial(serve_one, seen), "127.0.0.1", 0)
        where.append(server.sockets[0].getsockname()[1])
        begun.set()
        async with server:
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    begun.wait(10)
    try:
        yield f"http://127.0.0.1:{where[0]}", seen
    finally:
        over.set()
        thread.join(10)


def question(kind: str) -> dict:
    """A request that holds secrets in every field."""
    arguments = json.dumps({"a": f"\n{all_of('tool_arguments')}"})
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {
        "kind": kind,
        "model": f"ft:{email('model')}",
        "stream": kind not in ("document", "error", "plain"),
        "messages": [
            {"role": "system", "content": all_of("system")},
            {
                "role": "user",
                "name": email("name"),
                "content": [{"type": "text", "text": f"é {all_of('user_text')}"}],
            },
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": all_of("tool_result")},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "description": all_of("tool_description")},
            }
        ],
        "user": email("user"),
        "metadata": {
            email("metadata_name"): all_of("metadata"),
            "n": 4111111111111111,
            f"{email('key_metadata')} {PHONE} password": 1,
        },
        "extra_body": {f"{email('key_extra')}_token": 1},
        f"{email('key_top')} secret": 1,
    }


OWN_QUERY = f"{email('query_name')}-token=1&{email('query_name')}%20{IP}%20password=1"
OWN_FIELD = f"X-{MARK}.{IP}-Token: 1"
"""Names that a client made up: no candidate gets them, and a record must not repeat them."""
