"""Instructions on which real implementations of VTA disagree, hang or refuse.

Three of them count: the Chisel RTL, the HLS design and the functional simulator. Differences: vta.md sections
3, 4 and 8. Everything is exact where it can be: loops are expanded micro-op by micro-op, and amounts of tensor
shifts are taken from a run on the program's own memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim import encoding, isa, legality, tokens
from sim.config import INSN_BYTES, MODES, PAGE_BYTES, TOKEN_LIMIT, VTAConfig, mode_of
from sim.dram import Dram
from sim.errors import ProgramError, SimError
from sim.legality import boxes, moves
from sim.program import Program
from sim.trace import Ints, Race, Trace, stores_meet, trace, uops_are_constant, uops_of_image

IMPLEMENTATIONS: tuple[str, ...] = ("chisel", "hls", "fsim")
CHISEL, HLS, FSIM = (("chisel",), ("hls",), ("fsim",))
CHISEL_HLS: tuple[str, ...] = ("chisel", "hls")
HLS_FSIM: tuple[str, ...] = ("hls", "fsim")
PROGRAM = -1  # index of a finding that concerns the whole program

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Diagnostic:
    """One disagreement: which instruction, which field, why.

    index: of the instruction, or PROGRAM. kind: a short name of the rule. who: the implementations that deviate
    from the plain meaning of the instruction.
    """

    index: int
    field: str
    reason: str
    kind: str = ""
    who: tuple[str, ...] = IMPLEMENTATIONS

    def __str__(self) -> str:
        where = "program" if self.index == PROGRAM else f"instruction {self.index}"
        return f"{where}: {self.field}: {self.reason} ({', '.join(self.who)})"


def check(
    program: Program,
    among: Sequence[str] = IMPLEMENTATIONS,
    races: bool = True,
    max_work: int = legality.MAX_WORK,
) -> list[Diagnostic]:
    """Name every instruction on which one of the implementations ``among`` deviates, in order of index.

    races: whether conflicts that no token orders are named too (:func:`sim.races.check_races`).
    Raises FieldError for a value outside its field, LimitError for a program too large to expand.
    """
    unknown = [name for name in among if name not in IMPLEMENTATIONS]
    if unknown:
        raise ProgramError("implementations", f"{unknown[0]!r} is none of {', '.join(IMPLEMENTATIONS)}")
    table, config, mode = program.table, program.config, mode_of(program.semantics)
    legality.check_size(config)
    isa.check_table(table, config, mode)
    # Empty loops are a finding of their own; beyond it they are taken to do nothing, as their plain meaning is.
    legality.check_work(table, config, "fsim", max_work)
    state = tokens.flow(table, config.queue_depth)
    found = [*_machine(config, mode), *_transfers(table, config), *_memory(program), *_loops(table), *_shifts(table)]
    found += [*_flags(table), *_tokens(table, config, state)]
    if all(d.kind != "dram-range" for d in found):
        walked, amounts = _walk(program, state)
        found += [*_elements(table, config, walked), *_amounts(table, amounts)]
        if races:
            found += [_race(race, state) for race in walked.races]
    wanted = set(among)
    return sorted((d for d in found if wanted & set(d.who)), key=lambda d: (d.index, d.kind, d.field))


def _each(
    bad: Mask, field: str, kind: str, who: tuple[str, ...], reason: str
) -> Iterator[Diagnostic]:
    for index in np.flatnonzero(bad):
        yield Diagnostic(int(index), field, reason, kind, who)


def _machine(config: VTAConfig, mode: str) -> Iterator[Diagnostic]:
    for kind, field, who, reason in legality.disagreements(config, mode):
        yield Diagnostic(PROGRAM, field, reason, kind, who)


def _transfers(table: isa.Table, config: VTAConfig) -> Iterator[Diagnostic]:
    op, mem = table[:, isa.OPCODE], table[:, isa.MEM]
    load, store = moves(table, isa.OP_LOAD), moves(table, isa.OP_STORE)
    y = table[:, isa.Y_SIZE]
    width, height = legality.region(table)
    is_load = op == isa.OP_LOAD
    yield from _each(
        is_load & (mem == isa.MEM_ACC_8BIT), "mem", "acc-8bit", CHISEL_HLS, "ACC_8BIT: the RTL hangs, HLS loads nothing"
    )
    reason = "LOAD OUT: the RTL hangs, others refuse or ignore it"
    yield from _each(is_load & (mem == isa.MEM_OUT), "mem", "load-out", IMPLEMENTATIONS, reason)
    reason = "a LOAD of no rows hangs the RTL; HLS loads a row of micro-ops"
    yield from _each(load & (y == 0), "y_size", "y-size-0", CHISEL_HLS, reason)
    yield from _each(store & (y == 0), "y_size", "y-size-0", CHISEL, "a STORE of no rows writes 65536 rows on the RTL")
    pads = [table[:, c] > 0 for c in (isa.Y_PAD_0, isa.Y_PAD_1, isa.X_PAD_0, isa.X_PAD_1)]
    padded = pads[0] | pads[1] | pads[2] | pads[3]
    columns = (isa.Y_PAD_0, isa.Y_PAD_1, isa.X_PAD_0, isa.X_PAD_1)
    for bad, column in zip(pads, columns):
        name = isa.COLUMN_NAMES[column]
        yield from _each(load & (mem == isa.MEM_WGT) & bad, name, "wgt-pad", HLS, "HLS ignores the pads of a LOAD WGT")
        yield from _each(load & (mem == isa.MEM_UOP) & bad, name, "uop-2d", HLS, "HLS ignores the pads of a LOAD UOP")
        yield from _each(store & bad, name, "store-pad", FSIM, "the functional simulator refuses pads on a STORE")
    reason = "HLS loads one row of micro-ops only"
    yield from _each(load & (mem == isa.MEM_UOP) & (y > 1), "y_size", "uop-2d", HLS, reason)
    fills = is_load & (table[:, isa.X_SIZE] == 0) & padded & (width * height > 0)
    fills &= (mem == isa.MEM_INP) | (mem == isa.MEM_ACC)
    yield from _each(fills, "x_size", "empty-pad", HLS, "HLS fills the pads of a LOAD with x_size 0; others do nothing")
    yield from _each(
        store & (mem != isa.MEM_OUT), "mem", "store-mem", FSIM, "the functional simulator stores memory type OUT only"
    )
    area = np.where(load, width * height, table[:, isa.X_SIZE] * np.where(y == 0, legality.ZERO_ROWS, y))
    deep = isa.depths(config)[np.where(store, isa.MEM_OUT, mem)]
    over = (load | store) & (table[:, isa.SRAM] + area > deep)
    reason = "the region runs past the end of its memory: the RTL wraps, others do not"
    yield from _each(over, "sram", "sram-wrap", IMPLEMENTATIONS, reason)


def _memory(program: Program) -> Iterator[Diagnostic]:
    table, config = program.table, program.config
    box = boxes(table, config, "chisel")
    outside = legality.leaves_space(table, config, "chisel")
    yield from _each(outside, "dram", "dram-range", IMPLEMENTATIONS, "reaches past the 32-bit address space")
    reason = "page 0 of DRAM does not exist in the simulators"
    busy = legality.box_ends(table, box) > 0
    yield from _each(busy & (box[:, 0] < PAGE_BYTES), "dram", "page-0", ("chisel", "fsim"), reason)
    low = program.insn_address
    high = low + INSN_BYTES * len(table)
    for index in stores_meet(table, config, "chisel", low, high):
        base, rows, size, stride = (int(v) for v in box[index])
        starts = base + stride * np.arange(rows, dtype=np.int64)
        if bool(((starts < high) & (starts + size > low)).any()):
            reason = "writes into the instruction stream, which is read ahead"
            yield Diagnostic(int(index), "dram", reason, "self-modifying", IMPLEMENTATIONS)


def _loops(table: isa.Table) -> Iterator[Diagnostic]:
    op = table[:, isa.OPCODE]
    looped = (op == isa.OP_GEMM) | (op == isa.OP_ALU)
    for column in (isa.ITER_OUT, isa.ITER_IN):
        name = isa.COLUMN_NAMES[column]
        yield from _each(
            looped & (table[:, column] == 0), name, "zero-trips", CHISEL, "0 iterations are 16384 on the RTL"
        )
    none = looped & (table[:, isa.UOP_END] <= table[:, isa.UOP_BGN])
    yield from _each(none, "uop_end", "zero-trips", CHISEL, "an empty range of micro-ops wraps around on the RTL")
    mul = (op == isa.OP_ALU) & (table[:, isa.ALU_OP] == isa.ALU_MUL)
    yield from _each(mul, "alu_op", "mul", CHISEL_HLS, "MUL hangs the RTL, and HLS leaves ACC unchanged")


def _shifts(table: isa.Table) -> Iterator[Diagnostic]:
    shift = (table[:, isa.OPCODE] == isa.OP_ALU) & (table[:, isa.ALU_OP] == isa.ALU_SHR)
    immediate = shift & (table[:, isa.USE_IMM] != 0)
    imm = table[:, isa.IMM]
    far = immediate & ((imm > 31) | (imm < -31))
    yield from _each(far, "imm", "shift-range", IMPLEMENTATIONS, "a shift by more than 31 has no meaning in C++")
    wide = immediate & ~far & ((imm > 15) | (imm < -16))
    yield from _each(wide, "imm", "shift-range", HLS, "HLS reads the amount as a signed 5-bit number (-16..15)")
    tensor = shift & (table[:, isa.USE_IMM] == 0) & (imm < 0)
    reason = "bit 15 of the unused immediate turns a tensor SHR into a left shift on the RTL"
    yield from _each(tensor, "imm", "shift-direction", CHISEL, reason)


def _amounts(table: isa.Table, amounts: Ints | None) -> Iterator[Diagnostic]:
    if amounts is None:
        return
    low, high = amounts[:, 0], amounts[:, 1]
    met = low <= high
    far = met & ((high > 31) | (low < -31))
    yield from _each(far, "src", "shift-range", IMPLEMENTATIONS, "an amount beyond 31 has no meaning in C++")
    reason = "a negative amount shifts left, but right by its low five bits on the RTL"
    yield from _each(met & ~far & (low < 0), "src", "shift-direction", CHISEL, reason)
    wide = met & ~far & ((high > 15) | (low < -16))
    yield from _each(wide, "src", "shift-range", HLS, "HLS reads the amount as a signed 5-bit number (-16..15)")


def _flags(table: isa.Table) -> Iterator[Diagnostic]:
    engine = isa.queue_of(table)
    for column, queue in legality.MEANINGLESS_FLAGS:
        name, owner = isa.COLUMN_NAMES[column], isa.QUEUE_NAMES[queue]
        reason = f"{owner} has no such neighbour: hardware ignores the flag, the functional simulator crashes"
        yield from _each((engine == queue) & (table[:, column] != 0), name, "flag", FSIM, reason)


def _tokens(table: isa.Table, config: VTAConfig, state: tokens.Flow) -> Iterator[Diagnostic]:
    for channel, (most, index) in enumerate(state.outstanding()):
        if most > TOKEN_LIMIT:
            reason = f"up to {most} tokens wait on {tokens.CHANNELS[channel]}; the RTL's counters stop at {TOKEN_LIMIT}"
            yield Diagnostic(index, tokens.PUSH_FLAGS[channel], reason, "token-overflow", CHISEL)
    if state.finish < 0:
        yield from _deadlock(table, config, state)
        return
    for channel, left in enumerate(state.tokens):
        if left:
            pushers = state.order[(state.pushes[state.order] >> channel) & 1 == 1]
            reason = f"{left} tokens stay on {tokens.CHANNELS[channel]} and leak into the next run"
            yield Diagnostic(int(pushers[-1]), tokens.PUSH_FLAGS[channel], reason, "token-leak", IMPLEMENTATIONS)
    for engine, field in ((isa.QUEUE_LOAD, "pop_prev"), (isa.QUEUE_STORE, "pop_next")):
        mine = np.flatnonzero(state.engine == engine)
        sure = int(state.clocks[state.finish, engine])
        late = [int(i) for i in mine if not 0 < state.rank[i] <= sure]
        if late:
            name = tokens.ENGINES[engine]
            reason = f"FINISH does not wait for {name}: instruction {late[0]} may still run"
            yield Diagnostic(state.finish, field, reason, "finish-early", IMPLEMENTATIONS)
    behind = (state.engine == isa.QUEUE_COMPUTE) & (np.arange(len(table)) > state.finish)
    reason = "follows FINISH: hardware drops it, the functional simulator hangs"
    yield from _each(behind, "opcode", "after-finish", IMPLEMENTATIONS, reason)


def _deadlock(table: isa.Table, config: VTAConfig, state: tokens.Flow) -> Iterator[Diagnostic]:
    # Under an unbounded queue the same tokens may suffice: then only hardware hangs.
    endless = tokens.flow(table, None).finish >= 0
    who = CHISEL_HLS if endless else IMPLEMENTATIONS
    for waiter in tokens.waiters(state, config.queue_depth):
        index = PROGRAM if waiter.index is None else waiter.index
        field = "queue" if waiter.unit == "FETCH" else "opcode" if waiter.index is None else "pop"
        kind = "look-ahead" if endless else "deadlock"
        yield Diagnostic(index, field, f"deadlock: {waiter.unit} waits for {waiter.what}", kind, who)


# Name of the finding in the kernel, field, kind, who deviates, why.
_ELEMENTS: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    (
        "STALE", "sram", "stale-out", CHISEL_HLS,
        "OUT[{}] is older than ACC[{}]: the last to touch it must be a non-reset GEMM or an ALU operation",
    ),
    ("UNWRITTEN", "sram", "stale-out", IMPLEMENTATIONS, "OUT[{}] is stored and nothing has written it"),
    ("RTL_HAZARD", "dst", "alu-hazard", CHISEL_HLS, "ACC[{}] is used by the next micro-op while it is written"),
    ("HLS_HAZARD", "dst", "uop-distance", HLS, "ACC[{}] was written one or two micro-ops before: HLS may miss that"),
    ("UOP_WRAP", "uop_end", "index-wrap", IMPLEMENTATIONS, "micro-op index {} is past the end of its memory"),
    ("DST_WRAP", "dst", "index-wrap", IMPLEMENTATIONS, "ACC index {} is past the end of its memory"),
    ("SRC_WRAP", "src", "index-wrap", IMPLEMENTATIONS, "source index {} is past the end of its memory"),
    ("WGT_WRAP", "wgt", "index-wrap", IMPLEMENTATIONS, "WGT index {} is past the end of its memory"),
    (
        "IMM_SRC", "src", "imm-source", HLS_FSIM,
        "the first operand of an immediate form is ACC[{}] (src) on the RTL, the destination elsewhere",
    ),
    ("UOP_VOID", "uop_bgn", "uninitialised", IMPLEMENTATIONS, "micro-op {} was never loaded"),
    ("INP_VOID", "src", "uninitialised", IMPLEMENTATIONS, "INP[{}] was never loaded"),
    ("WGT_VOID", "wgt", "uninitialised", IMPLEMENTATIONS, "WGT[{}] was never loaded"),
    ("IMM_SRC_VOID", "src", "uninitialised", CHISEL, "ACC[{}] was never loaded, reset or computed"),
    ("IMM_DST_VOID", "dst", "uninitialised", HLS_FSIM, "ACC[{}] was never loaded, reset or computed"),
    ("ACC_VOID", "dst", "uninitialised", IMPLEMENTATIONS, "ACC[{}] was never loaded, reset or computed"),
)  # fmt: skip


def _elements(table: isa.Table, config: VTAConfig, walked: Trace) -> Iterator[Diagnostic]:
    from sim import _trace_kernel as k

    for name, field, kind, who, reason in _ELEMENTS:
        column = walked.found[:, getattr(k, name)]
        for index in np.flatnonzero(column >= 0):
            element = int(column[index])
            yield Diagnostic(int(index), field, reason.format(element, element), kind, who)
    if config.acc_depth > 1 << encoding.CHISEL.uop[1]:
        reason = "the RTL adds the WGT field of an ALU micro-op to its source index"
        yield from _each(walked.found[:, k.EXTRA_FIELD] >= 0, "uop", "alu-uop-field", CHISEL, reason)


_POP_FLAG = {
    (isa.QUEUE_LOAD, isa.QUEUE_COMPUTE): "pop_prev",
    (isa.QUEUE_COMPUTE, isa.QUEUE_LOAD): "pop_next",
    (isa.QUEUE_COMPUTE, isa.QUEUE_STORE): "pop_prev",
    (isa.QUEUE_STORE, isa.QUEUE_COMPUTE): "pop_next",
    (isa.QUEUE_LOAD, isa.QUEUE_STORE): "pop_prev",
    (isa.QUEUE_STORE, isa.QUEUE_LOAD): "pop_next",
}


def _race(race: Race, state: tokens.Flow) -> Diagnostic:
    pair = (int(state.engine[race.first]), int(state.engine[race.second]))
    # A STORE reads OUT in hardware and ACC in the functional simulator.
    who = {"ACC": FSIM, "OUT": CHISEL_HLS}.get(race.memory, IMPLEMENTATIONS)
    return Diagnostic(race.second, _POP_FLAG[pair], str(race), "race", who)


def _walk(program: Program, state: tokens.Flow) -> tuple[Trace, Ints | None]:
    """Trace the part that runs; execute as well where data decide (tensor shifts, micro-ops written by a STORE)."""
    table, config = program.table, program.config
    tensor = (table[:, isa.OPCODE] == isa.OP_ALU) & (table[:, isa.ALU_OP] == isa.ALU_SHR)
    tensor &= table[:, isa.USE_IMM] == 0
    constant = uops_are_constant(table, config, "chisel")
    uops, amounts = None, None
    if bool(tensor.any()) or not constant:
        # Only who reads the same fields can run it; its own implementation comes first.
        own = mode_of(program.semantics)
        for mode in sorted(MODES, key=lambda m: m != own) if encoding.agree(config) else (own,):
            from sim.semantics import execute

            try:
                ran = execute(program, mode)
            except SimError:
                # What stops an execution is among the findings already; the other mode may still run.
                continue
            uops, amounts = ran.uops, ran.amounts
            break
    if uops is None:
        uops = uops_of_image(table, config, Dram(program.memory), mode_of(program.semantics))
    return trace(table, config, state, uops, mode_of(program.semantics), loops="fsim"), amounts


def summary(found: Iterable[Diagnostic]) -> dict[str, int]:
    """How often each kind was found."""
    counts: dict[str, int] = {}
    for d in found:
        counts[d.kind] = counts.get(d.kind, 0) + 1
    return dict(sorted(counts.items()))
