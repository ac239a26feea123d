"""Names for split loops, splits written as one string, and consumers that need no second split."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

from autosched import te
from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.schedule import Schedule
from autosched.script import T, parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


@T.prim_func
def matmul(X: T.Buffer((128, 128), "float32"), Y: T.Buffer((128, 128), "float32"), out: T.Buffer((128, 128), "float32")):
    Z = T.alloc_buffer((128, 128), "float32")
    for i, j, k in T.grid(128, 128, 128):
        with T.block("Z"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Z[vi, vj] = T.float32(0)
            Z[vi, vj] = Z[vi, vj] + X[vi, vk] * Y[vk, vj]
    for i, j in T.grid(128, 128):
        with T.block("relu"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.max(Z[vi, vj], T.float32(0))


def defined() -> PrimFunc:
    X = te.placeholder((128, 128), "float32", name="X")
    Y = te.placeholder((128, 128), "float32", name="Y")
    k = te.reduce_axis((0, 128), name="k")
    Z = te.compute((128, 128), lambda i, j: te.sum(X[i, k] * Y[k, j], axis=k), name="Z")
    relu = te.compute((128, 128), lambda i, j: te.max(Z[i, j], te.const(0.0, "float32")), name="relu")
    return te.create_prim_func([X, Y, relu])


def loops(sch: Schedule, block: str) -> list[tuple[str, int]]:
    found = [sch.get(x) for x in sch.get_loops(block)]
    return [(x.var.name, x.extent.value) for x in found]


def same(func: PrimFunc) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-4, 5, (128, 128)).astype("float32") for _ in range(2))
    assert np.array_equal(run(func, x, y, np.zeros_like(x))[func.buffers[2].name], np.maximum(x @ y, 0))


def test_several_factors_and_names(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(matmul)
    axes = sch.get_loops(sch.get_block("Z"))[0]
    a, b, c, d = sch.split(axes, factors=[None, 2, 4, 8], names=["a", "b", "c", "d"])
    assert loops(sch, "Z") == [("a", 2), ("b", 2), ("c", 4), ("d", 8), ("j", 128), ("k", 128)]
    assert [sch.get(x).var.name for x in (a, b, c, d)] == ["a", "b", "c", "d"]
    assert "for a, b, c, d, j, k in T.grid(2, 2, 4, 8, 128, 128):" in sch.script()
    assert str(a) == "for a in range(2)"
    same(sch.func)
    verify_trace_roundtrip(sch, matmul)


def test_the_split_as_one_string(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(matmul)
    sch.split(sch.get_axis("j", block="Z"), factors=[16, 8])
    i0, _, _, _ = sch.split(sch.get_axis("i", block="Z"), factors=[None, 2, 4, 8], names=["i0", "i1", "i2", "i3"])
    assert sch.get(sch.get_axis(name="i0")) is sch.get(i0)
    k0, k1 = sch.split("k => k0, k1", factors=[None, 32])
    assert sch.get(sch.get_axis("k1")) is sch.get(k1)
    sch.reorder(k0, i0)
    assert [n for n, _ in loops(sch, "Z")][:1] == ["k0"]
    same(sch.func)
    verify_trace_roundtrip(sch, matmul)


def test_names_never_pile_up() -> None:
    sch = Schedule(matmul)
    for axis in ("i", "j", "k"):
        sch.split(sch.get_axis(axis, block="Z"), [4, None, 2])
    assert [n for n, _ in loops(sch, "Z")] == [f"{axis}_{level}" for axis in "ijk" for level in range(3)]
    sch = Schedule(matmul)
    for level in range(5):
        outer, second, *_ = sch.get_loops("Z")
        sch.split(sch.fuse(outer, second), [None, 4], names=[f"x{level}", f"y{level}"])
    text = sch.script()
    assert loops(sch, "Z") == [("x4", 4096), ("y4", 4), ("k", 128)]
    assert not any(word in text for word in ("outer", "inner", "fused"))
    assert parse(text) == sch.func


@pytest.mark.parametrize("make", [lambda: matmul, defined], ids=["script", "te"])
def test_the_consumer_is_not_split_again(make: Callable[[], PrimFunc], verify_trace_roundtrip: Verify) -> None:
    func = make()
    sch = Schedule(func)
    i0, i1 = sch.split(sch.get_axis("i", block="Z"), factors=[None, 16], names=["i0", "i1"])
    j0, j1 = sch.split(sch.get_axis("j", block="Z"), factors=[None, 32], names=["j0", "j1"])
    sch.reorder(i0, j0, i1, j1)
    sch.reverse_compute_at("relu", j0)
    assert loops(sch, "relu") == [("i0", 8), ("j0", 4), ("ax0", 16), ("ax1", 32)]
    assert sum(inst.op == "split" for inst in sch.trace.insts) == 2
    same(sch.func)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("arguments, reason", [
    ({"factors": [None, 2], "names": ["a"]}, "1 names for 2 factors"),
    ({"factors": [None, None], "names": ["a", "b"]}, "only one factor can be None"),
    ({"factors": [2, 2], "names": ["a", "b"]}, "not larger than or equal to the extent 128"),
])
def test_refused_splits(arguments: dict, reason: str) -> None:
    sch = Schedule(matmul)
    before = sch.script()
    with pytest.raises(ScheduleError, match=reason):
        sch.split(sch.get_axis("i", block="Z"), **arguments)
    assert sch.script() == before


def test_refused_names() -> None:
    sch = Schedule(matmul)
    with refused(ScheduleError, "argument"):
        sch.split("k => a, b", factors=[None, 2], names=["c", "d"])
    with pytest.raises(ScheduleError, match="2 loops are named 'i': around Z; around relu"):
        sch.get_axis("i")
    with pytest.raises(ScheduleError, match="Cannot find a loop with the name: kk"):
        sch.get_axis("kk")
