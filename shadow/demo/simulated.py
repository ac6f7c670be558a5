"""`make demo`: three simulated engines, the whole path, a comparison and a verdict."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Literal

from shadow.demo import files, folder, load, path, prompts, stage
from shadow.demo.children import Child, Children, children, until
from shadow.demo.failure import DemoFailed
from shadow.demo.files import Engine

MODEL = "sim"
SERVERS = "KAFKA_BOOTSTRAP_SERVERS"
PROMPT_SEED = 12
STREAMED = 10
"""One in this many requests is not streamed."""
ENGINE_READY_S = 20.0
_LISTENING = re.compile(r"listening on (http://\S+)")

STEADY = ("--model", MODEL, "--ttft-sigma", "0.1")
"""A first token's time within a tenth or so, as of engines with room to spare: a minute's pairs
tell 5 % from noise."""
SLOW = ("--seed", "2", "--slowdown", "1.15", "--differ", "0.1")
SAME = ("--seed", "2")
FOLDERS = {"slow": Path("out/demo"), "same": Path("out/demo-same")}
"""Where each candidate's run is written: one does not clear what the other left."""


def run(
    candidate: Literal["slow", "same"] = "slow",
    out: Path | None = None,
    pairs: int = 1400,
    seconds: float = 62.0,
    stream: Literal["embedded", "kafka"] = "embedded",
) -> int:
    """Show the whole path on this machine.

    Args:
        candidate: slow is 15 % slower a token with 10 % other answers; same is like the control.
        out: the folder to write; one that a demo made before is cleared. Without it, `FOLDERS` says
            which.
        pairs: requests to send; each makes a pair with the candidate and one with the control.
        seconds: over which they are spread.
        stream: what carries the exchanges; kafka is the one of KAFKA_BOOTSTRAP_SERVERS.

    Returns:
        0 when a verdict was had, whatever it is; 1 with one line on stderr otherwise.
    """
    place = out or FOLDERS[candidate]
    return stage.guarded(lambda: _demo(candidate, place, pairs, seconds, _kafka(stream)), place)


def _kafka(stream: str) -> str | None:
    if stream == "embedded":
        return None
    servers = os.environ.get(SERVERS)
    if not servers:
        raise DemoFailed(f"which Kafka? name it with {SERVERS}=host:port")
    return servers


def _demo(
    candidate: Literal["slow", "same"], place: Path, pairs: int, seconds: float, kafka: str | None
) -> None:
    console, began = stage.terminal(), time.monotonic()
    with folder.own(place) as out, children(out / "logs") as processes:
        console.print("Starting three simulated engines: primary, candidate, control.")
        done = stage.compare(
            console,
            processes,
            out,
            experiment=f"demo-{candidate}",
            engines=start_engines(processes, candidate),
            policy=files.POLICY,
            bodies=requests(pairs, MODEL),
            due=load.due_s(pairs, seconds, PROMPT_SEED),
            kafka=kafka,
        )
        console.print("Stopping everything.")
        stage.say_killed(console, processes.stop())
    other = {
        "slow": {"make demo CANDIDATE=same": "an equal engine as candidate"},
        "same": {"make demo": "a slower candidate"},
    }[candidate]
    more = {**other, "make demo-engines": "real engines: three llama.cpp servers"}
    steps = stage.next_steps(done, time.monotonic() - began, more)
    stage.plainly(console, steps)


def start_engines(processes: Children, candidate: Literal["slow", "same"]) -> list[Engine]:
    """Three engines on free ports; control and primary differ in their timing's seed alone."""
    name = "fp8" if candidate == "slow" else "same"
    options = {
        "primary": ("--seed", "1"),
        name: SLOW if candidate == "slow" else SAME,
        "control": ("--seed", "3"),
    }
    started = {
        arm: processes.start(
            f"engine-{arm}", path.argv("engine-sim", "--port", "0", *STEADY, *words)
        )
        for arm, words in options.items()
    }
    build = dict.fromkeys(options, "engine-sim") | {name: f"engine-sim {name}"}
    return [Engine(arm, _listens(child), build[arm]) for arm, child in started.items()]


def _listens(child: Child) -> str:
    until(lambda: _LISTENING.search(child.log.read_text()) is not None, child, ENGINE_READY_S)
    found = _LISTENING.search(child.log.read_text())
    assert found is not None
    return found[1]


def requests(count: int, model: str) -> list[bytes]:
    """Bodies of chat completions, most of them streamed and with usage."""
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    return [
        prompts.body(messages, model, **({} if number % STREAMED == STREAMED - 1 else streamed))
        for number, messages in enumerate(prompts.chats(PROMPT_SEED, count))
    ]
