"""Run a command beside a real Kafka broker: python tests/kafka/with_broker.py [--or-without] COMMAND ARG …

KAFKA_BOOTSTRAP_SERVERS names the broker for it; where it is set already, that broker is used. With
--or-without the command also runs where none can be had.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from broker import NoBroker, existing, start

SERVERS = "KAFKA_BOOTSTRAP_SERVERS"
OR_WITHOUT = "--or-without"


def main(command: list[str]) -> int:
    """The command's own exit status; 2 where no broker can be had, and must be."""
    needed = command[0] != OR_WITHOUT
    command = command if needed else command[1:]
    if existing():
        return subprocess.run(command, check=False).returncode
    with tempfile.TemporaryDirectory(prefix="shadow-kafka-") as folder:
        try:
            cluster = start(Path(folder))
        except NoBroker as none:
            sys.stderr.write(f"{none}\n")
            return 2 if needed else subprocess.run(command, check=False).returncode
        try:
            known = {**os.environ, SERVERS: ",".join(cluster.bootstrap)}
            return subprocess.run(command, env=known, check=False).returncode
        except KeyboardInterrupt:
            return 130
        finally:
            cluster.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
