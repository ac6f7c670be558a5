"""Redaction's work grows as the body does, ends at its bound, leaves the loop its time, and gives
what a straightforward reading gives.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from redaction import reference
from redaction.world import SECRETS, redactor

PATTERNS = [{"name": "ticket", "regex": r"TICKET-\d+"}]
CONFIGURATIONS = [
    {"patterns": PATTERNS},
    {"patterns": PATTERNS, "action": "hash"},
    {"patterns": PATTERNS, "action": "drop"},
    {"patterns": [{"name": "words", "regex": r"\s*words\s+\S+"}, {"name": "big", "regex": "plain.{0,40}", "action": "drop"}]},
    {"paths": [{"path": "choices[*].delta.content", "action": "hash"}, {"path": "**.a"}, {"path": "**.b", "action": "drop"}]},
]  # fmt: skip
TEXTS = [*SECRETS.values(), "4111111111111111", "::1", "größe", "😀", "\n", '"', "\\", '{"a":"x\\n b@c.io"}', "plain words", "1 2 3", "x", " "]  # fmt: skip
KEYS = ["content", "index", "delta", "choices", "logprobs", "token_ids", "bytes", "a", "b", SECRETS["email"]]  # fmt: skip
NUMBERS = [1, 12, 0.5, -3.25, None, True, 4111111111111111, 1e22, 123456789012]
DAMAGE = [b'"', b"\\", b"\\u12", b"\xff", b"\n", b"\r\n", b"{", b"]", b",,", b"\xf0\x9f", b""]


def some_text(r, most):
    return "".join(r.choice(TEXTS) for _ in range(r.randrange(most)))


def some_value(r, depth=0):
    kind = r.random()
    if kind < 0.5 or depth > 4:
        return some_text(r, 5)
    if kind < 0.62:
        return r.choice(NUMBERS)
    if kind < 0.8:
        return [some_value(r, depth + 1) for _ in range(r.randrange(5))]
    return {r.choice(KEYS): some_value(r, depth + 1) for _ in range(r.randrange(6))}


def dumped(r, value):
    return json.dumps(value, ensure_ascii=r.random() < 0.5, indent=r.choice([None, None, 1])).encode()  # fmt: skip


def some_stream(r, most):
    out, text = b"", some_text(r, most)
    while text:
        size = r.randrange(1, 8)
        delta, text = text[:size], text[size:]
        value = {"created": r.randrange(10**9), "choices": [{"index": r.choice([0, 0, 1, 11]), "delta": {"content": delta}}]}  # fmt: skip
        line = r.choice([b"\n", b"\n", b"\r\n", b"\r"])
        start = r.choice([b"data: ", b"data: ", b"data:", b"event: x\ndata: ", b": a@b.io\ndata: ", b"", b"id: 7\ndata: "])  # fmt: skip
        said = dumped(r, value if r.random() < 0.9 else some_value(r))
        out += start + said.replace(b"\n", line + b"data: ") + line + r.choice([line, line, b""])
    return out + b"data: [DONE]\n\n"


def some_body(r):
    """(body, content type, tail): JSON, events, plain texts; damaged, cut; a few are long."""
    long = r.random() < 0.004
    kind = r.choice(["application/json", "text/event-stream", "text/plain"])
    if kind == "application/json":
        raw = dumped(r, [some_value(r) for _ in range(100)] if long else some_value(r))
    elif kind == "text/plain":
        raw = some_text(r, 9000 if long else 60).encode()
    else:
        raw = some_stream(r, 400 if long else 25)
    body = bytearray(raw)
    for _ in range(r.choice([0, 0, 1, 3])):
        at = r.randrange(len(body) + 1)
        body[at : at + r.randrange(4)] = r.choice(DAMAGE)
    return bytes(body), kind, r.choice([0, 0, 0, r.randrange(len(body) + 1)])


@pytest.mark.parametrize("seed", range(8))
def test_every_body_becomes_what_a_straightforward_reading_makes_of_it(seed):
    """Byte for byte, with the same counts: 2,000 bodies in all."""
    r = random.Random(seed)
    redactors = [redactor(**said) for said in CONFIGURATIONS]
    for number in range(250):
        body, kind, tail = some_body(r)
        mine = redactors[number % len(redactors)]
        counts, wanted_counts = Counter(), Counter()
        new = mine.body(body, kind, counts, tail)
        wanted = reference.become(body, kind, tail, mine.rules, wanted_counts)
        assert new == wanted, (seed, number)
        assert counts == wanted_counts, (seed, number)


def addresses(n):
    return json.dumps([f"user{i}@example.com and {'some words' * 5}" for i in range(n)]).encode()


def events(n):
    return b"".join(b'data: {"choices":[{"index":0,"delta":{"content":"to a%d@b.io, "}}]}\n\n' % i for i in range(n))  # fmt: skip


KINDS = {
    "addresses in a list": (addresses, 1500, "application/json"),
    "addresses in one string": (lambda n: json.dumps({"a": "a@b.io\n" * n}).encode(), 4000, "application/json"),
    "addresses in JSON in JSON": (lambda n: json.dumps([addresses(n).decode()]).encode(), 600, "application/json"),
    "strings": (lambda n: b"[" + b'"some words",' * n + b'""]', 6000, "application/json"),
    "empty strings": (lambda n: b"[" + b'"",' * n + b'""]', 20_000, "application/json"),
    "numbers": (lambda n: b"[" + b"-0.0123456," * n + b"1]", 40_000, "application/json"),
    "events": (events, 1500, "text/event-stream"),
    "lines of one event": (lambda n: b"data: a@b.io\n" * n, 8000, "text/event-stream"),
    "comments": (lambda n: b":x\n" * n, 20_000, "text/event-stream"),
}  # fmt: skip


def seconds_of(body, kind):
    """Of this thread, the least of three."""
    mine, least = redactor(), float("inf")
    for _ in range(3):
        begin = time.thread_time()
        assert mine.body(body, kind, Counter()) is not None
        least = min(least, time.thread_time() - begin)
    return least


@pytest.mark.parametrize("name", KINDS)
def test_twice_the_body_is_twice_the_work(name):
    make, size, kind = KINDS[name]
    ratios = []
    for _ in range(3):
        ratios.append(seconds_of(make(2 * size), kind) / seconds_of(make(size), kind))
        if ratios[-1] < 2.5:
            return
    pytest.fail(f"{ratios} times the time of half the body")


DENSE = json.dumps([" ".join(f"415 555 {n:04} 4111" for n in range(9000))]).encode()
LARGE = {
    "addresses": (addresses(20_000), "application/json", {}),
    "empty strings": (b"[" + b'"",' * 300_000 + b"1]", "application/json", {}),
    "brackets": (b"[" + b"[]," * 300_000 + b"1]", "application/json", {}),
    "objects": (b"[" + b'{"a":""},' * 100_000 + b"1]", "application/json", {}),
    "lines": (b"data:x\n" * 400_000, "text/event-stream", {}),
    "comments": (b":x\n" * 300_000, "text/event-stream", {}),
    "numbers that are blanked": (b'{"a":[' + b"1," * 500_000 + b"1]}", "application/json", {"paths": [{"path": "a"}]}),
    "numbers that may be telephones": (DENSE, "application/json", {}),
    "tokens": (b'{"a":"a@b.io","logprobs":[' + b"1," * 500_000 + b"1]}", "application/json", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_what_takes_longer_than_its_time_is_withheld_at_once(name, monkeypatch):
    """Wherever the work is: reading, looking, writing over, what tokens say again."""
    body, kind, said = LARGE[name]
    monkeypatch.setattr("shadow.redaction.redactor.MOST_SECONDS", 0.1)
    mine = redactor(**said)
    mine.body(b'["+49 30 1234567"]', kind, Counter())  # telephones' tables are read once
    begin = time.thread_time()
    assert mine.body(body, kind, Counter()) is None
    assert time.thread_time() - begin < 0.2


def test_what_is_nested_too_deep_is_withheld():
    assert redactor().body(b"[" * 1000 + b"]" * 1000, "", Counter()) is None
    body = b"[" * 800 + b"]" * 800
    assert redactor().body(body, "", Counter()) == body


MOST_WAIT_SECONDS = 0.012
"""How much of the redacting thread's time may pass before another one has the lock."""
WAITED = {
    "empty strings": (b"[" + b'"",' * 150_000 + b"1]", "application/json", {}),
    "one string": (b'{"a":"' + b"some words go here " * 250_000 + b'"}', "application/json", {}),
    "one string under a path": (b'{"a":"' + "wörter \\n".encode() * 40_000 + b'"}', "application/json", {"paths": [{"path": "a", "action": "hash"}]}),
    "numbers": (b'{"e":[' + b"-0.0123456," * 300_000 + b"1]}", "application/json", {}),
    "brackets": (b"[" * 2**21, "application/json", {}),
    "pairs of brackets": (b"[" + b"[]," * 150_000 + b"1]", "application/json", {}),
    "a line": (b"data: " + b"some words go here " * 250_000 + b"\n\n", "text/event-stream", {}),
    "lines": (b"data:x\n" * 80_000, "text/event-stream", {}),
    "events": (events(4_000), "text/event-stream", {}),
    "addresses": (addresses(6_000), "application/json", {}),
}  # fmt: skip


def queued_s():
    """Seconds that this thread has waited for a processor, ever."""
    return (
        int(Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text().split()[1])
        / 1e9
    )


def longest_wait(body, kind, said):
    """Seconds of the redacting thread's own time between two moments at which this one has the lock;
    without those in which this one had no processor: a busy machine keeps no lock.
    """
    mine, ready, go, done = redactor(**said), threading.Event(), threading.Event(), []

    def work():
        mine.body(b'["+49 30 1234567"]', kind, Counter())
        ready.set()
        go.wait()
        mine.body(body, kind, Counter())
        done.append(True)
        go.clear()
        ready.wait()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    ready.clear()
    clock = time.pthread_getcpuclockid(thread.ident)
    longest, before, queued = 0.0, time.clock_gettime(clock), queued_s()
    go.set()
    while not done:
        time.sleep(0.0001)
        now, later = time.clock_gettime(clock), queued_s()
        longest = max(longest, now - before - (later - queued))
        before, queued = now, later
    ready.set()
    thread.join()
    return longest


@pytest.mark.parametrize("name", WAITED)
def test_nobody_waits_long_for_the_lock(name):
    """With the proxy's switch interval; the least of four, since a machine may be slow to wake us."""
    waits, interval = [], sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    gc.collect()
    gc.freeze()  # as the proxy does: what the tests have made is not walked meanwhile
    try:
        for _ in range(4):
            waits.append(longest_wait(*WAITED[name]))
            if waits[-1] < MOST_WAIT_SECONDS:
                return
    finally:
        gc.unfreeze()
        sys.setswitchinterval(interval)
    pytest.fail(f"the lock was kept for {waits} s")
