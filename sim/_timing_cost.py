"""What one instruction costs by itself: kernels shared by the event model and the occupancy functions.

Cycle formulas: the RTL's ``TensorGemm``, ``TensorAlu``, ``TensorStore*`` and ``GenVMECmd*`` modules, measured on
the generated design.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim._kernels import ZERO, lean, refresh
from sim.config import ITER_BITS
from sim.costs import PIPELINE_CYCLES
from sim.isa import (
    ALU_MUL,
    ALU_OP,
    DRAM,
    ITER_IN,
    ITER_OUT,
    MEM,
    MEM_ACC,
    MEM_ACC_8BIT,
    MEM_INP,
    MEM_OUT,
    MEM_UOP,
    MEM_WGT,
    OP_ALU,
    OP_FINISH,
    OP_GEMM,
    OP_LOAD,
    OP_STORE,
    OPCODE,
    POP_NEXT,
    POP_PREV,
    PUSH_NEXT,
    PUSH_PREV,
    QUEUE_COMPUTE,
    QUEUE_LOAD,
    QUEUE_STORE,
    UOP_BGN,
    UOP_END,
    USE_IMM,
    X_PAD_0,
    X_PAD_1,
    X_SIZE,
    X_STRIDE,
    Y_PAD_0,
    Y_PAD_1,
    Y_SIZE,
)

refresh(__file__, "config", "costs", "isa")

I64 = npt.NDArray[np.int64]

# Machine parameters of the kernels: one int64 vector.
P_BUS = 0  # bytes of a bus word, a power of two
P_BURST = 1  # bytes of the longest burst, a power of two
P_DELAY = 2
P_OUTSTANDING = 3
P_QUEUE = 4
P_STORE_ROW = 5  # bus words of one batch row of an OUT element (0: the store is the wide one)
P_WIDE_FETCH = 6
P_BATCH = 7  # instructions per fetch batch
P_INSN = 8  # byte address of the first instruction
P_FSIM = 9  # 1: MUL and ACC_8BIT exist, and empty loops do nothing
P_ELEM = 10  # element bytes in DRAM, by memory type (6 of them)
P_WORDS = 16  # words of the longest burst
P_COUNT = 17

# What a row of the table is to the sequencer.
K_SYNC = 0  # tokens only
K_CLOSED = 1  # busy for a number of cycles known at the start
K_LOAD = 2  # reads memory
K_HANG = 3  # starts and never ends
K_UNKNOWN = 4  # fetch cannot decode it and stops
K_FINISH = 5

# What the event model asks for again and again, one row of int64 each.
W_KIND = 0
W_BUSY = 1  # busy cycles if known beforehand (else 0)
W_BURSTS = 2  # a bound on the read bursts
W_QUEUE = 3
W_POPS = 4  # channels, as bits, that a token is taken from, and given to
W_PUSHES = 5
W_COLUMNS = 6

# Bits of a loop counter: an empty range wraps around to all of them.
LOOP_WRAP = 1 << ITER_BITS
# Row counter of the store: y_size = 0 wraps likewise.
ROW_WRAP = 1 << 16
INFINITY = 1 << 62
# Cycles from a command to data: the client's register, then one cycle into the memory's queue.
COMMAND_TO_QUEUE = 1


@lean
def loop_trips(value: int, fsim: int) -> int:
    """Iterations of a loop whose bound is compared with bound - 1 in 14 bits."""
    if fsim == 1:
        return max(value, 0)
    wrapped = value & (LOOP_WRAP - 1)
    return wrapped if wrapped != 0 else LOOP_WRAP


@lean
def uop_count(row: I64, fsim: int) -> int:
    """Micro-ops that a GEMM or ALU row issues."""
    span = loop_trips(row[UOP_END] - row[UOP_BGN], fsim)
    return span * loop_trips(row[ITER_OUT], fsim) * loop_trips(row[ITER_IN], fsim)


@lean
def _store_row(start: int, size: int, par: I64) -> int:
    """Cycles of one row of a STORE: ``size`` bytes at byte address ``start``, burst after burst."""
    bus, burst, row_words = par[P_BUS], par[P_BURST], par[P_STORE_ROW]
    end = start + size
    if row_words == 0:
        start -= start % bus
        end += -end % bus
    cycles = 0
    first = min(end - start, burst - start % burst)
    full = (end - start - first) // burst
    rest = end - start - first - full * burst
    for part, times in ((first, 1), (burst, full), (rest, 1)):
        if part > 0:
            words = part // bus
            # Command, two cycles of address, the words, the response; the narrow store re-reads OUT between rows.
            cost = 4 + words
            if row_words > 0:
                cost += (words - 1) // row_words
            cycles += times * cost
    return cycles


@lean
def store_busy(dram: int, y_size: int, x_size: int, x_stride: int, par: I64) -> int:
    """Busy cycles of a STORE (1 for x_size = 0, -1 for one that never ends)."""
    if x_size == 0:
        return 1
    if y_size == 0:
        if par[P_FSIM] == 1:
            return 1
        if par[P_STORE_ROW] == 0:
            return -1
        y_size = ROW_WRAP
    elem, burst = par[P_ELEM + MEM_OUT], par[P_BURST]
    stride = x_stride * elem
    # The split of a row depends on where it starts within a burst, which repeats.
    step = stride % burst
    period = 1
    while (period * step) % burst != 0:
        period += 1
    cycles = 0
    for r in range(min(period, y_size)):
        times = (y_size - r + period - 1) // period
        cycles += times * _store_row(dram * elem + r * stride, x_size * elem, par)
    return cycles


@lean
def kind_of(row: I64, par: I64) -> int:
    """Classify a row (one of the K_ constants)."""
    op, mem = row[OPCODE], row[MEM]
    if op == OP_FINISH:
        return K_FINISH
    if op == OP_GEMM:
        return K_CLOSED
    if op == OP_ALU:
        known = row[ALU_OP] < ALU_MUL or (row[ALU_OP] == ALU_MUL and par[P_FSIM] == 1)
        return K_CLOSED if known else K_UNKNOWN
    if op == OP_LOAD:
        if mem > MEM_ACC and not (mem == MEM_ACC_8BIT and par[P_FSIM] == 1):
            return K_UNKNOWN
        if row[X_SIZE] == 0:
            return K_SYNC
        if row[Y_SIZE] == 0 and par[P_FSIM] == 0:
            return K_HANG
        return K_LOAD
    if row[X_SIZE] == 0:
        return K_SYNC
    if row[Y_SIZE] == 0 and par[P_STORE_ROW] == 0 and par[P_FSIM] == 0:
        return K_HANG
    return K_CLOSED


@lean
def closed_busy(row: I64, par: I64) -> int:
    """Busy cycles of a row of kind K_SYNC, K_CLOSED or K_FINISH."""
    op = row[OPCODE]
    if op == OP_GEMM:
        return uop_count(row, par[P_FSIM]) + PIPELINE_CYCLES
    if op == OP_ALU:
        per_uop = 1 if row[USE_IMM] != 0 else 2
        return per_uop * uop_count(row, par[P_FSIM]) + PIPELINE_CYCLES
    if op in (OP_LOAD, OP_FINISH):
        return 1
    return store_busy(row[DRAM], row[Y_SIZE], row[X_SIZE], row[X_STRIDE], par)


# State of a loader: one int64 vector per engine.
L_ADDR = 0  # byte address of the next burst
L_ROW_ADDR = 1  # byte address of the current row, as the instruction gives it
L_STRIDE = 2  # bytes
L_ROW_BYTES = 3
L_LEFT = 4  # bytes of the current row not yet requested
L_ROWS = 5  # rows not yet requested, the current one included
L_WIDE = 6
L_LAG = 7  # cycles from a beat on the bus to its write into SRAM
L_PAD_AT = 8  # cycle at which the padding engine does its next write
L_PAD_STAGE = 9  # 0 top, 1 sides, 2 bottom, 3 finished
L_PAD_TOP = 10  # writes of each stage not yet done
L_PAD_SIDE = 11
L_PAD_BOTTOM = 12
L_SIDE_COUNTS = 13  # 1: the side stage only counts rows, unhindered by data
L_DATA_END = 14
L_COUNT = 15


@lean
def _enter_row(ld: I64, par: I64) -> None:
    """Point the loader at the first burst of its current row."""
    start = ld[L_ROW_ADDR]
    end = start + ld[L_ROW_BYTES]
    if ld[L_WIDE] == 1:
        start -= start & (par[P_BUS] - 1)
        end += -end & (par[P_BUS] - 1)
    ld[L_ADDR] = start
    ld[L_LEFT] = end - start


@lean
def burst_words(ld: I64, par: I64) -> int:
    """Bus words of the burst that the loader asks for next."""
    burst = par[P_BURST]
    if ld[L_LEFT] >= burst and ld[L_ADDR] & (burst - 1) == 0:
        longest: int = par[P_WORDS]
        return longest
    room = burst - (ld[L_ADDR] & (burst - 1))
    words: int = min(ld[L_LEFT], room) // par[P_BUS]
    return words


@lean
def load_begin(ld: I64, start: int, row: I64, par: I64) -> int:
    """Set up a loader that starts in cycle ``start``; return when its first command may be issued."""
    elem = par[P_ELEM + row[MEM]]
    wide = 1 if elem <= par[P_BUS] else 0
    width = row[X_PAD_0] + row[X_SIZE] + row[X_PAD_1]
    sides = row[X_PAD_0] + row[X_PAD_1]
    ld[L_ROW_ADDR] = row[DRAM] * elem
    ld[L_STRIDE] = row[X_STRIDE] * elem
    ld[L_ROW_BYTES] = row[X_SIZE] * elem
    ld[L_ROWS] = row[Y_SIZE]
    ld[L_WIDE] = wide
    ld[L_LAG] = 2 if wide == 1 else 3
    # The narrow loader registers start and data once more.
    ld[L_PAD_AT] = start + (1 if wide == 1 else 2)
    ld[L_PAD_STAGE] = 0
    ld[L_PAD_TOP] = row[Y_PAD_0] * width
    ld[L_PAD_BOTTOM] = row[Y_PAD_1] * width
    ld[L_SIDE_COUNTS] = 1 if sides == 0 else 0
    if sides > 0:
        ld[L_PAD_SIDE] = row[Y_SIZE] * sides
    else:
        ld[L_PAD_SIDE] = row[Y_SIZE] if row[Y_PAD_1] > 0 else 0
    if ld[L_PAD_TOP] + ld[L_PAD_SIDE] + ld[L_PAD_BOTTOM] == 0:
        ld[L_PAD_STAGE] = 3
        ld[L_PAD_AT] = 0
    ld[L_DATA_END] = 0
    _enter_row(ld, par)
    first: int = start + 2 + row[Y_PAD_0]
    return first


@lean
def _pad_until(ld: I64, limit: int) -> None:
    """Let the padding engine work up to cycle ``limit``, in which data arrives."""
    while ld[L_PAD_STAGE] < 3:
        stage = L_PAD_TOP + ld[L_PAD_STAGE]
        left = ld[stage]
        if ld[L_PAD_STAGE] == 1 and ld[L_SIDE_COUNTS] == 1:
            ld[L_PAD_AT] += left
        else:
            done = min(left, max(limit - ld[L_PAD_AT], 0))
            ld[L_PAD_AT] += done
            ld[stage] = left - done
            if done < left:
                return
        ld[stage] = 0
        ld[L_PAD_STAGE] += 1


@lean
def _data_window(ld: I64, words: int, serve: int) -> None:
    """Account for ``words`` arriving one per cycle, served from cycle ``serve``; padding waits meanwhile."""
    first = serve + ld[L_LAG]
    if ld[L_PAD_STAGE] < 3:
        _pad_until(ld, first)
        if ld[L_PAD_STAGE] < 3 and first <= ld[L_PAD_AT] < first + words:
            ld[L_PAD_AT] = first + words
    ld[L_DATA_END] = first + words


@lean
def load_served(ld: I64, words: int, serve: int, par: I64) -> int:
    """Account for the burst just issued, served from cycle ``serve``; return 1 if another follows."""
    _data_window(ld, words, serve)
    taken = words * par[P_BUS]
    ld[L_ADDR] += taken
    ld[L_LEFT] -= taken
    if ld[L_LEFT] > 0:
        return 1
    ld[L_ROWS] -= 1
    if ld[L_ROWS] == 0:
        return 0
    ld[L_ROW_ADDR] += ld[L_STRIDE]
    _enter_row(ld, par)
    return 1


@lean
def full_bursts(ld: I64, par: I64) -> int:
    """Return how many bursts of full length are sure to come next, one after the other, before the load's last."""
    burst = par[P_BURST]
    if ld[L_ADDR] & (burst - 1) != 0:
        return 0
    left = ld[L_LEFT]
    if (ld[L_ROW_ADDR] | ld[L_STRIDE] | ld[L_ROW_BYTES]) & (burst - 1) == 0:
        left += (ld[L_ROWS] - 1) * ld[L_ROW_BYTES]
    count: int = (left - 1) // burst
    return count


@lean
def load_skipped(ld: I64, count: int, serve: int, par: I64) -> None:
    """Account for so many of ``full_bursts``, served one right after the other from cycle ``serve``."""
    taken = count * par[P_BURST]
    _data_window(ld, taken // par[P_BUS], serve)
    if taken < ld[L_LEFT]:
        ld[L_ADDR] += taken
        ld[L_LEFT] -= taken
        return
    taken -= ld[L_LEFT]
    rows = 1 + taken // ld[L_ROW_BYTES]
    taken -= (rows - 1) * ld[L_ROW_BYTES]
    ld[L_ROWS] -= rows
    ld[L_ROW_ADDR] += rows * ld[L_STRIDE]
    ld[L_ADDR] = ld[L_ROW_ADDR] + taken
    ld[L_LEFT] = ld[L_ROW_BYTES] - taken


@lean
def load_done(ld: I64) -> int:
    """Return the done cycle of a loader that has no burst left to ask for."""
    _pad_until(ld, ZERO + INFINITY)
    done: int = max(ld[L_DATA_END], ld[L_PAD_AT])
    return done


@lean
def serve_time(issue: int, serve: int, words: int, delay: int) -> int:
    """Return when the memory serves a burst issued in ``issue``, after one of ``words`` served at ``serve``."""
    if issue <= serve:
        return serve + words
    return max(issue + COMMAND_TO_QUEUE + delay, serve + words)


@lean
def _contiguous_words(ld: I64, par: I64) -> int:
    """Words of a load whose data, alone on the memory, arrives without a gap; -1 if that is not certain.

    A command can follow every two cycles, and one more after the last word of a burst. So bursts of two words or
    more never let the memory's queue run empty; one of a single word loses up to two of the ``read_delay`` - 1
    cycles that the first burst gives as a lead. The narrow loader has none such, a row of the wide one two at most.
    """
    short = 2 * ld[L_ROWS] if ld[L_WIDE] == 1 else 0
    if par[P_DELAY] < 2 * short + 2 or par[P_OUTSTANDING] < short + 4:
        return -1
    if short == 0:
        words: int = ld[L_ROWS] * (ld[L_ROW_BYTES] // par[P_BUS])
        return words
    words = 0
    for r in range(ld[L_ROWS]):
        start = ld[L_ROW_ADDR] + r * ld[L_STRIDE]
        words += (start % par[P_BUS] + ld[L_ROW_BYTES] + par[P_BUS] - 1) // par[P_BUS]
    return words


@lean
def load_alone(ld: I64, ring: I64, row: I64, par: I64) -> int:
    """Busy cycles of a LOAD of kind K_LOAD on an otherwise idle memory; ``ring`` has P_OUTSTANDING entries."""
    eligible = load_begin(ld, ZERO, row, par)
    if ld[L_ROWS] == 0:
        return max(load_done(ld), 1)
    contiguous = _contiguous_words(ld, par)
    if contiguous > 0:
        _data_window(ld, contiguous, eligible + COMMAND_TO_QUEUE + par[P_DELAY])
        return load_done(ld)
    slots = par[P_OUTSTANDING]
    head = 0  # oldest burst still counted as outstanding
    tail = 0
    serve = words = ZERO - 1
    while True:
        at = eligible
        while tail > head:
            last = ring[head % slots]
            if last < at:
                head += 1
            elif last == at or tail - head >= slots:
                at = last + 1
                head += 1
            else:
                break
        serve = serve_time(at, serve, words, par[P_DELAY]) if words > 0 else at + COMMAND_TO_QUEUE + par[P_DELAY]
        words = burst_words(ld, par)
        ring[tail % slots] = serve + words
        tail += 1
        if load_served(ld, words, serve, par) == 0:
            return load_done(ld)
        eligible = at + 2


@lean
def burst_bound(row: I64, par: I64) -> int:
    """An upper bound on the bursts of a LOAD."""
    elem = par[P_ELEM + row[MEM]]
    bound: int = row[Y_SIZE] * ((row[X_SIZE] * elem + par[P_BURST] - 1) // par[P_BURST] + 1)
    return bound


# Dependence channels, named by producer and consumer.
LOAD_TO_COMPUTE = 0
COMPUTE_TO_LOAD = 1
COMPUTE_TO_STORE = 2
STORE_TO_COMPUTE = 3


@lean
def channels(queue: int, prev: int, following: int, pops: int) -> int:
    """Return the channels, as bits, that an instruction of a queue takes tokens from, or gives them to, by its two flags."""
    if queue == QUEUE_LOAD:
        # pop_prev and push_prev do nothing here, pop_next and push_next nothing in a store.
        return following << (COMPUTE_TO_LOAD if pops else LOAD_TO_COMPUTE)
    if queue == QUEUE_STORE:
        return prev << (COMPUTE_TO_STORE if pops else STORE_TO_COMPUTE)
    if pops:
        return prev << LOAD_TO_COMPUTE | following << STORE_TO_COMPUTE
    return prev << COMPUTE_TO_LOAD | following << COMPUTE_TO_STORE


@lean
def row_fits(row: I64, low: I64, high: I64) -> bool:
    """Whether every value of a row is inside the bounds of its opcode's column."""
    op = row[OPCODE]
    if op < 0 or op >= len(low):
        return False
    outside = 0
    for c in range(len(row)):
        outside |= (row[c] < low[op, c]) | (row[c] > high[op, c])
    return outside == 0


@lean
def classify(table: I64, low: I64, high: I64, par: I64, what: I64) -> bool:
    """Fill ``what`` (W_COLUMNS, n): per row of the table what the event model asks for again and again.

    Return False, and stop, at a value outside the bounds of its opcode's column.
    """
    for i in range(len(table)):
        row = table[i]
        op = row[OPCODE]
        if not row_fits(row, low, high):
            return False
        queue = QUEUE_COMPUTE
        if op == OP_STORE:
            queue = QUEUE_STORE
        elif op == OP_LOAD and (row[MEM] == MEM_INP or row[MEM] == MEM_WGT):
            queue = QUEUE_LOAD
        kind = kind_of(row, par)
        what[W_KIND, i] = kind
        what[W_QUEUE, i] = queue
        what[W_POPS, i] = channels(queue, row[POP_PREV], row[POP_NEXT], ZERO + 1)
        what[W_PUSHES, i] = channels(queue, row[PUSH_PREV], row[PUSH_NEXT], ZERO)
        what[W_BUSY, i] = 0
        what[W_BURSTS, i] = 0
        if kind == K_LOAD:
            what[W_BURSTS, i] = burst_bound(row, par)
        elif kind in (K_SYNC, K_CLOSED, K_FINISH):
            what[W_BUSY, i] = closed_busy(row, par)
    return True


@lean
def client_of(mem: int) -> int:
    """Return the read client that serves a memory type."""
    if mem == MEM_UOP:
        return 1
    if mem in (MEM_ACC, MEM_ACC_8BIT):
        return 4
    return 2 if mem == MEM_INP else 3
