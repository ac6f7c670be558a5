"""What the words of a report mean: each metric by metrics.toml, each key in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.metrics import metrics

KEYS = {
    "delta": "this arm against the reference: a ratio less 1 (unit ratio), "
    "or a difference of shares (unit share)",
    "interval": "the two bounds that decide, valid whenever one looks: the bound on the bad side "
    "must cross the margin to fail, the one on the good side must be within it to pass",
    "mean": "of a time: the mean over pairs of ln(this / reference), each at most a factor of 10, "
    "as which a failed side counts; the values beside it are geometric means of finished answers; "
    "where more than 5 % of the pairs failed on one side, there is no figure",
    "quantile": "of a time: the ratio of both arms' quantiles over the same requests",
    "ratio": "the ratio of both arms' ratios of sums",
    "rate": "the share of requests; the difference is taken request by request",
    "failed": "a failed answer's times are infinite; a request that failed on both arms says "
    "nothing of time and is left out there",
    "warm_up": "the candidate's first pairs (`warm_up.pairs` of the policy), excluded: caches and "
    "connections are cold",
    "after_window": "excluded: pairs that arrived within 5 s after mirroring stood still (a shadow-"
    "off window, a look for lag, a pause), while the load comes back",
    "pairs": "of a metric: the judged pairs that its figures are made of: the reference answered "
    "too, the metric is defined on both sides (a time: it did not fail on both), and they fill "
    "whole blocks; the rest waits for the last block to fill, which takes more pairs for a far "
    "quantile. So it is not more than `pairs judged`, and differs by metric",
    "undefined": "judged pairs that some metrics leave out: token_source, the sides count tokens "
    "by different sources (tpot, itl_mean, tokens_per_s, output_tokens); client_wait, a slow "
    "client held the answer back (e2e, decode, tpot, itl); multi_turn, earlier turns, no control "
    "(ttft: they hold the primary's tokens, and its cache is warm); METRIC_missing, both answered "
    "and the candidate's answer alone has no such figure",
    "blocks": "slices of arrival time, the unit of the statistics; effective_blocks is what they "
    "are worth under their autocorrelation",
    "coverage": "pairs whose outcome is known on both sides / sampled requests whose time "
    "has come, without those of the warm-up, those that a client cancelled or left while it sent "
    "(request_incomplete), and those that the primary failed or could not be reached for; `gaps` "
    "says why the others are unknown",
    "copies": "how many copies of a request the candidate gets: pairs count copies, as `sampled` "
    "does; a metric counts requests, each by the mean of its copies",
    "probes": "greedy probes: requests sent once more at temperature 0 to candidate and control, "
    "compared with each other for quality alone; no_control, the control's was not stored",
    "pending": "sampled, and neither stored, dropped nor lost yet; what is stored in windows that "
    "are still open is `waiting`",
    "candidate_range": "where the candidate's own value lies, at the 5 % level, whenever one "
    "looks: of quantiles by ranks (for independent requests), of shares by blocks; no verdict "
    "rests on it",
    "outage": "a candidate that is down, and stays down, fails `failure.rate` by that alone: "
    "docs/statistics.md says after how many blocks",
    "load": "equal latency at the mirrored load says nothing of capacity at another load; "
    "a candidate that gets a share of the traffic is compared at that share",
}


def definitions(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Name to meaning, for the metrics that stand in the candidates' parts and for the keys."""
    names = {name.rpartition(".")[0] for part in parts.values() for name in part["metrics"]}
    told = [metric for name, metric in metrics().items() if name in names]
    formulas = {m.name: f"{m.formula}; undefined: {m.undefined}" for m in told}
    return {**formulas, **KEYS}
