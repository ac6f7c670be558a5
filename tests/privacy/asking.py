"""What is asked of a running `shadow up`: questions full of secrets, and whatever it tells."""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial

from end_to_end.stage import Stage
from privacy.loose_engine import KINDS, OWN_FIELD, OWN_QUERY, TICKET, all_of, email, key, question
from privacy.sinks import Sink


async def send(port: int, kind: str) -> bytes:
    """One question, with secrets in its query and fields; the answer's raw bytes."""
    body = json.dumps(question(kind)).encode()
    head = (
        f"POST /v1/chat/completions?api_key={key('query')}&x={email('query')}&{OWN_QUERY} HTTP/1.1\r\n"
        f"Host: x\r\n{OWN_FIELD}\r\n"
        f"Authorization: Bearer {key('authorization')} {email('authorization')}\r\n"
        f"Cookie: a={email('cookie')}\r\nUser-Agent: ua {email('user_agent')}\r\n"
        f"X-User-Id: {email('subject')}\r\nX-Request-Id: {TICKET}\r\nX-Own: {all_of('own')}\r\n"
        f"Connection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + body)
    raw = b""
    with contextlib.suppress(ConnectionError):
        while piece := await asyncio.wait_for(reader.read(2**16), 30):
            raw += piece
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return raw


def send_all(port: int) -> None:
    """A question for every kind of answer; the client gets all that the engine said."""
    for kind in KINDS:
        raw = asyncio.run(send(port, kind))
        assert raw.startswith(b"HTTP/1.1 "), kind
        assert kind == "gzip" or b"leakmark" in raw


def fetch(port: int, path: str, body: bytes | None = None) -> bytes:
    """What is answered, whatever its status."""
    fields = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, fields)
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.read()


def spoken(running: Stage, admin: dict[str, int]) -> Iterator[Sink]:
    """What people and programs are told: every command that tells something, every port."""
    named = {"pause": ("--by", "me", "--reason", "a test"), "resume": ("--by", "me")}
    commands = {
        "report": [("--format", "json"), ("--format", "md")],
        "gate": [("--format", "json"), ()],
        "plan": [()],
        "mirror": [("status",), ("pause", *named["pause"]), ("status",), ("resume", *named["resume"])],
    }  # fmt: skip
    for command, options in commands.items():
        for each in options:
            done = running.shadow(command, *each)
            assert done.stdout, (command, each, done.stderr)
            yield f"command: {command}", (done.stdout + done.stderr).encode()
    ports = {
        "proxy": running.health,
        "collector": admin["collector"],
        "analysis": admin["analysis"],
    }
    for part, port in ports.items():
        figures = fetch(port, "/metrics")
        assert b"# HELP shadow_" in figures, part
        yield f"metrics: {part}", figures
        for path in ("/readyz", "/healthz"):
            yield f"health: {part}", fetch(port, path)
    told = partial(fetch, admin["control"])
    stage_s, mirror = "/api/v1/experiments/stage", "/api/v1/mirror"
    answers = {
        path: told(path)
        for path in ("/api/v1/experiments", f"{stage_s}/report", f"{stage_s}/verdict", mirror)
    }
    rate = {"by": "me", "reason": "r", "arm": "fp8", "rate": 1.0}
    for action, said in {"pause": {"by": "me"}, "resume": {"by": "me"}, "rate": rate}.items():
        answers[action] = told(f"{mirror}/{action}", json.dumps(said).encode())
    for name, answer in answers.items():
        assert not answer.startswith(b'{"error"'), (name, answer)
        yield f"control: {name}", answer
    yield "control: unknown", told("/api/v1/experiments/none/report")
