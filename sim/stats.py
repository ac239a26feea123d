"""Where the cycles of a program went: what each unit did, what it waited for, and how much memory moved.

Cycles are numbered as the hardware's counter does, 1 to ``Timing.cycles``; what has not ended by then is cut off
there. A unit's cycles are busy (executing; the cycle in which it accepts an instruction included), stalled (it
has or will get an instruction and waits) or idle (nothing more comes).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim import isa
from sim.config import INSN_BYTES, ITER_BITS
from sim.timing import CLIENT_NAMES, TOKEN_FROM, Timing

I64 = npt.NDArray[np.int64]

UNITS: tuple[str, ...] = ("FETCH", "LOAD", "COMPUTE", "STORE")

# What a unit may be doing. The waits come last.
KINDS: tuple[str, ...] = (
    "read", "dispatch",
    "load inp", "load wgt", "load uop", "load acc", "load acc 8bit",
    "gemm", "reset", "alu imm", "alu tensor", "store", "sync", "finish",
    "queue full", "wait fetch", "wait token LOAD", "wait token COMPUTE", "wait token STORE",
)  # fmt: skip
_KIND = {name: i for i, name in enumerate(KINDS)}
FIRST_WAIT = _KIND["queue full"]
_LOAD_KINDS = {
    isa.MEM_UOP: "load uop",
    isa.MEM_WGT: "load wgt",
    isa.MEM_INP: "load inp",
    isa.MEM_ACC: "load acc",
    isa.MEM_ACC_8BIT: "load acc 8bit",
}


@dataclass(frozen=True)
class Activity:
    """Spans of time: unit (index into UNITS), kind (into KINDS), [begin, end) in cycles, instruction."""

    unit: I64
    kind: I64
    begin: I64
    end: I64
    insn: I64


@dataclass(frozen=True)
class UnitStats:
    """Cycles of one unit; ``busy_by`` and ``stalled_by`` split them by kind and by cause."""

    busy: int
    stalled: int
    idle: int
    busy_by: dict[str, int]
    stalled_by: dict[str, int]


@dataclass(frozen=True)
class Stats:
    """The account of one run.

    units: by name (UNITS).
    contention: cycles that loads took longer than alone, by who was ahead of them (a read client, or "latency").
    bytes_read, bytes_written: data bytes by memory, as the instructions ask for them, "insn" for fetch.
    bus_words: words on the read bus, by client; partial words count whole.
    read_bandwidth, write_bandwidth: bytes per cycle; bus_utilisation: share of cycles with a word on the read bus.
    gemm_uops, alu_uops: micro-ops executed (resets not among them); macs: multiply-accumulates.
    gemm_utilisation: share of cycles in which the GEMM array did useful work.
    """

    cycles: int
    instructions: int
    clock_mhz: int
    units: dict[str, UnitStats]
    contention: dict[str, int]
    bytes_read: dict[str, int]
    bytes_written: int
    bus_words: dict[str, int]
    read_bandwidth: float
    write_bandwidth: float
    bus_utilisation: float
    gemm_uops: int
    alu_uops: int
    macs: int
    gemm_utilisation: float

    def to_json(self) -> dict[str, object]:
        """Return everything as plain JSON values."""
        plain: dict[str, object] = {k: v for k, v in self.__dict__.items() if k != "units"}
        plain["units"] = {name: dict(unit.__dict__) for name, unit in self.units.items()}
        return plain

    def table(self) -> str:
        """Return the account as lines of text."""
        lines = [f"{self.cycles} cycles, {self.instructions} instructions, {self.cycles / self.clock_mhz:.1f} us"]
        lines.append(f"{'':8} {'busy':>9} {'stalled':>9} {'idle':>9}")
        for name, unit in self.units.items():
            lines.append(f"{name:8} {unit.busy:9} {unit.stalled:9} {unit.idle:9}")
            for kind, count in [*unit.busy_by.items(), *unit.stalled_by.items()]:
                lines.append(f"  {kind:20} {count:9} {100 * count / max(1, self.cycles):5.1f} %")
        for cause, count in self.contention.items():
            lines.append(f"  {'behind ' + cause:20} {count:9} {100 * count / max(1, self.cycles):5.1f} %")
        moved = ", ".join(f"{name} {size}" for name, size in self.bytes_read.items())
        lines.append(f"read {moved} bytes; written {self.bytes_written} bytes")
        lines.append(
            f"read bus {100 * self.bus_utilisation:.1f} % busy, {self.read_bandwidth:.2f} B/cycle; "
            f"written {self.write_bandwidth:.2f} B/cycle; GEMM {100 * self.gemm_utilisation:.1f} % useful"
        )
        return "\n".join(lines) + "\n"


def kinds_of(table: isa.Table) -> I64:
    """Return the kind (index into KINDS) of each instruction."""
    op, mem = table[:, isa.OPCODE], table[:, isa.MEM]
    kind: I64 = np.full(len(table), _KIND["finish"], dtype=np.int64)
    kind[op == isa.OP_STORE] = _KIND["store"]
    for memory, name in _LOAD_KINDS.items():
        kind[(op == isa.OP_LOAD) & (mem == memory)] = _KIND[name]
    kind[np.isin(op, (isa.OP_LOAD, isa.OP_STORE)) & (table[:, isa.X_SIZE] == 0)] = _KIND["sync"]
    kind[op == isa.OP_GEMM] = np.where(table[op == isa.OP_GEMM, isa.RESET] != 0, _KIND["reset"], _KIND["gemm"])
    alu = op == isa.OP_ALU
    kind[alu] = np.where(table[alu, isa.USE_IMM] != 0, _KIND["alu imm"], _KIND["alu tensor"])
    return kind


def uops_of(table: isa.Table, semantics: str = "chisel") -> I64:
    """Return the micro-ops that each GEMM or ALU row executes; under "chisel" empty loops wrap to 2^14."""

    def trips(bound: I64) -> I64:
        if semantics == "fsim":
            return np.maximum(bound, 0)
        wrapped = bound % (1 << ITER_BITS)
        return np.where(wrapped == 0, 1 << ITER_BITS, wrapped)

    looped = np.isin(table[:, isa.OPCODE], (isa.OP_GEMM, isa.OP_ALU))
    span = trips(table[:, isa.UOP_END] - table[:, isa.UOP_BGN])
    count = span * trips(table[:, isa.ITER_OUT]) * trips(table[:, isa.ITER_IN])
    return np.where(looped, count, 0)


def activity(timing: Timing) -> Activity:
    """Return what every unit did, idle spans left out, ordered by unit and time; needs ``record=True``."""
    if not len(timing.bursts):
        raise ValueError("no bursts in this Timing: simulate with record=True")
    n = np.arange(len(timing.table), dtype=np.int64)
    stop = timing.cycles + 1
    ran = timing.start >= 0
    done = np.where(timing.done >= 0, timing.done, stop)
    unit = timing.queue + 1
    parts = [(unit[ran], kinds_of(timing.table)[ran], timing.start[ran], done[ran] + 1, n[ran])]
    # The waits follow one another, from the cycle in which the unit was free to the start.
    idle = np.maximum(timing.idle, 1)
    seen = np.maximum(idle, timing.visible)
    after_prev = seen + timing.wait_prev
    token = np.array([[_KIND.get(f"wait token {name}", 0) for name in row] for row in TOKEN_FROM], dtype=np.int64)
    for kind, begin, end in (
        (np.full_like(n, _KIND["wait fetch"]), idle, seen),
        (token[timing.queue, 0], seen, after_prev),
        (token[timing.queue, 1], after_prev, after_prev + timing.wait_next),
    ):
        some = ran & (end > begin)
        parts.append((unit[some], kind[some], begin[some], end[some], n[some]))
    parts += _fetch_activity(timing)
    u, k, b, e, i = (np.concatenate(column) for column in zip(*parts, strict=True))
    e = np.minimum(e, stop)
    order = np.lexsort((b, u))
    order = order[(e > b)[order]]
    return Activity(u[order], k[order], b[order], e[order], i[order])


def _fetch_activity(timing: Timing) -> list[tuple[I64, I64, I64, I64, I64]]:
    """Spans of fetch: reading a batch, handing it out, and standing before a full queue."""
    wide = timing.config.bus_bytes > 8
    batch = timing.config.burst_beats if wide else timing.config.burst_beats // 2
    own = timing.bursts[timing.bursts[:, 0] == 0]
    first = own[:, 1]
    heads = np.flatnonzero(np.r_[True, first[1:] != first[:-1]])
    tails = np.r_[heads[1:], len(own)] - 1
    begin = own[heads, 2] - 1
    arrived = own[tails, 4] + own[tails, 5] + (5 if wide else 2)
    gone = np.flatnonzero(timing.visible >= 0)
    at = timing.visible[gone] - 1
    # The wide fetch reads on while its last two instructions wait: to count cycles once, those come first.
    before = np.maximum(first - 1, 0)[heads]
    held = np.where(timing.visible[before] >= 0, timing.visible[before], timing.cycles + 1)
    begin = np.where(first[heads] > 0, np.maximum(begin, held), begin)
    # gone is 0 .. m - 1: fetch is in order; a batch that was never read has no instruction in it.
    ready = np.maximum(np.r_[0, at[:-1] + 1], arrived[gone // batch])
    full = at > ready
    run_heads = np.flatnonzero(np.r_[True, at[1:] != at[:-1] + 1]) if len(at) else gone
    run_tails = np.r_[run_heads[1:], len(at)] - 1 if len(at) else gone

    def spans(kind: str, begins: I64, ends: I64, insns: I64) -> tuple[I64, I64, I64, I64, I64]:
        zeros = np.zeros(len(begins), dtype=np.int64)
        return zeros, zeros + _KIND[kind], begins, ends, insns

    return [
        spans("read", begin, arrived, first[heads]),
        spans("queue full", ready[full], at[full], gone[full]),
        spans("dispatch", at[run_heads], at[run_tails] + 1, gone[run_heads]),
    ]


def contention_by(timing: Timing) -> dict[str, int]:
    """Split ``Timing.contention`` by who was ahead: the words of the others that the memory served meanwhile.

    Each load's extra cycles go to the client with most words first, up to its words; what is left is latency that
    the load paid again because its own requests came too slowly.
    """
    rest = timing.contention.copy()
    shares = dict.fromkeys((*CLIENT_NAMES, "latency"), 0)
    order = np.argsort(-timing.foreign, axis=1, kind="stable")
    for column in range(timing.foreign.shape[1]):
        client = order[:, column]
        taken = np.minimum(rest, timing.foreign[np.arange(len(rest)), client])
        for c, name in enumerate(CLIENT_NAMES):
            shares[name] += int(taken[client == c].sum())
        rest = rest - taken
    shares["latency"] = int(rest.sum())
    return {name: count for name, count in shares.items() if count}


def summarize(timing: Timing, semantics: str = "chisel") -> Stats:
    """Account for a run that was recorded (``timing.simulate(..., record=True)``)."""
    spans = activity(timing)
    total = timing.cycles
    units = {}
    for number, name in enumerate(UNITS):
        mine = spans.unit == number
        by = np.bincount(spans.kind[mine], weights=(spans.end - spans.begin)[mine], minlength=len(KINDS)).astype(int)
        busy = {KINDS[k]: int(by[k]) for k in range(FIRST_WAIT) if by[k]}
        stalled = {KINDS[k]: int(by[k]) for k in range(FIRST_WAIT, len(KINDS)) if by[k]}
        used, waited = sum(busy.values()), sum(stalled.values())
        units[name] = UnitStats(used, waited, total - used - waited, busy, stalled)
    config, table = timing.config, timing.table
    ran = timing.start >= 0
    elements = np.where(ran, table[:, isa.X_SIZE] * table[:, isa.Y_SIZE], 0)
    sizes = isa.element_bytes(config)
    loads = table[:, isa.OPCODE] == isa.OP_LOAD
    read = {"insn": INSN_BYTES * int((timing.visible >= 0).sum())}
    for memory, name in enumerate(isa.MEMORY_NAMES):
        count = int(elements[loads & (table[:, isa.MEM] == memory)].sum())
        if count:
            read[name.lower()] = count * int(sizes[memory])
    stored = int(elements[table[:, isa.OPCODE] == isa.OP_STORE].sum()) * int(sizes[isa.MEM_OUT])
    words = np.bincount(timing.bursts[:, 0], weights=timing.bursts[:, 5], minlength=len(CLIENT_NAMES)).astype(int)
    uops = np.where(ran, uops_of(table, semantics), 0)
    gemm = int(uops[(table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] == 0)].sum())
    cycles = max(1, total)
    return Stats(
        cycles=total,
        instructions=int(ran.sum()),
        clock_mhz=config.clock_mhz,
        units=units,
        contention=contention_by(timing),
        bytes_read=read,
        bytes_written=stored,
        bus_words={name: int(words[c]) for c, name in enumerate(CLIENT_NAMES) if words[c]},
        read_bandwidth=sum(read.values()) / cycles,
        write_bandwidth=stored / cycles,
        bus_utilisation=int(words.sum()) / cycles,
        gemm_uops=gemm,
        alu_uops=int(uops[table[:, isa.OPCODE] == isa.OP_ALU].sum()),
        macs=gemm * config.batch * config.block_in * config.block_out,
        gemm_utilisation=gemm / cycles,
    )
