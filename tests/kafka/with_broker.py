"""Run a command beside a real Kafka broker: python tests/kafka/with_broker.py COMMAND ARG …

KAFKA_BOOTSTRAP_SERVERS names the broker for it; where it is set already, that broker is used.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from broker import NoBroker, existing, start

SERVERS = "KAFKA_BOOTSTRAP_SERVERS"


def main(command: list[str]) -> int:
    """The command's own exit status; 2 where no broker can be had."""
    if existing():
        return subprocess.run(command, check=False).returncode
    with tempfile.TemporaryDirectory(prefix="shadow-kafka-") as folder:
        try:
            cluster = start(Path(folder))
        except NoBroker as none:
            sys.stderr.write(f"{none}\n")
            return 2
        try:
            known = {**os.environ, SERVERS: ",".join(cluster.bootstrap)}
            return subprocess.run(command, env=known, check=False).returncode
        except KeyboardInterrupt:
            return 130
        finally:
            cluster.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
