"""The log of trials and best schedules, and applying what is in it."""

from __future__ import annotations

from autosched.records.apply import best_or_fail, compile, find_best, version
from autosched.records.log import Log, Writer
from autosched.records.record import BestRecord, Record, TrialRecord

__all__ = ["BestRecord", "Log", "Record", "TrialRecord", "Writer", "best_or_fail", "compile", "find_best", "version"]
