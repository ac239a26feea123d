"""A sum that an operand joins behind shifts and clips: no chain of operations is shorter than docs/bound/residuals.md says."""

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
from autosched.ir.constant import of_buffer
from autosched.search import TuneReport, tune
from space import Space

Table = npt.NDArray[np.int16]

SUMS, CAME = 24, 10  # values of a sum and of the operand: [-12, 12) and [-5, 5)
U: Table = np.arange(-SUMS // 2, SUMS // 2, dtype=np.int16)[:, None]
R: Table = np.arange(-CAME // 2, CAME // 2, dtype=np.int16)[None, :]
WRAP = 32  # what is stored are the low bits, of which a result has these many values
CLIPS = range(-34, 35)  # of tables that begin with 0
NEAR = range(-16, 17)  # of others
SHIFTS = (1, 2)
FACTORS = (-2, -1, 1, 2)  # of the operand, by one product


def steps(t: Table, free: bool) -> Iterator[Table]:
    """Every operation on tables (tables, sums, operands): clips, shifts, the operand's products; additions if they count."""
    for c in CLIPS if free else NEAR:
        yield np.maximum(t, c)
        yield np.minimum(t, c)
    for s in SHIFTS:
        for e in range(1 << s if free else 1):
            yield (t + e) >> s
        yield t << s
    for f in FACTORS:
        yield t + f * R
    for c in () if free else NEAR:
        yield t + c


def kept(tables: Table, wanted: Table | None, free: bool) -> Table:
    """Tables, each once, that still tell what is wanted: where one has the same value for an operand, so has the result."""
    if free:
        tables = tables - tables[:, :1, :1]
    tables = tables[np.abs(tables).max(axis=(1, 2)) < 128]
    if wanted is not None:
        same = tables[:, 1:] == tables[:, :-1]
        differs = (wanted[1:] - wanted[:-1]) % WRAP != 0
        tables = tables[~(same & differs).any(axis=(1, 2))]
    return np.unique(tables.astype(np.int8), axis=0).astype(np.int16)


def is_one_step(tables: Table, wanted: Table, free: bool) -> bool:
    """Whether one operation more makes what is wanted of some table, additions aside if they are free."""
    for part in np.array_split(tables, len(tables) // 4096 + 1):
        for made in steps(part, free):
            off = (made - wanted) % WRAP
            if (off == (off[:, :1, :1] if free else 0)).all(axis=(1, 2)).any():
                return True
    return False


def least(wanted: Table, most: int, free: bool = True) -> int:
    """The fewest operations of a chain that makes what is wanted of sums; more than most if none of so many does.

    A chain begins with the sum, or with the operand, to which the sum is added later.

    Args:
        wanted: results, by sums and operands.
        most: operations.
        free: whether additions of constants count none; if they count, one ahead of all operations is free, in a sum's bias.
    """
    start = [0] if free else NEAR
    tables: Table = np.stack([np.broadcast_to(U + c, wanted.shape) for c in start])
    ahead: Table = np.stack([np.full(wanted.shape, c, dtype=np.int16) for c in start])  # of the sum
    for count in range(1, most + 1):
        if is_one_step(tables, wanted, free):
            return count
        if count < most:
            ahead = kept(np.concatenate(list(steps(ahead, free))), None, free)
            both = [*steps(tables, free), ahead + U]
            tables = kept(np.concatenate(both), wanted, free)
    return most + 1


def clip(x: Table, low: int, high: int) -> Table:
    return np.minimum(np.maximum(x, low), high)


@pytest.mark.parametrize(("wanted", "count", "free"), [
    (clip(U + R, -3, 3), 3, True),  # a clip alone: the operand, and two
    (clip(np.minimum(U >> 1, 2) + R, -3, 2), 5, True),  # two minima: SHR, MIN, the operand, MAX, MIN
    (clip(clip(U, -3, 2) + R, -3, 2), 5, True),
    pytest.param(clip(clip(U >> 1, -3, 2) + R, -3, 2), 6, True, marks=pytest.mark.slow),
    ((U >> 1) + (R >> 1), 4, True),  # SHR, SHL, the operand, SHR
    ((2 * (U >> 1) + R) >> 2, 4, True),
    ((U + R + 1) >> 1, 2, True),  # the operand, SHR
    ((clip(U >> 1, -3, 2) + R + 1) >> 1, 4, True),  # twice the operand, and one shift
    ((clip(U >> 2, -2, 1) + R + 1) >> 1, 5, True),  # four times the operand is no product: another shift
    ((U >> 1) + (R >> 1), 4, False),
    ((U >> 1) + ((R + 1) >> 1), 4, False),  # the accumulator starts with the one
    # A clip ahead of the operand: the one is added behind all.
    pytest.param(np.minimum(U >> 1, 2) + ((R + 1) >> 1), 6, False, marks=pytest.mark.slow),
    ((2 * (U >> 1) + R + 2) >> 2, 4, False),  # the two come in with the bias
], ids=lambda v: str(v) if not isinstance(v, np.ndarray) else "")
def test_no_chain_makes_a_joined_sum_in_fewer_operations(wanted: Table, count: int, free: bool) -> None:
    """What docs/bound/residuals.md counts, for small numbers: all chains of fewer operations are tried."""
    wanted = np.broadcast_to(wanted, (SUMS, CAME)).astype(np.int16)
    assert least(wanted, count - 1, free) == count


SHAPE = (1, 2, 6, 6, 1, 16)
VECTORS = 72


def scaled(total: Any, bias: Any, *, shift: int = 8, low: int | None = -128, high: int | None = 127) -> Any:
    """A sum, scaled and clipped as layers are."""
    made = total + bias >> shift if shift else total + bias
    made = made if low is None else te.max(made, te.const(low, "int32"))
    return made if high is None else te.min(made, te.const(high, "int32"))


def joined(
    head: Callable[[Any, Any], Any], tail: Callable[[Any, Any], Any], came: tuple[int, int] | None = None,
    res: Callable[..., tuple[Any, ...]] | None = None, extents: tuple[int, ...] = SHAPE, same: bool = False,
) -> PrimFunc:
    """A 1x1 convolution, what is done to its sums, and what is done to that and an operand of its own.

    Args:
        head: of the sum and its bias.
        tail: of what that makes, and the operand.
        came: range of the operand.
        res: where it is read, by where the result is; the same place if None.
        extents: of the operand.
        same: whether the operand is what is convolved.
    """
    data = te.placeholder((1, 2, 6, 6, 1, 16), "int8", name="data")
    weight = te.placeholder((2, 2, 1, 1, 16, 16), "int8", name="weight")
    bias = te.placeholder((1, 2, 1, 1, 1, 16), "int32", name="bias")
    other = data if same else te.placeholder(extents, "int8", name="res")
    k, ib = te.reduce_axis((0, 2), name="k"), te.reduce_axis((0, 16), name="ib")
    total = te.compute(SHAPE, lambda n, co, y, x, nb, cb: te.sum(
        data[n, k, y, x, nb, ib].astype("int32") * weight[co, k, 0, 0, cb, ib].astype("int32"), axis=[k, ib]), name="total")
    made = te.compute(SHAPE, lambda n, co, y, x, nb, cb: head(total[n, co, y, x, nb, cb], bias[0, co, 0, 0, 0, cb]), name="made")
    at = res or (lambda *i: i)
    both = te.compute(SHAPE, lambda *i: tail(made[i], other[at(*i)].astype("int32")), name="both")
    out = te.compute(SHAPE, lambda *i: both[i].astype("int8"), name="out")
    own = [] if same else [other]
    ranges = (None, None, (-65536, 65536), *([came] if own else []), None)
    return replace(te.create_prim_func([data, weight, bias, *own, out]), value_ranges=ranges)


def narrowed(e: Any, low: int = -128) -> Any:
    return te.min(te.max(e, te.const(low, "int32")), te.const(127, "int32"))


# By name: the program, and its cycles of a vector besides the products: 1 of the first write and 1 of the operand among them.
JOINED: dict[str, tuple[PrimFunc, int]] = {
    "two clips": (joined(scaled, lambda c, r: narrowed(c + r)), 7),
    "two clips, of which a shift is made one": (joined(scaled, lambda c, r: narrowed((c + 2 * r + 1) >> 1, 0), (0, 127)), 7),
    "a maximum that the other one covers": (joined(scaled, lambda c, r: narrowed(c + r, 0)), 6),
    "no clip ahead": (joined(lambda t, b: scaled(t, b, low=None, high=None), lambda c, r: narrowed(c + r)), 5),
    "one minimum ahead": (joined(lambda t, b: scaled(t, b, low=None), lambda c, r: narrowed(c + r)), 6),
    "no clip behind": (joined(lambda t, b: scaled(t, b, low=-64, high=63), lambda c, r: c + r, (-64, 64)), 5),
    "an operand of too few values for a line to be told": (joined(scaled, lambda c, r: narrowed(c + r), (-2, 2)), 5),
    "steps of the operand's own": (joined(scaled, lambda c, r: narrowed(((c << 1) + r + 1) >> 1)), 10),
    "the same without a constant": (joined(scaled, lambda c, r: narrowed(((c << 1) + r) >> 1)), 9),
    "a constant that the bias takes in": (joined(scaled, lambda c, r: narrowed(((c << 1) + r + 2) >> 2)), 7),
    "steps of its own behind sums without a clip": (joined(
        lambda t, b: scaled(t, b, low=None, high=None), lambda c, r: narrowed(((c << 1) + r + 1) >> 1)), 7),
    "a mean": (joined(scaled, lambda c, r: (c + r + 1) >> 1), 6),
    "a mean, which one product brings in": (joined(lambda t, b: scaled(t, b, shift=6), lambda c, r: (c + r + 1) >> 1), 5),
    "a mean that seven bits are too wide for": (joined(lambda t, b: scaled(t, b, shift=7), lambda c, r: (c + r + 1) >> 1), 6),
    "its negative, which they are not": (joined(lambda t, b: scaled(t, b, shift=7), lambda c, r: (c - r + 1) >> 1), 5),
    "an operand for all rows": (joined(
        scaled, lambda c, r: narrowed(c + r), res=lambda n, co, y, x, nb, cb: (n, co, 0, x, nb, cb),
        extents=(1, 2, 1, 6, 1, 16)), 4),  # the operand is one of six vectors
    "what is convolved": (joined(scaled, lambda c, r: narrowed(c + r), same=True), 5),
    "too few steps for a line": (joined(scaled, lambda c, r: narrowed(c + r), (-3, 60)), 5),
    "as many as it takes": (joined(scaled, lambda c, r: narrowed(c + r), (-4, 60)), 6),
    "an operand that is taken away": (joined(scaled, lambda c, r: narrowed(c - r)), 7),
}


@pytest.mark.parametrize("name", JOINED)
def test_what_an_operand_makes_due(name: str) -> None:
    func, cycles = JOINED[name]
    machine = Space(func, "vta-de10").machine
    assert (machine.vector, machine.terms["stages"] // VECTORS) == (cycles, cycles - 1)


@pytest.mark.parametrize(("name", "cycles"), [("two clips", 2), ("steps of the operand's own", 5), ("no clip ahead", 0)])
def test_the_bound_tells_what_is_due_for_the_operand(name: str, cycles: int) -> None:
    """In a network another layer may take it over."""
    assert Space(JOINED[name][0], "vta-de10").machine.terms["joined"] == VECTORS * cycles


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(("name", "target"), in_turn(JOINED))
def test_schedules_of_joined_sums_stay_above(name: str, target: str, tmp_path: Path) -> None:
    found = tune(JOINED[name][0], target=target, trials=4, jobs=1, log=tmp_path, sampler="draft")
    assert isinstance(found, TuneReport) and found.verified and found.cycles is not None
    assert found.machine_bound <= found.cycles and not found.violations


def plain(head: Callable[[Any, Any], Any], tail: Callable[[Any, Any], Any]) -> PrimFunc:
    """The same in a layout that the space chooses, where 24 channels leave lanes free."""
    data, weight = te.placeholder((24, 6, 6), "int8", name="data"), te.placeholder((32, 24), "int8", name="weight")
    bias, other = te.placeholder((32,), "int32", name="bias"), te.placeholder((32, 6, 6), "int8", name="res")
    k = te.reduce_axis((0, 24), name="k")
    total = te.compute((32, 6, 6), lambda c, y, x: te.sum(
        data[k, y, x].astype("int32") * weight[c, k].astype("int32"), axis=k), name="total")
    made = te.compute((32, 6, 6), lambda c, y, x: head(total[c, y, x], bias[c]), name="made")
    both = te.compute((32, 6, 6), lambda *i: tail(made[i], other[i].astype("int32")), name="both")
    out = te.compute((32, 6, 6), lambda *i: both[i].astype("int8"), name="out")
    return replace(te.create_prim_func([data, weight, bias, other, out]), value_ranges=(None, None, (-65536, 65536), None, None))


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("tail", [lambda c, r: narrowed(c + r), lambda c, r: narrowed(((c << 1) + r + 1) >> 1)])
def test_where_lanes_are_free(tail: Callable[[Any, Any], Any], tmp_path: Path) -> None:
    """Nothing more is due: a lane may bring in a constant, and what several results read comes in once."""
    def bare(c: Any, r: Any) -> Any:
        return c + r

    machine, least = (Space(plain(scaled, t), "vta-de10").machine for t in (tail, bare))
    assert machine.vector == least.vector
    found = tune(plain(scaled, tail), target="vta-de10", trials=4, jobs=1, log=tmp_path, sampler="draft")
    assert isinstance(found, TuneReport) and found.verified and found.cycles is not None and found.machine_bound <= found.cycles


def test_what_several_nests_read_counts_once_at_most() -> None:
    """What two sums need of an operand another program may make once for both."""
    operand = te.placeholder(SHAPE, "int8", name="res")

    def head(k: int) -> list[Any]:
        data = te.placeholder(SHAPE, "int8", name=f"data{k}")
        weight = te.placeholder((2, 2, 1, 1, 16, 16), "int8", name=f"weight{k}")
        ci, ib = te.reduce_axis((0, 2), name=f"ci{k}"), te.reduce_axis((0, 16), name=f"ib{k}")
        total = te.compute(SHAPE, lambda n, co, y, x, nb, cb: te.sum(
            data[n, ci, y, x, nb, ib].astype("int32") * weight[co, ci, 0, 0, cb, ib].astype("int32"), axis=[ci, ib],
        ), name=f"total{k}")
        made = te.compute(SHAPE, lambda *i: scaled(total[i], 0), name=f"made{k}")
        both = te.compute(
            SHAPE, lambda *i: narrowed(((made[i] << 1) + operand[i].astype("int32") + 1) >> 1), name=f"both{k}")
        return [data, weight, te.compute(SHAPE, lambda *i: both[i].astype("int8"), name=f"out{k}")]

    (*first, out), (*second, other) = head(0), head(1)
    machine = Space(te.create_prim_func([operand, *first, *second, out, other]), "vta-de10").machine
    assert machine.vector == 5


@pytest.mark.parametrize(("weight", "stages"), [(100, 0), (127, 2)])
def test_sums_of_constant_weights_reach_no_farther_than_these(weight: int, stages: int) -> None:
    """One weight for each result: of 100, sums of 12 800 at most, which a shift by 8 leaves within the clip."""
    data, given = te.placeholder(SHAPE, "int8", name="data"), te.placeholder((2, 2, 1, 1, 16, 16), "int8", name="weight")
    ci, ib = te.reduce_axis((0, 2), name="ci"), te.reduce_axis((0, 16), name="ib")
    total = te.compute(SHAPE, lambda n, co, y, x, nb, cb: te.sum(
        data[n, ci, y, x, nb, ib].astype("int32") * given[co, ci, 0, 0, cb, ib].astype("int32"), axis=[ci, ib]), name="total")
    made = te.compute(SHAPE, lambda *i: narrowed(total[i] >> (8 if weight == 100 else 6)), name="made")
    func = te.create_prim_func([data, given, te.compute(SHAPE, lambda *i: made[i].astype("int8"), name="out")])
    values = np.zeros((2, 2, 1, 1, 16, 16), dtype=np.int8)
    values[:, 0, 0, 0, range(16), range(16)] = weight
    name = next(b for b in func.buffers if b.name == "weight")
    params = tuple(b for b in func.params if b is not name)
    func = replace(func, params=params, constants=(of_buffer(name, values),), value_ranges=())
    assert Space(func, "vta-de10").machine.vector == 2 + stages


def of_constants(values: Any, promised: tuple[Any, ...] = (), tail: Callable[[Any], Any] | None = None) -> PrimFunc:
    """A 1x1 convolution with weights that are part of the program, or of promised ranges."""
    blocks = values.shape[0] if values is not None else 2
    data = te.placeholder((1, blocks, 6, 6, 1, 16), "int8", name="data")
    weight = te.placeholder((blocks, blocks, 1, 1, 16, 16), "int8", name="weight")
    ci, ib = te.reduce_axis((0, blocks), name="ci"), te.reduce_axis((0, 16), name="ib")
    shape = (1, blocks, 6, 6, 1, 16)
    total = te.compute(shape, lambda n, co, y, x, nb, cb: te.sum(
        data[n, ci, y, x, nb, ib].astype("int32") * weight[co, ci, 0, 0, cb, ib].astype("int32"), axis=[ci, ib]), name="total")
    out = te.compute(shape, lambda *i: (tail(total[i]) if tail else total[i]).astype("int8"), name="out")
    func = replace(te.create_prim_func([data, weight, out]), value_ranges=promised)
    if values is None:
        return func
    given = next(b for b in func.buffers if b.name == "weight")
    return replace(func, params=tuple(b for b in func.params if b is not given), constants=(of_buffer(given, values),))


def test_products_with_zeros_are_none() -> None:
    """Of a matrix in four by four blocks, the diagonal: another program multiplies that alone."""
    full = np.random.default_rng(0).integers(1, 100, (4, 4, 1, 1, 16, 16)).astype(np.int8)
    values = np.zeros_like(full)
    for k in range(4):
        values[k, k] = full[k, k]
    assert [Space(of_constants(v), "vta-de10").machine.terms["products"] for v in (values, full)] == [4 * 36, 16 * 36]


def test_sums_that_leave_values_out_may_need_no_shift() -> None:
    """Of weights that are all 8, or far from 0, no operation is counted; of those that may be 0 and 1 or -1 the shift is."""
    def vector(weights: tuple[int, int]) -> int:
        return Space(of_constants(None, (None, weights, None), lambda e: e >> 3), "vta-de10").machine.vector

    assert [vector(w) for w in ((8, 8), (1, 8), (0, 0), (0, 1), (-1, 0), (-8, 8))] == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(("x", "sums"), [
    (lambda y, x: (y, 0), 6), (lambda y, x: (y + x, 0), 9), (lambda y, x: (y, x), 36),
    (lambda y, x: (y + 3 * x, 0), 18), (lambda y, x: (y + 6 * x, 0), 36),  # at least, of 11, 21 and 36 places
])
def test_sums_that_are_alike_count_once(x: Callable[[Any, Any], tuple[Any, Any]], sums: int) -> None:
    """Sums that do not depend on x, or on y + x alone: what is done to them ahead of an operand is done to few of them."""
    data = te.placeholder((1, 1, 36, 6, 1, 16), "int8", name="data")
    weight = te.placeholder((1, 1, 16, 16), "int8", name="weight")
    other, ib = te.placeholder((1, 1, 6, 6, 1, 16), "int8", name="res"), te.reduce_axis((0, 16), name="ib")
    shape = (1, 1, 6, 6, 1, 16)
    total = te.compute(shape, lambda n, co, y, w, nb, cb: te.sum(
        data[(n, 0, *x(y, w), nb, ib)].astype("int32") * weight[co, 0, cb, ib].astype("int32"), axis=ib), name="total")
    made = te.compute(shape, lambda *i: scaled(total[i], 0), name="made")
    both = te.compute(shape, lambda *i: narrowed(((made[i] << 1) + other[i].astype("int32") + 1) >> 1), name="both")
    out = te.compute(shape, lambda *i: both[i].astype("int8"), name="out")
    machine = Space(te.create_prim_func([data, weight, other, out]), "vta-de10").machine
    assert machine.terms["products"] == sums and machine.terms["joined"] == (180 if sums == 36 else 0)
    assert machine.terms["stages"] < 3 * sums + 36 + 60 + machine.terms["joined"]
