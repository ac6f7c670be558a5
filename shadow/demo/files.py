"""The configuration and policy that a demo writes, as a person would write them."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Engine:
    """One upstream of a demo."""

    arm: str
    """primary, control, or the candidate's name."""
    url: str
    build: str

    @property
    def role(self) -> str:
        """As the configuration has it; the primary has none."""
        return "control" if self.arm == "control" else "candidate"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the product listens on 127.0.0.1."""

    proxy: int
    health: int
    store: int


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that were free just now."""
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in held]


def write(
    folder: Path,
    experiment: str,
    engines: Sequence[Engine],
    ports: Ports,
    policy: str,
    kafka: str | None = None,
) -> Path:
    """Write shadow.yaml and policy.yaml into `folder`; returns the first's path.

    Args:
        folder: absolute; data goes there too.
        experiment: its name.
        engines: the primary first.
        ports: of the proxy, health and store.
        policy: the text of policy.yaml.
        kafka: bootstrap servers of the Kafka that carries the exchanges; None: the embedded log.
    """
    (folder / "policy.yaml").write_text(policy, "utf-8")
    path = folder / "shadow.yaml"
    path.write_text(_configuration(folder, experiment, engines, ports, kafka), "utf-8")
    return path


def _configuration(
    folder: Path, experiment: str, engines: Sequence[Engine], ports: Ports, kafka: str | None
) -> str:
    primary, *arms = engines
    # A quoted JSON string is a YAML string, whatever the path or URL holds.
    return f"""\
experiment: {experiment}
listen: 127.0.0.1:{ports.proxy}
capture: text
primary: {{url: {json.dumps(primary.url)}, build: {json.dumps(primary.build)}}}
arms:
{"".join(map(_arm, arms))}\
stream: {_stream(folder, experiment, kafka)}
store: {{embedded: {json.dumps(f"{folder}/data/store")}, listen: "127.0.0.1:{ports.store}"}}
state: {json.dumps(f"{folder}/data/state")}
policy: {json.dumps(f"{folder}/policy.yaml")}
drain: 10s
# A minute is too short to spare seconds without mirroring, and its verdict comes before its end;
# in production leave both lines out.
isolation: off
stop_at: {{on_verdict: continue}}
admin: {{health: "127.0.0.1:{ports.health}"}}
"""


def _stream(folder: Path, experiment: str, kafka: str | None) -> str:
    """The embedded log, or a topic of this run's own."""
    if kafka is None:
        return f"{{embedded: {json.dumps(f'{folder}/data/stream')}}}"
    run = f"{experiment}-{time.time_ns():x}"
    said = {
        "bootstrap_servers": kafka,
        "topic": f"shadow.{run}",
        "dead_letter_topic": f"shadow.{run}.dead-letters",
        "group": run,
        "create_topic": True,
        "partitions": 3,
        "spill": f"{folder}/data/spill",
    }
    return json.dumps({"kafka": said})


def _arm(engine: Engine) -> str:
    return f"""\
  {engine.arm}:
    role: {engine.role}
    url: {json.dumps(engine.url)}
    build: {json.dumps(engine.build)}
    sample: 1.0        # every request; in production a share of them
"""


POLICY = """\
blocks: {by: time, every: 1s, min_pairs: 20, planned: 50}
min_span: 0s           # a demo; in production at least an hour, better a day
warm_up: {pairs: 100}
# Not gated here: ttft_any.p95 and e2e.p95. About 1,300 pairs hold some sixty beyond a 95th
# percentile, too few to tell a 10 % margin from noise within a minute: they would hold any
# candidate, an equal one too. What is left out is not judged; the report still shows it.
metrics:
  ttft_any.p50:  {margin: 5%}
  tpot.mean:     {margin: 5%}
  failure.rate:  {margin: 0.5pp}
  mismatch.rate: {margin: 2pp}
"""
"""The demo's policy: a minute's traffic instead of a day's."""
