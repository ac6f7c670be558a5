"""docs/calibration.md from what was simulated. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

HEAD = """\
# Calibration

Written by `make calibrate` (bench/calibration), not by hand. Does the judge keep its error levels on
traffic whose truth is known, looked at after every block, as often as anyone may ask?

{runs} runs of each case, {pairs:,} pairs a run in blocks of 100 ({looks} looks), planned 100 blocks, seed
{seed}; {minutes:.0f} minutes at low priority on {cores} shared cores of {cpu}, numpy {numpy}.
One standard error at 5 % is {se:.1%}, so the target is at most {most:.1%}.

{outcome}
"""

TRAFFIC = """\
## The traffic

Log-normal times (deviation 0.5, a pair's sides correlated 0.5), and on top of it: **heavy tails**, 1 % of
answers stall by a factor that is Pareto(1.2); **shared bursts**, a queue that both sides wait in
(AR(1), forgotten after 33 requests, deviation 0.5); **own queue**, one that each side waits in alone
(deviation 0.3, forgotten after 20 or 200 requests); **own episodes**, stretches of about 300 requests in
which one side is twice as slow. *Bursty* has stalls, a shared queue (0.3) and own queues (0.14, 20 requests)
together. 2 % of answers fail, and a side's own queue makes half of what makes them fail (in *bursty*
a fifth), so that failures come in bursts.

Blocks are merged for far quantiles, as the judge merges them: four pairs beyond the quantile, so 400
pairs for p99.
"""


def page(found: Mapping[str, Any], missed: Sequence[str]) -> str:
    """The whole page."""
    facts, machine = found["facts"], found["machine"]
    se = (0.05 * 0.95 / facts["runs"]) ** 0.5
    outcome = (
        "Every target is met." if not missed else "\n".join(f"**Missed**: {m}." for m in missed)
    )
    head = HEAD.format(
        **{key: facts[key] for key in ("runs", "pairs", "seed")},
        looks=facts["pairs"] // 100,
        minutes=facts["seconds"] / 60,
        cores=machine["cores"],
        cpu=machine["cpu"],
        numpy=found["numpy"],
        se=se,
        most=0.05 + 2 * se,
        outcome=outcome,
    )
    parts = [head, TRAFFIC, _errors(found), _family(found), _power(found), _needed(found)]
    return "\n".join([*parts, _outages(found), _control(found), _rare(found)])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines) + "\n"


def _errors(found: Mapping[str, Any]) -> str:
    statistics = list(next(iter(found["errors"].values())))
    rows = [
        [kind, *(f"{by[s].low_missed:.1%} · {by[s].high_missed:.1%}" for s in statistics)]
        for kind, by in found["errors"].items()
    ]
    return f"""\
## Each bound, at the 5 % level

How often the lower · the upper bound was wrong at any look. The first is how often a metric exactly at
its margin is falsely rejected when it is judged alone, the second how often it is falsely promoted;
1 less either is a bound's uniform coverage.

{_table(["traffic", *statistics], rows)}"""


def _family(found: Mapping[str, Any]) -> str:
    rows = [
        [kind, f"{f.at_margin:.1%}", f"{f.equal:.1%}", f"{f.promoted:.1%}", _pairs(f.median_pairs)]
        for kind, f in found["family"].items()
    ]
    head = [
        "traffic",
        "all six at their margin: rejected",
        "equal: rejected",
        "equal: promoted",
        "median pairs",
    ]
    return f"""\
## Six metrics together

mean 5 %, p50 5 %, p90, p95, p99 10 %, failures 0.5 pp, the reject level shared by six.

{_table(head, rows)}"""


def _pairs(pairs: float) -> str:
    return f"{pairs:,.0f}" if pairs < float("inf") else "more than the run has"


def _power(found: Mapping[str, Any]) -> str:
    rows = [
        [f"{name}, {statistic}", f"{share:.1%}", _pairs(pairs)]
        for (name, statistic), (share, pairs) in found["power"].items()
    ]
    return f"""\
## Twice the margin

Rejected within 30,000 pairs at the level of a family of six (blocks of 150). The target is 95 % where
requests are independent, 90 % where they are bursty. Failures here are 0.2 %, and 1.2 %.

{_table(["traffic, metric", "rejected", "median pairs"], rows)}"""


def _needed(found: Mapping[str, Any]) -> str:
    rows = [
        [
            f"{statistic}, {slower:.0%} slower, correlation {alike}",
            f"{wanted:,}",
            f"{needed:,.0f}",
            f"{needed / wanted:.2f}",
        ]
        for (statistic, slower, alike), (wanted, needed) in found["needed"].items()
    ]
    return f"""\
## Pairs needed

Until 80 % of runs see a slowdown (independent, one-sided 5 %, no margin, about 64 planned blocks), beside the
simulations that the design rests on. The target is 1.3 times.

{_table(["case", "published", "here", "ratio"], rows)}"""


def _outages(found: Mapping[str, Any]) -> str:
    stops = found["outages"]
    rows = [
        ["both sides go down, now and then, and come back: rejected", f"{stops.equal:.1%}"],
        ["the candidate is down once, for half a block in sixty: rejected", f"{stops.burst:.1%}"],
        ["it dies in mid-run, for good: rejected", f"{stops.died:.1%}"],
        ["… blocks until then: median · most", "{:.0f} · {:.0f}".format(*stops.blocks)],
    ]
    return f"""\
## Outages

Total ones, in 200 blocks; 0.2 % of answers fail beside them. Those that end do so with chance 1/2 a block,
and one begins in every fortieth block on each side. A death lies in the middle; it is judged at the level
of a family of six, the others at 5 %.

{_table(["what happens", "here"], rows)}"""


def _control(found: Mapping[str, Any]) -> str:
    rows = [[kind, f"{share:.1%}"] for kind, share in found["control"].items()]
    return f"""\
## The negative control

An exact, always-valid sign test that takes requests for independent, on equal sides in the same
traffic, at the same 5 %. It must fail where each side has its own queue, or this harness proves nothing.

{_table(["traffic", "falsely rejected"], rows)}"""


def _rare(found: Mapping[str, Any]) -> str:
    rows = [
        [kind, f"{one.low_missed:.1%}", f"{one.high_missed:.1%}"]
        for kind, one in found["rare"].items()
    ]
    return f"""\
## A limit: rare failures in bursts

0.2 % of answers fail, 0.7 % of the candidate's: exactly at the margin. Where a burst outlasts blocks and
few bursts fall into a run, what was not seen yet cannot be bounded, and no method does: failures that
are that rare and that clustered need time, not pairs. `min_span` asks for it. Not a target.

{_table(["traffic", "falsely rejected", "falsely promoted"], rows)}"""
