"""A real Apache Kafka on loopback for the tests: one node or three, on free ports, in seconds.

The jars come from Maven Central once (`pom.xml`), into out/kafka-libs. A node has three doors:
PLAINTEXT, SASL_PLAINTEXT and SASL_SSL (PLAIN and SCRAM-SHA-256 on both), its data in a folder of
the test's own. Nodes are ended by pid.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
LIBS = HERE.parent.parent / "out" / "kafka-libs"
USER, PASSWORD = "shadow", "s3cret"
HOW = (
    "no Kafka broker: install Java 17 or newer and Maven (Debian: apt-get install "
    "openjdk-17-jre-headless maven) and let Maven reach Maven Central, or name a running "
    "broker with KAFKA_BOOTSTRAP_SERVERS=host:port"
)
JAVA = ("java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
START_SECONDS = 40.0


class NoBroker(Exception):
    """No broker can be had here; one line on how to get one."""


def jars() -> str:
    """The class path of a broker, resolved by Maven at the first call ever.

    Raises:
        NoBroker: no Java, no Maven, or Maven cannot reach its repository.
    """
    if not shutil.which("java"):
        raise NoBroker(HOW)
    if not list(LIBS.glob("kafka_2.13-*.jar")):
        if not shutil.which("mvn"):
            raise NoBroker(HOW)
        resolve = ("mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies")
        done = subprocess.run(
            [*resolve, f"-DoutputDirectory={LIBS}"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            shutil.rmtree(LIBS, ignore_errors=True)
            raise NoBroker(f"{HOW} ({(done.stdout + done.stderr).strip().splitlines()[0]})")
    return f"{LIBS}/*"


@dataclass(frozen=True)
class Ports:
    """Where one node listens."""

    plain: int
    sasl: int
    tls: int
    controller: int


@dataclass
class Node:
    """One broker process, which is also a controller."""

    number: int
    folder: Path
    ports: Ports
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The PLAINTEXT door."""
        return f"127.0.0.1:{self.ports.plain}"

    def start(self) -> None:
        """Start the process; `Cluster.await_ready` waits for it."""
        with (self.folder / "log").open("ab") as log:
            command = [*JAVA, "-cp", jars(), "kafka.Kafka", str(self.folder / "server.properties")]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the process by its pid and wait for it."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(20)
            self.process = None

    def tail(self) -> str:
        """The log's last lines."""
        return "\n".join((self.folder / "log").read_text(errors="replace").splitlines()[-15:])


@dataclass
class Cluster:
    """The nodes of one test cluster, formatted and started."""

    folder: Path
    nodes: list[Node] = field(default_factory=list)

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """PLAINTEXT, without a password."""
        return tuple(node.address for node in self.nodes)

    @property
    def sasl(self) -> tuple[str, ...]:
        """SASL_PLAINTEXT."""
        return tuple(f"127.0.0.1:{node.ports.sasl}" for node in self.nodes)

    @property
    def tls(self) -> tuple[str, ...]:
        """SASL_SSL."""
        return tuple(f"127.0.0.1:{node.ports.tls}" for node in self.nodes)

    @property
    def ca(self) -> Path:
        """The certificate that signed the nodes' own."""
        return self.folder / "certificate.pem"

    def await_ready(self) -> None:
        """Wait until every running node takes requests and the cluster has a controller."""
        from kafka import KafkaAdminClient
        from kafka.errors import KafkaError

        deadline = time.monotonic() + START_SECONDS
        for node in [node for node in self.nodes if node.process]:
            while True:
                self._check(node, deadline)
                try:
                    with socket.create_connection(("127.0.0.1", node.ports.plain), 1.0):
                        break
                except OSError:
                    time.sleep(0.05)
        running = [node.address for node in self.nodes if node.process]
        while True:
            try:
                admin = KafkaAdminClient(bootstrap_servers=running, bootstrap_timeout_ms=2000)
            except KafkaError:
                self._check(self.nodes[0], deadline)
                continue
            try:
                if len(admin.describe_cluster()["brokers"]) == len(running):
                    return
            finally:
                admin.close()
            self._check(self.nodes[0], deadline)
            time.sleep(0.1)

    def close(self) -> None:
        """End every node."""
        for node in self.nodes:
            node.kill()

    @staticmethod
    def _check(node: Node, deadline: float) -> None:
        ended = node.process is not None and node.process.poll() is not None
        if ended or time.monotonic() > deadline:
            raise RuntimeError(f"the broker did not come up:\n{node.tail()}")


def start(folder: Path, count: int = 1) -> Cluster:
    """Format and start a cluster of `count` nodes in `folder`, and wait until it is ready.

    Raises:
        NoBroker: see `jars`.
    """
    classpath = jars()
    certificate(folder)
    taken = [free_ports() for _ in range(count)]
    voters = ",".join(f"{n}@127.0.0.1:{ports.controller}" for n, ports in enumerate(taken, 1))
    cluster = Cluster(folder)
    for number, ports in enumerate(taken, 1):
        node = Node(number, folder / f"node-{number}", ports)
        node.folder.mkdir()
        (node.folder / "server.properties").write_text(properties(node, voters, count, folder))
        cluster.nodes.append(node)
    formatting = [format_node(node, classpath) for node in cluster.nodes]
    for node, process in zip(cluster.nodes, formatting, strict=True):
        output, _ = process.communicate(timeout=60)
        if process.returncode:
            raise RuntimeError(f"node {node.number} cannot be formatted:\n{output.decode()}")
    try:
        for node in cluster.nodes:
            node.start()
        cluster.await_ready()
    except BaseException:
        cluster.close()
        raise
    return cluster


def format_node(node: Node, classpath: str) -> subprocess.Popen[bytes]:
    scram = f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"
    tool = ["kafka.tools.StorageTool", "format", "-t", "c2hhZG93LXRlc3RzLTAwMQ"]
    command = [*JAVA, "-cp", classpath, *tool, "-c", str(node.folder / "server.properties")]
    return subprocess.Popen(
        [*command, "--add-scram", scram], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def free_ports() -> Ports:
    """Four ports that were free a moment ago; held together, so that they differ."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
    numbers = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return Ports(*numbers)


def certificate(folder: Path) -> None:
    """A certificate of its own for 127.0.0.1, with its key, as the broker's PEM store wants it."""
    key, cert = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    (folder / "store.pem").write_text(key.read_text() + cert.read_text())


def properties(node: Node, voters: str, count: int, folder: Path) -> str:
    """server.properties of one node."""
    doors = {
        "PLAINTEXT": node.ports.plain,
        "SASL_PLAINTEXT": node.ports.sasl,
        "SASL_SSL": node.ports.tls,
    }
    advertised = ",".join(f"{name}://127.0.0.1:{port}" for name, port in doors.items())
    module = "org.apache.kafka.common.security"
    plain = f'{module}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    scram = f"{module}.scram.ScramLoginModule required;"
    lines = {
        "process.roles": "broker,controller",
        "node.id": node.number,
        "controller.quorum.voters": voters,
        "listeners": f"{advertised},CONTROLLER://127.0.0.1:{node.ports.controller}",
        "advertised.listeners": advertised,
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,"
        "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": folder / "store.pem",
        "log.dirs": node.folder / "data",
        "default.replication.factor": count,
        "offsets.topic.replication.factor": count,
        "offsets.topic.num.partitions": 2,
        "transaction.state.log.replication.factor": count,
        "transaction.state.log.min.isr": 1,
        "min.insync.replicas": min(2, count),
        "group.initial.rebalance.delay.ms": 0,
        "auto.create.topics.enable": "false",
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        "controller.quorum.election.timeout.ms": 500,
        "controller.quorum.fetch.timeout.ms": 1000,
        "log.cleaner.enable": "false",
        "num.network.threads": 2,
        "num.io.threads": 2,
    }
    for door in ("sasl_plaintext", "sasl_ssl"):
        lines[f"listener.name.{door}.plain.sasl.jaas.config"] = plain
        lines[f"listener.name.{door}.scram-sha-256.sasl.jaas.config"] = scram
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def existing() -> tuple[str, ...]:
    """The brokers that KAFKA_BOOTSTRAP_SERVERS names."""
    named = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "")
    return tuple(filter(None, (each.strip() for each in named.split(","))))
