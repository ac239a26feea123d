"""Pictures of a run: a Chrome trace for Perfetto, and a Gantt chart of characters for the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sim import asm, isa
from sim.config import mode_of
from sim.files import write_text
from sim.program import Program
from sim.stats import FIRST_WAIT, KINDS, UNITS, activity
from sim.timing import CLIENT_NAMES, TOKEN_FROM, Timing, simulate

I64 = npt.NDArray[np.int64]
Curves = Mapping[str, tuple[I64, I64]]

# (unit, flag column, what it is called): pushes and pops of each dependence channel, units as in isa.QUEUE_.
CHANNELS: tuple[tuple[str, int, int, int, int], ...] = (
    ("LOAD to COMPUTE", isa.QUEUE_LOAD, isa.PUSH_NEXT, isa.QUEUE_COMPUTE, isa.POP_PREV),
    ("COMPUTE to LOAD", isa.QUEUE_COMPUTE, isa.PUSH_PREV, isa.QUEUE_LOAD, isa.POP_NEXT),
    ("COMPUTE to STORE", isa.QUEUE_COMPUTE, isa.PUSH_NEXT, isa.QUEUE_STORE, isa.POP_PREV),
    ("STORE to COMPUTE", isa.QUEUE_STORE, isa.PUSH_PREV, isa.QUEUE_COMPUTE, isa.POP_NEXT),
)

# One letter per kind of activity, in the order of KINDS; waits are punctuation.
GLYPHS: tuple[str, ...] = (
    "f", "d", "I", "W", "U", "A", "B", "G", "R", "i", "t", "S", "y", "F", "q", ",", "l", "c", "s",
)  # fmt: skip


def token_pairs(timing: Timing) -> list[tuple[str, int, int]]:
    """Return (channel, producer, consumer) for every token that was taken: the n-th pop takes the n-th push."""
    pairs = []
    for name, source, push, target, pop in CHANNELS:
        given = np.flatnonzero((timing.queue == source) & (timing.table[:, push] != 0) & (timing.done >= 0))
        taken = np.flatnonzero((timing.queue == target) & (timing.table[:, pop] != 0) & (timing.start >= 0))
        # Units work in program order, so that index order is time order.
        pairs += [(name, int(a), int(b)) for a, b in zip(given, taken, strict=False)]
    return pairs


def why_waited(timing: Timing, index: int) -> dict[str, int]:
    """Return the cycles that an instruction waited or was held up, by cause; causes of 0 are left out."""
    previous, following = TOKEN_FROM[int(timing.queue[index])]
    causes = {
        "fetch": int(timing.wait_fetch[index]),
        f"token from {previous}": int(timing.wait_prev[index]),
        f"token from {following}": int(timing.wait_next[index]),
        "memory contention": int(timing.contention[index]),
    }
    return {name: cycles for name, cycles in causes.items() if cycles}


def _slices(timing: Timing) -> list[dict[str, object]]:
    spans = activity(timing)
    text = asm.disassemble(timing.table, timing.config, timing.semantics).splitlines()
    events: list[dict[str, object]] = []
    for unit, kind, begin, end, insn in zip(
        *(a.tolist() for a in (spans.unit, spans.kind, spans.begin, spans.end, spans.insn)), strict=True
    ):
        args: dict[str, object] = {"instruction": insn}
        if unit > 0:
            args["text"] = text[insn]
            if kind < FIRST_WAIT:
                args.update(why_waited(timing, insn))
                ahead = {CLIENT_NAMES[c]: int(w) for c, w in enumerate(timing.foreign[insn]) if w}
                if timing.contention[insn] and ahead:
                    args["words of others"] = ahead
        name = KINDS[kind] if unit == 0 or kind >= FIRST_WAIT else text[insn].split(" pop_")[0].split(" push_")[0]
        events.append({
            "ph": "X", "pid": 1, "tid": unit + 1, "ts": begin, "dur": end - begin, "name": name, "cat": KINDS[kind],
            "args": args,
        })  # fmt: skip
    return events


def chrome_trace(timing: Timing, curves: Curves | None = None, name: str = "VTA") -> dict[str, object]:
    """Return a run as a Chrome trace (open it in Perfetto); one microsecond of it is one cycle.

    timing: recorded. curves: scratchpad occupancy, see :func:`sim.occupancy.occupancy`. Tracks FETCH, LOAD, COMPUTE
    and STORE; an arrow per token, from the end of the giver to the start of the taker.
    """
    events: list[dict[str, object]] = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": name}}]
    for number, unit in enumerate(UNITS):
        thread = {"pid": 1, "tid": number + 1}
        events.append({"ph": "M", **thread, "name": "thread_name", "args": {"name": unit}})
        events.append({"ph": "M", **thread, "name": "thread_sort_index", "args": {"sort_index": number}})
    events += _slices(timing)
    for number, (channel, giver, taker) in enumerate(token_pairs(timing)):
        arrow = {"pid": 1, "cat": "token", "name": channel, "id": number}
        out = {"tid": int(timing.queue[giver]) + 2, "ts": int(timing.done[giver])}
        into = {"tid": int(timing.queue[taker]) + 2, "ts": int(timing.start[taker])}
        events.append({"ph": "s", **arrow, **out})
        events.append({"ph": "f", "bp": "e", **arrow, **into})
    for memory, (times, levels) in (curves or {}).items():
        for at, level in zip(times.tolist(), levels.tolist(), strict=True):
            counter = {"ph": "C", "pid": 1, "ts": at, "name": f"{memory} in use", "args": {"elements": level}}
            events.append(counter)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"cycles": timing.cycles, "clock_mhz": timing.config.clock_mhz, "unit": "1 us = 1 cycle"},
    }


def write_trace(path: str | Path, program: Program) -> Timing:
    """Simulate a program, write its Chrome trace with scratchpad occupancy to a file, and return its timing."""
    from sim.occupancy import MAX_ACCESSES, accesses, occupancy
    from sim.races import uop_loads

    mode = mode_of(program.semantics)
    timing = simulate(program.table, program.config, program.insn_address, semantics=mode)
    curves: Curves | None = None
    if accesses(timing, mode) <= MAX_ACCESSES:
        loads = uop_loads(program, mode)
        curves = occupancy(timing, loads.offsets, loads.words, mode)
    write_text(path, json.dumps(chrome_trace(timing, curves, program.name)))
    return timing


def gantt(timing: Timing, width: int = 100, begin: int = 0, end: int | None = None) -> str:
    """Return a chart of a recorded run: one line per unit, a column shows what most of its cycles were.

    width: columns. begin, end: the cycles shown, the whole run by default. ValueError for an empty range.
    """
    stop = timing.cycles + 1 if end is None else min(end, timing.cycles + 1)
    if begin < 0 or stop <= begin or width < 1:
        raise ValueError(f"nothing to draw: cycles {begin}..{stop}, {width} columns")
    width = min(width, stop - begin)
    edges = begin + np.arange(width + 1, dtype=np.int64) * (stop - begin) // width
    spans = activity(timing)
    lines = [f"cycles {begin}..{stop - 1}, {(stop - begin) / width:.4g} per column"]
    used: set[int] = set()
    for number, unit in enumerate(UNITS):
        share = np.zeros((width, len(KINDS)), dtype=np.int64)
        for k in np.flatnonzero(spans.unit == number):
            low, high = max(int(spans.begin[k]), begin), min(int(spans.end[k]), stop)
            if high <= low:
                continue
            first, last = int(np.searchsorted(edges, low, "right")) - 1, int(np.searchsorted(edges, high, "left"))
            cells = np.minimum(edges[first + 1 : last + 1], high) - np.maximum(edges[first:last], low)
            share[first:last, spans.kind[k]] += cells
        idle = np.diff(edges) - share.sum(axis=1)
        best = np.argmax(share, axis=1)
        shown = share[np.arange(width), best] >= np.maximum(idle, 1)
        used.update(int(b) for b in best[shown])
        row = "".join(GLYPHS[b] if s else " " for b, s in zip(best.tolist(), shown.tolist(), strict=True))
        lines.append(f"{unit:8}|{row}|")
    lines.append("  ".join(f"{GLYPHS[k]} {KINDS[k]}" for k in sorted(used)))
    return "\n".join(lines) + "\n"
