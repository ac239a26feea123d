"""The log of trials and best schedules, and applying what is in it."""

from __future__ import annotations

from autosched.records.apply import Known, best_or_fail, compile, find_best, version
from autosched.records.history import Done, history
from autosched.records.log import Log
from autosched.records.reading import Fault
from autosched.records.record import BestRecord, ProgramRecord, Record, Run, TrialRecord
from autosched.records.writer import Writer

__all__ = [
    "BestRecord", "Done", "Fault", "Known", "Log", "ProgramRecord", "Record", "Run", "TrialRecord", "Writer", "best_or_fail",
    "compile", "find_best", "history", "version",
]
