"""Measuring one candidate; no pool, no search."""

from autosched.measure.candidate import KINDS, Candidate, Result
from autosched.measure.gap import gap
from autosched.measure.measure import measure, statistics

__all__ = ["KINDS", "Candidate", "Result", "gap", "measure", "statistics"]
