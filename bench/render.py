"""docs/benchmarks.md from bench/results/*.json. Pure: results in, Markdown out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from bench.markdown import Result, digits, provenance, table, with_spread
from bench.peers import DIRECT

OURS = "shadow, mirror"
TARGET = "envoy, mirror"
_LOADS = {"json": "full speed", "paced": "fixed rate", "streams": "streams"}

_OPENING = """\
# Benchmarks

`make bench` measures on this machine, keeps the figures in bench/results/*.json and writes this
page from them. Absolute figures move from machine to machine; compare within one run only."""

_HOW = """\
Each proxy runs alone on one core, the load and both upstreams on the other, a fresh process for
each proxy in each round, rounds interleaved (A B C, A B C). Figures are the median of {rounds}
rounds, with the smallest and the largest. Upstreams and stream clients are bench/upstream.py and
bench/load.py (asyncio.Protocol, uvloop). Three loads, one after another:

- **full speed**: small JSON (560 bytes there, 300 back), wrk, one thread, {connections}
  connections, {seconds:g} s;
- **{rate_per_s} a second**: the same requests at a fixed rate, sent whether or not answers come;
- **streams**: {streams} concurrent event streams of {events} events, {gap_ms} ms apart. Each event
  carries the moment it was written, so its delay is known at the client.

*CPU* is user and system time of the proxy's processes, all threads, until the proxy is idle again:
what it puts off (a queue, a log) is counted. *Added* is the figure less that of the same load
straight on the upstream. shadow runs as `shadow proxy` does, capturing and publishing both answers
into the embedded log; nginx and Envoy discard the candidate's answer; the aiohttp yardstick keeps
it in memory and publishes nothing."""


def page(results: Mapping[str, Result]) -> str:
    """The whole page; a benchmark without a result is left out."""
    sections = {
        "relay": relay,
        "decode": decode,
        "collector": collector,
        "report": report,
        "judge": judge,
    }
    parts = [_OPENING, *(show(results[name]) for name, show in sections.items() if name in results)]
    return "\n\n".join(parts) + "\n"


def _cell(figures: Result, peer: str, load: str, name: str) -> str:
    figure = figures[peer].get(load, {}).get(name)
    return with_spread(figure) if figure else "-"


def _added(figures: Result, peer: str, load: str, name: str) -> str:
    figure, base = figures[peer].get(load, {}).get(name), figures[DIRECT].get(load, {}).get(name)
    if not figure or not base:
        return "-"
    return with_spread({key: value - base["median"] for key, value in figure.items()})


_COLUMNS: tuple[tuple[str, Callable[[Result, str, str, str], str], str, str], ...] = (
    ("full speed: requests/s", _cell, "json", "requests_per_s"),
    ("p99, ms", _cell, "json", "time_p99_ms"),
    ("CPU s a 1,000", _cell, "json", "cpu_s_per_1000"),
    ("fixed rate: added p50, ms", _added, "paced", "time_p50_ms"),
    ("added p99, ms", _added, "paced", "time_p99_ms"),
    ("CPU s a 1,000", _cell, "paced", "cpu_s_per_1000"),
    ("streams: CPU s", _cell, "streams", "cpu_s"),
    ("added first byte p50, ms", _added, "streams", "ttfb_p50_ms"),
    ("p99, ms", _added, "streams", "ttfb_p99_ms"),
    ("added event delay p50, ms", _added, "streams", "delay_p50_ms"),
    ("p99, ms", _added, "streams", "delay_p99_ms"),
)


def _figures_table(figures: Result, names: Sequence[str]) -> str:
    """One table a load, so that each fits a page."""
    tables = []
    for load in _LOADS:
        columns = [column for column in _COLUMNS if column[2] == load]
        rows = [
            [name, *(show(figures, name, load, key) for _, show, _, key in columns)]
            for name in names
        ]
        tables.append(table(["", *(head for head, *_ in columns)], rows))
    return "\n\n".join(tables)


def relay(result: Result) -> str:
    """The relay beside its peers."""
    figures = result["figures"]
    mirrors = [name for name in figures if "mirror" in name]
    relays = [name for name in figures if name.endswith("relay")]
    parts = [
        "## The relay beside its peers",
        _HOW.format(**result["settings"]),
        provenance(result) + disturbance(result),
        "### With one mirrored arm",
        _figures_table(figures, mirrors),
        "### Relaying only",
        _figures_table(figures, [*relays, DIRECT]),
        "### What was delivered",
        _DELIVERED,
        delivered(result),
    ]
    if OURS in figures and TARGET in figures:
        parts[3:3] = ["### Beside Envoy's mirror", verdict(figures)]
    return "\n\n".join(parts)


_COSTS: tuple[tuple[str, str, str], ...] = (
    ("CPU a request at full speed", "json", "cpu_s_per_1000"),
    ("CPU a request at the fixed rate", "paced", "cpu_s_per_1000"),
    ("CPU for the streams", "streams", "cpu_s"),
    ("p99 at full speed", "json", "time_p99_ms"),
    ("p99 at the fixed rate", "paced", "time_p99_ms"),
    ("first byte of a stream, p50", "streams", "ttfb_p50_ms"),
    ("event delay, p99", "streams", "delay_p99_ms"),
)


def ratio(figures: Result, peer: str, load: str, name: str) -> float | None:
    """A peer's median over the target's; None where either is missing or the target's is 0."""
    mine, target = (figures[who].get(load, {}).get(name) for who in (peer, TARGET))
    return mine["median"] / target["median"] if mine and target and target["median"] else None


def verdict(figures: Result) -> str:
    """Each peer's cost with Envoy's as 1, and whether ours is at most that."""
    peers = [name for name in figures if "mirror" in name and name != TARGET]
    rows = []
    for text, load, name in _COSTS:
        ratios = [ratio(figures, peer, load, name) for peer in peers]
        ours = ratio(figures, OURS, load, name)
        reached = "-" if ours is None else "reached" if ours <= 1 else "missed"
        rows.append([text, *("-" if r is None else f"{r:.2f}" for r in ratios), reached])
    opening = (
        "The target is Envoy's own cost. Envoy's mirror is 1 in each row, less is better; the last "
        f"column says whether `{OURS}` (captured, published) is at most 1."
    )
    return f"{opening}\n\n{table(['cost', *peers, 'target'], rows)}"


_DELIVERED = """\
A mirror that drops is cheap, so every run counts: requests that the primary answered, requests that
the candidate got, and the candidate's exchanges that stand in the log when the proxy has ended (all
rounds together). At full speed more arrives than any engine pair serves; what does not fit into
`limits.queue_bytes` is dropped with a reason, and the accounting must explain every sampled
request. *nothing published* is the same proxy with a queue of one byte: what mirroring costs
without publishing."""


def delivered(result: Result) -> str:
    """Counts of all rounds together, a row for each mirroring peer and load."""
    rows = []
    for peer, rounds in result["rounds"].items():
        if "mirror" not in peer:
            continue
        for load in (load for load in _LOADS if load in rounds[0]):
            sums = {
                key: sum(r[load].get(key, 0) for r in rounds) for key in ("answered", "mirrored")
            }
            stored = sum(r[load].get("delivered", 0) for r in rounds)
            said = f"{stored:,.0f}" if "delivered" in rounds[0][load] else "-"
            rows.append([f"{peer}: {_LOADS[load]}", *(f"{v:,.0f}" for v in sums.values()), said])
    tables = table(["", "requests", "reached the candidate", "exchanges in the log"], rows)
    return "\n\n".join([tables, *accounting(result)])


def accounting(result: Result) -> list[str]:
    """What ours counted for the candidate, all rounds together."""
    rounds = [r for r in result["rounds"].get(OURS, []) if "accounting" in r]
    names = sorted({name for r in rounds for name in r["accounting"]})
    said = ", ".join(
        f"{name} {sum(r['accounting'].get(name, 0) for r in rounds):,.0f}" for name in names
    )
    unexplained = sum(r["stream"]["unaccounted"] for r in rounds)
    counted = f"`{OURS}`, the candidate's accounting: {said}; unexplained {unexplained:,.0f}."
    return [counted] if rounds else []


def disturbance(result: Result) -> str:
    """How much of the proxies' core went to something else."""
    shares = [
        figures["other_share"]
        for rounds in result["rounds"].values()
        for loads in rounds
        for figures in loads.values()
        if "other_share" in figures
    ]
    if not shares:
        return ""
    return (
        f" Something else (interrupts among it) had {statistics.median(shares):.0%} of the "
        f"proxies' core in the median load, {max(shares):.0%} at most."
    )


_LABELS = {
    "exchanges_per_s": "exchanges a second",
    "mb_per_s": "records, MB/s",
    "record_bytes": "bytes a record",
    "cpu_s_per_1000": "CPU s a 1,000 exchanges",
    "peak_mib": "peak memory, MiB",
    "analysis_s": "analysis from nothing: s",
    "analysis_cpu_s": "its CPU, s",
    "analysis_peak_mib": "its peak memory, MiB",
    "store_peak_while_analysing_mib": "the store's process meanwhile, MiB",
    "report_s": "report, store served: s",
    "report_peak_mib": "its peak memory, MiB",
    "store_peak_while_reporting_mib": "the store's process meanwhile, MiB",
    "report_by_itself_s": "report, opening the folder itself: s",
    "report_by_itself_peak_mib": "its peak memory, MiB",
    "judgement_s": "one judgement: s",
    "judgement_peak_mib": "its peak memory, MiB",
    "decided": "metrics that pass or fail, of those read",
    "pairs": "pairs",
    "store_before_judging_mib": "the store's process before, MiB",
    "store_peak_while_judging_mib": "the store's process meanwhile, MiB",
}


_SHAPES = {
    "short": "100 tokens an answer",
    "long": "4,000 tokens in one",
    "usage": "usage on every event",
    "logprobs": "log-probabilities on every event",
    "crlf": "CRLF line ends",
}
DECODE_BOUND = 2.5


def decode(result: Result) -> str:
    """Reading an answer, in multiples of json.loads of its events."""
    figures = result["figures"]
    rows = [
        [label, digits(figures[f"ratio_{shape}"]), digits(figures[f"us_an_event_{shape}"])]
        for shape, label in _SHAPES.items()
    ]
    worst = max(figures[f"ratio_{shape}"] for shape in _SHAPES)
    kept = "kept" if worst <= DECODE_BOUND else "**missed**"
    head = ["", "times json.loads", "us an event"]
    said = f"The bound of {DECODE_BOUND:g} times is {kept}: {digits(worst)} at most."
    parts = [
        "## Reading answers",
        result["how"].strip(),
        provenance(result),
        table(head, rows),
        said,
    ]
    return "\n\n".join(parts)


def collector(result: Result) -> str:
    """The collector's rate."""
    stream = f"The stream was {result['settings']['stream']}, on the same cores."
    return _plain("The collector", {**result, "how": f"{result['how'].strip()} {stream}"})


def report(result: Result) -> str:
    """The report's time and memory."""
    return _plain("The report", result)


def judge(result: Result) -> str:
    """A judgement's time and memory."""
    return _plain("A judgement", result)


def _plain(title: str, result: Result) -> str:
    """A benchmark of single figures."""
    figures = result["figures"]
    rows = [[label, digits(figures[name])] for name, label in _LABELS.items() if name in figures]
    parts = [f"## {title}", result["how"].strip(), provenance(result), table(["", "figure"], rows)]
    return "\n\n".join(parts)
