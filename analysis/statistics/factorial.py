"""Two engine options at once: what each does alone, and what they do to each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Factorial:
    """The contrasts of a 2² design on the log scale; exp of each is a ratio.

    Attributes:
        simple_a, simple_b: each option alone against none.
        main_a, main_b: each option's mean over without and with the other one.
        interaction: what both together do beyond the product of what each does alone.
        collective: both against none; simple_a + simple_b + interaction.
    """

    simple_a: float
    simple_b: float
    main_a: float
    main_b: float
    interaction: float
    collective: float


def factorial(none: float, a: float, b: float, both: float) -> Factorial:
    """Contrasts of four cells: simple a - none, main (a - none + both - b)/2, both - a - b + none.

    Args:
        none: ln of one figure without an option; 0 where the others are log-ratios against it.
        a: with the first.
        b: with the second.
        both: with both.

    Source: the 2² factorial design (Fisher; Box, Hunter & Hunter).
    """
    return Factorial(
        simple_a=a - none,
        simple_b=b - none,
        main_a=(a - none + both - b) / 2,
        main_b=(b - none + both - a) / 2,
        interaction=both - a - b + none,
        collective=both - none,
    )
