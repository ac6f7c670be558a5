"""Names: looked up in a thread of their own, the last good addresses serve."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from shadow.relay import addresses
from shadow.relay.addresses import Addresses, look_up


def test_a_literal_needs_no_lookup():
    """IPv4 and IPv6 literals serve at once, without a thread."""
    before = threading.active_count()
    for host in ("127.0.0.1", "::1"):
        known = Addresses(host, 1, lookup=None)  # type: ignore[arg-type]
        assert known.first.is_set()
        assert known.rotation() == [host]
    assert threading.active_count() == before


def test_rotation_and_refresh(monkeypatch):
    """Each connection begins with the next address; a failed look-up leaves the last good ones."""
    monkeypatch.setattr(addresses, "REFRESH_S", 0.01)
    calls, seen = [], threading.Event()

    def lookup(host, port):
        calls.append(host)
        if len(calls) >= 3:
            seen.set()
        if len(calls) >= 2:
            raise OSError("resolver is down")
        return ["10.0.0.1", "10.0.0.2"]

    known = Addresses("engine.test", 1, lookup)
    assert seen.wait(5)
    assert {known.rotation()[0] for _ in range(2)} == {"10.0.0.1", "10.0.0.2"}
    known.close()


def test_a_name_is_looked_up_every_30_s(monkeypatch):
    """Also after a look-up that failed, since the last good addresses serve; each second before."""
    waited, done = [], threading.Event()

    class Waits(threading.Event):
        def wait(self, timeout=None):
            waited.append(timeout)
            if len(waited) == 5:
                self.set()
                done.set()
            return self.is_set()

    found = iter([OSError("no"), [], ["10.0.0.1"], OSError("away"), ["10.0.0.2"]])

    def lookup(host, port):
        answer = next(found)
        if isinstance(answer, OSError):
            raise answer
        return answer

    faked = SimpleNamespace(Event=Waits, Thread=threading.Thread)
    monkeypatch.setattr(addresses, "threading", faked)
    known = Addresses("engine.test", 1, lookup)
    assert done.wait(5)
    assert waited == [1.0, 1.0, 30.0, 30.0, 30.0]
    assert known.rotation() == ["10.0.0.2"]


def test_an_unknown_name_is_tried_again_soon(monkeypatch):
    """Until the first good answer there is no address, and then there is."""
    monkeypatch.setattr(addresses, "RETRY_S", 0.01)
    answers = iter([OSError("no"), [], ["10.0.0.9"]])
    found = threading.Event()

    def lookup(host, port):
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        if answer:
            found.set()
        return answer

    known = Addresses("engine.test", 1, lookup)
    assert known.first.wait(5)
    assert found.wait(5)
    for _ in range(1000):
        if known.rotation():
            break
        threading.Event().wait(0.002)
    assert known.rotation() == ["10.0.0.9"]
    known.close()


def test_the_system_s_resolver():
    """localhost is known."""
    assert set(look_up("localhost", 80)) <= {"127.0.0.1", "::1"}
