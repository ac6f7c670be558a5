"""What `make crosscheck` runs: AIPerf through the proxy against the simulated engine, its figures
against ours, request by request. Writes bench/results/crosscheck.json and docs/crosscheck.md.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from bench.collector import asked, stored
from bench.markdown import digits, provenance, table
from bench.measure import machine
from bench.peers import HERE, free_ports, running, versions

AIPERF = "aiperf==0.13.0"
ENVIRONMENT = HERE.parent / "out" / "crosscheck-venv"
RESULT = HERE / "results" / "crosscheck.json"
PAGE = HERE.parent / "docs" / "crosscheck.md"
REQUESTS, CONCURRENCY, TOKENS, REASONING = 80, 4, 40, 8
TTFT_MS, ITL_MS = 200, 20
MOST_MS, MOST_SHARE = 2.0, 0.02
PATIENCE_S = 60.0

_STORED = """\
SELECT extract(b.raw, 'chatcmpl-([0-9a-f-]{36})') AS id, ttft_content_ms, ttft_answer_ms, itl_mean_ms,
    decode_ms, e2e_ms, output_tokens, token_source, outcome
FROM exchanges AS e FINAL INNER JOIN bodies AS b FINAL USING (pair_id, arm)
WHERE e.arm = 'primary' FORMAT JSON"""


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric of AIPerf's beside ours: how its definition differs, if it does."""

    theirs: str
    ours: str
    differs: str


METRICS = (
    Compared("time_to_first_token", "ttft_content_ms", "AIPerf's clock starts before it connects and writes the request, ours when the request's last byte was written to the engine"),
    Compared("time_to_first_output_token", "ttft_answer_ms", "as above"),
    Compared("inter_token_latency", "itl_mean_ms", "none"),
    Compared("decode_duration", "decode_ms", "none"),
    Compared("request_latency", "e2e_ms", "as the first; AIPerf ends with the last event that carries a token, ours with the answer's last byte"),
)  # fmt: skip


def say(text: str) -> None:
    print(text, flush=True)


def install() -> Path:
    """AIPerf in an environment of its own; its program."""
    program = ENVIRONMENT / "bin" / "aiperf"
    if not program.exists():
        say(f"installing {AIPERF} (about 1.2 GB from PyPI, once) into {ENVIRONMENT} ...")
        venv.create(ENVIRONMENT, with_pip=True)
        pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--disable-pip-version-check", AIPERF], check=True)
    return program


def write_tokenizer(folder: Path) -> None:
    """A small byte-level BPE, trained on this project's pages: AIPerf makes its prompts with it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pages = sorted((HERE.parent / "docs").glob("*.md"))
    tokenizer.train_from_iterator([page.read_text() for page in pages], trainer)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    said = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))


def write_config(folder: Path, ports: Mapping[str, int]) -> Path:
    """The proxy before the engine; a copy of every request goes to it too, as in use."""
    engine = f"http://127.0.0.1:{ports['engine']}"
    config = {
        "experiment": "crosscheck",
        "listen": f"127.0.0.1:{ports['proxy']}",
        "capture": "full",
        "primary": {"url": engine},
        "arms": {"copy": {"role": "candidate", "url": engine, "sample": 1.0}},
        "stream": {"embedded": str(folder / "stream")},
        "store": {"embedded": str(folder / "store"), "listen": f"127.0.0.1:{ports['store']}"},
        "state": str(folder / "state"),
        "admin": {"health": f"127.0.0.1:{ports['health']}"},
        "isolation": "off",  # a copy of every request
    }
    path = folder / "crosscheck.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def profile(program: Path, folder: Path, port: int) -> list[dict[str, Any]]:
    """Run AIPerf against the proxy; its own record of each request.

    Raises:
        RuntimeError: it failed, with its last words.
    """
    write_tokenizer(folder / "tokenizer")
    words = {
        "model": "sim", "url": f"http://127.0.0.1:{port}", "endpoint-type": "chat",
        "tokenizer": folder / "tokenizer", "request-count": REQUESTS, "concurrency": CONCURRENCY,
        "synthetic-input-tokens-mean": 60, "synthetic-input-tokens-stddev": 10,
        "output-tokens-mean": TOKENS, "output-tokens-stddev": 8, "random-seed": 1, "ui": "none",
        "output-artifact-dir": folder / "aiperf",
    }  # fmt: skip
    options = [word for name, value in words.items() for word in (f"--{name}", str(value))]
    command = [str(program), "profile", "--streaming", "--use-server-token-count", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    export = folder / "aiperf" / "profile_export.jsonl"
    if done.returncode or not export.exists():
        raise RuntimeError(f"aiperf: exit {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
    return [json.loads(line) for line in export.read_text().splitlines()]


def collected(config: Path, folder: Path, port: int) -> list[dict[str, Any]]:
    """Carry what the proxy recorded into the store; one row a request.

    Raises:
        RuntimeError: it is not there in time.
    """
    command = [sys.executable, "-m", "shadow", "collect", "-c", str(config)]
    deadline = time.monotonic() + PATIENCE_S
    with running(command, None, port, folder / "collector.log"):
        while stored(port) < 2 * REQUESTS:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{stored(port)} of {2 * REQUESTS} answers were stored")
            time.sleep(0.2)
        rows: list[dict[str, Any]] = json.loads(asked(port, _STORED))["data"]
    return rows


def joined(
    records: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """AIPerf's record and our row of each request, by the request id that the answer repeats.

    Raises:
        RuntimeError: the two do not hold the same requests.
    """
    theirs = {record["metadata"]["x_request_id"]: record["metrics"] for record in records}
    ours = {row["id"]: row for row in rows}
    if theirs.keys() != ours.keys() or len(theirs) != len(records) or len(ours) != len(rows):
        both = len(theirs.keys() & ours.keys())
        raise RuntimeError(f"{len(records)} of theirs, {len(rows)} of ours, {both} in common")
    return [(theirs[each], ours[each]) for each in sorted(theirs)]


def compare(
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], metric: Compared
) -> dict[str, Any]:
    """One metric over all requests, in ms: medians of both, of the absolute difference, its most."""
    values = [
        (theirs[metric.theirs]["value"], ours[metric.ours])
        for theirs, ours in pairs
        if metric.theirs in theirs and ours[metric.ours] is not None
    ]
    apart = [abs(their - our) for their, our in values]
    share = statistics.median(abs(their - our) / their for their, our in values)
    median = statistics.median(apart)
    return {
        **asdict(metric),
        "requests": len(values),
        "theirs_ms": statistics.median(their for their, _ in values),
        "ours_ms": statistics.median(our for _, our in values),
        "apart_ms": median,
        "apart_share": share,
        "signed_ms": statistics.median(their - our for their, our in values),
        "most_ms": max(apart),
        "within": len(values) == len(pairs) and (median < MOST_MS or share < MOST_SHARE),
    }


def sending_ms(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> float:
    """What AIPerf itself says it spent before its request had left, median."""
    parts = ("http_req_blocked", "http_req_connecting", "http_req_sending")
    return statistics.median(
        sum(theirs[part]["value"] for part in parts if part in theirs) for theirs, _ in pairs
    )


_PAGE = """\
# Cross-check with AIPerf

`make crosscheck` lets {aiperf} send {requests} streamed chat requests, {concurrency} at a time, through
`shadow proxy` to `shadow engine-sim` (first token after {ttft_ms} ms, a token every {itl_ms} ms,
{reasoning_tokens} reasoning tokens before the answer; a copy of every request is mirrored), and holds
AIPerf's own record of each request against our row in the store, by the request id. Both count tokens
by the engine's usage.

{provenance}

{table}

The bound is a median absolute difference below {most_ms:g} ms or {most_share:.0%}. All {requests}
requests are in both; output tokens agree in {same_tokens} of them.

Where the definitions differ:

{differs}

AIPerf says that its requests took {sending} ms (median) until they had left, connections included.
What remains of a difference is the way through the proxy and AIPerf's own event loop, which stamps an
event when it comes to it, on a machine that runs all of them.
"""


def page(result: Mapping[str, Any]) -> str:
    """docs/crosscheck.md."""
    head = [
        "AIPerf's",
        "ours",
        "AIPerf, ms",
        "ours, ms",
        "median apart, ms",
        "of it",
        "most, ms",
        "bound",
    ]
    rows = [
        [
            f"`{each['theirs']}`", f"`{each['ours']}`", digits(each["theirs_ms"]), digits(each["ours_ms"]),
            digits(each["apart_ms"]), f"{each['apart_share']:.2%}", digits(each["most_ms"]),
            "kept" if each["within"] else "**missed**",
        ]
        for each in result["metrics"]
    ]  # fmt: skip
    return _PAGE.format(
        **result["settings"],
        aiperf=result["aiperf"],
        same_tokens=result["same_tokens"],
        provenance=provenance(result),
        table=table(head, rows),
        most_ms=MOST_MS,
        most_share=MOST_SHARE,
        differs="\n".join(f"- `{m['theirs']}`: {m['differs']}." for m in result["metrics"]),
        sending=digits(result["sending_ms"]),
    )


def measured(program: Path) -> dict[str, Any]:
    """One whole run."""
    names = ("engine", "proxy", "store", "health")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    with tempfile.TemporaryDirectory(prefix="shadow-crosscheck-") as base:
        folder = Path(base)
        config = write_config(folder, ports)
        shadow = [sys.executable, "-m", "shadow"]
        engine = [
            *shadow, "engine-sim", "--port", str(ports["engine"]), "--ttft-ms", str(TTFT_MS),
            "--itl-ms", str(ITL_MS), "--reasoning-tokens", str(REASONING),
        ]  # fmt: skip
        with (
            running(engine, None, ports["engine"], folder / "engine.log"),
            running(
                [*shadow, "proxy", "-c", str(config)], None, ports["proxy"], folder / "proxy.log"
            ),
        ):
            say(f"AIPerf sends {REQUESTS} requests through the proxy ...")
            records = profile(program, folder, ports["proxy"])
        pairs = joined(records, collected(config, folder, ports["store"]))
    return {
        "benchmark": "crosscheck",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {k: v for k, v in versions().items() if k not in {"envoy", "nginx", "wrk"}},
        "aiperf": AIPERF.replace("aiperf==", "AIPerf "),
        "settings": {
            "requests": REQUESTS, "concurrency": CONCURRENCY, "ttft_ms": TTFT_MS, "itl_ms": ITL_MS,
            "reasoning_tokens": REASONING,
        },
        "metrics": [compare(pairs, metric) for metric in METRICS],
        "sending_ms": sending_ms(pairs),
        "same_tokens": sum(t["output_sequence_length"]["value"] == o["output_tokens"] for t, o in pairs),
    }  # fmt: skip


def main() -> int:
    """0 if every metric is within its bound."""
    result = measured(install())
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    PAGE.write_text(page(result))
    for each in result["metrics"]:
        word = "within" if each["within"] else "NOT WITHIN"
        say(f"{each['theirs']}: {each['apart_ms']:.3f} ms, {each['apart_share']:.2%}: {word}")
    say(f"written: {RESULT}, {PAGE}")
    return 0 if all(each["within"] for each in result["metrics"]) else 1


if __name__ == "__main__":
    sys.exit(main())
