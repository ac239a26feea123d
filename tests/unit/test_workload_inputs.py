"""Inputs that tell: most outputs inside the clips, whatever the program, and legal in every other respect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.ir import PrimFunc
from autosched.ir.interp import run, written
from autosched.script import parse
from autosched.workloads import of_func, workload
from autosched.workloads.inputs import spreads, telling_inputs, wide_inputs

CLIPPED = [
    *[f"resnet18.c{n}" for n in range(3, 12)], "t3", "t4", "dense:m=3,k=128,n=160", "dense:m=7,k=64,n=96,bias=1",
    "conv2d:h=9,w=7,ci=32,co=64,k=3,stride=2,pad=1", "dense:m=1,k=16,n=16", "conv2d:h=5,w=5,ci=16,co=16,k=5,pad=2",
]  # fmt: skip
NARROWED = ["t1", "t2", "add:m=8,n=256", "dense:m=5,k=64,n=48,bias=1,tail=cast"]


def program(body: str, params: str = "", ranges: str = "") -> PrimFunc:
    """``out = int8(body)`` over int32 tensors ``a`` and ``b``."""
    attr = f'    T.func_attr({{"autosched.value_ranges": {{{ranges}}}}})\n' if ranges else ""
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((8, 1, 16), "int32"), b: T.Buffer((8, 1, 16), "int32"), {params}out: T.Buffer((8, 1, 16), "int8")):
{attr}    for i, l in T.grid(8, 16):
        with T.block("out"):
            v, w = T.axis.remap("SS", [i, l])
            out[v, 0, w] = T.cast({body}, "int8")
''')


A, B = "a[v, 0, w]", "b[v, 0, w]"


@pytest.mark.parametrize("name", CLIPPED)
def test_most_outputs_lie_inside_the_clip_and_hang_on_every_input(name: str) -> None:
    task = workload(name)
    inputs = task.inputs(0)
    out = task.reference(*inputs)
    assert ((out > 0) & (out < 127)).mean() >= 0.5
    for k in range(len(inputs)):
        zeroed = [np.zeros_like(x) if j == k else x for j, x in enumerate(inputs)]
        assert (task.reference(*zeroed) != out).mean() > 0.5, task.func.buffers[k].name


@pytest.mark.parametrize("name", NARROWED)
def test_what_is_only_narrowed_takes_all_bytes(name: str) -> None:
    task = workload(name)
    out = task.reference(*task.inputs(0))
    assert len(np.unique(out)) > min(out.size // 4, 200)


@pytest.mark.parametrize("body", [
    f"T.min(T.max({A}, 0), 127)", f"T.max(T.min({A} + {B}, 100), -100)", f"T.min(T.max(T.shift_right({A}, 12) - {B}, 0), 15)",
    f"T.max({A}, {B} * 4)", f"T.min(T.max(T.shift_right({A} + 100000, 3), 0), 127)", f"T.max(T.min({A} * {B}, 120), 3)",
    f"T.min(T.max(T.shift_left({A}, 3), -127), 127)",
])  # fmt: skip
def test_clips_of_any_program(body: str) -> None:
    task = of_func(program(body))
    out = task.reference(*task.inputs(1)).astype(int)
    ends = [int(x) for x in (out.min(), out.max())]
    assert ((out > ends[0]) & (out < ends[1])).mean() >= 0.5
    assert len(np.unique(out)) > 8


def window(before: str, after: str, params: str) -> PrimFunc:
    """A product, ``before`` of its elements, the larger of two neighbours, and ``after`` of that, clipped."""
    value = "T.max(" + ", ".join([before.format(f"c[v * 2 + {k}, w]") for k in (0, 1)]) + ")"
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((12, 16), "int8"), b: T.Buffer((16, 16), "int8"), {params}out: T.Buffer((6, 16), "int8")):
    c = T.alloc_buffer((12, 16), "int32")
    m = T.alloc_buffer((6, 16), "int32")
    for i, j, k in T.grid(12, 16, 16):
        with T.block("c"):
            v, w, r = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[v, w] = 0
            c[v, w] = c[v, w] + T.cast(a[v, r], "int32") * T.cast(b[r, w], "int32")
    for i, j in T.grid(6, 16):
        with T.block("m"):
            v, w = T.axis.remap("SS", [i, j])
            m[v, w] = {value}
    for i, j in T.grid(6, 16):
        with T.block("out"):
            v, w = T.axis.remap("SS", [i, j])
            out[v, w] = T.cast(T.min(T.max({after.format("m[v, w]")}, -128), 127), "int8")
''')


@pytest.mark.parametrize("before, after", [
    ("T.min(T.shift_right(T.max({}, 0) + p[0], 5), 3000)", "T.shift_right(T.max({} + q[w], 0), 3)"),
    ("T.max({} - p[0], 0)", "T.shift_right({} - q[w], 4)"), ("T.min(T.max({} + p[0], -128), 127)", "{} + q[w]"),
    ("T.min({}, 3000) + p[0]", "T.shift_right(T.max({}, q[w]), 2)"),
])  # fmt: skip
def test_parameters_of_unknown_range_before_and_after_a_clip(before: str, after: str) -> None:
    """Neither can be narrowed alone: the other throws everything out of its clip."""
    func = window(before, after, 'p: T.Buffer((1,), "int32"), q: T.Buffer((16,), "int32"), ')
    inputs = telling_inputs(func, 1)
    out = run(func, *inputs)[0].astype(int)
    assert ((out > out.min()) & (out < out.max())).mean() >= 0.5
    assert len(np.unique(out)) > 8
    for k in range(len(inputs)):
        assert (run(func, *[np.zeros_like(x) if j == k else x for j, x in enumerate(inputs)])[0] != out).any()


def test_many_parameters_of_unknown_range() -> None:
    """One after the other they are brought down from their ranges, with hundreds of choices weighed for each step."""
    names = [f"p{k}" for k in range(6)]
    func = window("{}", "T.shift_right({} + " + " + ".join([f"{n}[w]" for n in names]) + ", 6)",
                  "".join([f'{n}: T.Buffer((16,), "int32"), ' for n in names]))  # fmt: skip
    out = run(func, *telling_inputs(func))[0].astype(int)
    assert ((out > -128) & (out < 127)).mean() >= 0.5
    assert min(s.reach for s in spreads(func) if s) > 16


def test_a_search_weighs_so_many_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.workloads.inputs import _Judge

    weighed: list[int] = []

    class Judge(_Judge):
        def shares(self, drawn: Any, changes: Any) -> Any:
            weighed.append(len(changes))
            return super().shares(drawn, changes)

    monkeypatch.setattr("autosched.workloads.inputs.CHOICES", 400)
    monkeypatch.setattr("autosched.workloads.inputs._Judge", Judge)
    func = window("T.min({} + p[0], 100)", "T.max({} + q[w], 0)", 'p: T.Buffer((1,), "int32"), q: T.Buffer((16,), "int32"), ')
    assert len(telling_inputs(func)) == 4
    # From the whole ranges, from narrower wide ones, and from all of them narrower.
    assert 400 < sum(weighed) < 3 * 600


@pytest.mark.parametrize("inner", [f"T.min(T.max({B}, 5), 5)", f"T.min(T.max({B}, 200), 100)", f"T.min(T.max({B}, 0), 1)"])
def test_a_clip_that_holds_nothing_leaves_the_others(inner: str) -> None:
    func = program(f"T.min(T.max({A} + {inner}, -100), 100)")
    out = run(func, *telling_inputs(func))[0].astype(int)
    assert ((out > -100) & (out < 100)).mean() >= 0.5


@pytest.mark.parametrize("op", ["shift_right", "shift_left"])
@pytest.mark.parametrize("amount", [B, f"({B} + 0)"])
def test_shift_counts_are_legal_everywhere(op: str, amount: str) -> None:
    for text in (program(f"T.{op}({A}, {amount})"), program(f"T.min(T.max(T.{op}({A}, {amount}), -128), 127)")):
        for inputs in (telling_inputs(text), wide_inputs(text)):
            assert inputs[1].min() >= 0 and inputs[1].max() <= 15
            assert len(np.unique(inputs[1])) == 16
            assert len(np.unique(inputs[0])) > 5
    narrow = program(f"T.{op}({A}, {amount})", ranges='"b": [3, 20]')
    assert set(np.unique(telling_inputs(narrow)[1])) == set(range(3, 16))


def test_a_shift_count_is_found_through_a_copy() -> None:
    func = parse('''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((64,), "int32"), b: T.Buffer((64,), "int32"), out: T.Buffer((64,), "int8")):
    c = T.alloc_buffer((64,), "int32")
    for i in range(64):
        with T.block("copy"):
            v = T.axis.spatial(64, i)
            c[v] = b[v]
    for i in range(64):
        with T.block("out"):
            v = T.axis.spatial(64, i)
            out[v] = T.cast(T.shift_right(a[v], c[v]), "int8")
''')
    _, counts = telling_inputs(func)
    assert counts.min() >= 0 and counts.max() <= 15


def test_declared_ranges_hold_and_their_ends_are_met() -> None:
    func = program(f"T.min(T.max(T.shift_right({A}, 8) + {B}, 0), 127)", ranges='"a": [-70000, 3], "b": [-5, 9000]')
    for seed in range(5):
        for inputs in (telling_inputs(func, seed), wide_inputs(func, seed)):
            for array, (low, high) in zip(inputs, ((-70000, 3), (-5, 9000))):
                assert low <= array.min() and array.max() <= high
    kernel = workload("resnet18.c7").inputs(2)[1]
    assert (kernel.min(), kernel.max()) == (-128, 127)
    # Corners are rare, and the rest is far from them.
    assert 0 < (np.abs(kernel.astype(int)) > 100).mean() < 0.005
    bias = workload("resnet18.c7").inputs(2)[2]
    assert {-(1 << 14), 1 << 14} & {int(x) for x in bias.flat}


def test_values_come_in_several_magnitudes() -> None:
    kernel = workload("resnet18.c7").inputs(0)[1].astype(float)
    scale = [np.median(np.abs(part)) for part in kernel]
    assert scale[0] > 1.5 * scale[1] > 2 * scale[3]
    assert scale[0] == pytest.approx(scale[4], rel=0.2)


def test_the_same_seed_gives_the_same_inputs() -> None:
    func = workload("dense:m=7,k=64,n=96,bias=1").func
    again = [telling_inputs(func, 3), telling_inputs(func, 3), telling_inputs(func, 4)]
    assert all((x == y).all() for x, y in zip(again[0], again[1]))
    assert any((x != y).any() for x, y in zip(again[0], again[2]))
    assert [x.dtype for x in again[0]] == [np.int8, np.int8, np.int32]
    assert [x.shape for x in again[0]] == [tuple(int(e.value) for e in b.shape) for b in func.params[:3]]
    assert [s is None for s in spreads(func)] == [False, False, False, True]


def test_the_estimate_is_about_what_comes_out() -> None:
    """The mean and deviation that choose magnitudes, against those of the program itself."""
    from autosched.workloads.inputs import _stores, _Walk

    for name in ("dense:m=16,k=256,n=64,bias=1", "conv2d:h=12,w=12,ci=32,co=32,k=3", "dense:m=16,k=64,n=64"):
        func = workload(name).func
        walk = _Walk(_stores(func), {b: s.moments for b, s in zip(func.params, spreads(func)) if s})
        for buffer in written(func):
            walk.buffer(buffer)
        out = workload(name).reference(*telling_inputs(func))
        share = ((out > 0) & (out < 127)).mean()
        assert walk.inside - 0.05 < share < walk.inside + 0.25


def test_wide_inputs_fill_their_ranges() -> None:
    task = workload("dense:m=16,k=256,n=64,bias=1")
    data, weight, bias = task.inputs(0, wide=True)
    for array in (data, weight):
        assert len(np.unique(array)) == 256
    assert np.abs(bias).max() > 15000
    assert run(task.func, data, weight, bias)[0].shape == task.reference(data, weight, bias).shape


@pytest.mark.parametrize("promised", [(50, 60), (100, 127), (-128, -100), (20, 127), (3, 127), (7, 7)])
def test_values_stay_in_a_range_without_zero(promised: tuple[int, int]) -> None:
    """What moves a sum into a clip stays where the parameter was promised to be."""
    d, w = te.placeholder((16, 16), "int8", name="d"), te.placeholder((16, 16), "int8", name="w")
    k = te.reduce_axis((0, 16), name="k")
    t = te.compute((16, 16), lambda i, j: te.sum(d[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name="t")
    m = te.compute((16, 16), lambda i, j: te.min(te.max(t[i, j] >> 1, te.const(0, "int32")), te.const(10, "int32")), name="m")
    out = te.compute((16, 16), lambda i, j: m[i, j].astype("int8"), name="o")
    func = replace(te.create_prim_func([d, w, out]), value_ranges=(promised, (0, 1), None))
    data, weight = telling_inputs(func)[:2]
    assert promised[0] <= data.min() <= data.max() <= promised[1] and 0 <= weight.min() <= weight.max() <= 1
