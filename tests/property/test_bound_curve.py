"""Results that bend between two slopes, or rise by no power of two: no program makes them in fewer cycles than is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from turns import in_turn

from autosched import te
from autosched.ir import PrimFunc
from autosched.search import TuneReport, tune
from space import Space
from space.least_curve import Slope, slopes_of

Table = npt.NDArray[np.int32]

BITS, WIDTH = 6, 12  # of a byte, and of an accumulator
U = np.arange(-32, 32, dtype=np.int32)
FACTORS = (-8, -4, -3, -2, -1, 1, 2, 3, 4, 7, 8)


def wrapped(x: Table, bits: int) -> Table:
    return (x + (1 << bits - 1) & (1 << bits) - 1) - (1 << bits - 1)


def of_one(y: Table, element: bool) -> Iterator[Table]:
    """What a cycle makes of what an accumulator holds, up to a constant: rows of tables by the sum."""
    for c in range(int(y.min()) + 1, int(y.max())):
        yield np.maximum(y, c)
        yield np.minimum(y, c)
    for s in range(1, WIDTH):
        for e in range(0, 1 << s, max(1, (1 << s) >> BITS)):
            yield wrapped(y + e, WIDTH) >> s
    for s in range(1, BITS):
        yield wrapped(y << s, WIDTH)
    for f in FACTORS if element else (1,):
        yield wrapped(y + f * U, WIDTH)  # the product again
    yield from of_two(0 * y, y)  # a byte that was stored, in an empty accumulator


def of_two(x: Table, y: Table) -> Iterator[Table]:
    """The same of two: to the one is added a byte of the other, that was stored."""
    for e in range(1 << BITS):
        byte = wrapped(y + e, BITS)
        for f in FACTORS:
            yield wrapped(x + f * byte, WIDTH)


def of_itself(y: Table) -> Iterator[Table]:
    """What two cycles make of one accumulator alone, additions aside: a shift by itself."""
    for e in range(32):
        for c in range(-2, 3):
            by = y + e & 31
            yield (y + c) >> by
            yield wrapped((y + c) << (-by & 31) % WIDTH, WIDTH)


def makes(tables: Iterator[Table], wanted: Table) -> bool:
    for made in tables:
        off = made - wanted & (1 << BITS) - 1
        if (off == off[..., :1]).all(axis=-1).any():
            return True
    return False


def least(wanted: Table, element: bool) -> int:
    """The fewest cycles, up to two, of any program that makes what is wanted of a sum; 3 if there is none.

    Values stay where they are, accumulators need not be written before products, and constants are added for nothing: there are
    more such programs than the machine has.

    Args:
        wanted: results by the sum.
        element: whether the sum is an operand's element: then its products may have any factor.
    """
    if makes(of_one(U, element), wanted) or makes(of_two(U, U), wanted):
        return 1
    first = np.stack([x - x[0] for x in (*of_one(U, element), *of_two(U, U))])
    first = np.unique(first, axis=0)
    ahead = np.broadcast_to(U, first.shape)
    second = (t for pair in ((first, first), (first, ahead), (ahead, first)) for t in of_two(*pair))
    return 2 if makes(of_one(first, element), wanted) or makes(second, wanted) or makes(of_itself(U), wanted) else 3


@pytest.mark.parametrize(("wanted", "count", "element"), [
    (np.maximum(U, U >> 2), 3, True),  # SHR to another place, and MAX of both; or MAX of 3 u and 0, u once more, SHR
    (np.maximum(U, -U), 2, True),  # MAX of -2 u and 0, and u
    (np.minimum(np.maximum(U, -U), 31), 3, True),  # of 32, too
    (np.maximum(U, 3 * U), 2, True),
    (np.maximum(U >> 1, U >> 2), 3, False),
    (11 * U >> 5, 3, False),
    (U >> 1, 1, False),
    (np.minimum(U >> 1, 9), 2, False),
])
def test_no_program_bends_a_sum_in_fewer_cycles(wanted: Table, count: int, element: bool) -> None:
    """Small numbers; the programs of one cycle, or of two, are all tried."""
    assert least(wanted, element) == count


SHAPE = (1, 2, 6, 6, 1, 16)
VECTORS = 72


def curved(tail: Callable[[Any], Any], ranges: tuple[Any, Any] = (None, None), blocks: int = 2, bias: bool = True) -> PrimFunc:
    """A 1x1 convolution, and what is done to its sums.

    Args:
        tail: that.
        ranges: of the data and the weights.
        blocks: of sixteen channels that are summed.
        bias: whether there is one.
    """
    data = te.placeholder((1, blocks, 6, 6, 1, 16), "int8", name="data")
    weight = te.placeholder((2, blocks, 1, 1, 16, 16), "int8", name="weight")
    added = te.placeholder((1, 2, 1, 1, 1, 16), "int32", name="bias")
    k, ib = te.reduce_axis((0, blocks), name="k"), te.reduce_axis((0, 16), name="ib")
    total = te.compute(SHAPE, lambda n, co, y, x, nb, cb: te.sum(
        data[n, k, y, x, nb, ib].astype("int32") * weight[co, k, 0, 0, cb, ib].astype("int32"), axis=[k, ib]), name="total")
    made = total if not bias else te.compute(
        SHAPE, lambda n, co, y, x, nb, cb: total[n, co, y, x, nb, cb] + added[0, co, 0, 0, 0, cb], name="made")
    both = te.compute(SHAPE, lambda *i: tail(made[i]), name="both")
    out = te.compute(SHAPE, lambda *i: both[i].astype("int8"), name="out")
    own = [added] if bias else []
    return replace(te.create_prim_func([data, weight, *own, out]), value_ranges=(*ranges, *(None for _ in own), None))


def element(tail: Callable[[Any], Any], values: tuple[int, int] | None = None) -> PrimFunc:
    """What is done to the elements of an int8 tensor."""
    data = te.placeholder((64, 32), "int8", name="data")
    out = te.compute((64, 32), lambda *i: tail(data[i].astype("int32")).astype("int8"), name="out")
    return replace(te.create_prim_func([data, out]), value_ranges=(values, None))


def leaky(v: Any, first: int = 8, second: int = 11) -> Any:
    return te.max(v >> first, v >> second)


def clip(e: Any, low: int | None = -128, high: int | None = 127) -> Any:
    made = e if low is None else te.max(e, te.const(low, "int32"))
    return made if high is None else te.min(made, te.const(high, "int32"))


# By name: the program, and its cycles of a vector besides the products: 1 of the first write among them.
CURVES: dict[str, tuple[PrimFunc, int]] = {
    "a leaky ReLU": (curved(lambda v: clip(leaky(v))), 7),
    "without a bias": (curved(lambda v: clip(leaky(v)), bias=False), 7),
    "one clip": (curved(lambda v: clip(leaky(v), low=None)), 6),
    "no clip": (curved(leaky), 5),
    "a clip that sums do not reach": (curved(lambda v: clip(leaky(v)), blocks=1, bias=False), 6),
    "of data that are not negative": (curved(lambda v: clip(leaky(v)), ((0, 127), None)), 7),
    "of data that the host may double": (curved(lambda v: clip(leaky(v)), ((-63, 63), None)), 1),
    "of weights that are not negative, and such data": (curved(lambda v: clip(leaky(v)), ((0, 127), (0, 127))), 1),
    "half of it": (curved(lambda v: clip(leaky(v, 8, 9))), 4),  # the sum's sign may be the amount, less one
    "a quarter of it": (curved(lambda v: clip(leaky(v, 8, 10))), 7),
    "a quarter of it, in fewer steps": (curved(lambda v: clip(leaky(v, 9, 11))), 7),
    "in too few for two shifts": (curved(lambda v: clip(leaky(v, 10, 12))), 6),
    "along so few sums that a byte holds them": (curved(lambda v: clip(leaky(v, 2, 5))), 6),
    "along more": (curved(lambda v: clip(leaky(v, 3, 6))), 7),
    "just enough steps for a slope to be told": (curved(lambda v: clip(leaky(v, 9, 12))), 7),
    "a slope of too few steps": (curved(lambda v: clip(leaky(v, 11, 14))), 4),
    "too few": (curved(lambda v: clip(leaky(v, 10, 13))), 4),
    "a falling branch, which is another sum": (curved(lambda v: clip(te.max(v >> 8, (0 - v) >> 11))), 3),
    "37 v": (curved(lambda v: clip((v * 37) >> 12)), 6),
    "32 v": (curved(lambda v: clip((v * 32) >> 12)), 4),
    "11 v, along few sums": (curved(lambda v: clip((v * 11) >> 5)), 4),
    "33 v, nearly a power of two": (curved(lambda v: clip((v * 33) >> 12)), 4),
    "an element": (element(lambda v: te.max(v, v >> 3)), 4),
    "an element, clipped": (element(lambda v: clip(te.max(v, v >> 3), -12, 90)), 6),
    "an element of few values": (element(lambda v: te.max(v, v >> 3), (-100, 100)), 1),
    "an absolute value": (element(lambda v: clip(te.max(v, 0 - v), None)), 4),
    "an absolute value that nothing clips": (element(lambda v: te.max(v, 0 - v)), 3),
    "a clip of an element": (element(lambda v: clip(v, -20, 20)), 3),
}


@pytest.mark.parametrize("name", CURVES)
def test_what_a_bend_makes_due(name: str) -> None:
    func, cycles = CURVES[name]
    machine = Space(func, "vta-de10").machine
    assert machine.vector == cycles


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(("name", "target"), in_turn(CURVES))
def test_schedules_of_bent_sums_stay_above(name: str, target: str, tmp_path: Path) -> None:
    found = tune(CURVES[name][0], target=target, trials=4, jobs=1, log=tmp_path, sampler="draft")
    assert isinstance(found, TuneReport) and found.verified and found.cycles is not None
    assert found.machine_bound <= found.cycles and not found.violations


def test_slopes_are_stretches_of_runs_that_are_alike() -> None:
    at = np.arange(-64, 64)
    assert slopes_of(np.maximum(at, at >> 2) % 256) == [Slope(1, 4, 4, 15), Slope(1, 1, 1, 63)]
    assert slopes_of((11 * at >> 5) % 256) == [Slope(1, 2, 3, 42)]
    assert slopes_of(np.maximum(at, -at) % 256) == [Slope(-1, 1, 1, 63), Slope(1, 1, 1, 62)]
    assert slopes_of(0 * at) == [] == slopes_of(2 * at % 256)


def rows(products: int, tail: Callable[[Any], Any], padded: int = 0) -> PrimFunc:
    """Sums along a row of so many products, in a layout that the space chooses.

    Args:
        products: that.
        tail: what is done to sums.
        padded: elements of padding at either end, of which the first and the last sums read some.
    """
    data, weight = te.placeholder((32, 64), "int8", name="data"), te.placeholder((32, products), "int8", name="weight")
    held = data if not padded else te.compute((32, 64 + 2 * padded), lambda c, x: te.if_then_else(
        te.all(x >= padded, x < 64 + padded), data[c, x - padded], te.const(0, "int8")), name="held")
    k, size = te.reduce_axis((0, products), name="k"), 64 + 2 * padded - products + 1
    total = te.compute((32, size), lambda c, x: te.sum(
        held[c, x + k].astype("int32") * weight[c, k].astype("int32"), axis=k), name="total")
    both = te.compute((32, size), lambda *i: clip(tail(total[i])), name="both")
    out = te.compute((32, size), lambda *i: both[i].astype("int8"), name="out")
    return te.create_prim_func([data, weight, out])


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(("products", "padded", "tail", "cycles"), [
    (2, 0, lambda v: leaky(v, 3, 6), 6), (3, 0, lambda v: leaky(v, 3, 6), 7), (3, 1, lambda v: leaky(v, 3, 6), 6),
    # Squares of places are laid out with their padding: how many products that leaves is not told.
    (4, 1, lambda v: leaky(v, 3, 6), 6),
    (5, 0, lambda v: leaky(v, 3, 5), 6), (6, 0, lambda v: leaky(v, 3, 5), 7),
    (10, 0, lambda v: (v * 37) >> 12, 4), (11, 0, lambda v: (v * 37) >> 12, 6), (11, 1, lambda v: (v * 37) >> 12, 4),
    (12, 1, lambda v: (v * 37) >> 12, 6),
])
def test_products_of_few_are_formed_again_in_free_lanes(
    products: int, padded: int, tail: Callable[[Any], Any], cycles: int, tmp_path: Path,
) -> None:
    """Seven times a sum of two is a micro-op, and so a scale takes no shift; padding leaves the first sums fewer products."""
    func = rows(products, tail, padded)
    assert Space(func, "vta-de10").machine.vector == cycles
    found = tune(func, target="vta-de10", trials=4, jobs=1, log=tmp_path, sampler="draft")
    assert isinstance(found, TuneReport) and found.verified and found.cycles is not None and found.machine_bound <= found.cycles


@pytest.mark.parametrize(("target", "cycles"), [
    ("vta-de10", 7), ("vta-de10-portable", 7), ("vta-fsim", 4),
])
def test_where_other_machines_have_another_way_nothing_more_is_due(target: str, cycles: int) -> None:
    """An ALU that multiplies scales in one operation, and what bends in two."""
    assert Space(CURVES["a leaky ReLU"][0], target).machine.vector == cycles


@pytest.mark.parametrize(("bias", "cycles"), [((-4096, 4096), 8), ((1000, 1004), 1), ((70000, 120000), 1)])  # 2 to write and add
def test_an_addend_that_a_product_brings_in_counts_as_zero(bias: tuple[int, int], cycles: int) -> None:
    """The host's digits of a bias of a declared range; of 1000 to 1004 the lowest digit is 40 to 44, and never 0.

    Of 70000 to 120000 every digit may be 0, and the addend may not, which the form says that adds it as it is.
    """
    func = replace(CURVES["a leaky ReLU"][0], value_ranges=(None, None, bias, None))
    space = Space(func, "vta-de10-portable")
    assert ("addend by product",) in [s.done for s in space.sketches]
    assert space.machine.vector == cycles


def product(
    rows: int, columns: int, depth: int, tail: Callable[[Any], Any], held: Callable[..., Any] | None = None,
    again: int = 0,
) -> PrimFunc:
    """A matrix product in a plain layout; weights that are not ``held`` are 0; ``again``: data of so many rows, repeated."""
    data = te.placeholder((again or rows, depth), "int8", name="data")
    weight, k = te.placeholder((columns, depth), "int8", name="weight"), te.reduce_axis((0, depth), name="k")
    factor, moved = weight, data
    if held is not None:
        factor = te.compute(
            (columns, depth), lambda j, r: te.if_then_else(held(j, r), weight[j, r], te.const(0, "int8")), name="held")
    if again:
        moved = te.compute((rows, depth), lambda i, r: data[i % again, r], name="moved")
    total = te.compute((rows, columns), lambda i, j: te.sum(
        moved[i, k].astype("int32") * factor[j, k].astype("int32"), axis=k), name="total")
    both = te.compute((rows, columns), lambda *i: tail(total[i]), name="both")
    return te.create_prim_func([data, weight, te.compute((rows, columns), lambda *i: both[i].astype("int8"), name="out")])


def halving(v: Any) -> Any:
    """v >> (v >> 13), of which an accumulator holds the amount: a shift and a shift by another accumulator, three cycles."""
    lines = [v, (v >> 1) + 4096, (v >> 2) + 8192, (v >> 3) + 11264]
    least = lines[0]
    for line in lines[1:]:
        least = te.min(least, line)
    return te.max(least, te.const(-1, "int32"))


def test_amounts_that_come_one_after_another_make_slopes_and_ends() -> None:
    """The amount's low five bits count: a negative one is as good as 31, which leaves one number."""
    v = np.arange(-32512, 32769, dtype=np.int64)
    lines = np.minimum.reduce([v, (v >> 1) + 4096, (v >> 2) + 8192, (v >> 3) + 11264])
    assert np.array_equal(np.maximum(lines, -1) & 255, (v >> ((v >> 13) & 31)) & 255)
    assert Space(product(512, 64, 2, halving), "vta-de10").machine.vector <= 4


@pytest.mark.parametrize(("held", "cycles"), [
    (None, 7), (lambda j, r: r < 12, 7), (lambda j, r: te.any(j < 16, r < 1), 6), (lambda j, r: r < j + 1, 6),
    (lambda j, r: r < j % 2 + 2, 6), (lambda j, r: r < j % 2 + 3, 7), (lambda j, r: te.equal(j % 8, 0), 7),
])
def test_sums_of_fewer_products_than_others_count_for_all(held: Callable[..., Any] | None, cycles: int) -> None:
    """Where a mask is no box some sums may be of one product, of which lanes hold seven for nothing: one shift will do then."""
    assert Space(product(64, 32, 16, lambda v: clip(leaky(v, 3, 6)), held), "vta-de10").machine.vector == cycles
    alone = Space(product(64, 32, 1, lambda v: clip(leaky(v, 3, 6))), "vta-de10").machine.vector
    assert alone == 6


@pytest.mark.parametrize("tail", [lambda v: clip(leaky(v)), lambda v: clip(v >> 8)], ids=["leaky", "shift"])
def test_results_of_data_that_are_laid_out_repeatedly_count_once(tail: Callable[[Any], Any], tmp_path: Path) -> None:
    """The results of the data's own rows, and a copy of each, are a program too."""
    whole, own = product(512, 32, 64, tail, again=32), product(32, 32, 64, tail)
    source = te.placeholder((32, 32), "int8", name="source")
    copy = te.create_prim_func([source, te.compute((512, 32), lambda i, j: source[i % 32, j], name="out")])
    cycles = []
    for func in (own, copy):
        found = tune(func, target="vta-de10", trials=4, jobs=1, log=tmp_path, sampler="draft")
        assert isinstance(found, TuneReport) and found.cycles is not None
        cycles.append(found.cycles)
    assert Space(whole, "vta-de10").machine_bound() <= sum(cycles)


@pytest.mark.parametrize(("size", "clips"), [(2, 0), (3, 2)])
def test_a_clip_that_no_sum_reaches_at_the_border_is_not_due(size: int, clips: int) -> None:
    """Of images of 2 x 2 every window reads four of nine places; the middle one of 3 x 3 reads all."""
    data = te.placeholder((8, 1, size, size, 1, 16), "int8", name="data")
    weight = te.placeholder((2, 1, 3, 3, 16, 16), "int8", name="weight")
    held = te.compute((8, 1, size + 2, size + 2, 1, 16), lambda n, c, i, j, a, b: te.if_then_else(
        te.all(i >= 1, i < size + 1, j >= 1, j < size + 1), data[n, c, i - 1, j - 1, a, b], te.const(0, "int8")), name="held")
    u, v, k = (te.reduce_axis((0, n), name=name) for n, name in ((3, "u"), (3, "v"), (16, "k")))
    total = te.compute((8, 2, size, size, 1, 16), lambda n, o, i, j, a, b: te.sum(
        held[n, 0, i + u, j + v, a, k].astype("int32") * weight[o, 0, u, v, b, k].astype("int32"), axis=[u, v, k]), name="total")
    both = te.compute(total.shape, lambda *i: clip(total[i] >> 13), name="both")
    func = te.create_prim_func([data, weight, te.compute(total.shape, lambda *i: both[i].astype("int8"), name="out")])
    func = replace(func, value_ranges=(None, (-127, 127), None))
    assert Space(func, "vta-de10").machine.vector == 2 + clips
