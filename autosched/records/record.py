"""One line of the log: a trial, or the best schedule of a run."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from autosched.errors import RecordError

FORMAT = 1  # of a line; a line of another format is counted as damaged, never guessed at


@dataclass(frozen=True)
class TrialRecord:
    """What is known of one point.

    Args:
        workload: SHA-256 of the program's canonical JSON.
        hardware: SHA-256 of machine and semantics.
        version: of lowering and simulator; cycles of another version are not comparable.
        name: the workload as the user named it.
        target: the target's name.
        space: version of the meaning of a point.
        point: the decisions.
        program: hash of the lowered program, or None where lowering failed.
        cycles: simulated cycles, or None where the candidate failed.
        bound: proven lower bound of the point, in cycles.
        draft: estimated cycles.
        status: ``ok`` or the kind of failure.
        reason: why it failed, or empty.
        run: id of the run, the file's name.
        trial: number in the run.
        seed: seed of the run.
    """

    workload: str
    hardware: str
    version: str
    name: str
    target: str
    space: int
    point: tuple[int, ...]
    program: str | None
    cycles: int | None
    bound: int
    draft: int
    status: str
    reason: str
    run: str
    trial: int
    seed: int


@dataclass(frozen=True)
class BestRecord:
    """The best schedule of a run, with all that is needed to apply it; fields as in ``TrialRecord``.

    Args:
        bound: proven lower bound over the whole space, in cycles.
        trace: the schedule, as the objects of ``Trace.as_json``.
        verified: whether its program was executed and gave the reference's bytes.
    """

    workload: str
    hardware: str
    version: str
    name: str
    target: str
    space: int
    point: tuple[int, ...]
    program: str
    cycles: int
    bound: int
    trace: tuple[dict[str, Any], ...]
    verified: bool
    run: str
    trial: int
    seed: int


Record = TrialRecord | BestRecord
_KINDS: dict[str, type[TrialRecord] | type[BestRecord]] = {"trial": TrialRecord, "best": BestRecord}
_OPTIONAL = {"program", "cycles"}


def to_line(record: Record | Mapping[str, Any]) -> str:
    """The line of a record (or of a run's header, a mapping), checksum last, newline included."""
    if isinstance(record, TrialRecord | BestRecord):
        kind = "trial" if isinstance(record, TrialRecord) else "best"
        body: dict[str, Any] = {"kind": kind, "format": FORMAT, **asdict(record)}
    else:
        body = {"kind": "run", "format": FORMAT, **record}
    text = json.dumps(body, separators=(",", ":"), default=str)
    return f'{text[:-1]},"crc":"{zlib.crc32(text.encode()):08x}"}}\n'


def from_line(line: str) -> Record | dict[str, Any]:
    """The record of a line; a run's header comes back as a plain dict.

    Raises:
        RecordError: not JSON, a wrong checksum, an unknown kind or format, a missing or ill-typed field.
    """
    body, mark, tail = line.rstrip("\n").rpartition(',"crc":"')
    text = body + "}"
    if not mark or tail != f'{zlib.crc32(text.encode()):08x}"}}':
        raise RecordError("a line without a valid checksum")
    try:
        obj = json.loads(text)
    except json.JSONDecodeError as error:
        raise RecordError(f"not JSON: {error.msg}") from error
    kind = obj.pop("kind", None)
    if obj.pop("format", None) != FORMAT:
        raise RecordError(f"format {obj.get('format')!r} is not {FORMAT}")
    if kind == "run":
        return dict(obj)
    cls = _KINDS.get(str(kind))
    if cls is None:
        raise RecordError(f"unknown kind of line {kind!r}")
    return _build(cls, obj)


def _build(cls: type[TrialRecord] | type[BestRecord], obj: dict[str, Any]) -> Record:
    values: dict[str, Any] = {}
    for f in fields(cls):
        if f.name not in obj:
            raise RecordError(f"field {f.name!r} is missing")
        value = obj[f.name]
        if f.name in ("point", "trace"):
            if not isinstance(value, list):
                raise RecordError(f"field {f.name!r} is not a list")
            value = tuple(value)
        elif f.name in ("space", "cycles", "bound", "draft", "trial", "seed"):
            if not (isinstance(value, int) or (value is None and f.name in _OPTIONAL)):
                raise RecordError(f"field {f.name!r} is not an integer")
        elif f.name == "verified":
            value = bool(value)
        elif not (isinstance(value, str) or (value is None and f.name in _OPTIONAL)):
            raise RecordError(f"field {f.name!r} is not a string")
        values[f.name] = value
    return cls(**values)
