"""Before a statement or a password is sent, somebody must have answered as ClickHouse does."""

from __future__ import annotations

import http.server
import threading
from contextlib import closing, contextmanager

import pytest

from collector.store import StoreSettings, connect
from collector.store_errors import NotClickHouse, StoreUnavailable


@contextmanager
def somebody(status: int, body: bytes):
    """A server that answers everything alike, and the requests that it saw."""
    seen: list[tuple[str, str, str]] = []

    class Stranger(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            seen.append((self.command, self.path, str(self.headers)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815 the server's names

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"hello"), (404, b""), (405, b"{}"), (302, b"Ok.\n"), (200, b"Ok.\n" + b"x" * 10**6)],
)
def test_a_stranger_gets_neither_statement_nor_password(status, body):
    """One GET of /ping without credentials, no redirect followed, and one line of refusal."""
    with somebody(status, body) as (url, seen):
        with pytest.raises(NotClickHouse) as refused:
            connect(StoreSettings(f"{url}/behind", password="s3cret"))
        assert str(refused.value).startswith(f"store at {url}/behind: ")
        assert "no ClickHouse" in str(refused.value)
        assert "\n" not in str(refused.value)
        ((method, path, headers),) = seen
        assert (method, path) == ("GET", "/behind/ping")
        assert "s3cret" not in headers
        assert "uthorization" not in headers


def test_an_overloaded_one_is_waited_for():
    """503 of a gateway before ClickHouse is no stranger: it may mend."""
    with somebody(503, b"busy") as (url, _), pytest.raises(StoreUnavailable):
        connect(StoreSettings(url))


def test_the_embedded_store_answers_as_clickhouse_does(settings):
    """And so do its clients get in."""
    with closing(connect(settings)) as client:
        assert client.query("SELECT 1").result_rows == [(1,)]
