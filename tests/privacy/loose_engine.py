"""An engine that gives secrets away in every way there is, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import threading
from collections.abc import Iterator

MARK = "leakmark"
EMAIL = f"{MARK}.person@{MARK}.example.com"
KEY = f"sk-proj-{MARK}0123456789ABCDEF"
TICKET = f"{MARK.upper()}-4711"
CARD = "4111 1111 1111 1111"
IBAN = "DE89370400440532013000"
NEEDLES = tuple(
    each.encode() for each in (MARK, MARK.upper(), CARD, CARD.replace(" ", ""), IBAN, "10.20.30.40")
)
"""What no sink may hold."""
ALL = f"{EMAIL} {KEY} {TICKET} {CARD}, {IBAN} 10.20.30.40"

KINDS = ("stream", "document", "error", "gzip", "in_band", "plain", "cut", "exotic", "tools")


def events(pieces: list[str], field: str = "content") -> list[bytes]:
    chunks = [
        {
            "id": f"chatcmpl-{KEY}",
            "object": "chat.completion.chunk",
            "model": f"ft:{EMAIL}",
            "system_fingerprint": f"fp {EMAIL}",
            "choices": [{"index": 0, "delta": {field: piece}, "finish_reason": None}],
        }
        for piece in pieces
    ]
    chunks[-1]["choices"][0]["finish_reason"] = EMAIL
    return [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]


def pieces(text: str, size: int = 5) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def reply(kind: str) -> tuple[int, dict[str, str], list[bytes]]:
    """(status, fields, what is written, piece by piece)."""
    sse, js = {"Content-Type": "text/event-stream"}, {"Content-Type": "application/json"}
    told = pieces(f"It is {ALL}, é\n")
    if kind in ("stream", "cut"):
        return 200, sse, [*events(told), *([] if kind == "cut" else [b"data: [DONE]\n\n"])]
    if kind == "tools":
        arguments = json.dumps({"to": f"a\n{EMAIL}", KEY: ALL})
        calls = [
            {"tool_calls": [{"index": 0, "id": f"call_{KEY}", "function": {"name": "mail", "arguments": p}}]}
            for p in pieces(arguments, 7)
        ]  # fmt: skip
        lines = [
            b"data: " + json.dumps({"choices": [{"index": 0, "delta": d}]}).encode() + b"\n\n"
            for d in calls
        ]
        return 200, sse, [*lines, *events(told, "reasoning_content"), b"data: [DONE]\n\n"]
    if kind == "gzip":
        coded = gzip.compress(b"".join(events(told)) + b"data: [DONE]\n\n")
        return 200, sse | {"Content-Encoding": "gzip"}, [coded[:100], coded[100:]]
    if kind == "exotic":
        return 200, sse | {"Content-Encoding": "exotic"}, events(told)
    if kind == "in_band":
        error = {"error": {"message": f"no {ALL}", "type": EMAIL, "code": KEY}}
        return 200, sse, [*events(told), b"data: " + json.dumps(error).encode() + b"\n\n", b": " + ALL.encode() + b"\n\n"]  # fmt: skip
    if kind == "error":
        error = {"error": {"message": f"bad prompt: {ALL}", "type": KEY, "param": EMAIL}}
        return 400, js, [json.dumps(error).encode()]
    if kind == "plain":
        return 200, {"Content-Type": f"text/plain; x={EMAIL}"}, [f"<html>{ALL}".encode()]
    message = {"content": ALL, "refusal": ALL, "reasoning_content": f"hm {ALL}"}
    document = {
        "id": KEY,
        "model": EMAIL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, EMAIL: 4111111111111111},
    }
    return 200, js, [json.dumps(document, ensure_ascii=False).encode()]


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, KeyError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            body = json.loads(await reader.readexactly(int(fields["content-length"])))
            kind = body["kind"]
            status, more, parts = reply(kind)
            more |= {"X-Request-Id": f"r {EMAIL}", "X-Own": ALL, "Transfer-Encoding": "chunked"}
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
def loose_engine() -> Iterator[str]:
    """Its URL, while the block runs."""
    begun, over, where = threading.Event(), threading.Event(), []

    async def run() -> None:
        server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
        where.append(server.sockets[0].getsockname()[1])
        begun.set()
        async with server:
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    begun.wait(10)
    try:
        yield f"http://127.0.0.1:{where[0]}"
    finally:
        over.set()
        thread.join(10)


def question(kind: str) -> dict:
    """A request that holds secrets in every field."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps({"a": f"\n{ALL}"})}}  # fmt: skip
    return {
        "kind": kind,
        "model": f"ft:{EMAIL}",
        "stream": kind not in ("document", "error", "plain"),
        "messages": [
            {"role": "system", "content": ALL},
            {"role": "user", "name": EMAIL, "content": [{"type": "text", "text": f"é {ALL}"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": ALL},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": ALL}}],
        "user": EMAIL,
        "metadata": {KEY: ALL, "n": 4111111111111111},
    }
