"""Dependence tokens from exact data dependence, and the drain before FINISH.

A walk over every SRAM element finds, per instruction, the latest instruction of each other engine that it must wait for. Engines
are in order, so one token speaks for everything before it: a consumer takes a token only when it needs a later producer than any
it (or an earlier instruction of its engine) has waited for. Tokens are then one to one, in order, with at most one per
instruction and channel. Producers come before consumers in the stream, so the oldest unfinished instruction can always run, and
no queue, however short, is ever waited for from behind. There is no channel between load and store: where DRAM written by a
STORE is loaded again (or the reverse), a compute no-op stands between.

A counter holds so many tokens, and the hardware drops more without a word. Where more could wait, the engine that gives them is
held back until some have been taken; what it would wait for in vain (the taker comes later in the stream) is taken together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosched.errors import LoweringError
from autosched.lower.affine import Ints
from sim import isa
from sim.config import TOKEN_LIMIT, VTAConfig
from sim.costs import INSN_ADDRESS, busy_alone, parameters

CAPACITY = TOKEN_LIMIT
ROUNDS = 8
STRIDE = 32  # of so many tokens one is held back: its engine still runs far ahead, and few tokens go the other way
FLAGS = [isa.POP_PREV, isa.POP_NEXT, isa.PUSH_PREV, isa.PUSH_NEXT]


@dataclass(eq=False, slots=True)
class Stream:
    """Instructions in program order, closed by a compute no-op and FINISH.

    Args:
        table: decoded rows.
        uop_at: per row, the first micro-op of its kernel in ``triples``.
        triples: all micro-ops.
    """

    table: isa.Table
    uop_at: Ints
    triples: Ints

    @staticmethod
    def empty(count: int, triples: Ints) -> Stream:
        """A stream with room for ``count`` instructions, and its end."""
        table = np.zeros((count + 2, isa.NCOLS), dtype=np.int64)
        table[count] = no_op()
        table[count + 1, isa.OPCODE] = isa.OP_FINISH
        return Stream(table, np.zeros(count + 2, dtype=np.int64), triples)


def warm() -> None:
    """Compiles the kernels, or loads them from numba's cache."""
    table = np.stack([no_op(), no_op()])
    engine = np.ones(2, dtype=np.int64)
    need, _ = _needs(table, engine, np.zeros(2, dtype=np.int64), np.zeros((1, 3), dtype=np.int64), (2, 2, 2), False)
    _flagged(table, engine, need)
    _waiting(table)
    _dram_needs(np.zeros((2, 4), dtype=np.int64), np.zeros(2, dtype=np.int64), engine, 1)


def no_op() -> Ints:
    """A compute instruction that only carries tokens (a LOAD UOP of nothing)."""
    row = np.zeros(isa.NCOLS, dtype=np.int64)
    row[isa.OPCODE], row[isa.MEM] = isa.OP_LOAD, isa.MEM_UOP
    return row


def finish(
    stream: Stream, config: VTAConfig, semantics: str, shared: tuple[int, int] | None, leading: Ints | None = None
) -> isa.Table:
    """The whole program: relays, tokens, the drain and FINISH.

    Args:
        stream: the instructions.
        config: the machine.
        semantics: under ``chisel``, a reset or a LOAD into ACC need not wait for the STORE of what was there.
        shared: (first byte, size) of the DRAM in which loads may read what stores wrote, or None when none does.
        leading: compute instructions (loads into ACC) whose end the next instruction of the load engine waits for.

    Raises:
        LoweringError: kind ``tokens``: more tokens would wait than the hardware counts, and no way was found to hold them back.
    """
    table, uop_at = stream.table, stream.uop_at
    relays = None
    followers: list[tuple[int, int]] = []
    if leading is not None and len(leading):
        loads = np.flatnonzero(isa.queue_of(table) == 0)
        at = np.searchsorted(loads, leading)
        followers = [(int(loads[k]), int(i)) for k, i in zip(at, leading) if k < len(loads)]
    if shared is not None:
        table, uop_at, relays = _relayed(table, uop_at, config, semantics, shared)
    engine = isa.queue_of(table)
    depths = config.inp_depth, config.wgt_depth, config.acc_depth
    need, stale = _needs(table, engine, uop_at, stream.triples, depths, semantics == "chisel")
    if stale >= 0:
        raise LoweringError("store", f"instruction {stale} stores an accumulator that neither GEMM nor ALU wrote last")
    if relays is not None:
        need = np.maximum(need, relays)
    # Where relays were added rows have moved; what waits for nothing but a better moment goes without.
    for load, leader in followers if relays is None else ():
        need[load, 1] = max(need[load, 1], leader)
    # The drain: FINISH comes after the last load and the last store.
    last = [int(of[-1]) if len(of) else -1 for of in (np.flatnonzero(engine == e) for e in (0, 2))]
    n = len(table) - 2
    need[n, 0], need[n, 2] = last[0], last[1]
    _tokens(table, engine, need, config)
    if not (table[n, isa.POP_PREV] or table[n, isa.POP_NEXT]):
        table[n] = table[n + 1]
        table = table[: n + 1]
    return table


def _tokens(table: isa.Table, engine: Ints, need: Ints, config: VTAConfig) -> None:
    """Writes the flags of every instruction, so few that their counters hold all that wait; adds to ``need`` what that takes."""
    given = _flagged(table, engine, need)
    for _ in range(ROUNDS):
        over = [c for c, (most, _) in enumerate(_outstanding(table, config, engine, given)) if most > CAPACITY]
        if not over:
            return
        for channel in over:
            _hold_back(table, engine, need, channel)
        table[:, FLAGS] = 0
        given = _flagged(table, engine, need)
    _check_waiting(table, config)


def _flagged(table: isa.Table, engine: Ints, need: Ints) -> int:
    """Writes the fewest tokens that order what ``need`` orders, and says how many there are on a channel at most."""
    from autosched.lower._token_kernel import tokens

    given: Ints = np.zeros(4, dtype=np.int64)
    tokens(table, engine, need, _unknown(4), given)
    return int(given.max())


def _hold_back(table: isa.Table, engine: Ints, need: Ints, channel: int) -> None:
    """Makes who gives tokens on a channel wait for who took the earlier ones, or else the latter take several at once."""
    from sim import tokens as flow

    producer, consumer = int(flow.PRODUCERS[channel]), int(flow.CONSUMERS[channel])
    takes, gives = (bits >> channel & 1 for bits in flow.channel_bits(table, engine))
    given, taken = np.flatnonzero(gives), np.flatnonzero(takes)
    k = CAPACITY
    while k < len(given):
        # Before this one is given as many must be gone that those up to the next that waits fit.
        before = int(np.searchsorted(taken, given[k]))
        gone = min(before, min(k + STRIDE, len(given)) - CAPACITY)
        if gone > k - CAPACITY:
            need[given[k], consumer] = max(need[given[k], consumer], taken[gone - 1])
        else:
            gone = min(k + STRIDE, len(given)) - CAPACITY
            need[taken[before], producer] = max(need[taken[before], producer], given[gone])
        k = gone + CAPACITY


def _needs(
    table: isa.Table, engine: Ints, uop_at: Ints, triples: Ints, depths: tuple[int, int, int], split_out: bool
) -> tuple[Ints, int]:
    """Per instruction the latest one of each other engine that it must wait for, and the first stale STORE (-1: none)."""
    from autosched.lower._token_kernel import needs

    # Numbers of instructions, of which a program has far fewer than 32 bits tell.
    inp, wgt, acc = (np.full((rows, depth), -1, dtype=np.int32) for rows, depth in zip((3, 3, 4), depths))
    need = _unknown(len(table), 3)
    return need, int(needs(table, engine, uop_at, triples, inp, wgt, acc, int(split_out), need))


def _dram_needs(boxes: Ints, is_store: Ints, engine: Ints, granules: int) -> Ints:
    """Per instruction the latest STORE that it reads after, and for a STORE the latest loads that it overwrites after."""
    from autosched.lower._token_kernel import dram_needs

    need = _unknown(len(boxes), 3)
    dram_needs(boxes, is_store, engine, _unknown(granules), _unknown(2, granules), need)
    return need


def _unknown(*shape: int) -> Ints:
    """No instruction yet, for each of so many."""
    return np.full(shape, -1, dtype=np.int64)


def _outstanding(
    table: isa.Table, config: VTAConfig, engine: Ints | None = None, given: int | None = None
) -> tuple[tuple[int, int], ...]:
    """Per channel the most tokens that can wait at once, and who gives the last of them; nothing where they surely fit.

    Args:
        table: instructions with their flags.
        config: the machine.
        engine: of each instruction, where it is known.
        given: how many tokens there are on a channel at most, where that is known.
    """
    if (given is not None and given <= CAPACITY) or _waiting(table, engine, given) <= CAPACITY:
        return ()
    # The bound above only sees direct neighbours; the exact count sees every path of tokens.
    from sim import tokens as flow

    return flow.flow(table, config.queue_depth).outstanding()


def _check_waiting(table: isa.Table, config: VTAConfig) -> None:
    """Refuses a program in which more tokens can wait than a counter holds."""
    from sim.tokens import CHANNELS

    for channel, (most, where) in enumerate(_outstanding(table, config)):
        if most > CAPACITY:
            raise LoweringError(
                "tokens", f"up to {most} tokens wait on {CHANNELS[channel]} at instruction {where}; the hardware counts to "
                f"{CAPACITY}, so use larger copies or instructions",
            )


def _waiting(table: isa.Table, engine: Ints | None = None, given: int | None = None) -> int:
    """An upper bound of the tokens that wait at once on a channel; ``engine`` and ``given`` as for ``_outstanding``."""
    from autosched.lower._token_kernel import waiting

    counts: Ints = np.zeros((3, 4), dtype=np.int64)
    pushes, pops = (np.zeros((4, len(table) if given is None else given), dtype=np.int64) for _ in range(2))
    waiting(table, isa.queue_of(table) if engine is None else engine, pushes, pops, counts)
    return int(counts[0].max())


def _dram_boxes(table: isa.Table, config: VTAConfig, first: int, granule: int) -> Ints:
    """(start, rows, width, stride) in granules of what each transfer touches of DRAM; zeros for other instructions."""
    moves = ((table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] != isa.MEM_UOP)) | (table[:, isa.OPCODE] == isa.OP_STORE)
    unit = np.where(moves, isa.element_bytes(config)[table[:, isa.MEM]], 0)
    boxes = np.zeros((len(table), 4), dtype=np.int64)
    boxes[:, 0] = np.where(moves, (table[:, isa.DRAM] * unit - first) // granule, 0)
    boxes[:, 1] = np.where(moves, table[:, isa.Y_SIZE], 0)
    boxes[:, 2] = table[:, isa.X_SIZE] * unit // granule
    boxes[:, 3] = table[:, isa.X_STRIDE] * unit // granule
    return boxes


def _relayed(
    table: isa.Table, uop_at: Ints, config: VTAConfig, semantics: str, shared: tuple[int, int]
) -> tuple[isa.Table, Ints, Ints]:
    """Adds compute no-ops where a load must follow a store (or the reverse), and says who waits for what through DRAM."""
    granule = int(isa.element_bytes(config)[1:].min())  # micro-ops are not shared with stores
    engine = isa.queue_of(table)
    need = _through_dram(table, engine, config, shared, granule)
    order = _waiting_last(table, engine, need)
    if (np.diff(order) < 0).any():
        # Instructions change places within their engine; who waits for whom has to be asked again.
        table, uop_at = table[order], uop_at[order]
        need = _through_dram(table, engine, config, shared, granule)
    before: list[int] = []
    wants: list[tuple[int, int, int]] = []  # (engine waited for, instruction, who needs that)
    reached = {0: -1, 2: -1}
    latest = {e: np.maximum.accumulate(np.where(engine == e, np.arange(len(table)), -1)) for e in (0, 2)}
    late = [int(i) for i in np.flatnonzero((engine != 1) & (need[:, [0, 2]].max(axis=1) >= 0))]
    taken = busy_alone(table, parameters(config, INSN_ADDRESS, semantics)) + 1 if late else _unknown(0)
    for i in late:
        other = 2 if engine[i] == 0 else 0
        if int(need[i, other]) > reached[other]:
            # Waiting for all that its engine had to do by now spares later loads no-ops of their own, which would keep them from
            # running ahead.
            p = int(latest[other][i])
            reached[other] = p
            before.append(_spot(table, engine, taken, p, i) if other == 2 else i)
            wants.append((other, p, i))
    moved = np.arange(len(table)) + np.searchsorted(np.array(before, dtype=np.int64), np.arange(len(table)), side="right")
    total = len(table) + len(before)
    new_need = np.full((total, 3), -1, dtype=np.int64)
    for e in range(3):
        # Direct neighbours only; load and store meet through the no-ops.
        direct = (need[:, e] >= 0) & ((engine == 1) | (e == 1))
        new_need[moved[direct], e] = moved[need[direct, e]]
    new_table = np.zeros((total, isa.NCOLS), dtype=np.int64)
    new_table[moved] = table
    new_uop_at = np.zeros(total, dtype=np.int64)
    new_uop_at[moved] = uop_at
    for spot, (other, producer, user) in zip(before, wants):
        at = int(moved[spot]) - 1
        new_table[at] = no_op()
        new_need[at, other] = moved[producer]
        new_need[moved[user], 1] = max(int(new_need[moved[user], 1]), at)
    return new_table, new_uop_at, new_need


def _through_dram(table: isa.Table, engine: Ints, config: VTAConfig, shared: tuple[int, int], granule: int) -> Ints:
    """Per instruction which stores and loads ahead of it, of the same DRAM, it comes behind."""
    first, size = shared
    boxes = _dram_boxes(table, config, first, granule)
    return _dram_needs(boxes, (table[:, isa.OPCODE] == isa.OP_STORE).astype(np.int64), engine, -(-size // granule))


def _multiplies(table: isa.Table) -> npt.NDArray[np.bool_]:
    """Which instructions read operands of the GEMM."""
    found: npt.NDArray[np.bool_] = (table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] == 0)
    return found


def _waiting_last(table: isa.Table, engine: Ints, need: Ints) -> Ints:
    """The order of instructions in which, of loads for one product, those into the memory that waits for a store come last.

    Only where the first one needs a store that none did before: elsewhere nothing waits, and the order is as it was meant.

    Args:
        table: instructions.
        engine: of each of them.
        need: per instruction, the stores that it comes behind.
    """
    order = np.arange(len(table))
    reached = -1
    latest = np.maximum.accumulate(np.where(engine == isa.QUEUE_STORE, order, -1))
    # The other instructions of the compute engine touch nothing that its operands' loads do.
    ends = np.append(np.flatnonzero((engine == isa.QUEUE_STORE) | _multiplies(table)), len(table))
    waits = need[:, isa.QUEUE_STORE] >= 0
    for i in np.flatnonzero((engine == isa.QUEUE_LOAD) & waits):
        if need[i, isa.QUEUE_STORE] > reached:
            reached = int(latest[i])
            loads = i + np.flatnonzero(engine[i : int(ends[np.searchsorted(ends, i)])] == isa.QUEUE_LOAD)
            memory = table[loads, isa.MEM]
            # Two loads into one memory may write the same places.
            order[loads] = loads[np.argsort(np.isin(memory, memory[waits[loads]]), kind="stable")]
    return order


def _spot(table: isa.Table, engine: Ints, taken: Ints, store: int, load: int) -> int:
    """The instruction ahead of which a no-op waits for a store, so that a load behind it can follow.

    Ahead of all that the compute engine has to do between both it would idle until the store is done, behind all of it the load
    would wait for work that has nothing to do with it. The no-op stands where what multiplies next can begin soonest, as far as
    instructions take the time that they need alone; of such spots the first.

    Args:
        table: instructions.
        engine: of each of them.
        taken: cycles of each of them.
        store: the last instruction of its engine ahead of the load.
        load: what the no-op is for, the last spot there is.
    """
    computes = engine == isa.QUEUE_COMPUTE
    ahead = np.flatnonzero(computes[:store])
    first = int(ahead[-1]) + 1 if len(ahead) else 0
    drain = int(taken[first : store + 1][engine[first : store + 1] == isa.QUEUE_STORE].sum())
    spots = np.append(store + 1 + np.flatnonzero(computes[store + 1 : load]), load)
    before = np.cumsum(np.append(0, taken[spots[:-1]]))  # of the compute engine
    multiplies = np.flatnonzero(_multiplies(table[load:]))
    last = load + int(multiplies[0]) if len(multiplies) else len(table)
    loading = int(taken[load:last][engine[load:last] == isa.QUEUE_LOAD].sum())
    passes = np.maximum(before, drain)
    computed, loaded = passes + before[-1] - before, passes + loading
    return int(spots[np.lexsort((computed, np.maximum(computed, loaded)))[0]])  # of equals the first
