"""Health ports of collector and analysis, on a thread of their own."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request

import pytest

from analysis.look import Newest
from analysis.status import Status as AnalysisStatus
from collector.status import Status
from shadow.cli.health import analysis_health, collector_health
from shadow.cli.serving import serving
from shadow.config import ConfigError
from shadow.config.units import Address


def free() -> Address:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Address("127.0.0.1", probe.getsockname()[1])


def get(address: Address, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_collector_says_what_is_away():
    """Alive at once; ready only while stream and store answer; counts are exposed."""
    status, address = Status(), free()
    with serving(address, lambda: collector_health(status), "admin.collector"):
        assert get(address, "/healthz")[0] == 200
        assert get(address, "/readyz")[0] == 503
        status.told(None)
        assert get(address, "/readyz")[0] == 200
        status.told(ConnectionError("no broker\nanswers"))
        code, body = get(address, "/readyz")
        assert (code, json.loads(body)["reason"]) == (503, "the stream is away: no broker answers")
        status.records_total, status.unreadable_total = 7, 2
        text = get(address, "/metrics")[1]
        assert "shadow_collector_records_total 7.0" in text
        assert "shadow_collector_unreadable_total 2.0" in text
    with pytest.raises(urllib.error.URLError):
        get(address, "/healthz")


def test_the_analysis_says_how_it_looks():
    """Ready after its first look."""
    status, address = AnalysisStatus(), free()
    with serving(address, lambda: analysis_health(status), "admin.analysis"):
        assert get(address, "/readyz")[0] == 503
        status.looked(0.25)
        assert get(address, "/readyz")[0] == 200
        text = get(address, "/metrics")[1]
        assert "shadow_analysis_looks_total 1.0" in text
        assert "shadow_analysis_look_seconds 0.25" in text
        assert "shadow_verdict{" not in text
        status.verdicts = {"fp8": Newest("hold", 0.875), "fp4": Newest("reject", None)}
        text = get(address, "/metrics")[1]
        assert 'shadow_verdict{candidate="fp8",verdict="hold"} 1.0' in text
        assert 'shadow_verdict{candidate="fp8",verdict="promote"} 0.0' in text
        assert 'shadow_coverage{candidate="fp8"} 0.875' in text
        assert 'shadow_coverage{candidate="fp4"}' not in text


def test_without_an_address_nothing_listens():
    """No port is opened that was not asked for."""
    with serving(None, lambda: pytest.fail("made an application"), "admin.collector"):
        pass


def test_a_taken_port_is_one_line():
    """It names the key and the address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = Address("127.0.0.1", taken.getsockname()[1])
        with (
            pytest.raises(
                ConfigError,
                match=f"admin.control: {address}: Address already in use; stop what listens there, "
                "or choose another port$",
            ),
            serving(address, lambda: pytest.fail("made an application"), "admin.control"),
        ):
            pass
