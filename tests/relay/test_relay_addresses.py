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


def test_who_took_no_connection_comes_last_for_a_while(monkeypatch):
    """Or every second connection would wait for an address that is dead; a lone one is always tried."""
    now = [100.0]
    monkeypatch.setattr(addresses, "monotonic", lambda: now[0])
    known = looked_up(["10.0.0.1", "10.0.0.2", "10.0.0.3"])
    known.shun("10.0.0.2")
    assert {known.rotation()[-1] for _ in range(6)} == {"10.0.0.2"}
    assert {known.rotation()[0] for _ in range(6)} == {"10.0.0.1", "10.0.0.3"}
    now[0] += addresses.SHUN_S
    assert {known.rotation()[0] for _ in range(6)} == {"10.0.0.1", "10.0.0.2", "10.0.0.3"}
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        known.shun(address)
    assert len(known.rotation()) == 3
    alone = looked_up(["10.0.0.1"])
    alone.shun("10.0.0.1")
    assert alone.rotation() == ["10.0.0.1"]


def test_of_many_addresses_each_has_a_share_that_will_do():
    """64 would have had 78 ms each; all have their turn."""
    many = [f"10.0.0.{n}" for n in range(64)]
    known = looked_up(many)
    turns = [known.rotation() for _ in many]
    assert {len(turn) for turn in turns} == {addresses.MOST_TRIED}
    assert {turn[0] for turn in turns} == set(many)


def test_a_fault_in_looking_up_ends_no_looking_up(monkeypatch, capsys):
    """It is said once, and the next look-up serves."""
    monkeypatch.setattr(addresses, "RETRY_S", 0.01)
    faults = iter([KeyError("a secret"), KeyError("a secret")])

    def lookup(host, port):
        if fault := next(faults, None):
            raise fault
        return ["10.0.0.9"]

    known = Addresses("engine.test", 1, lookup)
    try:
        for _ in range(1000):
            if known.rotation():
                break
            threading.Event().wait(0.002)
        assert known.rotation() == ["10.0.0.9"]
    finally:
        known.close()
    said = capsys.readouterr().out
    assert said.count("looking up failed") == 1
    assert "a secret" not in said


def looked_up(found: list[str]) -> Addresses:
    known = Addresses("engine.test", 1, lambda host, port: found)
    assert known.first.wait(5)
    known.close()
    return known


def test_the_system_s_resolver():
    """localhost is known."""
    assert set(look_up("localhost", 80)) <= {"127.0.0.1", "::1"}
