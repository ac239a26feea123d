"""What a form in whole elements is estimated to take, before it has any schedule."""

from __future__ import annotations

from autosched import te
from autosched.ir.stmt import PrimFunc
from autosched.target import get_target
from autosched.workloads import workload
from space.normalise import normal_forms
from space.normalise.estimate import Estimate, estimate

TARGET = get_target("vta-de10")  # 16 lanes of 16, and 8 bytes a cycle


def test_loads_are_of_all_that_is_given() -> None:
    func = workload("dense:m=1,k=256,n=256,bias=0,tail=cast").func
    assert estimate(func, TARGET) == Estimate((256 + 256 * 256) / 8, (256 + 256 * 256) / 8)


def test_products_begin_somewhere_and_results_are_stored() -> None:
    func = workload("dense:m=64,k=16,n=64,bias=0,tail=cast").func
    assert estimate(func, TARGET) == Estimate(64 * 4 * (1 + 1), 64 * 64 / 8)


def test_operations_with_tensors_take_two_cycles_and_what_is_in_the_accumulator_is_not_loaded() -> None:
    func = workload("dense:m=64,k=32,n=64,bias=1").func
    # A bias (2), a shift, two clips; the bias is loaded in int32.
    assert estimate(func, TARGET) == Estimate(64 * 4 * (2 + 1 + 5), (64 * 32 + 32 * 64 + 64 * 4) / 8)


def padded(size: int) -> PrimFunc:
    """A 3x3 convolution of 32 channels to 16, whose padding is a stage."""
    x, w = te.placeholder((32, size, size), "int8", name="x"), te.placeholder((16, 32, 3, 3), "int8", name="w")
    around = te.compute((32, size + 2, size + 2), lambda c, i, j: te.if_then_else(
        te.all(i >= 1, i <= size, j >= 1, j <= size), x[c, i - 1, j - 1], te.const(0, "int8")), name="p")
    c, u, v = (te.reduce_axis((0, n), name=name) for n, name in ((32, "c"), (3, "u"), (3, "v")))
    total = te.compute((16, size, size), lambda o, i, j: te.sum(
        around[c, i + u, j + v].astype("int32") * w[o, c, u, v].astype("int32"), axis=[c, u, v]), name="s")
    return te.create_prim_func([x, w, te.compute(
        total.shape, lambda *i: te.min(te.max(total(*i) >> 5, -128), 127).astype("int8"), name="out")])


def test_what_is_only_copied_is_not_stored() -> None:
    (_, sch), *_ = normal_forms(padded(16), TARGET)
    assert estimate(sch.func, TARGET).moved == (32 * 256 + 16 * 32 * 9) / 8 > 16 * 256 / 8
