"""Dependence tokens without time: an order of execution that they allow, and what they order.

Three engines (load, compute, store) take instructions in stream order from queues of ``queue_depth``; four
counters carry tokens between neighbours. An instruction starts once all its tokens are there and gives its own
when it is done. The n-th pop of a counter takes the n-th push, whatever the timing, so whether a program gets
stuck, and which instructions are ordered, does not depend on time. Rules: vta.md section 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim import isa
from sim.errors import DeadlockError, Waiter

ENGINES: tuple[str, ...] = isa.QUEUE_NAMES
CHANNELS: tuple[str, ...] = ("LOAD->COMPUTE", "COMPUTE->LOAD", "COMPUTE->STORE", "STORE->COMPUTE")
PRODUCERS = np.array([0, 1, 1, 2], dtype=np.int64)
CONSUMERS = np.array([1, 0, 2, 1], dtype=np.int64)
POP_FLAGS: tuple[str, ...] = ("pop_prev", "pop_next", "pop_prev", "pop_next")
PUSH_FLAGS: tuple[str, ...] = ("push_next", "push_prev", "push_next", "push_prev")

Ints = npt.NDArray[np.int64]


class StuckError(DeadlockError):
    """A deadlock found from tokens and queues alone, so without cycles; ``waiters`` says who waits for what."""

    def __init__(self, cycle: int, waiters: tuple[Waiter, ...]) -> None:
        super().__init__(cycle, waiters)

    def __str__(self) -> str:
        parts = ["deadlock: FINISH is never reached"]
        for w in self.waiters:
            insn = "" if w.index is None else f" at instruction {w.index}"
            parts.append(f"{w.unit}{insn} waits for {w.what}")
        return "; ".join(parts)


@dataclass(frozen=True)
class Flow:
    """What the tokens of a program allow.

    order: instruction indices in an order of execution, earliest of the stream first where tokens leave a choice.
    clocks: int64[n, 3]; ``clocks[i, e]`` instructions of engine e are complete whenever instruction i starts.
    rank: int64[n]; the number of an instruction within its engine, from 1 (0: never executed).
    engine: int64[n]; 0 load, 1 compute, 2 store.
    heads: per engine the instruction it is left holding, or -1. tokens: left on each channel at the end.
    dispatched: how many instructions fetch handed out. finish: the FINISH that ran, or -1.
    """

    order: Ints
    clocks: Ints
    rank: Ints
    engine: Ints
    pops: Ints
    pushes: Ints
    heads: tuple[int, int, int]
    tokens: tuple[int, int, int, int]
    dispatched: int
    finish: int

    def before(self, first: int, second: int) -> bool:
        """Whether tokens and in-order engines make ``first`` complete before ``second`` starts."""
        return 0 < int(self.rank[first]) <= int(self.clocks[second, self.engine[first]])

    def outstanding(self) -> tuple[tuple[int, int], ...]:
        """Per channel: the most tokens that can wait at once, and the instruction that pushes the last of them."""
        from sim._order_kernel import outstanding

        most, where = outstanding(
            self.engine, self.pops, self.pushes, self.order, self.clocks, PRODUCERS, CONSUMERS
        )
        return tuple((int(m), int(w)) for m, w in zip(most, where))


def channel_bits(table: isa.Table, engine: Ints) -> tuple[Ints, Ints]:
    """Return which channels (as bits) each instruction pops and pushes; meaningless flags count for nothing."""
    load, compute, store = (engine == e for e in range(3))
    flag = {c: table[:, c] != 0 for c in (isa.POP_PREV, isa.POP_NEXT, isa.PUSH_PREV, isa.PUSH_NEXT)}
    pops = (
        (compute & flag[isa.POP_PREV]) * 1
        + (load & flag[isa.POP_NEXT]) * 2
        + (store & flag[isa.POP_PREV]) * 4
        + (compute & flag[isa.POP_NEXT]) * 8
    )
    pushes = (
        (load & flag[isa.PUSH_NEXT]) * 1
        + (compute & flag[isa.PUSH_PREV]) * 2
        + (compute & flag[isa.PUSH_NEXT]) * 4
        + (store & flag[isa.PUSH_PREV]) * 8
    )
    return pops.astype(np.int64), pushes.astype(np.int64)


def flow(table: isa.Table, queue_depth: int | None) -> Flow:
    """Run the queues of a table; ``queue_depth`` None means that fetch never stalls (the functional simulator).

    Never raises for a deadlock: see :func:`require_finish`.
    """
    from sim._order_kernel import run_queues

    engine = isa.queue_of(table)
    pops, pushes = channel_bits(table, engine)
    finish = table[:, isa.OPCODE] == isa.OP_FINISH
    depth = len(table) + 1 if queue_depth is None else queue_depth
    order, clocks, count, dispatched, heads, tokens = run_queues(engine, pops, pushes, finish, depth)
    order = order[:count]
    rank = np.zeros(len(table), dtype=np.int64)
    for e in range(3):
        mine = order[engine[order] == e]
        rank[mine] = np.arange(1, len(mine) + 1)
    ran = order[finish[order]]
    return Flow(
        order=order,
        clocks=clocks,
        rank=rank,
        engine=engine,
        pops=pops,
        pushes=pushes,
        heads=(int(heads[0]), int(heads[1]), int(heads[2])),
        tokens=(int(tokens[0]), int(tokens[1]), int(tokens[2]), int(tokens[3])),
        dispatched=int(dispatched),
        finish=int(ran[0]) if len(ran) else -1,
    )


def waiters(state: Flow, queue_depth: int | None) -> tuple[Waiter, ...]:
    """Say who waits for what at the end of a run; ``since`` is 0, as there is no time here."""
    found: list[Waiter] = []
    n = len(state.engine)
    for e, head in enumerate(state.heads):
        if head < 0 or (e == 1 and state.finish >= 0):
            continue
        missing = [
            f"a token from {ENGINES[int(PRODUCERS[c])]} ({POP_FLAGS[c]})"
            for c in range(len(CHANNELS))
            if int(state.pops[head]) >> c & 1 and state.tokens[c] == 0
        ]
        found.append(Waiter(ENGINES[e], head, " and ".join(missing), 0))
    if state.dispatched < n:
        full = ENGINES[int(state.engine[state.dispatched])]
        found.append(Waiter("FETCH", state.dispatched, f"room in the {full} queue ({queue_depth} entries)", 0))
    if not found and state.finish < 0:
        found.append(Waiter("COMPUTE", None, "a FINISH, which the program does not have", 0))
    return tuple(found)


def require_finish(state: Flow, queue_depth: int | None) -> None:
    """Raise StuckError unless FINISH ran."""
    if state.finish < 0:
        raise StuckError(0, waiters(state, queue_depth))
