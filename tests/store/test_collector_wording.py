"""Why a store could not be reached, in one plain line: by what really happens on a socket."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from collector.store import StoreSettings, connect
from collector.store_errors import NotClickHouse, StoreRefused, StoreUnavailable, translated


@contextmanager
def speaking(said: bytes | None):
    """A listener that says this to whoever asks, and closes; None: it resets. Its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(2):  # the client asks once more
                try:
                    with listener.accept()[0] as one:
                        one.recv(65536)
                        one.sendall(said or b"")
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def why(port: int, scheme: str = "http") -> str:
    url = f"{scheme}://127.0.0.1:{port}"
    with pytest.raises(StoreUnavailable) as away:
        connect(StoreSettings(url))
    said = str(away.value)
    assert said.startswith(f"store at {url}: ")
    return said.removeprefix(f"store at {url}: ")


def test_whoever_is_no_web_server():
    """Another protocol, a hang-up, plain text where TLS should be."""
    with speaking(b"SSH-2.0-OpenSSH\r\n") as port:
        assert why(port) == "what answers there is no HTTP"
    with speaking(b"") as port:
        assert why(port) == "it closed the connection without an answer"
    with speaking(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert why(port, "https").startswith("no TLS with it: ")


def test_a_name_that_nobody_knows():
    """The look-up's own words behind it."""
    with pytest.raises(StoreUnavailable, match=r"^store at http://nowhere\.invalid:1: the name "):
        connect(StoreSettings("http://nowhere.invalid:1"))


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_somebody_in_between_is_away(status):
    """A proxy's own error is the world's, and its page is not repeated."""
    text = f"HTTP driver received HTTP status {status}, server response: <html> (for url http://h)"
    said = translated(DatabaseError(text))
    assert (type(said), str(said)) == (StoreUnavailable, f"store at http://h: HTTP status {status}")


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404])
def test_somebody_else_is_no_clickhouse(status):
    """No code of ClickHouse's stands in the answer: waiting mends nothing."""
    text = f"HTTP driver received HTTP status {status}, server response: <html> (for url http://h)"
    said = translated(DatabaseError(text))
    assert type(said) is NotClickHouse
    assert str(said).startswith(f"store at http://h: HTTP status {status}: no ClickHouse")
    assert said.code is None


def test_what_a_server_says_itself_stays():
    """With a code it is ClickHouse's, and its own words say most."""
    refused = translated(DatabaseError("Code: 27. DB::Exception: no", code=27))
    assert (type(refused), str(refused)) == (StoreRefused, "Code: 27. DB::Exception: no")
    away = translated(OperationalError("gone\nfor ever"))
    assert (type(away), str(away)) == (StoreUnavailable, "gone for ever")
