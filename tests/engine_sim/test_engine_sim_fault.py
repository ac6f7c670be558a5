"""Each fault on the wire, streamed and not, as the README's table says; and how often it comes."""

import asyncio
from collections import Counter
from random import Random

import orjson
import pytest

from shadow.engine_sim.fault import FAULTS, choose
from shadow.engine_sim.settings import Settings, fault_rates

from .serving import answers, ask, chat, engine, quick


def one(fault, *, stream=True, **changes):
    settings = quick(**{f"fault_{fault}": 1.0}, tokens=30, **changes)
    return answers(settings, chat(stream=stream))[0]


def test_the_settings_name_the_same_faults():
    """A rate for each fault, in the same order, and no other."""
    assert tuple(fault_rates(Settings())) == FAULTS


def test_rates():
    """Each fault comes as often as asked for, the rest is sound."""
    settings, draw = Settings(fault_reset=0.1, fault_empty=0.3), Random(1)
    seen = Counter(choose(settings, draw) for _ in range(5000))
    assert set(seen) == {None, "reset", "empty"}
    assert abs(seen["reset"] / 5000 - 0.1) < 0.02
    assert abs(seen["empty"] / 5000 - 0.3) < 0.03


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("fault", "status"), [("http_500", 500), ("http_429", 429)])
def test_refusals(fault, status, stream):
    """A status and an error's JSON instead of an answer; 429 says when to come again."""
    seen = one(fault, stream=stream)
    assert (seen.status, seen.end) == (status, "whole")
    assert orjson.loads(seen.body)["error"]["code"] == status
    assert ("Retry-After: 1" in seen.head) == (status == 429)


@pytest.mark.parametrize(
    ("dialect", "done", "end"),
    [
        ("vllm", True, "whole"),
        ("sglang", True, "whole"),
        ("llama.cpp", False, "whole"),
        ("trtllm", False, "fin"),
    ],
)
def test_in_band_errors(dialect, done, end):
    """After some tokens: an error event, with or without [DONE]; trtllm just closes."""
    seen = one("in_band_error", dialect=dialect)
    assert (seen.status, seen.done, seen.end) == (200, done, end)
    assert seen.text
    assert ("error" in seen.events[-1]) == (dialect != "trtllm")


def test_in_band_error_of_a_document():
    """Status 200 with an error's JSON."""
    seen = one("in_band_error", stream=False)
    assert (seen.status, seen.end) == (200, "whole")
    assert "error" in orjson.loads(seen.body)


@pytest.mark.parametrize("stream", [True, False])
def test_reset(stream):
    """Some bytes of a good answer, then RST: not a FIN, which would look like an end."""
    seen = one("reset", stream=stream)
    assert (seen.status, seen.end, seen.done) == (200, "rst", False)
    assert seen.body


def test_truncated_stream():
    """A clean end in HTTP's terms, without finish reason and [DONE]."""
    seen = one("truncate")
    assert (seen.end, seen.done) == ("whole", False)
    assert seen.text
    assert all(c["finish_reason"] is None for e in seen.events for c in e["choices"])


def test_truncated_document():
    """Fewer bytes than promised, then FIN."""
    seen = one("truncate", stream=False)
    assert seen.end == "fin"
    assert seen.body


@pytest.mark.parametrize("fault", ["reset", "truncate", "in_band_error"])
@pytest.mark.parametrize("dialect", ["vllm", "sglang", "trtllm", "llama.cpp"])
def test_an_answer_of_one_token_breaks_too(fault, dialect):
    """There is no answer too short to fail: none of them ends with its terminal event."""
    settings = quick(**{f"fault_{fault}": 1.0}, dialect=dialect)
    seen = answers(settings, chat(max_tokens=1))[0]
    failed = seen.end != "whole" or not seen.done or "error" in seen.events[-1]
    assert failed


@pytest.mark.parametrize("stream", [True, False])
def test_empty(stream):
    """A sound end without a token."""
    seen = one("empty", stream=stream)
    assert seen.end == "whole"
    if stream:
        assert (seen.text, seen.done) == ("", True)
    else:
        assert orjson.loads(seen.body)["choices"][0]["message"]["content"] == ""


def test_stall():
    """A pause somewhere between two tokens, then the same text as ever."""
    sound = answers(quick(tokens=30), chat())[0]
    paused = one("stall", stall_s=0.2)
    assert paused.text == sound.text
    assert paused.done


def test_stall_lies_between_two_tokens():
    """Measured: one gap holds the pause, and it is neither before the first nor after the last."""
    settings = quick(fault_stall=1.0, stall_s=0.2, tokens=30)

    async def run():
        async with engine(settings) as port:
            loop = asyncio.get_running_loop()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            path, payload = chat()
            body = orjson.dumps(payload)
            writer.write(
                b"POST %b HTTP/1.1\r\nHost: e\r\nContent-Length: %d\r\n\r\n"
                % (path.encode(), len(body))
                + body
            )
            times, seen = [], b""
            while b"[DONE]" not in seen:
                seen += await reader.read(65536)
                times.append((loop.time(), seen.count(b'"content":" ')))
            writer.close()
            await writer.wait_closed()
            return times

    times = asyncio.run(run())
    longest = max(range(1, len(times)), key=lambda i: times[i][0] - times[i - 1][0])
    assert times[longest][0] - times[longest - 1][0] > 0.15
    assert times[longest - 1][1] > 0


def test_hang_says_nothing_and_ends_with_its_client():
    """The head comes, no token does; a client that leaves frees the engine at once."""

    async def run():
        async with engine(quick(fault_hang=1.0)) as port:
            asking = asyncio.ensure_future(ask(port, *chat()))
            done, _ = await asyncio.wait([asking], timeout=0.3)
            asking.cancel()
            await asyncio.wait([asking])
            return done

    assert not asyncio.run(asyncio.wait_for(run(), 5))
