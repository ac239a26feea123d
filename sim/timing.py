"""Cycles of a program on the RTL: the event-driven model, and what single instructions cost.

Exact for 64-bit buses with the RTL's simulated memory; wider buses follow the RTL's source but were never run.
The count is that of the hardware's cycle counter: cycle 0 is the first with ``launch`` set, and the result
is the cycle in which FINISH is busy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.config import VTAConfig
from sim.costs import (
    INSN_ADDRESS,
    MAX_BURSTS,
    PIPELINE_CYCLES,
    REQUEST_CYCLES,
    alu_cycles,
    busy_alone,
    fetch_cycles,
    fetch_cycles_floor,
    gemm_cycles,
    instruction_cycles,
    load_cycles,
    load_cycles_floor,
    load_words,
    parameters,
    read_waits,
    store_cycles,
)
from sim.errors import DeadlockError, LimitError, Waiter
from sim.isa import (
    ALU_NAMES,
    ALU_OP,
    MEM,
    MEM_UOP,
    MEMORY_NAMES,
    OP_ALU,
    OP_FINISH,
    OPCODE,
    POP_NEXT,
    POP_PREV,
    QUEUE_NAMES,
    Finish,
    Load,
    Table,
    bounds,
    check_table,
    kernel_table,
    table_of,
)
from sim.legality import totals, work
from sim.markup import listing

__all__ = [
    "CLIENT_NAMES", "INSN_ADDRESS", "MAX_BURSTS", "MAX_CYCLES", "PIPELINE_CYCLES", "REQUEST_CYCLES", "TOKEN_FROM", "Timing",
    "alu_cycles", "check_fields", "cycles", "fetch_cycles", "fetch_cycles_floor", "gemm_cycles", "instruction_cycles",
    "load_cycles", "load_cycles_floor", "load_words", "read_waits", "simulate", "store_cycles", "warm",
]  # fmt: skip

I64 = npt.NDArray[np.int64]

# Bursts that a recorded run keeps, 48 bytes each.
MAX_RECORDED_BURSTS = 10_000_000
MAX_CYCLES = 1 << 60

# Who reads memory; the first wins when several ask at once.
CLIENT_NAMES: tuple[str, ...] = ("fetch", "uop", "inp", "wgt", "acc")

# For each unit: the producer behind pop_prev and pop_next (None: the flag does nothing there).
TOKEN_FROM: tuple[tuple[str | None, str | None], ...] = (
    (None, "COMPUTE"),
    ("LOAD", "STORE"),
    ("COMPUTE", None),
)


@dataclass(frozen=True)
class Timing:
    """What happened, and when; all times in cycles, arrays indexed by instruction unless said otherwise.

    cycles: the cycle counter at FINISH.
    queue: unit of each instruction (QUEUE_LOAD, QUEUE_COMPUTE, QUEUE_STORE).
    visible, start, done: first cycle in which the unit sees it; the cycle in which it starts; its last busy
        cycle. -1: not before FINISH was done.
    idle: first cycle in which its unit was free for it.
    wait_fetch, wait_prev, wait_next: idle cycles of its unit before ``start``: for the instruction to arrive, for
        the token of pop_prev, and then for that of pop_next.
    alone: busy cycles that it needs with the memory to itself (a transfer of unknown end: 0).
    contention: busy cycles beyond ``alone``: reads that queued behind those of others.
    foreign: shape (n, 5), words of each other read client (fetch, uop, inp, wgt, acc) that the memory served
        between a load's first request and its last word.
    bursts: shape (m, 6), read bursts in issue order: client, instruction (for fetch: the first of the
        batch), first cycle in which it could go, issue, cycle in which the memory begins it, words.
    semantics: under which it ran.
    """

    config: VTAConfig
    table: Table
    cycles: int
    queue: I64
    visible: I64
    start: I64
    done: I64
    idle: I64
    wait_fetch: I64
    wait_prev: I64
    wait_next: I64
    alone: I64
    contention: I64
    foreign: I64
    bursts: I64
    semantics: str = "chisel"

    def _repr_html_(self) -> str:
        """A chart of what the units did, for notebooks."""
        from sim.timeline import gantt  # it draws what this makes

        return listing(gantt(self))


@dataclass(frozen=True)
class _Prepared:
    """A program as the kernel takes it."""

    table: Table
    what: I64
    par: I64
    kinds: I64
    busy: I64
    bursts: I64
    queue: I64


def _prepare(
    table: Table, config: VTAConfig, insn_address: int, semantics: str, most: int | None = None
) -> _Prepared:
    from sim import _timing_cost as cost

    table = kernel_table(table)
    par = parameters(config, insn_address, semantics)
    what: I64 = np.zeros((cost.W_COLUMNS, len(table)), dtype=np.int64)
    if not cost.classify(table, *bounds(config, semantics), par, what):
        check_table(table, config, semantics)
    busy, bursts = what[cost.W_BUSY], what[cost.W_BURSTS]
    most = MAX_BURSTS if most is None else most
    # Sums of floats: those of integers could wrap around.
    if bursts.sum(dtype=np.float64) > most:
        at = int(np.searchsorted(np.cumsum(bursts.astype(np.float64)), most, side="right"))
        reason = "the program reads too many bursts to simulate"
        raise LimitError(at, "bursts of y_size * x_size", int(bursts[at]), most, reason)
    if busy.sum(dtype=np.float64) > MAX_CYCLES:
        at = int(np.searchsorted(np.cumsum(busy.astype(np.float64)), float(MAX_CYCLES), side="right"))
        raise LimitError(at, "busy cycles", int(busy[at]), MAX_CYCLES, "the program runs too long to simulate")
    return _Prepared(table, what, par, what[cost.W_KIND], busy, bursts, what[cost.W_QUEUE])


def _run(prepared: _Prepared, cap: int, rows: int, burst_room: int) -> tuple[I64, I64, I64]:
    """The kernel's record of each instruction (``rows`` of them, or none), of so many bursts, and its results."""
    from sim import _timing_cost as cost
    from sim import _timing_kernel as kernel

    record: I64 = np.full((rows, kernel.R_COLUMNS), -1, dtype=np.int64)
    bursts: I64 = np.empty((burst_room, kernel.B_COLUMNS), dtype=np.int64)
    out: I64 = np.zeros(kernel.O_COUNT, dtype=np.int64)
    p = prepared
    slots = int(p.par[cost.P_OUTSTANDING])
    shapes = (2, len(p.table)), (kernel.U_ROWS, 4), (3, cost.L_COUNT), (1 << (slots - 1).bit_length(),)
    kernel.simulate(p.table, p.what, p.par, cap, record, bursts, out, *[np.zeros(s, dtype=np.int64) for s in shapes])
    if out[kernel.O_STATUS] == kernel.STATUS_DEADLOCK:
        raise _deadlock(prepared, out)
    return record, bursts, out


def cycles(
    table: Table,
    config: VTAConfig,
    insn_address: int = INSN_ADDRESS,
    *,
    cap: int | None = None,
    semantics: str = "chisel",
) -> int:
    """Return the cycles that a program takes, from launch to FINISH.

    table: decoded instructions, shape (n, NCOLS).
    insn_address: byte address of the first instruction; part of the result, as bursts split at addresses.
    cap: give up, and return -1, once the program runs longer than this many cycles.
    semantics: "chisel" and "portable" are the RTL; under "fsim", MUL and ACC_8BIT exist (timed like their
        kin), and empty loops and transfers do nothing.

    Raises FieldError for a value that does not fit its field, LimitError for a program that is too large, and
    DeadlockError for one that never reaches FINISH.
    """
    from sim import _timing_kernel as kernel

    prepared = _prepare(table, config, insn_address, semantics)
    _, _, out = _run(prepared, MAX_CYCLES * 2 if cap is None else cap, 0, 0)
    if out[kernel.O_STATUS] == kernel.STATUS_CAPPED:
        return -1
    return int(out[kernel.O_CYCLES])


def check_fields(table: Table, config: VTAConfig, semantics: str = "chisel") -> None:
    """``sim.isa.check_table`` in a fraction of its time, where the kernels are loaded."""
    from sim._timing_batch import fits

    if not fits(kernel_table(table), *bounds(config, semantics)):
        check_table(table, config, semantics)


def simulate(
    table: Table,
    config: VTAConfig,
    insn_address: int = INSN_ADDRESS,
    *,
    record: bool = True,
    semantics: str = "chisel",
) -> Timing:
    """Run a program and return its :class:`Timing`; arguments and errors as for :func:`cycles`.

    record: keep the read bursts, and say what each wait and each delayed load was for (else zeros).
    """
    from sim import _timing_kernel as kernel

    most = MAX_RECORDED_BURSTS if record else MAX_BURSTS
    prepared = _prepare(table, config, insn_address, semantics, most)
    n = len(prepared.table)
    room = int(prepared.bursts.sum()) + 2 * n + 2 if record else 0
    rec, bursts, out = _run(prepared, MAX_CYCLES * 2, n, room)
    bursts = bursts[: int(out[kernel.O_BURSTS])] if record else bursts[:0]
    visible, start, done = (rec[:, c].copy() for c in (kernel.R_VISIBLE, kernel.R_START, kernel.R_DONE))
    idle, prev, following = (rec[:, c].copy() for c in (kernel.R_IDLE, kernel.R_PREV, kernel.R_NEXT))
    ran = start >= 0
    base = np.maximum(idle, visible)
    after_prev = np.maximum(base, prev)
    wait_fetch = np.where(ran, np.maximum(base - idle, 0), 0)
    wait_prev = np.where(ran, after_prev - base, 0)
    wait_next = np.where(ran, np.maximum(after_prev, following) - after_prev, 0)
    alone = prepared.busy.copy()
    foreign: I64 = np.zeros((n, len(CLIENT_NAMES)), dtype=np.int64)
    contention: I64 = np.zeros(n, dtype=np.int64)
    if record:
        _explain_loads(prepared, bursts, alone, foreign)
        finished = ran & (done >= 0) & (prepared.bursts > 0)
        contention = np.where(finished, np.maximum(done - start - alone, 0), 0)
    return Timing(
        config=config, table=prepared.table, cycles=int(out[kernel.O_CYCLES]), queue=prepared.queue, visible=visible,
        start=start, done=done, idle=idle, wait_fetch=wait_fetch, wait_prev=wait_prev, wait_next=wait_next,
        alone=alone, contention=contention, foreign=foreign, bursts=bursts,
        semantics=semantics,
    )  # fmt: skip


def _explain_loads(prepared: _Prepared, bursts: I64, alone: I64, foreign: I64) -> None:
    from sim import _timing_kernel as kernel

    loads = np.flatnonzero(prepared.bursts > 0)
    alone[loads] = busy_alone(prepared.table[loads], prepared.par)
    if not len(bursts):
        return
    client, insn = bursts[:, kernel.B_CLIENT], bursts[:, kernel.B_INSN]
    ends = bursts[:, kernel.B_SERVE] + bursts[:, kernel.B_WORDS]
    served: I64 = np.zeros((len(bursts) + 1, len(CLIENT_NAMES)), dtype=np.int64)
    for c in range(len(CLIENT_NAMES)):
        served[1:, c] = np.cumsum(np.where(client == c, bursts[:, kernel.B_WORDS], 0))
    own = np.flatnonzero(client > 0)
    first_insn, first_at = np.unique(insn[own], return_index=True)
    last_at = len(own) - 1 - np.unique(insn[own][::-1], return_index=True)[1]
    first, last = own[first_at], own[last_at]
    # Service is in issue order, so what is still ahead of the first request is a contiguous run of bursts.
    ahead = np.searchsorted(ends, bursts[first, kernel.B_ELIGIBLE], side="left")
    between = served[last + 1] - served[np.minimum(ahead, first)]
    between[np.arange(len(first)), client[first]] = 0
    foreign[first_insn] = between


def _deadlock(prepared: _Prepared, out: I64) -> DeadlockError:
    """Turn the kernel's final state into a report of who waits for what."""
    from sim import _timing_cost as cost
    from sim import _timing_kernel as kernel

    table, n = prepared.table, len(prepared.table)
    waiters: list[Waiter] = []
    following = int(out[kernel.O_FETCH_NEXT])
    since = int(out[kernel.O_FETCH_SINCE])
    if following < n and since < cost.INFINITY:
        if prepared.kinds[following] == cost.K_UNKNOWN:
            what = f"an instruction that it can decode ({_describe(table[following])} is unknown to it)"
        else:
            queue = QUEUE_NAMES[int(prepared.queue[following])]
            what = f"room in the {queue} queue ({int(prepared.par[cost.P_QUEUE])} entries)"
        waiters.append(Waiter("FETCH", following, what, since))
    tokens = [int(out[kernel.O_TOKENS + c]) for c in range(4)]
    for queue_index, unit in enumerate(QUEUE_NAMES):
        head = int(out[kernel.O_HEAD + queue_index])
        since = int(out[kernel.O_SINCE + queue_index])
        if head >= following:
            continue
        if out[kernel.O_BUSY + queue_index]:
            what = "its own end: y_size = 0 never completes"
        else:
            what = " and ".join(_missing(queue_index, table[head], tokens))
        waiters.append(Waiter(unit, head, what, since))
    if not (table[:following, OPCODE] == OP_FINISH).any() and following == n:
        waiters.append(Waiter("COMPUTE", None, "a FINISH, which the program does not have", int(out[kernel.O_NOW])))
    return DeadlockError(int(out[kernel.O_NOW]), tuple(waiters))


def _missing(queue: int, row: I64, tokens: list[int]) -> list[str]:
    from sim._timing_cost import COMPUTE_TO_LOAD, COMPUTE_TO_STORE, LOAD_TO_COMPUTE, STORE_TO_COMPUTE

    channels = ((None, COMPUTE_TO_LOAD), (LOAD_TO_COMPUTE, STORE_TO_COMPUTE), (COMPUTE_TO_STORE, None))[queue]
    missing = []
    for column, name, channel, source in zip(
        (POP_PREV, POP_NEXT), ("pop_prev", "pop_next"), channels, TOKEN_FROM[queue], strict=True
    ):
        if channel is not None and row[column] and tokens[channel] == 0:
            missing.append(f"a token from {source} ({name})")
    return missing


def _describe(row: I64) -> str:
    op = int(row[OPCODE])
    if op == OP_ALU:
        return f"ALU {ALU_NAMES[int(row[ALU_OP])]}"
    return f"LOAD {MEMORY_NAMES[int(row[MEM])]}"


def warm() -> None:
    """Compile the kernels, or load them from numba's cache."""
    one_load = Load(mem=MEM_UOP, y_size=1, x_size=1)
    config = VTAConfig()
    simulate(table_of([one_load, Finish()]), config)
    check_fields(table_of([one_load]), config)
    work(table_of([one_load]), config, "chisel")
    totals(table_of([one_load]), "chisel")
    load_words(MEM_UOP, 0, 1, 1, 1, config=config)
