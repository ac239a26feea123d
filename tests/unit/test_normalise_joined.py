"""Tensors in between that only move elements: joined of what is computed and of parameters, cut, enlarged or padded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused
from spaces import computes
from turns import in_turn

from autosched import te
from autosched.errors import ScheduleError, SpaceError
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.target import get_target
from space import Space, sketch
from space.normalise import DIFFERENCES, KEPT, MOVED, SLID, Wanted, moves, normal_forms

DE10, PORTABLE = "vta-de10", "vta-de10-portable"


class Program:
    """A program as it is written: its parameters in order, and tensors of (channels, rows, columns)."""

    def __init__(self) -> None:
        self.given: list[te.Tensor] = []

    def tensor(self, *shape: int) -> te.Tensor:
        self.given.append(te.placeholder(shape, "int8", name=f"x{len(self.given)}"))
        return self.given[-1]

    def layer(self, x: te.Tensor, channels: int, taps: int = 1) -> te.Tensor:
        """A convolution of as many places, with zeros around."""
        if taps > 1:
            x = padded(x)
        c, h, w = (int(e.value) for e in x.shape)
        weight, n = self.tensor(channels, c, taps, taps), len(self.given)
        k, p, q = te.reduce_axis((0, c), f"k{n}"), te.reduce_axis((0, taps), f"p{n}"), te.reduce_axis((0, taps), f"q{n}")
        s = te.compute((channels, h - taps + 1, w - taps + 1), lambda f, y, z: te.sum(
            x[k, y + p, z + q].astype("int32") * weight[f, k, p, q].astype("int32"), axis=[k, p, q]), name=f"s{n}")
        return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 5, 127), -128).astype("int8"), name=f"layer{n}")

    def func(self, *results: te.Tensor) -> PrimFunc:
        return te.create_prim_func([*self.given, *results])


def padded(x: te.Tensor, fill: int = 0) -> te.Tensor:
    c, h, w = (int(e.value) for e in x.shape)
    return te.compute((c, h + 2, w + 2), lambda k, y, z: te.if_then_else(
        te.all(y >= 1, y < h + 1, z >= 1, z < w + 1), x[k, y - 1, z - 1], te.const(fill, "int8")), name=f"{x.name}_padded")


def enlarged(x: te.Tensor) -> te.Tensor:
    c, h, w = (int(e.value) for e in x.shape)
    return te.compute((c, h * 2, w * 2), lambda k, y, z: x[k, y // 2, z // 2], name=f"{x.name}_larger")


def joined(one: te.Tensor, two: te.Tensor, dim: int = 0) -> te.Tensor:
    at = int(one.shape[dim].value)
    shape = tuple(int(a.value) + (int(b.value) if d == dim else 0) for d, (a, b) in enumerate(zip(one.shape, two.shape)))
    return te.compute(shape, lambda *i: te.if_then_else(
        i[dim] < at, one(*i), two(*[v - at if d == dim else v for d, v in enumerate(i)])), name="joined")


def cut(x: te.Tensor, begin: int, end: int) -> te.Tensor:
    return te.compute((end - begin, *x.shape[1:]), lambda k, y, z: x[k + begin, y, z], name=f"{x.name}_from{begin}")


def largest(x: te.Tensor, step: int = 1) -> te.Tensor:
    """Of each window of 3 x 3."""
    c, h, w = (int(e.value) for e in x.shape)
    p, q = te.reduce_axis((0, 3), "wp"), te.reduce_axis((0, 3), "wq")
    return te.compute((c, (h - 3) // step + 1, (w - 3) // step + 1), lambda k, y, z: te.max(
        x[k, y * step + p, z * step + q], axis=[p, q]), name=f"{x.name}_largest")


def relu(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *i: te.max(x(*i), te.const(0, "int8")), name=f"{x.name}_relu")


@pytest.mark.parametrize("read", ["computed", "product", "windows"])
@pytest.mark.parametrize(("channels", "first", "target"), in_turn(
    (((16, 16), True), ((20, 5), True), ((20, 5), False)), (DE10, PORTABLE)))
def test_what_is_joined_of_a_parameter_is_read_part_by_part(
    read: str, channels: tuple[int, int], first: bool, target: str
) -> None:
    p = Program()
    made, given = p.layer(p.tensor(9, 3, 2), channels[0]), p.tensor(channels[1], 3, 2)
    both = joined(made, given) if first else joined(given, made)
    computes(p.func(relu(both) if read == "computed" else p.layer(both, 6, 3 if read == "windows" else 1)), target)


def test_rows_of_a_parameter_stand_before_what_is_made() -> None:
    p = Program()
    both = joined(p.tensor(20, 1, 2), p.layer(p.tensor(9, 3, 2), 20), 1)
    computes(p.func(p.layer(both, 6)), DE10)


def test_what_windows_read_across_the_seam_is_no_part() -> None:
    """The twin."""
    p = Program()
    both = joined(p.tensor(20, 2, 2), p.layer(p.tensor(9, 3, 2), 20), 1)
    with pytest.raises(SpaceError, match="joined' reads layer3 at another place than it writes"):
        Space(p.func(p.layer(both, 6, 3)), DE10)


def test_what_is_joined_is_joined_again() -> None:
    """Each layer reads all that is before it: what is joined last is cut first."""
    p = Program()
    x = p.tensor(16, 3, 2)
    two = joined(x, p.layer(x, 16, 3))
    computes(p.func(p.layer(joined(two, p.layer(two, 16, 3)), 7)), DE10)


@pytest.mark.parametrize(("of", "target"), in_turn((False, True), (DE10, PORTABLE)))
def test_what_is_enlarged_is_padded_or_joined(of: bool, target: str) -> None:
    p = Program()
    coarse = enlarged(p.layer(p.tensor(9, 2, 2), 20))
    computes(p.func(p.layer(joined(coarse, p.tensor(3, 4, 4)) if of else coarse, 6, 3)), target)


def test_parts_of_what_is_made_are_read_by_themselves() -> None:
    """Whole elements, which a stage and a product read; and two layers further on all parts side by side."""
    p = Program()
    made = p.layer(p.tensor(9, 3, 2), 32)
    left, right = cut(made, 0, 16), cut(made, 16, 32)
    other = p.layer(right, 16, 3)
    more = te.compute(right.shape, lambda *i: ((right(*i).astype("int32") + other(*i).astype("int32")) >> 1).astype("int8"),
                      name="more")
    computes(p.func(p.layer(joined(joined(left, right), more), 9)), DE10)


def test_what_the_host_joins_with_a_part_of_a_parameter_it_takes_from_there() -> None:
    p = Program()
    x = p.tensor(32, 3, 2)
    both = joined(cut(x, 0, 16), p.layer(cut(x, 16, 32), 16))
    computes(p.func(te.compute((32, 3, 2), lambda k, y, z: both[k % 2 * 16 + k // 2, y, z], name="dealt")), DE10)


def test_no_program_that_moves_nothing_it_makes_has_such_a_form() -> None:
    p = Program()
    func = p.func(p.layer(relu(p.layer(p.tensor(9, 3, 2), 20)), 6))
    assert [len(sch.trace.insts) for _, sch in normal_forms(func, get_target(DE10), Wanted(loaded=True))] == [0]


@pytest.mark.parametrize(("end", "target"), in_turn(
    ("relu", "largest", "largest two apart", "largest of the largest"), (DE10, PORTABLE)))
def test_what_is_stored_is_padded_for_stages(end: str, target: str) -> None:
    """A load puts zeros around, and a product widens: nothing of it is in the accumulator still."""
    p = Program()
    made = p.layer(p.tensor(9, 4, 3), 20)
    ends: dict[str, Callable[[], te.Tensor]] = {
        "relu": lambda: p.layer(relu(padded(made)), 3),
        "largest": lambda: largest(padded(made, -128)),
        "largest two apart": lambda: largest(padded(relu(made)), 2),
        "largest of the largest": lambda: largest(padded(largest(padded(made, -128)), -128)),
    }
    computes(p.func(ends[end]()), target)


def test_zeros_around_zeros_are_zeros_around() -> None:
    p = Program()
    computes(p.func(p.layer(padded(p.layer(p.tensor(9, 2, 2), 5)), 3, 3)), DE10)


@pytest.mark.slow
def test_what_is_flattened_is_summed_over_where_it_lies() -> None:
    """By a block of its own, in front of a layer and of another one: the host lays out the weight."""
    p = Program()
    whole, i = p.layer(p.tensor(9, 4, 3), 5), te.reduce_axis((0, 2), "i")
    made = te.compute((5, 2, 3), lambda k, y, z: te.max(whole[k, y * 2 + i, z], axis=i), name="made")
    flat = te.compute((1, 30), lambda n, k: made[k // 6, k // 3 % 2, k % 3], name="flat")

    def dense(x: te.Tensor, n: int) -> te.Tensor:
        w, k = p.tensor(n, int(x.shape[1].value)), te.reduce_axis((0, x.shape[1]), f"k{n}")
        s = te.compute((1, n), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name=f"s{n}")
        return te.compute((1, n), lambda i, j: te.max(te.min(s[i, j] >> 5, 127), -128).astype("int8"), name=f"dense{n}")

    computes(p.func(dense(dense(flat, 18), 7)), DE10)


@pytest.mark.parametrize(("of", "stays"), [
    (lambda x: te.compute((30, 1, 1), lambda k, y, z: x[k // 6, k // 3 % 2, k % 3], name="moved"), False),
    (lambda x: te.compute((5, 4, 6), lambda k, y, z: x[k, y // 2, z // 2], name="moved"), True),
])
def test_what_a_sum_takes_apart_goes_into_it(of: Callable[[te.Tensor], te.Tensor], stays: bool) -> None:
    """What stands at quotients of places is a copy, which a load makes."""
    p = Program()
    func = p.func(p.layer(of(p.layer(p.tensor(9, 2, 3), 5)), 7))
    sch = Schedule(func)
    moves.merged(sch)
    assert ('T.sblock("moved")' in sch.script()) == stays
    inputs = random_inputs(func, 1)
    assert np.array_equal(run(sch.func, *inputs)[0], run(func, *inputs)[0])


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_window_of_one_element_is_a_stage(step: int) -> None:
    """A step down of a pyramid of features: each second place."""
    p = Program()
    made = p.layer(p.tensor(9, 4, 3), 20)
    i = te.reduce_axis((0, 1), "i")
    one = te.compute((20, 4 // step, 3 // step), lambda k, y, z: te.max(made[k, y * step + i, z * step], axis=i), name="one")
    computes(p.func(p.layer(one, 6)), DE10)


@pytest.mark.parametrize("of", [
    lambda x: te.compute((32, 2, 2), lambda k, y, z: te.if_then_else(
        te.all(k >= 8, k < 24), x[k - 8, y, z], te.const(0, "int8")), name="between"),
    lambda x: te.compute((20, 2, 2), lambda k, y, z: te.if_then_else(k < 7, x[k, 1 - y, z], te.const(0, "int8")), name="some"),
])
def test_what_moves_along_an_element_is_no_load(of: Callable[[te.Tensor], te.Tensor]) -> None:
    """The twin: a load brings whole elements, and no form has another one that only lowering would refuse.

    It is made there, with zeros for what the product in front of it sums over.
    """
    p = Program()
    made = of(p.layer(p.tensor(9, 2, 2), 20))
    func = p.func(relu(made), p.layer(made, 6))
    with pytest.raises(SpaceError, match="at another place than it writes"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sketch, "LAST", tuple(base for base in sketch.LAST if not base.beside))
        Space(func, DE10)
    for target in (DE10, PORTABLE):
        computes(func, target, 2, Wanted(beside=True))


def test_what_becomes_pixels_is_read_by_a_stage_and_a_product() -> None:
    p = Program()
    x = p.layer(p.tensor(9, 2, 2), 20)
    made = te.compute((5, 4, 4), lambda k, y, z: x[k * 4 + y % 2 * 2 + z % 2, y // 2, z // 2], name="dealt")
    computes(p.func(relu(made), p.layer(made, 6)), PORTABLE, base=Wanted(digits=True))


def test_what_the_host_joins_is_padded_for_a_stage() -> None:
    p = Program()
    computes(p.func(relu(padded(joined(p.tensor(16, 1, 2), p.tensor(16, 2, 2), 1)))), DE10)


def test_what_is_compared_is_read_by_others_too() -> None:
    p = Program()
    made = p.layer(p.tensor(9, 4, 3), 20)
    computes(p.func(largest(made), p.layer(made, 6, 3)), DE10)


def test_what_had_a_form_has_no_other() -> None:
    """A stage on an enlarged image is made where it is read; that it may be loaded, too, is for where nothing else leads on."""
    p = Program()
    func = p.func(relu(enlarged(p.layer(p.tensor(9, 2, 2), 20))))
    assert [sketch.done for sketch in Space(func, DE10).sketches] == [(MOVED,)]
    # Nor are windows compared in a copy that is wide, of what the host takes as it is.
    p = Program()
    made = p.layer(p.tensor(9, 4, 4), 20)
    assert [sketch.done for sketch in Space(p.func(made, largest(made)), DE10).sketches] == [
        (DIFFERENCES,), (DIFFERENCES, KEPT), (DIFFERENCES, KEPT, SLID)]


def pool_and(other: Callable[[te.Tensor], te.Tensor]) -> PrimFunc:
    x = te.placeholder((6, 4), "int8", name="x")
    k = te.reduce_axis((0, 4), "k")
    pool = te.compute((6,), lambda i: te.max(x[i, k].astype("int32"), axis=k), name="pool")
    return te.create_prim_func([x, pool, other(x)])


@pytest.mark.parametrize(("other", "shared"), [
    (lambda x: te.compute((6, 4), lambda i, j: x[i, j], name="other"), False),
    (lambda x: te.compute((6, 4), lambda i, j: te.max(x[i, j], x[i, 3 - j]), name="other"), False),
    (lambda x: te.compute((6, 4), lambda i, j: x[i, j].astype("int32") + x[i, 3 - j].astype("int32"), name="other"), True),
])
def test_a_wide_copy_is_for_those_that_convert_all(other: Callable[[te.Tensor], te.Tensor], shared: bool) -> None:
    func = pool_and(other)
    sch = Schedule(func)
    sch.cache_cast("pool", "x")
    assert ("x_int32[" in sch.script().partition('T.sblock("other")')[2]) == shared
    inputs = random_inputs(func, 1)
    for got, wanted in zip(run(sch.func, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)
    if not shared:
        with refused(ScheduleError, "reader"):
            Schedule(func).cache_cast("other", "x")
