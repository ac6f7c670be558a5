"""A raw upstream and a raw client: sockets whose every byte a test decides or sees."""

from __future__ import annotations

import asyncio
import functools
import re
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import uvloop

from shadow.app import Ports, Proxy
from shadow.config import Config
from shadow.exchange import decode

TIMEOUT_S = 5.0


class Connection:
    """One accepted or made connection, read by exact amounts; `received` keeps all."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._received = bytearray()
        self.unread = b""

    @property
    def received(self) -> bytes:
        """All bytes that came."""
        return bytes(self._received)

    async def some(self) -> bytes:
        """The next bytes, b'' at FIN."""
        if self.unread:
            data, self.unread = self.unread, b""
            return data
        data = await asyncio.wait_for(self.reader.read(65536), TIMEOUT_S)
        self._received += data
        return data

    async def until(self, mark: bytes) -> bytes:
        """Everything up to and with `mark`; what follows waits."""
        data = bytearray()
        while (at := data.find(mark)) < 0:
            data += await self._more(data)
        end = at + len(mark)
        self.unread = bytes(data[end:])
        return bytes(data[:end])

    async def exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            data += await self._more(data)
        self.unread = bytes(data[size:])
        return bytes(data[:size])

    async def _more(self, so_far: bytearray) -> bytes:
        data = await self.some()
        if not data:
            raise EOFError(bytes(so_far[-200:]))
        return data

    async def request(self) -> tuple[bytes, bytes]:
        """(head, body as it came) of one request or answer with a length or chunks."""
        head = await self.until(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
        if length:
            return head, await self.exactly(int(length[1]))
        if re.search(rb"\r\ntransfer-encoding: *chunked", head, re.IGNORECASE):
            return head, await self.until(b"0\r\n\r\n")
        return head, b""

    async def rest(self) -> bytes:
        """Everything until FIN; a reset raises ConnectionResetError."""
        data = bytearray()
        while more := await self.some():
            data += more
        return bytes(data)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def close(self) -> None:
        self.writer.close()


Script = Callable[[Connection], Awaitable[None]]


class Upstream:
    """Listens; runs `script` on each accepted connection; keeps them and their errors."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.connections: list[Connection] = []
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        self.connections.append(connection)
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        try:
            await self.script(connection)
        except (ConnectionError, EOFError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def upstream(script: Script, port: int = 0, ssl=None):
    server_side = Upstream(script)
    server = await asyncio.start_server(server_side._accept, "127.0.0.1", port, ssl=ssl)
    server_side.port = server.sockets[0].getsockname()[1]
    try:
        yield server_side
    finally:
        server.close()
        for task in server_side.tasks:
            task.cancel()
        await asyncio.gather(*server_side.tasks, return_exceptions=True)
        await server.wait_closed()


def answering(answer: bytes, *, keep: bool = True) -> Script:
    """Reads a request, keeps its head and body on the connection, writes `answer`, again."""

    async def script(connection: Connection) -> None:
        while True:
            try:
                await connection.request()
            except EOFError:
                return
            await connection.write(answer)
            if not keep:
                return

    return script


async def hang(connection: Connection) -> None:
    """Reads a request and never answers, until the other side leaves."""
    await connection.request()
    await connection.rest()


@dataclass
class Hole:
    """An address that takes nobody; how many had come, known at its end."""

    port: int
    requests: int = 0
    answered: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def black_hole():
    """A listener whose queue of connections is full: the kernel answers no SYN."""
    with socket.socket() as listener, ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        listener.setblocking(False)
        hole, own = Hole(listener.getsockname()[1]), set()
        for _ in range(8):
            plug = waiting.enter_context(socket.socket())
            plug.setblocking(False)
            plug.connect_ex(("127.0.0.1", hole.port))
            own.add(plug.getsockname()[1])
        try:
            yield hole
        finally:
            hole.requests = sum(port not in own for port in _waiting(listener))


def _waiting(listener: socket.socket) -> Iterator[int]:
    """The ports of those whom it has not accepted yet."""
    with suppress(BlockingIOError):
        while True:
            connection, (_, port) = listener.accept()
            connection.close()
            yield port


@asynccontextmanager
async def client(port: int):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    connection = Connection(reader, writer)
    try:
        yield connection
    finally:
        writer.transport.abort()


class FakeLedger:
    """Counts in a dict; knows which tokens are open."""

    worker = place = "0"
    boot_id = "boot"

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, str], int] = {}
        self.held: dict[int, int] = {}
        self._token = 0

    def add(self, arm: str, counter: str, reason: str = "", n: int = 1) -> None:
        key = (arm, counter, reason)
        self.counts[key] = self.counts.get(key, 0) + n

    def add_all(self, names) -> None:
        for name in names:
            self.add(*name)

    def opened(self, arrived_at: int) -> int:
        self._token += 1
        self.held[self._token] = 1
        return self._token

    def hold(self, token: int) -> None:
        self.held[token] += 1

    def release(self, token: int) -> None:
        self.held[token] -= 1
        if not self.held[token]:
            del self.held[token]

    def balanced(self, arm: str) -> bool:
        """The equations of the accounting hold."""

        def total(counter: str) -> int:
            return sum(n for (a, c, _), n in self.counts.items() if (a, c) == (arm, counter))

        captured, dropped = total("captured"), total("dropped")
        began = sum(map(total, ("reached", "connect_failed", "breaker_open", "unsent")))
        return (
            total("eligible") == total("sampled") + total("skipped")
            and total("sampled") == captured + dropped
            and captured <= began <= captured + dropped  # what was dropped after it had begun
        )


class FakePublisher:
    """Takes everything at once, as exchanges."""

    def __init__(self, ledger: FakeLedger) -> None:
        self.ledger = ledger
        self.exchanges = []
        self.arrived = asyncio.Condition()

    queued_bytes = 0

    def offer(self, item) -> bool:
        self.exchanges.append(decode(item.message(len(self.exchanges) + 1).value))
        self.ledger.add(item.arm, "captured")
        self.ledger.release(item.token)
        return True

    async def wait_for(self, n: int) -> list:
        """At least n exchanges, by arm."""
        for _ in range(1000):
            if len(self.exchanges) >= n:
                return sorted(
                    self.exchanges, key=lambda e: (e.arrived_at, e.arm != "primary", e.arm)
                )
            await asyncio.sleep(0.005)
        raise AssertionError(f"{len(self.exchanges)} of {n} exchanges came")


class Stage:
    """A running proxy with its fakes."""

    def __init__(self, proxy: Proxy, ledger: FakeLedger, publisher: FakePublisher) -> None:
        self.proxy, self.ledger, self.publisher = proxy, ledger, publisher
        self.port = proxy.port
        self.totals = proxy.totals


@asynccontextmanager
async def proxy(primary: str, arms: dict[str, object] | None = None, lookup=None, **settings):
    """A proxy in this loop; `arms` are URLs or settings of candidates with sample 1."""
    built = {}
    for name, arm in (arms or {}).items():
        given = {"url": arm} if isinstance(arm, str) else dict(arm)
        built[name] = {"role": "candidate", "sample": 1.0, **given}
    head = {"url": primary} if isinstance(primary, str) else primary
    config = Config.model_validate(
        {
            "experiment": "relay-test",
            "listen": "127.0.0.1:0",
            "capture": "full",
            "primary": head,
            "arms": built,
            "stream": {"embedded": "unused"},
            "store": {"embedded": "unused-store"},
            "isolation": "off",  # no random second without mirroring
            **settings,
        }
    )
    ledger = FakeLedger()
    publisher = FakePublisher(ledger)
    more = {"lookup": lookup} if lookup else {}
    running = Proxy(config, Ports(ledger=ledger, publisher=publisher, **more))
    await running.start()
    try:
        yield Stage(running, ledger, publisher)
    finally:
        await running.drain(0)
        await asyncio.sleep(0)
        assert running.totals.mirror_errors == 0, running.totals.last_mirror_error
        assert not ledger.held, "a token was not released"
        assert running.mirror.held.open_bytes == 0, "bytes are counted that nobody holds"
        assert not running.totals.open_streams
        assert not running.totals.open_connections


async def until(condition) -> None:
    """A condition becomes true within a few seconds."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it never became true")


def in_loop(test):
    """A plain test of an async function, on uvloop; bounded, so that a hang is a failure."""

    @functools.wraps(test)
    def plain(*args, **kwargs):
        async def bounded() -> None:
            async with asyncio.timeout(20):
                await test(*args, **kwargs)

        uvloop.run(bounded())

    return plain
