"""Format 1 of a line, read for ever: every line repeated what holds for its run, and ``bound`` of a best was the space's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autosched.errors import RecordError
from autosched.records.line import MOST, bound, integer, key, point, text, trace, trial_fields, version
from autosched.records.record import BestRecord, Record, Run, TrialRecord


def record_of(obj: Mapping[str, Any]) -> Run | Record:
    """What an object of format 1 says.

    Raises:
        RecordError: an unknown kind, or a missing, ill-typed or impossible field.
    """
    kind = obj.get("kind")
    if kind == "run":
        return Run("", "", "0", str(obj.get("workload"))[:100], "", 0, 0)  # nothing refers to it
    if kind not in ("trial", "best"):
        raise RecordError("unknown kind of line of format 1")
    run = Run(key(obj, "workload"), key(obj, "hardware"), version(obj), text(obj, "name"), text(obj, "target"),
              integer(obj, "space", 0, 2**31), integer(obj, "seed", -MOST, MOST), text(obj, "run"))
    if kind == "trial":
        return TrialRecord(of=run, **trial_fields(obj))
    verified = obj.get("verified")
    if not isinstance(verified, bool):
        raise RecordError("field 'verified' is not true or false")
    return BestRecord(run, integer(obj, "trial", 0, MOST), point(obj), key(obj, "program"), integer(obj, "cycles", 1, MOST),
                      bound(obj, "bound") or 0, None, trace(obj), verified)
