"""Reading an answer costs at most 2.5 times what json.loads of the same events does."""

import gc
import json
import time

import pytest
from collecting.answers import CHAT, DONE, SSE, marks_of, usage

from collector.completion import Answer, read
from collector.measures import measure

pytestmark = pytest.mark.alone

EVENTS = 2000


def chunk(number, **more):
    choice = {
        "index": 0,
        "delta": {"content": f" word{number}"},
        "logprobs": None,
        "finish_reason": None,
    }
    head = {
        "id": "chatcmpl-d1ab9976-0982-4f60-a90d",
        "object": "chat.completion.chunk",
        "created": 1796036678,
        "model": "m",
    }
    return head | {"choices": [choice]} | more


SHAPES = {
    "vLLM": chunk,
    "usage on every chunk": lambda number: chunk(number, usage=usage(number + 1)["usage"]),
    "CRLF": chunk,
}


def best(action):
    """The least CPU time of seven runs, without the garbage collector's pauses."""
    times = []
    for _ in range(7):
        begin = time.process_time()
        action()
        times.append(time.process_time() - begin)
    return min(times)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_budget(shape):
    """Events, marks, completion and measures, a mark an event, against json.loads alone."""
    payloads = [json.dumps(SHAPES[shape](n), separators=(",", ":")).encode() for n in range(EVENTS)]
    end = b"\r\n\r\n" if shape == "CRLF" else b"\n\n"
    pieces = [*(b"data: " + payload + end for payload in payloads), DONE]
    answer = Answer(CHAT, 200, SSE, b"".join(pieces), marks_of(pieces), "complete")
    gc.disable()
    try:
        ours = best(lambda: measure(read(answer), 0))
        theirs = best(lambda: [json.loads(payload) for payload in payloads])
    finally:
        gc.enable()
    assert ours < 2.5 * theirs, f"{ours / theirs:.2f}"
