"""Random layouts, domains, partial sums and paddings: whatever is accepted computes the same, and replays."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.errors import ScheduleError
from autosched.ir import PrimFunc
from autosched.ir.interp import run
from autosched.ir.verify import verify
from autosched.schedule import AXIS_SEPARATOR, Schedule, Trace
from autosched.script import T, parse


@T.prim_func
def program(A: T.Buffer((6, 8), "int32"), B: T.Buffer((8, 10), "int32"), D: T.Buffer((6, 10), "int32")):
    T.func_attr({"autosched.value_ranges": {"A": [-50, 50], "B": [-50, 50]}})
    P = T.sblock_alloc_buffer((6, 8), "int32")
    C = T.sblock_alloc_buffer((6, 10), "int32")
    for i, k in T.grid(6, 8):
        with T.sblock("P"):
            vi, vk = T.axis.remap("SS", [i, k])
            P[vi, vk] = T.if_then_else(vi >= 1 and vk < 7, A[vi - 1, vk], 0)
    for i, j, k in T.grid(6, 10, 8):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + P[vi, vk] * B[vk, vj]
    for i, j in T.grid(6, 10):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.shift_right(C[vi, vj], 2) + vi


def result(func: PrimFunc) -> np.ndarray:
    rng = np.random.default_rng(1)
    a, b = rng.integers(-50, 50, (6, 8)).astype("int32"), rng.integers(-50, 50, (8, 10)).astype("int32")
    d = np.zeros((6, 10), "int32")
    run(func, a, b, d)
    return d


@functools.cache
def wanted() -> np.ndarray:
    """Not while tests are collected: processes of one run would compile the same kernels meanwhile."""
    return result(program)


class Layout:
    """An index map drawn dimension by dimension: split by a factor or not, shuffled, with or without a separator."""

    def __init__(self, draw: Any, ndim: int) -> None:
        self.factors = [draw(st.sampled_from([0, 2, 3, 4])) for _ in range(ndim)]
        count = sum(2 if f else 1 for f in self.factors)
        self.order = draw(st.permutations(range(count)))
        self.separator = draw(st.sampled_from([None, 1]))

    def __call__(self, *indices: Any) -> list[Any]:
        parts: list[Any] = []
        for index, factor in zip(indices, self.factors):
            parts += [index // factor, index % factor] if factor else [index]
        shuffled = [parts[k] for k in self.order]
        return shuffled if self.separator is None else [shuffled[0], AXIS_SEPARATOR, *shuffled[1:]]


def step(draw: Any, sch: Schedule) -> None:
    names = [n for n in sch.state.block_names() if n != "root"]
    block = sch.get_block(draw(st.sampled_from(names)))
    node = sch.get(block)
    loops = sch.get_loops(block)
    op = draw(st.sampled_from([
        "layout", "layout", "domain", "reindex", "rfactor", "pad", "decompose", "fold", "drop", "split", "init", "inline",
    ]))
    if op == "layout":
        side = draw(st.sampled_from(["read", "write"]))
        regions = node.reads if side == "read" else node.writes
        own = [k for k, r in enumerate(regions) if r.buffer not in sch.func.params]
        if own:
            k = draw(st.sampled_from(own))
            pad = draw(st.sampled_from([None, 0, 3]))
            sch.transform_layout(block, (side, k), Layout(draw, regions[k].buffer.ndim), pad_value=pad)
    elif op == "domain":
        layout = Layout(draw, len(node.iter_vars))
        layout.separator = None
        sch.transform_block_layout(block, layout)
    elif op == "reindex":
        side = draw(st.sampled_from(["read", "write"]))
        regions = node.reads if side == "read" else node.writes
        if regions:
            sch.reindex(block, (side, draw(st.integers(0, len(regions) - 1))))
    elif op == "pad":
        sch.pad_einsum(block, [draw(st.sampled_from([1, 2, 4, 5])) for _ in node.iter_vars])
    elif op == "fold":
        sch.fold_epilogue(block)
    elif op == "drop":
        sch.drop_zero_terms(block)
    elif op == "inline":
        sch.compute_inline(block)
    elif loops:
        loop = draw(st.sampled_from(loops))
        if op == "rfactor":
            sch.rfactor(loop, draw(st.integers(-2, 2)))
        elif op == "decompose":
            sch.decompose_padding(block, loop)
        elif op == "split":
            sch.split(loop, [None, draw(st.sampled_from([2, 3, 4]))])
        else:
            sch.decompose_reduction(block, loop)


@settings(max_examples=60)
@given(st.data())
def test_what_is_accepted_computes_the_same(data: st.DataObject) -> None:
    sch = Schedule(program, error_render_level="fast")
    for _ in range(data.draw(st.integers(1, 5))):
        before = sch.func
        try:
            step(data.draw, sch)
        except ScheduleError:
            assert sch.func is before
    assert not verify(sch.func)
    assert np.array_equal(result(sch.func), wanted()), sch.trace
    assert parse(sch.script()) == sch.func
    again = Schedule(program)
    Trace.apply_json_to_schedule(json.dumps(sch.trace.as_json()), again)
    assert again.func == sch.func
