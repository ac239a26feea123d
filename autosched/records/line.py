"""Lines of the log, both ways. Nothing that is read is believed: checksum, JSON, then every field by type, size and range.

A line is one JSON object with ``kind``, ``format`` and, last, ``crc``. Format 2 is written; format 1, in which every line
repeated what holds for its run, is read for ever (``old.py``).
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, NoReturn

from autosched.errors import RecordError
from autosched.records.record import BestRecord, ProgramRecord, Record, Run, TrialRecord

FORMAT = 2
TRIAL_BYTES = 600  # of a trial's line at most; a longer reason is cut

MOST = 2**62  # cycles of a program; no machine runs so long
_DEPTH = 32  # of the values in a trace
_COLUMNS = 4096  # of a point
_STEPS = 20_000  # of a trace
_TEXT = 4096  # characters of a name or a reason
_SCRIPT = 1 << 22  # characters of a program

_KEY = re.compile(r"[0-9a-f]{64}", re.ASCII).fullmatch
_HEAD = re.compile(r"[0-9a-f]{8}", re.ASCII).fullmatch
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,7}", re.ASCII).fullmatch
_STATUS = re.compile(r"[a-z][a-z_-]{0,31}", re.ASCII).fullmatch


# -- writing ------------------------------------------------------------------------------------------------------------


def run_line(run: Run) -> str:
    """The first line of a run."""
    return seal("run", vars(run))


def trial_line(record: TrialRecord, head: str) -> str:
    """The line of a trial: what its run's line does not say.

    Args:
        record: the trial.
        head: the checksum of its run's line.
    """
    body: dict[str, Any] = {"head": head, "trial": record.trial, "point": record.point, "program": record.program,
                            "cycles": record.cycles, "bound": record.bound, "draft": record.draft, "status": record.status}
    body |= {k: v for k in ("ms", "moved", "macs") if (v := getattr(record, k)) is not None}
    line = seal("trial", body)
    if record.reason:
        room = TRIAL_BYTES - len(line) - len(',"reason":""')
        line = seal("trial", {**body, "reason": _cut(_legible(record.reason), room)})
    return line


def best_line(record: BestRecord, head: str) -> str:
    """The line of a best schedule. It stands alone, and so gives its run to the trials whose first line is damaged."""
    run = {k: v for k, v in vars(record.of).items() if k not in ("space_bound", "machine_bound", "asked", "libraries")}
    body = {"head": head, **run, "trial": record.trial, "point": record.point, "program": record.program,
            "cycles": record.cycles, "space_bound": record.space_bound, "machine_bound": record.machine_bound,
            "verified": record.verified}
    if record.reason:
        body["reason"] = record.reason[:_TEXT]
    return seal("best", {**body, "trace": record.trace})


def program_line(record: ProgramRecord) -> str:
    """The line of a program."""
    return seal("program", vars(record))


def seal(kind: str, body: Mapping[str, Any], format: int = FORMAT) -> str:
    """A line of a kind, checksum last, newline included."""
    told = {k: _legible(v) if isinstance(v, str) else v for k, v in body.items()}
    text = json.dumps({"kind": kind, "format": format, **told}, separators=(",", ":"), allow_nan=False)
    return f'{text[:-1]},"crc":"{zlib.crc32(text.encode()):08x}"}}\n'


def _legible(text: str) -> str:
    """A text as it can be read again: what is no character (of a file's name that is no UTF-8) stands as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def head_of(line: str) -> str:
    """What the trials of a run call its line: the line's checksum."""
    return line.rstrip("\n")[-10:-2]


def _cut(reason: str, room: int) -> str:
    """As much of a text as has room as a JSON string, in bytes."""
    while reason and len(json.dumps(reason)) - 2 > room:
        over = len(json.dumps(reason)) - 2 - room
        reason = reason[: -max(1, over // 12)]
    return reason


# -- reading ------------------------------------------------------------------------------------------------------------


def open_line(raw: bytes) -> dict[str, Any]:
    """The object of a line whose checksum is right.

    Args:
        raw: the line without its end.

    Raises:
        RecordError: a wrong checksum, or no JSON object.
    """
    body, mark, tail = raw.rpartition(b',"crc":"')
    text = body + b"}"
    if not mark or tail != b'%08x"}' % zlib.crc32(text):
        raise RecordError("no valid checksum")
    try:
        obj = json.loads(text, parse_constant=_not_json, parse_float=_finite)
    except RecursionError:
        raise RecordError("nested too deep") from None
    except ValueError as error:  # also a number of more digits than Python reads
        raise RecordError(f"not JSON: {str(error).split(';')[0]}") from None
    if not isinstance(obj, dict):
        raise RecordError("not a JSON object")
    obj["crc"] = tail[:8].decode()
    return obj


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(digits: str) -> float:
    found = float(digits)
    if not isfinite(found):
        # It cannot be written again.
        raise RecordError("a number beyond all floats")
    return found


def record_of(obj: dict[str, Any], runs: Mapping[str, Run]) -> Run | Record:
    """What an object of a line says.

    Args:
        obj: the object.
        runs: the runs known so far, by the name that trials use.

    Raises:
        UnknownRun: a trial whose run is not known (yet).
        RecordError: an unknown kind or format, a missing, ill-typed or impossible field; the message names it.
    """
    form, kind = obj.get("format"), obj.get("kind")
    if type(form) is int and form == 1:
        from autosched.records.old import record_of as old_record_of

        return old_record_of(obj)
    if type(form) is not int or form != FORMAT:
        raise RecordError(f"format {_shown(form)} is not one that this version reads (1, {FORMAT})")
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise RecordError(f"unknown kind of line {_shown(kind)}")
    return read(obj, runs)


class UnknownRun(RecordError):
    """A trial names a run whose line has not been read."""


def _run(obj: Mapping[str, Any], runs: Mapping[str, Run]) -> Run:
    return Run(
        **_task(obj), host=text(obj, "host"), space_bound=bound(obj, "space_bound", True),
        machine_bound=bound(obj, "machine_bound", True), asked=_flat(obj, "asked"),
        libraries={k: str(v) for k, v in _flat(obj, "libraries").items()},
    )


def _task(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {"workload": key(obj, "workload"), "hardware": key(obj, "hardware"), "version": version(obj),
            "name": text(obj, "name"), "target": text(obj, "target"), "space": integer(obj, "space", 0, 2**31),
            "seed": integer(obj, "seed", -MOST, MOST), "run": text(obj, "run")}


def _trial(obj: Mapping[str, Any], runs: Mapping[str, Run]) -> TrialRecord:
    head = obj.get("head")
    if not isinstance(head, str) or not _HEAD(head):
        fail("head", head, "eight hex digits")
    fields = trial_fields(obj)
    run = runs.get(head)
    if run is None:
        raise UnknownRun(f"the line of its run ({head}) is missing or damaged")
    return TrialRecord(of=run, **fields)


def trial_fields(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a trial that are its own, checked.

    Raises:
        RecordError: a field is missing, ill-typed or impossible.
    """
    status = obj.get("status")
    if not isinstance(status, str) or not _STATUS(status):
        fail("status", status, "a word in lower case")
    ok = status == "ok"
    if not ok and obj.get("cycles", 0) is not None:
        fail("cycles", obj.get("cycles"), f"null where the status is {status}")
    return {
        "trial": integer(obj, "trial", 0, MOST), "point": point(obj), "program": key(obj, "program") if ok else optional_key(obj),
        "cycles": integer(obj, "cycles", 1, MOST) if ok else None, "bound": bound(obj, "bound"),
        "draft": integer(obj, "draft", 0, MOST), "status": status, "reason": text(obj, "reason") if "reason" in obj else "",
        **{k: integer(obj, k, 0, MOST) for k in ("ms", "moved", "macs") if obj.get(k) is not None},
    }


def _best(obj: Mapping[str, Any], runs: Mapping[str, Run]) -> BestRecord:
    run = Run(**_task(obj), host=text(obj, "host"))
    verified = obj.get("verified")
    if not isinstance(verified, bool):
        fail("verified", verified, "true or false")
    return BestRecord(
        of=run, trial=integer(obj, "trial", 0, MOST), point=point(obj), program=key(obj, "program"),
        cycles=integer(obj, "cycles", 1, MOST), space_bound=bound(obj, "space_bound") or 0,
        machine_bound=bound(obj, "machine_bound", True), trace=trace(obj), verified=verified,
        reason=text(obj, "reason") if "reason" in obj else "",
    )


def _program(obj: Mapping[str, Any], runs: Mapping[str, Run]) -> ProgramRecord:
    return ProgramRecord(key(obj, "workload"), text(obj, "name"), text(obj, "script", _SCRIPT))


_READERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Run]], Run | Record]] = {
    "run": _run, "trial": _trial, "best": _best, "program": _program,
}


# -- fields -------------------------------------------------------------------------------------------------------------


def fail(name: str, value: object, wanted: str) -> NoReturn:
    """Refuses a field.

    Raises:
        RecordError: always.
    """
    raise RecordError(f"field {name!r} is {_shown(value)}, expected {wanted}")


def _shown(value: object) -> str:
    if value is None:
        return "missing or null"
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and abs(value) > MOST:
        return "an integer out of all bounds"
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:40] + "..."


def integer(obj: Mapping[str, Any], name: str, low: int, high: int) -> int:
    """A field that is an integer in a range, both ends in it; true and 1.0 are none."""
    value = obj.get(name)
    if type(value) is not int:
        fail(name, value, "an integer")
    if not low <= value <= high:
        fail(name, value, f"an integer from {low} to {high if high != MOST else '2^62'}")
    return value


def bound(obj: Mapping[str, Any], name: str, optional: bool = False) -> int | None:
    """A field that is a lower bound in cycles."""
    if optional and name in obj and obj[name] is None:
        return None
    return integer(obj, name, 0, MOST)


def text(obj: Mapping[str, Any], name: str, most: int = _TEXT) -> str:
    """A field that is a string of limited length."""
    value = obj.get(name)
    if not isinstance(value, str):
        fail(name, value, "a string")
    if len(value) > most:
        fail(name, value, f"at most {most} characters")
    if not _characters(value):
        fail(name, value, "characters; a half of a pair is none")
    return value


def _characters(value: str) -> bool:
    """Whether a text can be stored and printed: JSON knows halves of surrogate pairs, no file or table does."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def key(obj: Mapping[str, Any], name: str) -> str:
    """A field that is a SHA-256 in hex."""
    value = obj.get(name)
    if not isinstance(value, str) or not _KEY(value):
        fail(name, value, "64 hex digits")
    return value


def optional_key(obj: Mapping[str, Any]) -> str | None:
    """The hash of a program, or null."""
    return None if obj.get("program", 0) is None else key(obj, "program")


def version(obj: Mapping[str, Any]) -> str:
    """The version, numbers joined by dots."""
    value = obj.get("version")
    if not isinstance(value, str) or not _VERSION(value):
        fail("version", value, "numbers joined by dots")
    return value


def point(obj: Mapping[str, Any]) -> tuple[int, ...]:
    """The decisions, 32-bit integers."""
    value = obj.get("point")
    if not isinstance(value, list) or len(value) > _COLUMNS:
        fail("point", value, f"a list of at most {_COLUMNS} integers")
    for n in value:
        if type(n) is not int or not -(2**31) <= n < 2**31:
            fail("point", n, "a list of 32-bit integers")
    return tuple(value)


def trace(obj: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """The steps of a schedule: objects with a name of an operation, nested little."""
    value = obj.get("trace")
    if not isinstance(value, list) or len(value) > _STEPS:
        fail("trace", value, f"a list of at most {_STEPS} objects")
    for step in value:
        if not isinstance(step, dict) or not isinstance(step.get("op"), str):
            fail("trace", step, "a list of objects with an 'op'")
        for part, kind in (("in", dict), ("args", dict), ("out", list)):
            if not isinstance(step.get(part), kind):
                fail("trace", step.get(part), f"{part!r} of a step to be a {kind.__name__}")
    if _deep(value, 1 + _DEPTH):
        fail("trace", value, f"steps with values nested at most {_DEPTH} deep")
    return tuple(value)


def _deep(value: object, most: int) -> bool:
    """Whether objects and lists stand in each other more than so many deep."""
    level = [value]
    for _ in range(most):
        level = [v for x in level if isinstance(x, dict | list) for v in (x.values() if isinstance(x, dict) else x)]
        if not level:
            return False
    return any(isinstance(x, dict | list) for x in level)


def _flat(obj: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = obj.get(name)
    if not isinstance(value, dict) or len(value) > 64 or any(isinstance(v, list | dict) for v in value.values()):
        fail(name, value, "an object of at most 64 plain values")
    if not all(_characters(t) for pair in value.items() for t in pair if isinstance(t, str)):
        fail(name, value, "an object of characters; a half of a pair is none")
    return value
