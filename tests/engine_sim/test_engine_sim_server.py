"""The process: it says where it listens, ends at once when told to, and refuses in one line."""

import re
import signal
import socket
import subprocess
import sys
import time

START = """
import sys
from shadow.engine_sim import Settings, run
sys.exit(run(Settings(port=int(sys.argv[1]), fault_hang=1.0)))
"""


def start(port):
    return subprocess.Popen(
        [sys.executable, "-c", START, str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_sigterm_ends_it_at_once_in_the_middle_of_an_answer():
    """A hung answer does not hold the process; the exit is 0 and nothing is printed on stderr."""
    with start(0) as process:
        try:
            port = int(re.search(r":(\d+) ", process.stdout.readline())[1])
            with socket.create_connection(("127.0.0.1", port)) as client:
                body = b'{"messages":[1],"stream":true}'
                client.sendall(
                    b"POST /v1/chat/completions HTTP/1.1\r\nHost: e\r\nContent-Length: %d\r\n\r\n%b"
                    % (len(body), body)
                )
                assert client.recv(100).startswith(b"HTTP/1.1 200")
                began = time.monotonic()
                process.send_signal(signal.SIGTERM)
                assert process.wait(5) == 0
                assert time.monotonic() - began < 1.5
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_a_taken_port_is_one_line_and_exit_2():
    """The line names the address and the way out."""
    with socket.create_server(("127.0.0.1", 0)) as taken, start(taken.getsockname()[1]) as process:
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1)
    assert "is taken; choose another port" in err
