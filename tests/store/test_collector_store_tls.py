"""The server path over TLS: verified against a named authority, and a mistake is one line."""

import asyncio
import ssl
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from collector.migrate import Retention, migrate
from collector.patience import Backoff
from collector.store import StoreSettings, connect
from collector.store_errors import StoreUnavailable
from collector.writer import Writer

TLS = Path(__file__).parent / "tls"
OTHER = Path(__file__).parents[1] / "relay/tls/ca.pem"


async def _pump(reader, writer):
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@contextmanager
def terminated(url):
    """The HTTP interface behind TLS, as a server or a load balancer shows it; its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    behind, ready, over, port = urlsplit(url), threading.Event(), asyncio.Event(), []
    loop, writers = asyncio.new_event_loop(), []

    async def handle(reader, writer):
        back, forth = await asyncio.open_connection(behind.hostname, behind.port)
        writers.extend((writer, forth))
        await asyncio.gather(_pump(reader, forth), _pump(back, writer))

    async def serve():
        server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
        loop.set_exception_handler(lambda *_: None)  # handshakes that are meant to fail
        port.append(server.sockets[0].getsockname()[1])
        ready.set()
        await over.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
        closed = (writer.wait_closed() for writer in writers)
        await asyncio.gather(*closed, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait(10)
    try:
        yield port[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def port(store):
    with terminated(store.url) as opened:
        yield opened


def over_tls(settings, port, **changes):
    facts = {
        "url": f"https://127.0.0.1:{port}",
        "user": settings.user,
        "password": settings.password,
    }
    return StoreSettings(**facts | {"database": None, "ca": TLS / "ca.pem"} | changes)


def test_tables_are_made_written_and_read(settings, port):
    """Migrations, an insert under a token twice, and the rows back: all of it over https."""
    with closing(connect(over_tls(settings, port))) as client:
        migrate(client, "over_tls", Retention(10**9, 10**9))
        for _ in range(2):
            assert Writer(client).insert("verdicts", ["experiment"], [["e"], ["f"]], "token") == []
        rows = client.query("SELECT experiment FROM verdicts ORDER BY experiment").result_rows
        assert rows == [("e",), ("f",)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ca": None}, "certificate"),
        ({"ca": OTHER}, "certificate"),
        ({"url": "http://127.0.0.1:{port}"}, ""),
    ],
    ids=["the system's authorities", "another's", "plain"],
)
def test_whoever_cannot_be_verified_is_not_talked_to(settings, port, changes, said):
    """An unknown authority, or plain HTTP to a TLS port: an error of one line, and no password sent
    in the clear to whoever answers."""
    changes = {
        key: value.format(port=port) if key == "url" else value for key, value in changes.items()
    }
    with pytest.raises(StoreUnavailable) as away:
        connect(over_tls(settings, port, **changes))
    assert said in str(away.value).lower()
    assert "\n" not in str(away.value)
    assert settings.password not in str(away.value)


def test_a_server_that_went_away_is_waited_for_with_capped_backoff(store, settings):
    """Between two inserts: tries at growing distances, then the error, and nothing half stored."""
    with terminated(store.url) as port:
        client = connect(over_tls(settings, port))
        migrate(client, "over_tls_away", Retention(10**9, 10**9))
        assert Writer(client).insert("verdicts", ["experiment"], [["e"]], "one") == []
    slept = []
    backoff = Backoff(first_s=1.0, cap_s=2.0, limit_s=6.0)
    writer = Writer(client, backoff, clock=lambda: sum(slept), sleep=slept.append)
    with closing(client), pytest.raises(StoreUnavailable):
        writer.insert("verdicts", ["experiment"], [["e"]], "two")
    assert slept == [1.0, 2.0, 2.0]
    with closing(store.client()) as inside:
        assert inside.query("SELECT count() FROM over_tls_away.verdicts").result_rows == [(1,)]
