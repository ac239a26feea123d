"""The machine bound against exhaustive search over instruction streams: no schedule, no rule, no lowering chooses anything here.

A stream forms the products of a small dense layer. Tried are all ways to cut every tensor into DMAs and the products into GEMMs,
one load of micro-ops or one for each, and all orders of these instructions in which operands come before their use; only the
tokens are those that exact dependence asks for. The fastest of all streams is no faster than the bound, and what it stores is
right. Where the bound is met but for latencies, it is no bound of something else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np
import pytest

from autosched.kernel import replay
from autosched.lower import lower_table
from autosched.lower.lowered import Lowered
from autosched.lower.tokens import Stream, finish
from autosched.measure import Candidate, measure
from autosched.workloads import workload
from sim import isa, timing
from sim.machine import run
from sim.program import Segment
from space import Space

Row = dict[int, int]


@dataclass(frozen=True)
class Step:
    """An instruction: its fields, what it makes and what it needs, its micro-ops (places in the list)."""

    fields: tuple[tuple[int, int], ...]
    makes: frozenset[str]
    needs: frozenset[str]
    uop: int = 0


def cuts(n: int) -> Iterator[list[range]]:
    """All ways to cut ``n`` elements into runs."""
    for marks in product((False, True), repeat=n - 1):
        ends = [0, *(k + 1 for k, cut in enumerate(marks) if cut), n]
        yield [range(a, b) for a, b in pairwise(ends)]


def copies(op: int, memory: int, name: str, runs: list[range], dram: int, needs: str = "") -> list[Step]:
    """A DMA per run of a tensor; what it copies is ``name`` and the element's number."""
    return [
        Step(((isa.OPCODE, op), (isa.MEM, memory), (isa.SRAM, run.start), (isa.DRAM, dram + run.start), (isa.Y_SIZE, 1),
              (isa.X_SIZE, len(run)), (isa.X_STRIDE, len(run))),
             frozenset(f"{name}{k}" for k in run), frozenset(f"{needs}{k}" for k in run) if needs else frozenset())
        for run in runs
    ]


def programs(k: int, n: int, lowered: Lowered, uop_at: int) -> Iterator[tuple[list[Step], np.ndarray]]:
    """The instructions of every program, in no order, with its micro-ops (acc, inp, wgt)."""
    data, weight, out = (lowered.dram.buffers[b] for b in lowered.params)
    size = isa.element_bytes(lowered.config)
    inp, wgt, store = data // int(size[isa.MEM_INP]), weight // int(size[isa.MEM_WGT]), out // int(size[isa.MEM_OUT])
    # Micro-op j * k + i is that of product (output j, reduction i); the one of (0, 0) also stands for hardware loops over all.
    triples = np.array([(j, i, j * k + i) for j in range(n) for i in range(k)], dtype=np.int64)
    gemm = [(isa.OPCODE, isa.OP_GEMM)]
    for data_runs, weight_runs, store_runs, alone, apart in product(
        cuts(k), cuts(k * n), cuts(n), (False, True), (False, True)
    ):
        steps = copies(isa.OP_LOAD, isa.MEM_INP, "d", data_runs, inp) + copies(isa.OP_LOAD, isa.MEM_WGT, "w", weight_runs, wgt)
        steps += copies(isa.OP_STORE, isa.MEM_OUT, "s", store_runs, store, "done")
        used = k * n if alone else 1
        steps += copies(isa.OP_LOAD, isa.MEM_UOP, "u", [range(u, u + 1) for u in range(used)] if apart else [range(used)], uop_at)
        if apart and not alone:
            continue  # a single micro-op is loaded in one way
        steps.append(Step(
            (*gemm, (isa.RESET, 1), (isa.UOP_BGN, 0), (isa.UOP_END, 1), (isa.ITER_OUT, 1), (isa.ITER_IN, n),
             (isa.DST_IN, int(n > 1))),
            frozenset({"zero"}), frozenset({"u0"})))
        if alone:
            for u in range(k * n):
                steps.append(Step(
                    (*gemm, (isa.UOP_BGN, u), (isa.UOP_END, u + 1), (isa.ITER_OUT, 1), (isa.ITER_IN, 1)),
                    frozenset({f"p{u}"}), frozenset({"zero", f"u{u}", f"d{u % k}", f"w{u}"}), u))
        else:
            steps.append(Step(
                (*gemm, (isa.UOP_BGN, 0), (isa.UOP_END, 1), (isa.ITER_OUT, n), (isa.ITER_IN, k), (isa.DST_OUT, int(n > 1)),
                 (isa.WGT_OUT, k if n > 1 else 0), (isa.SRC_IN, int(k > 1)), (isa.WGT_IN, int(k > 1))),
                frozenset(f"p{u}" for u in range(k * n)),
                frozenset({"zero", "u0", *(f"d{i}" for i in range(k)), *(f"w{u}" for u in range(k * n))})))
        yield steps, triples


def orders(steps: list[Step], k: int) -> Iterator[list[Step]]:
    """All orders in which every instruction finds what it needs."""
    taken: list[Step] = []
    have: set[str] = set()

    def ready(step: Step) -> bool:
        wanted = {f"p{int(x[4:]) * k + i}" for x in step.needs if x.startswith("done") for i in range(k)}
        return all(x in have for x in (wanted or step.needs))

    def grow(left: list[Step]) -> Iterator[list[Step]]:
        if not left:
            yield list(taken)
        for n, step in enumerate(left):
            if ready(step):
                taken.append(step)
                have.update(step.makes)
                yield from grow(left[:n] + left[n + 1 :])
                have.difference_update(step.makes)
                taken.pop()

    yield from grow(steps)


def stream(order: list[Step], triples: np.ndarray, lowered: Lowered) -> isa.Table:
    """The instructions with their tokens."""
    made = Stream.empty(len(order), triples)
    for row, step in zip(made.table, order):
        for column, value in step.fields:
            row[column] = value
    made.uop_at[: len(order)] = [step.uop for step in order]
    return finish(made, lowered.config, lowered.target.semantics, None)


@pytest.mark.parametrize(("k", "n", "target", "tried", "near"), [
    (1, 2, "vta-de10", 5_376, 1),
    pytest.param(2, 1, "vta-de10", 11_184, 1, marks=pytest.mark.slow),
    pytest.param(2, 1, "vta-pynq", 11_184, 1, marks=pytest.mark.slow),
])
def test_no_stream_is_faster_than_the_bound(k: int, n: int, target: str, tried: int, near: int) -> None:
    name = f"dense:m=1,k={16 * k},n={16 * n},tail=cast,bias=0"
    task = workload(name)
    space = Space(task.func, target)
    bound = space.machine_bound()
    lowered = lower_table(replay(space.func, space.trace(space.point()).as_json()).func, target)
    config, insns = lowered.config, lowered.insn_address
    uop_at = lowered.dram.uops // config.uop_elem_bytes
    best: tuple[int, isa.Table, np.ndarray] | None = None
    count = 0
    for steps, triples in programs(k, n, lowered, uop_at):
        for order in orders(steps, k):
            table = stream(order, triples, lowered)
            cycles = timing.cycles(table, config, insns, cap=best[0] if best else None)
            count += 1
            assert cycles < 0 or cycles >= bound, [dict(step.fields) for step in order]
            if cycles >= 0 and (best is None or cycles < best[0]):
                best = cycles, table, triples
    assert best is not None and count == tried
    # The fastest of them computes what it should, and our space comes as near as an instruction's latency.
    x, w = (np.asarray(a) for a in task.inputs(0))
    whole = lowered.program({"data": x, "weight": w})
    uops = Segment(lowered.dram.uops, isa.encode_uops(best[2], config, lowered.target.semantics).astype("<u4").tobytes())
    memory = (*(s for s in whole.memory if s.address != lowered.dram.uops), uops)
    ran = run(replace(whole, table=best[1], memory=memory), lowered.target.semantics, check=True)
    (wanted,) = task.results(x, w).values()
    assert not ran.races and ran.outputs["out"] == wanted.tobytes()
    ours = min(measure(Candidate(name, target, tuple(space.trace(p).as_json()))).cycles or 0
               for block in space.enumerate() for p in block)
    assert best[0] <= ours <= best[0] + near
