"""What single instructions cost: busy cycles (E), a unit being taken for E + 1; vectorised.

These are exact for an instruction that has the memory to itself; the ``_floor`` variants hold whatever else runs, and
are what a proven bound may stand on. Sizes, strides and addresses are in elements of the memory, as in the
instruction. Arguments broadcast like NumPy's.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sim import isa
from sim.config import SEMANTICS, VTAConfig
from sim.errors import ConfigError, LimitError
from sim.isa import Table

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

INSN_ADDRESS = 0x10000
# Busy cycles of a GEMM or ALU instruction beyond its micro-ops.
PIPELINE_CYCLES = 6
# What needs more is refused before it is run: time and memory stay bounded.
MAX_BURSTS = 50_000_000
# Cycles from a unit's start to the first issue of its loads, before top padding; from issue to the memory's queue.
_FIRST_ISSUE = 2
_TO_QUEUE = 1
# Cycles from one request of a unit that loads to its next, at least.
REQUEST_CYCLES = 2
# Cycles from the last word of a burst to the first one of what was kept back until then, beyond the memory's delay.
_AGAIN = 2


@lru_cache(maxsize=256)
def parameters(config: VTAConfig, insn_address: int, semantics: str) -> I64:
    """Return the machine as the kernels take it; ConfigError for an address that fetch cannot use."""
    from sim import _timing_cost as cost

    if semantics not in SEMANTICS:
        raise ConfigError("semantics", f"{semantics!r} is none of {', '.join(SEMANTICS)}")
    if insn_address < 0 or insn_address % 8 or insn_address >= 1 << 32:
        raise ConfigError("insn_address", f"{insn_address:#x} is not a multiple of 8 below 2^32")
    wide_bus = config.bus_bytes > 8
    row_bytes = config.out_elem_bytes // config.batch
    par: I64 = np.zeros(cost.P_COUNT, dtype=np.int64)
    par[cost.P_BUS] = config.bus_bytes
    par[cost.P_BURST] = config.burst_bytes
    par[cost.P_WORDS] = config.burst_beats
    par[cost.P_DELAY] = config.read_delay
    par[cost.P_OUTSTANDING] = config.outstanding_reads
    par[cost.P_QUEUE] = config.queue_depth
    narrow_store = config.out_elem_bytes > config.bus_bytes
    par[cost.P_STORE_ROW] = max(1, row_bytes // config.bus_bytes) if narrow_store else 0
    par[cost.P_WIDE_FETCH] = int(wide_bus)
    par[cost.P_BATCH] = fetch_batch(config)
    par[cost.P_INSN] = insn_address
    par[cost.P_FSIM] = int(semantics == "fsim")
    sizes = isa.element_bytes(config)
    par[cost.P_ELEM : cost.P_ELEM + len(sizes)] = sizes
    par.setflags(write=False)
    return par


def fetch_batch(config: VTAConfig) -> int:
    """Return how many instructions fetch reads at once: one burst, or its buffer on a wide bus."""
    return config.burst_beats if config.bus_bytes > 8 else config.burst_beats // 2


def busy_alone(rows: Table, par: I64) -> I64:
    """Return the busy cycles of rows under machine parameters; -1 for one that never ends.

    Raises LimitError, naming the row, for loads of more than MAX_BURSTS bursts that have to be stepped through.
    """
    from sim import _timing_cost as cost
    from sim._timing_batch import busy_of

    # One pass per burst where the closed form does not hold; a single row can ask for billions.
    size = np.array([par[cost.P_ELEM + m] for m in range(6)], dtype=np.float64)[rows[:, isa.MEM] % 6]
    bursts = rows[:, isa.Y_SIZE] * (rows[:, isa.X_SIZE] * size / par[cost.P_BURST] + 1)
    stepped = (rows[:, isa.OPCODE] == isa.OP_LOAD) & (size <= par[cost.P_BUS])
    if par[cost.P_DELAY] < 2 or par[cost.P_OUTSTANDING] < 4:
        stepped = rows[:, isa.OPCODE] == isa.OP_LOAD
    total = np.cumsum(np.where(stepped, bursts, 0.0))
    if len(rows) and total[-1] > MAX_BURSTS:
        at = int(np.searchsorted(total, MAX_BURSTS, side="right"))
        raise LimitError(at, "y_size * x_size", int(bursts[at]), MAX_BURSTS, "too many bursts to simulate")
    out: I64 = np.zeros(len(rows), dtype=np.int64)
    loader, ring = (np.zeros(k, dtype=np.int64) for k in (cost.L_COUNT, int(par[cost.P_OUTSTANDING])))
    busy_of(np.array(rows, dtype=np.int64, order="C"), par, loader, ring, out)
    return out


def _rows(opcode: int, columns: dict[int, npt.ArrayLike]) -> tuple[Table, tuple[int, ...]]:
    arrays = np.broadcast_arrays(*(np.asarray(v, dtype=np.int64) for v in columns.values()))
    shape = arrays[0].shape
    rows: Table = np.zeros((arrays[0].size, isa.NCOLS), dtype=np.int64)
    rows[:, isa.OPCODE] = opcode
    for column, values in zip(columns, arrays, strict=True):
        rows[:, column] = values.reshape(-1)
    return rows, shape


def instruction_cycles(table: Table, config: VTAConfig, *, semantics: str = "chisel") -> I64:
    """Return the busy cycles of each row with memory and tokens at once; -1 for one that never ends."""
    return busy_alone(isa.as_table(table), parameters(config, INSN_ADDRESS, semantics))


def load_cycles(
    mem: npt.ArrayLike,
    dram_base: npt.ArrayLike,
    y_size: npt.ArrayLike,
    x_size: npt.ArrayLike,
    x_stride: npt.ArrayLike,
    y_pad_0: npt.ArrayLike = 0,
    y_pad_1: npt.ArrayLike = 0,
    x_pad_0: npt.ArrayLike = 0,
    x_pad_1: npt.ArrayLike = 0,
    *,
    config: VTAConfig,
) -> I64:
    """Return the busy cycles of LOADs on an otherwise idle memory.

    Under traffic a load usually takes longer; it can also take up to ``read_delay`` cycles less, when others keep
    the memory awake: :func:`load_cycles_floor` is the bound.
    """
    columns = {
        isa.MEM: mem, isa.DRAM: dram_base, isa.Y_SIZE: y_size, isa.X_SIZE: x_size, isa.X_STRIDE: x_stride,
        isa.Y_PAD_0: y_pad_0, isa.Y_PAD_1: y_pad_1, isa.X_PAD_0: x_pad_0, isa.X_PAD_1: x_pad_1,
    }  # fmt: skip
    rows, shape = _rows(isa.OP_LOAD, columns)
    return busy_alone(rows, parameters(config, INSN_ADDRESS, "chisel")).reshape(shape)


def load_words(
    mem: npt.ArrayLike,
    dram_base: npt.ArrayLike,
    y_size: npt.ArrayLike,
    x_size: npt.ArrayLike,
    x_stride: npt.ArrayLike,
    *,
    config: VTAConfig,
) -> I64:
    """Return the bus words that LOADs read: as many cycles of the read bus, whoever shares it."""
    from sim._timing_batch import words_of

    columns = {isa.MEM: mem, isa.DRAM: dram_base, isa.Y_SIZE: y_size, isa.X_SIZE: x_size, isa.X_STRIDE: x_stride}
    rows, shape = _rows(isa.OP_LOAD, columns)
    out: I64 = np.zeros(len(rows), dtype=np.int64)
    words_of(rows, parameters(config, INSN_ADDRESS, "chisel"), out)
    return out.reshape(shape)


def load_cycles_floor(
    mem: npt.ArrayLike,
    dram_base: npt.ArrayLike,
    y_size: npt.ArrayLike,
    x_size: npt.ArrayLike,
    x_stride: npt.ArrayLike,
    y_pad_0: npt.ArrayLike = 0,
    *,
    config: VTAConfig,
) -> I64:
    """Return busy cycles that no such LOAD can beat, whatever else uses the memory.

    The first burst is issued in cycle 2 + y_pad_0 at the earliest and served one cycle later if others keep the
    memory awake; words come one per cycle; the wide loader is done two cycles after the last, the narrow one three.
    """
    words = load_words(mem, dram_base, y_size, x_size, x_stride, config=config)
    sizes = isa.element_bytes(config)
    lags: I64 = np.array([2 if sizes[m] <= config.bus_bytes else 3 for m in range(len(sizes))], dtype=np.int64)
    lag = lags[np.asarray(mem, dtype=np.int64)]
    floor: I64 = _FIRST_ISSUE + np.asarray(y_pad_0, dtype=np.int64) + _TO_QUEUE + words + lag
    return np.where(words > 0, floor, 1)


def read_waits(bursts: npt.ArrayLike, words: npt.ArrayLike, config: VTAConfig) -> F64:
    """Return the cycles between the bursts of one load in which the memory sends nothing; exact where all are of one length.

    What is asked for only when nothing is left in the memory's queue waits for the memory like the first burst. With one read
    in flight at once that is every burst, with two every other one; three keep something in the queue.

    Args:
        bursts: of the load; on average, where it is some of several.
        words: of all of them.
        config: the machine.
    """
    count, total = np.maximum(np.asarray(bursts, dtype=np.float64), 1.0), np.asarray(words, dtype=np.float64)
    most, again = config.outstanding_reads, config.read_delay + _AGAIN
    if most > 2:
        return np.zeros(np.broadcast_shapes(count.shape, total.shape))
    # While one of two is sent the other one waits already.
    each = np.maximum(again - (most - 1) * total / count, 0.0)
    low = np.floor(count)
    before, behind = (np.floor((n - 1) / most) for n in (low, low + 1))
    return np.asarray((before + (count - low) * (behind - before)) * each, dtype=np.float64)


def store_cycles(
    dram_base: npt.ArrayLike,
    y_size: npt.ArrayLike,
    x_size: npt.ArrayLike,
    x_stride: npt.ArrayLike,
    *,
    config: VTAConfig,
) -> I64:
    """Return the busy cycles of STOREs, which nothing delays."""
    columns = {isa.DRAM: dram_base, isa.Y_SIZE: y_size, isa.X_SIZE: x_size, isa.X_STRIDE: x_stride}
    rows, shape = _rows(isa.OP_STORE, columns)
    return busy_alone(rows, parameters(config, INSN_ADDRESS, "chisel")).reshape(shape)


def gemm_cycles(uops: npt.ArrayLike, iter_out: npt.ArrayLike, iter_in: npt.ArrayLike) -> I64:
    """Return the busy cycles of GEMMs (reset included) of positive loop bounds."""
    steps: I64 = np.asarray(uops, dtype=np.int64) * np.asarray(iter_out) * np.asarray(iter_in)
    return steps + 6


def alu_cycles(
    uops: npt.ArrayLike, iter_out: npt.ArrayLike, iter_in: npt.ArrayLike, use_imm: npt.ArrayLike
) -> I64:
    """Return the busy cycles of ALU operations of positive loop bounds; without immediate a step takes two."""
    steps: I64 = np.asarray(uops, dtype=np.int64) * np.asarray(iter_out) * np.asarray(iter_in)
    return np.where(np.asarray(use_imm) != 0, steps, 2 * steps) + 6


def fetch_cycles(count: npt.ArrayLike, config: VTAConfig) -> I64:
    """Return the first cycle in which the last of ``count`` instructions can start, with fetch undisturbed.

    Nobody else reads, no queue is full, and instructions begin at a multiple of the longest burst.
    """
    return _fetch(count, config, config.read_delay)


def fetch_cycles_floor(count: npt.ArrayLike, config: VTAConfig) -> I64:
    """Return a cycle before which the last of ``count`` instructions cannot start, whatever else runs.

    Others may keep the memory awake for every batch but the first.
    """
    return _fetch(count, config, 0)


def _fetch(count: npt.ArrayLike, config: VTAConfig, later_delay: int) -> I64:
    number = np.asarray(count, dtype=np.int64)
    batch = fetch_batch(config)
    before = np.maximum(number - 1, 0) // batch  # full batches ahead of the last
    last = number - before * batch
    # From the issue of a batch's burst: to its last instruction being visible, and to the next batch's issue.
    if config.bus_bytes > 8:
        words, seen, again = -(-last * 16 // config.bus_bytes), 4 + last + 1, 4 + batch + 3
        full_words = -(-batch * 16 // config.bus_bytes)
    else:
        words, seen, again = 2 * last, 2 + last, 2 + batch + 2
        full_words = 2 * batch
    first_issue = 2
    delays = np.where(before > 0, config.read_delay + (before - 1) * later_delay, 0)
    issue = first_issue + before * (_TO_QUEUE + full_words + again) + delays
    final_delay = np.where(before > 0, later_delay, config.read_delay)
    result: I64 = issue + _TO_QUEUE + final_delay + words + seen
    return np.where(number > 0, result, 0)
