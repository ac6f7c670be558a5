"""What the log says of lag never contradicts what holds mirroring still beside it."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from shadow.config.lifecycle import Isolation
from shadow.steering.switch import Switch
from shadow.steering.told import Told
from shadow.steering.windows import Windows

TENTH_NS = 10**8


class Late:
    """A watch of a loop that is always late."""

    def take(self) -> list[int]:
        return [50_000_000] * 20

    def pace(self, tick_s: float) -> None:
        pass

    def stop(self) -> None:
        pass


def wall_s() -> float:
    """The end of a shadow-off window: the next is far."""
    said = Isolation()
    return Windows("e", said.period_s, said.window.least, said.window.most).of(10)[1] + 1


def until_it_looks(one: Switch) -> int:
    """Ticks until it looks whether mirroring is the cause; the next tick's number."""
    for n in range(1, 300):
        one.tick(n * TENTH_NS, wall_s(), 0)
        if one.guard is not None and one.guard.probe is not None:
            return n + 1
    raise AssertionError("it never looked")


@pytest.fixture
def late() -> Switch:
    one = Switch("e", "c1", ["fp8"], Isolation())
    assert one.lag is not None
    one.lag.watch = Late()
    return one


def test_lag_that_ends_while_something_else_holds_is_no_going_on(late):
    """Stopped in the midst of a look: the look ends, and mirroring does not go on."""
    n = until_it_looks(late)
    with capture_logs() as lines:
        late.hear(Told(stopped={"fp8": "stop_at.time"}, config_hash="c1"))
        for k in range(n, n + 50):
            late.tick(k * TENTH_NS, wall_s(), 0)
    assert [line["event"] for line in lines] == [
        "mirroring stands still",
        "lag is over; still stopped",
    ]
    assert late.skip == "stopped"


def test_a_look_that_clears_mirroring_says_in_words_what_it_adds(late):
    """As late with it as without: it goes on, and says which share of the moments is later."""
    n = until_it_looks(late)
    with capture_logs() as lines:
        for k in range(n, n + 310):
            late.tick(k * TENTH_NS, wall_s(), 0)
    on = next(line for line in lines if line["event"] == "mirroring goes on")
    assert on["more_late_with_it"] == "+0.00 % of the moments"
    assert late.skip != "stopped"
