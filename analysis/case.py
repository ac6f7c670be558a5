"""The case of one candidate: all that a verdict rests on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from analysis.compare.sample import Sample
from analysis.waivers import Waiver


@dataclass(frozen=True)
class Counted:
    """Pairs of one candidate against the primary, over all its windows; every copy is one.

    Attributes:
        sampled: all copies, greedy probes too, that were sampled since the comparison began.
        complete: judged.
        pending: neither stored, dropped nor lost yet: as the accounting counts it.
        excluded: by reason.
        late: exchanges that arrived after their window had been built.
        from_s, until_s: the windows' begin and end, seconds since 1970.
        undefined: judged pairs of which some metrics are undefined, by reason.
        waiting: stored, in windows that are not closed yet.
        copies: how many the candidate gets of each request.
        probes: greedy probes compared with the control's.
        probes_excluded: the others, by reason.
        controlled: of the judged, those that the control answered too; None without a control.
        controlled_undefined: as `undefined`, of these and against the control.
        gaps: of what coverage counts as unknown, how many for which reason.
        judged_from_s, judged_until_s: of the windows that hold judged pairs.
    """

    sampled: int = 0
    complete: int = 0
    pending: int = 0
    excluded: Mapping[str, int] = field(default_factory=dict)
    late: int = 0
    from_s: int | None = None
    until_s: int | None = None
    undefined: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    copies: int = 1
    probes: int = 0
    probes_excluded: Mapping[str, int] = field(default_factory=dict)
    controlled: int | None = None
    controlled_undefined: Mapping[str, int] = field(default_factory=dict)
    gaps: Mapping[str, int] = field(default_factory=dict)
    judged_from_s: int | None = None
    judged_until_s: int | None = None

    @property
    def judged_span_s(self) -> float:
        """Seconds from the first judged window's begin to the last one's end."""
        return float((self.judged_until_s or 0) - (self.judged_from_s or 0))


@dataclass(frozen=True)
class Evidence:
    """All that a verdict on one candidate rests on.

    Attributes:
        candidate: its name.
        reference: what it is judged against: the control's name, or `primary`.
        samples: METRIC.STATISTIC of the candidate against the reference; without data absent.
        against_primary: the same against the primary.
        test_bed: the control against the primary; empty without a control.
        coverage: share of sampled requests whose outcome is known on both sides; None: unknown.
        control_coverage: the control's own, against the primary: pairs that lack its answer are not
            judged against it; None: unknown, or no control judges.
        control_gaps: what keeps that from 1, by reason.
        attempt: the how-manieth comparison of this build; n has alpha·6/(π²n²).
        span_s: seconds between the first and the last judged arrival.
        rejected: the reason of an earlier reject of this comparison; a reject stays.
        references: where another reference than `reference` judges a METRIC.STATISTIC.
        absent: METRIC.STATISTIC that nothing measured: they are not gated, and named.
        waived: METRIC.STATISTIC that a person waived for now.
        loads: requests a second by arm, as far as it is known.
        by_replica: whether `loads` are those of one engine replica, so that all are comparable.
        tap: how many requests there were, and how many of them came by; None: unknown.
        tapped: how many pairs there are where `tap` is known; no more than came by.
        notes: further things that a reader should know.
        incomparable: METRIC.STATISTIC -> why its missing data are no gap of measuring.
        changed: what started this comparison anew; None for the first of a build.
        counted: how many pairs there are, for whom none could be judged.
        rejected_ns: when it was rejected first, or now (UTC, ns); None: nothing is written down.
        lacking: METRIC.STATISTIC -> why it is of too few of the pairs to pass or fail.
        silent: a line for each side that answers nothing any more; said before any other reason.
    """

    candidate: str
    reference: str
    samples: Mapping[str, Sample]
    against_primary: Mapping[str, Sample] = field(default_factory=dict)
    test_bed: Mapping[str, Sample] = field(default_factory=dict)
    coverage: float | None = None
    control_coverage: float | None = None
    control_gaps: Mapping[str, int] = field(default_factory=dict)
    attempt: int = 1
    span_s: float = 0.0
    rejected: str | None = None
    references: Mapping[str, str] = field(default_factory=dict)
    absent: Collection[str] = ()
    waived: Mapping[str, Waiver] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)
    by_replica: bool = False
    tap: tuple[int, int] | None = None
    tapped: int = 0
    notes: tuple[str, ...] = ()
    incomparable: Mapping[str, str] = field(default_factory=dict)
    changed: str | None = None
    counted: Counted = Counted()
    rejected_ns: int | None = None
    lacking: Mapping[str, str] = field(default_factory=dict)
    silent: tuple[str, ...] = ()

    def reference_of(self, name: str) -> str:
        """What a METRIC.STATISTIC is judged against."""
        return self.references.get(name, self.reference)
