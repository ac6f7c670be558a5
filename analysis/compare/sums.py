"""Ratios of sums: tokens a second, tokens an answer."""

from __future__ import annotations

import math

from analysis.compare.sample import Ints, Sample, Windows, kish_blocks, per_block
from analysis.compare.times import RESOLUTION


def ratio_of_sums(windows: Windows, block: Ints, span_s: float) -> Sample:
    """The log of (Σ numerator / Σ denominator) of this arm over the same of the reference.

    psi_k = [n_k/Σn - m_k/Σm] - [the same of the reference], times the number of blocks, n and m
    the numerator's and the denominator's sums. NaN where a sum is 0 or no finite number.

    Args:
        windows: all of them in full blocks.
        block: each window's block, shape (W,).
        span_s: as in `Sample`.
    """
    parts = (
        windows.numerator,
        windows.denominator,
        windows.reference_numerator,
        windows.reference_denominator,
    )
    top, bottom, reference_top, reference_bottom = (float(part.sum()) for part in parts)
    known = all(0 < one < math.inf for one in (top, bottom, reference_top, reference_bottom))
    value = top / bottom if bottom else math.nan
    reference = reference_top / reference_bottom if reference_bottom else math.nan
    known = known and 0 < value < math.inf and 0 < reference < math.inf
    weight = windows.sum_w
    influence = weight * 0.0
    if known:
        influence = weight.sum() * (
            parts[0] / top
            - parts[1] / bottom
            - parts[2] / reference_top
            + parts[3] / reference_bottom
        )
    return Sample(
        estimate=math.log(value) - math.log(reference) if known else math.nan,
        value=value,
        reference_value=reference,
        pairs=float(windows.n.sum()),
        span_s=span_s,
        influences=per_block(influence, weight, block),
        kish=kish_blocks(weight, block),
        floor=RESOLUTION**2,
    )
