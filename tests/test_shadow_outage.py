"""An outage is told once, again when there is news or half a minute is over, and its end once."""

from __future__ import annotations

from shadow.outage import AGAIN_S, MOST_REASONS, Outage


class Lines(list):
    def warning(self, event, **values):
        self.append((event, values["reason"], values["for_s"]))

    def info(self, event, **values):
        self.append((event, values["after_s"]) if values else event)


def outage(**more):
    lines, now = Lines(), [100.0]
    return Outage(lines, lambda: now[0], **more), lines, now


def test_a_reason_is_told_once_in_half_a_minute():
    """A thousand tries are two lines, and the second says how long it has been."""
    said, lines, now = outage()
    for _ in range(1000):
        said.away("stream away", "refused")
        now[0] += AGAIN_S / 999
    said.away("stream away", "refused")
    assert lines == [("stream away", "refused", 0), ("stream away", "refused", 30)]


def test_another_reason_is_news_but_two_in_turn_are_not():
    """A change is told at once; reasons that alternate do not fill the log."""
    said, lines, _ = outage()
    for _ in range(50):
        said.away("stream away", "refused")
        said.away("stream away", "wrong password")
    assert [line[1] for line in lines] == ["refused", "wrong password"]


def test_reasons_without_number_are_bounded():
    """A reason with a number in it that is never the same."""
    said, lines, _ = outage()
    for n in range(1000):
        said.away("stream away", f"attempt {n}")
    assert len(lines) == MOST_REASONS


def test_the_end_is_told_once_and_only_after_an_outage():
    """Each outage has one beginning and one end."""
    said, lines, now = outage()
    said.back()
    said.away("stream away", "refused")
    now[0] += 7
    said.back()
    said.back()
    said.away("stream away", "refused")
    assert lines == [
        ("stream away", "refused", 0),
        ("stream away: over", 7),
        ("stream away", "refused", 0),
    ]


def test_a_start_is_one_plain_line_for_a_while():
    """What is still starting is no outage: no reason is told, and no end, until its time is over."""
    said, lines, now = outage(starting="waiting", quiet_s=20.0)
    for _ in range(20):
        said.away("store away", "refused")
        now[0] += 1
    assert lines == ["waiting"]
    said.away("store away", "refused")
    assert lines[1:] == [("store away", "refused", 20)]
    quick, lines, _ = outage(starting="waiting", quiet_s=20.0)
    quick.away("store away", "refused")
    quick.back()
    assert lines == ["waiting"]
    quick.away("store away", "refused")  # it was there: this is an outage
    assert lines == ["waiting", ("store away", "refused", 0)]
