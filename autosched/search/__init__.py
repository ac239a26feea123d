"""Finding the best schedule of a workload, and saying how good it is."""

from __future__ import annotations

from autosched.search.result import NetworkReport, TrialEvent, TuneReport
from autosched.search.tuner import tune

__all__ = ["NetworkReport", "TrialEvent", "TuneReport", "tune"]
