"""One llama.cpp server in a process of its own.

Runs under the interpreter that has xllamacpp, so it imports nothing of this package:
python llama_server.py NAME MODEL PORT. SIGTERM ends it at once.
"""

from __future__ import annotations

import signal
import sys

import xllamacpp  # type: ignore[import-not-found]  # it lives in the engines' environment


def main(name: str, model: str, port: str) -> None:
    """Serve until a signal comes. One thread: several servers share the machine's cores."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {name}
    params.hostnames, params.port = ["127.0.0.1"], int(port)
    params.n_ctx, params.n_parallel = 2048, 2
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)  # listens from here on, and stops with its last reference
    signal.pause()
    del server


if __name__ == "__main__":
    main(*sys.argv[1:])
