"""Token analysis against interleavings by brute force, and against the cycle model."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import isa, timing, tokens
from sim.config import VTAConfig
from sim.errors import DeadlockError

KINDS = ("load", "compute", "store")


def random_table(seed: int, size: int, density: float) -> isa.Table:
    """No-ops of all three engines with random flags, and FINISH at a random place near the end."""
    rng = random.Random(seed)
    insns: list[isa.Insn] = []
    for _ in range(size):
        flags = {name: int(rng.random() < density) for name in ("pop_prev", "pop_next", "push_prev", "push_next")}
        kind = rng.choice(KINDS)
        if kind == "store":
            insns.append(isa.Store(**flags))
        else:
            insns.append(isa.Load(mem=isa.MEM_INP if kind == "load" else isa.MEM_UOP, **flags))
    insns.insert(max(0, size - rng.randrange(3)), isa.Finish(pop_prev=rng.random() < density))
    return isa.table_of(insns)


def fair_table(plain_vta, seed: int, size: int) -> isa.Table:
    """Random flags, kept only where some interleaving in stream order can serve them: these never get stuck."""
    rng = random.Random(seed)
    table = random_table(seed, size, 0.0)
    waiting: dict[tuple[str, str], int] = {}
    for row, names in zip(table, plain_vta.rows_of(table)):
        engine = plain_vta.engine_of(names)
        for column, other in ((isa.POP_PREV, -1), (isa.POP_NEXT, 1)):
            at = KINDS.index(engine) + other
            if 0 <= at < 3 and waiting.get((KINDS[at], engine), 0) and rng.random() < 0.5:
                waiting[KINDS[at], engine] -= 1
                row[column] = 1
        for column, other in ((isa.PUSH_PREV, -1), (isa.PUSH_NEXT, 1)):
            at = KINDS.index(engine) + other
            if 0 <= at < 3 and rng.random() < 0.4:
                waiting[engine, KINDS[at]] = waiting.get((engine, KINDS[at]), 0) + 1
                row[column] = 1
    return table


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(0, 30), density=st.sampled_from([0.1, 0.25, 0.5]),
       depth=st.sampled_from([1, 2, 3, 8, 512]))  # fmt: skip
def test_deadlock_is_where_the_cycle_model_stops(seed, size, density, depth):
    table = random_table(seed, size, density)
    config = VTAConfig(queue_depth=depth)
    state = tokens.flow(table, depth)
    try:
        timing.cycles(table, config)
    except DeadlockError as error:
        assert state.finish < 0
        with pytest.raises(DeadlockError) as caught:
            tokens.require_finish(state, depth)
        mine = {(w.unit, w.index) for w in caught.value.waiters if w.index is not None}
        assert mine == {(w.unit, w.index) for w in error.waiters if w.index is not None}
    else:
        assert state.finish >= 0
        tokens.require_finish(state, depth)


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 40))
def test_clocks_are_what_every_interleaving_has_in_common(plain_vta, seed, size):
    """``before`` is the transitive closure of tokens and engine order; no interleaving contradicts it."""
    table = fair_table(plain_vta, seed, size)
    state = tokens.flow(table, None)
    rows = plain_vta.rows_of(table)
    order, edges = plain_vta.interleave(rows, random.Random(seed))
    after: dict[int, set[int]] = {i: set() for i in order}
    preds: dict[int, list[int]] = {i: [] for i in order}
    last: dict[str, int] = {}
    for producer, consumer in edges:
        preds[consumer].append(producer)
    for i in order:
        engine = plain_vta.engine_of(rows[i])
        if engine in last:
            preds[i].append(last[engine])
        last[engine] = i
        for p in preds[i]:
            after[i] |= after[p] | {p}
    ran = set(state.order.tolist())
    assert ran == set(order)
    for a in order:
        for b in order:
            assert state.before(a, b) == (a in after[b])


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 60))
def test_outstanding_tokens_are_those_of_the_slowest_consumer(plain_vta, seed, size):
    """The bound is reached by letting a channel's consumer run only when nothing else can."""
    table = fair_table(plain_vta, seed, size)
    state = tokens.flow(table, None)
    rows = plain_vta.rows_of(table)
    for channel, (most, _) in enumerate(state.outstanding()):
        consumer = KINDS[int(tokens.CONSUMERS[channel])]
        producer = KINDS[int(tokens.PRODUCERS[channel])]
        others = [k for k in KINDS if k != consumer]
        queues = {k: [i for i in state.order.tolist() if plain_vta.engine_of(rows[i]) == k] for k in KINDS}
        for queue in queues.values():
            queue.sort()
        held: dict[tuple[str, str], int] = {}
        seen = 0
        moved = True
        while moved:
            moved = False
            for kind in (*others, consumer):
                if queues[kind] and all(held.get(c, 0) for c in plain_vta.pops_of(rows[queues[kind][0]])):
                    row = rows[queues[kind].pop(0)]
                    for c in plain_vta.pops_of(row):
                        held[c] -= 1
                    for c in plain_vta.pushes_of(row):
                        held[c] = held.get(c, 0) + 1
                    seen = max(seen, held.get((producer, consumer), 0))
                    moved = True
                    break
        assert most == seen


def test_a_deep_queue_changes_nothing_but_the_look_ahead():
    insns = [isa.Load(mem=isa.MEM_INP, pop_next=1), isa.Load(mem=isa.MEM_INP), isa.Load(push_prev=1), isa.Finish()]
    table = isa.table_of(insns)
    assert tokens.flow(table, 2).finish == 3
    stuck = tokens.flow(table, 1)
    assert stuck.finish < 0
    assert [(w.unit, w.index) for w in tokens.waiters(stuck, 1)] == [("LOAD", 0), ("FETCH", 1)]
    longer = isa.table_of([replace(insns[0]), *[insns[1]] * 5, *insns[2:]])
    assert tokens.flow(longer, 6).finish >= 0
    assert tokens.flow(longer, 5).finish < 0
