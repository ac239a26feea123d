"""Host stages when a program is called: run by the interpreter, and what that is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from autosched.errors import ProgramError
from autosched.ir.host import moves_only
from autosched.ir.interp import run, written
from autosched.ir.stmt import PrimFunc

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class HostWork:
    """What one host stage did in one call.

    Args:
        stage: its block.
        reads: the tensors that it read.
        writes: the tensors that it made.
        bytes: bytes read and written.
        milliseconds: wall-clock time of the interpreter.
        free: whether it only permutes elements, fills with zeros, or drops what was filled: what any host does while it copies
            arguments into the accelerator's memory, and is not counted.
    """

    stage: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    bytes: int
    milliseconds: float
    free: bool


def run_stage(stage: PrimFunc, have: Mapping[str, Array], work: list[HostWork] | None = None) -> dict[str, Array]:
    """Runs a host stage on the tensors that there are, and returns what it made, by name.

    Args:
        stage: one of ``HostSplit``.
        have: tensors by name; when none of what the stage reads is there, it does nothing.
        work: gets a line on what was done.

    Raises:
        ProgramError: only a part of what it reads is there.
    """
    outputs = written(stage)
    inputs = [b for b in stage.buffers if b not in outputs]
    missing = [b.name for b in inputs if b.name not in have]
    if missing and len(missing) == len(inputs):
        return {}
    if missing:
        raise ProgramError(f"host stage {stage.name} reads {', '.join(b.name for b in inputs)}; {', '.join(missing)} missing")
    arrays = [have[b.name] for b in inputs]
    # Of a tensor that several stages make each adds its part.
    given = [have[b.name] if b in inputs else have[b.name].copy() if b.name in have else None for b in stage.buffers]
    begin = perf_counter()
    made = run(stage, *given)
    spent = (perf_counter() - begin) * 1e3
    if work is not None:
        size = sum(a.nbytes for a in (*arrays, *made))
        names = [b.name for b in inputs], [b.name for b in outputs]
        work.append(HostWork(stage.name, tuple(names[0]), tuple(names[1]), size, spent, is_permutation(stage, arrays)))
    return {b.name: made[k] for k, b in enumerate(outputs)}


def is_permutation(stage: PrimFunc, arrays: Sequence[Array]) -> bool:
    """Whether a stage uses each element of its inputs at most once, and only moves it.

    Args:
        stage: a host stage.
        arrays: what it reads; only shapes and types matter.
    """
    if not moves_only(stage) or len(arrays) != 1 or np.dtype(arrays[0].dtype).kind not in "iu":
        return False
    size, dtype = arrays[0].size, arrays[0].dtype
    if sum(np.count_nonzero(a) for a in run(stage, np.ones(arrays[0].shape, dtype))) > size:
        return False  # some come out several times
    # Follow the elements: the digits of their numbers, one run per digit, come out where the elements do.
    numbers = np.arange(1, size + 1, dtype=np.int64)
    found: list[Array] = []
    for shift in range(0, max(size.bit_length(), 1), 7):
        digit = (numbers >> shift & 127).astype(dtype).reshape(arrays[0].shape)
        made = run(stage, digit)
        digits = np.concatenate([np.ravel(a) for a in made]).astype(np.int64) << shift
        found.append(digits)
    places = np.sum(found, axis=0)
    used = places[places != 0]
    return len(np.unique(used)) == len(used)
