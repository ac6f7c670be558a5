"""Formulas of the verdict: pure, numpy and scipy only. docs/statistics.md lists them."""
