"""`make demo-engines`: real engines, forty real prompts, the same path and comparison."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path

from rich.console import Console

from shadow.demo import files, folder, llama, path, prompts, stage
from shadow.demo.children import Children, children, until
from shadow.demo.failure import DemoFailed
from shadow.demo.files import Engine
from shadow.demo.questions import QUESTIONS

VENV = Path("out/engines")
MAX_TOKENS = 48
AT_ONCE = 1
"""One prompt after the other: each is answered by all arms at the same time, on two cores."""
ENGINE_READY_S = 90.0
LIST_S = 10.0

POLICY = """\
# The default policy, but for its blocks and warm-up, which are made for a day's traffic. Forty
# prompts fill eight blocks of five: figures to look at, too few for an interval, so it holds.
blocks: {by: time, every: 1s, min_pairs: 5, planned: 100}
warm_up: {pairs: 0}
"""


def run_engines(
    primary: str | None = None,
    candidate: str | None = None,
    control: str | None = None,
    out: Path = Path("out/demo-engines"),
) -> int:
    """Show the whole path on real engines.

    Args:
        primary: URL of a running engine; with `candidate`, these are compared. Without both,
            three llama.cpp servers are installed from PyPI and started.
        candidate: URL of the other.
        control: URL of a second copy of the primary, if there is one.
        out: the folder to write; one that a demo made before is cleared.

    Returns:
        0 when a verdict was had, whatever it is; 1 with one line on stderr otherwise.
    """
    return stage.guarded(lambda: _demo(primary, candidate, control, out), out)


def _demo(primary: str | None, candidate: str | None, control: str | None, out: Path) -> None:
    console, began = stage.terminal(), time.monotonic()
    own = given(primary, candidate, control)
    installed = None if own else llama.install(VENV, console)
    with folder.own(out) as made, children(made / "logs") as processes:
        engines = own or start_engines(processes, console, installed)
        model = same_model(console, engines)
        done = stage.compare(
            console,
            processes,
            made,
            experiment="demo-engines",
            engines=engines,
            policy=POLICY,
            bodies=requests(model),
            due=[0.0] * len(QUESTIONS),
            at_once=AT_ONCE,
        )
        if not own:
            console.print(
                "The three share this machine's cores: their times say little, their texts more."
            )
        console.print("Stopping everything.")
        stage.say_killed(console, processes.stop())
    steps = {"docs/attach.md": "your own gateway"}
    stage.plainly(console, stage.next_steps(done, time.monotonic() - began, steps))


def given(primary: str | None, candidate: str | None, control: str | None) -> list[Engine]:
    """The engines that a person named; none means the demo's own.

    Raises:
        DemoFailed: one of the two that a comparison needs is missing, or it is no URL.
    """
    if not (primary or candidate or control):
        return []
    if not primary or not candidate:
        raise DemoFailed("give both PRIMARY=http://… and CANDIDATE=http://…, or neither")
    named = {"primary": primary, "candidate": candidate, "control": control}
    for arm, url in named.items():
        if url and not url.startswith(("http://", "https://")):
            raise DemoFailed(f"{arm.upper()}={url} is not a URL such as http://engine:8000")
    return [Engine(arm, url.rstrip("/"), "given") for arm, url in named.items() if url]


def start_engines(
    processes: Children, console: Console, installed: llama.Installed | None
) -> list[Engine]:
    """Three llama.cpp servers; primary and control on one file, the candidate on the other."""
    assert installed is not None
    console.print("Starting three llama.cpp servers: primary, requantised candidate, control.")
    models = {
        "primary": installed.model,
        "requantised": installed.requantised,
        "control": installed.model,
    }
    ports = files.free_ports(len(models))
    return [
        _start(processes, installed.python, arm, model, port)
        for (arm, model), port in zip(models.items(), ports, strict=True)
    ]


def _start(processes: Children, python: Path, arm: str, model: Path, port: int) -> Engine:
    script = str(Path(__file__).with_name("llama_server.py"))
    words = [str(python), script, llama.MODEL, str(model), str(port)]
    # Threads that spin at a barrier would take the cores from the other two.
    child = processes.start(f"engine-{arm}", words, {"OMP_WAIT_POLICY": "passive"})
    url = f"http://127.0.0.1:{port}"
    until(lambda: path.answers(f"{url}/health"), child, ENGINE_READY_S)
    return Engine(arm, url, f"llama.cpp {llama.PACKAGES[0].version} {model.name}")


def same_model(console: Console, engines: list[Engine]) -> str:
    """The primary's model name; a warning for each engine that lists another one."""
    names = {engine.arm: model_of(engine) for engine in engines}
    wanted = names["primary"]
    for arm, name in names.items():
        if name != wanted:
            console.print(
                f"{arm} serves {name}, not {wanted}; requests name {wanted}, so it may refuse them "
                "(vLLM: --served-model-name).",
                style="yellow",
            )
    return wanted


def model_of(engine: Engine) -> str:
    """The first model that GET /v1/models lists.

    Raises:
        DemoFailed: no answer, or not a list of models.
    """
    url = f"{engine.url}/v1/models"
    try:
        with urllib.request.urlopen(url, timeout=LIST_S) as answer:  # noqa: S310 a person's own URL
            return str(json.load(answer)["data"][0]["id"])
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise DemoFailed(f"{engine.arm}: no answer from {url} ({reason})") from None
    except (ValueError, LookupError, TypeError):
        raise DemoFailed(f"{engine.arm}: {url} does not list a model") from None


def requests(model: str) -> list[bytes]:
    """One greedy, streamed chat completion a question."""
    options = {"include_usage": True}
    return [
        prompts.body(
            [{"role": "user", "content": question}],
            model,
            max_tokens=MAX_TOKENS,
            temperature=0,
            stream=True,
            stream_options=options,
        )
        for question in QUESTIONS
    ]
