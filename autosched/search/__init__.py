"""Finding the best schedule of a workload, and saying how good it is."""

from __future__ import annotations

from autosched.search.events import (
    Event,
    Remark,
    RunFinished,
    RunStarted,
    TaskFinished,
    TaskStarted,
    TrialEvent,
)
from autosched.search.oracle import OracleReport, oracle
from autosched.search.result import NetworkReport, TuneReport
from autosched.search.several import tune_tasks
from autosched.search.tuner import tune

__all__ = [
    "Event", "NetworkReport", "OracleReport", "Remark", "RunFinished", "RunStarted", "TaskFinished", "TaskStarted", "TrialEvent",
    "TuneReport", "oracle", "tune", "tune_tasks",
]
