"""One value in several spellings: each has a space, whose points give the interpreter's bytes; what has none is told at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused
from spaces import computes

from autosched import te
from autosched.errors import LoweringError, SpaceError
from autosched.ir import PrimFunc
from autosched.ir.expr import Expr
from autosched.lower import lower_table
from autosched.lower.classify import no_difference
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.lowerable import require_lowerable
from space.nest import analyse
from space.normalise import choices
from space.normalise.blocks import pack_blocks, store_of

TARGETS = ["vta-de10", "vta-de10-portable"]


def wide(x: Expr) -> Expr:
    return x.astype("int32")


def int8(t: te.Tensor, name: str = "y") -> te.Tensor:
    return te.compute(t.shape, lambda *i: te.max(te.min(t(*i) >> 6, 127), -128).astype("int8"), name=name)


def product(x: te.Tensor, w: te.Tensor, term: Callable[[Expr, Expr], Expr], name: str = "s") -> te.Tensor:
    k = te.reduce_axis((0, 32), f"k{name}")
    return te.compute((x.shape[0], w.shape[0]), lambda i, j: te.sum(term(wide(x[i, k]), wide(w[j, k])), axis=k), name=name)


# -- shifts of int8 ------------------------------------------------------------------------------------------------------

SHIFTS: dict[str, Callable[[Expr], Expr]] = {
    "0": lambda x: x << te.const(0, "int8"), "2": lambda x: x << te.const(2, "int8"), "7": lambda x: x << te.const(7, "int8"),
    "and added": lambda x: (x << te.const(2, "int8")) + x, "right": lambda x: x >> te.const(2, "int8"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("behind", ["parameter", "product", "before a product"])
@pytest.mark.parametrize("shift", SHIFTS)
def test_int8_is_shifted(shift: str, behind: str, target: str) -> None:
    x, w = te.placeholder((5, 32), "int8", name="x"), te.placeholder((32, 32), "int8", name="w")
    read = int8(product(x, w, lambda a, b: a * b), "a") if behind == "product" else x
    y = te.compute((5, 32), lambda *i: SHIFTS[shift](read(*i)), name="b")
    if behind == "before a product":
        y = int8(product(y, w, lambda a, b: a * b))
    computes(te.create_prim_func([x, *([w] if behind != "parameter" else []), y]), target)


# -- products that sums take away ---------------------------------------------------------------------------------------

AWAY = """
@T.prim_func
def f(x: T.Buffer((5, 32), "int8"), w: T.Buffer((20, 32), "int8"), b: T.Buffer((5, 20), "int32"),
      y: T.Buffer((5, 20), "{dtype}")):
    C = T.alloc_buffer((5, 20), "int32")
    for i, j, k in T.grid(5, 20, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = {start}
            C[vi, vj] = {value}
    for i, j in T.grid(5, 20):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = {made}
"""
TERM = 'T.Cast("int32", x[vi, vk]) * T.Cast("int32", w[vj, vk])'
NARROW = 'T.Cast("int8", T.min(T.max(C[vi, vj] >> 7, -100), 100))'


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("start", "value", "made"), [
    ("0", f"C[vi, vj] - {TERM}", NARROW), ("1000", f"C[vi, vj] - {TERM}", NARROW), ("b[vi, vj]", f"C[vi, vj] - {TERM}", NARROW),
    ("0", f"C[vi, vj] + {TERM} * -1", NARROW), ("0", f"-1 * ({TERM}) + C[vi, vj]", NARROW),
    ("0", f"C[vi, vj] - {TERM}", "C[vi, vj] + b[vi, vj]"), ("0", f"C[vi, vj] - {TERM}", "b[vi, vj] - C[vi, vj]"),
])
def test_a_sum_takes_products_away(start: str, value: str, made: str, target: str) -> None:
    func = parse(AWAY.format(start=start, value=value, made=made, dtype="int8" if made is NARROW else "int32"))
    assert isinstance(func, PrimFunc)
    computes(func, target)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_negative_products_are_joined_and_padded(target: str) -> None:
    x, w = te.placeholder((1, 16, 6, 6), "int8", name="x"), te.placeholder((16, 16, 3, 3), "int8", name="w")
    v = te.placeholder((16, 16, 1, 1), "int8", name="v")
    xp = te.compute((1, 16, 8, 8), lambda n, k, y, z: te.if_then_else(
        te.all(y >= 1, y < 7, z >= 1, z < 7), x[n, k, y - 1, z - 1], te.const(0, "int8")), name="xp")

    def convolution(d: te.Tensor, f: te.Tensor, sign: int, name: str) -> te.Tensor:
        c, (p, q) = te.reduce_axis((0, 16), f"c{name}"), (te.reduce_axis((0, f.shape[2]), f"{a}{name}") for a in "pq")
        return te.compute((1, 16, 6, 6), lambda n, o, y, z: te.sum(
            wide(d[n, c, y + p, z + q]) * wide(f[o, c, p, q]) * sign, axis=[c, p, q]), name=name)

    a, b = convolution(xp, w, -1, "a"), convolution(x, v, 1, "b")
    both = te.compute((1, 16, 6, 6), lambda *i: a(*i) + b(*i), name="s")
    computes(te.create_prim_func([x, w, v, int8(both)]), target)


# -- what is left out inside an element ---------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("where", ["stage", "factor", "product"])
def test_the_host_leaves_out_what_a_mask_cuts_off_inside_an_element(where: str, target: str) -> None:
    x, w = te.placeholder((18, 32), "int8", name="x"), te.placeholder((16, 32), "int8", name="w")
    k = te.reduce_axis((0, 32), "k")
    masked = te.compute((18, 32), lambda i, j: te.if_then_else(j <= 2 * i, x[i, j], te.const(0, "int8")), name="m")

    def term(i: Expr, j: Expr) -> Expr:
        if where == "stage":
            return wide(masked[i, k]) * wide(w[j, k])
        if where == "factor":
            return te.if_then_else(k <= 2 * i, wide(x[i, k]), 0) * wide(w[j, k])
        return te.if_then_else(k <= 2 * i, wide(x[i, k]) * wide(w[j, k]), 0)

    s = te.compute((18, 16), lambda i, j: te.sum(term(i, j), axis=k), name="s")
    computes(te.create_prim_func([x, w, int8(s)]), target)


# -- what lies at digits of iterators -----------------------------------------------------------------------------------

DIGITS: dict[str, Callable[[te.Tensor, te.Tensor, Expr, Expr], Expr]] = {
    "upsampled": lambda x, z, i, j: wide(x[i // 2, j]) + wide(z[i, j]),
    "product": lambda x, z, i, j: wide(x[i // 2, j]) * wide(z[i, j]),
    "along an element": lambda x, z, i, j: wide(x[i % 4, j // 2]) + wide(z[i, j]),
    "at two places": lambda x, z, i, j: wide(x[i // 2, j]) * 3 + wide(z[i, j]) + wide(x[(i + 1) // 2 % 4, j]),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("value", "dtype"), [*((v, "int8") for v in DIGITS), *((v, "int32") for v in DIGITS if v != "product")])
def test_the_host_lays_out_what_a_stage_reads_at_digits(value: str, dtype: str, target: str) -> None:
    x, z = te.placeholder((4, 32), dtype, name="x"), te.placeholder((8, 32), dtype, name="z")
    s = te.compute((8, 32), lambda i, j: te.max(te.min(DIGITS[value](x, z, i, j) >> 2, 127), -128).astype("int8"), name="y")
    computes(te.create_prim_func([x, z, s]), target)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_upsampled_is_added_to_a_sum(target: str) -> None:
    x, w, z = (te.placeholder(shape, "int8", name=n) for shape, n in (((8, 32), "x"), ((16, 32), "w"), ((4, 16), "z")))
    s = product(x, w, lambda a, b: a * b)
    y = te.compute((8, 16), lambda i, j: te.max(te.min((s[i, j] >> 7) + wide(z[i // 2, j]), 127), -128).astype("int8"), name="y")
    computes(te.create_prim_func([x, w, z, y]), target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_sum_around_a_ring_reads_what_a_block_before_it_stores(target: str) -> None:
    x, w = te.placeholder((1, 16, 6, 6), "int8", name="x"), te.placeholder((16, 16, 3), "int8", name="w")
    c, p = te.reduce_axis((0, 16), "c"), te.reduce_axis((0, 3), "p")
    ring = te.compute((1, 16, 8, 6), lambda n, k, y, z: x[n, k, y % 6, z], name="ring")

    def around(read: Callable[[Expr, Expr, Expr], Expr]) -> PrimFunc:
        return te.create_prim_func([x, w, int8(te.compute((1, 16, 6, 6), lambda n, o, y, z: te.sum(
            wide(read(n, y, z)) * wide(w[o, c, p]), axis=[c, p]), name="s"))])

    with refused(SpaceError, "index") as caught:
        Space(around(lambda n, y, z: x[n, c, (y + p) % 6, z]), target)
    assert "let a block before store what is read, so that this one reads it at sums of its iterators" in str(caught.value)
    computes(around(lambda n, y, z: ring[n, c, y + p, z]), target)


# -- what no schedule helps with ----------------------------------------------------------------------------------------

SHIFTED = """
@T.prim_func
def f(x: T.Buffer((5, 16), "int32"), n: T.Buffer((16,), "int32"), y: T.Buffer((5, 16), "int8")):
    T.func_attr({"autosched.value_ranges": {"n": [0, 15]}})
    for i, j in T.grid(5, 16):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("int8", T.min(T.max(x[vi, vj] >> n[vj], -100), 100))
"""


def test_a_shift_by_a_tensor_has_a_meaning_on_one_machine() -> None:
    func = parse(SHIFTED)
    assert isinstance(func, PrimFunc)
    computes(func, "vta-de10")
    with refused(SpaceError, "machine") as caught:
        Space(func, "vta-de10-portable")
    assert "shift by a constant, or choose the target of one of them" in str(caught.value)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_chosen_by_data_is_computed(target: str) -> None:
    x = te.placeholder((5, 16), "int32", name="x")
    y = te.compute((5, 16), lambda *i: te.if_then_else(
        x(*i) > 0, te.min(x(*i), 100), te.if_then_else(x(*i) < 0, te.max(x(*i) >> 2, -100), 5)).astype("int8"), name="y")
    computes(te.create_prim_func([x, y]), target)
    one = te.compute((5, 16), lambda *i: te.if_then_else(x(*i) > 0, te.min(x(*i), 100), 0).astype("int8"), name="y")
    computes(te.create_prim_func([x, one]), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_what_is_added_to_a_sum_is_of_a_type_that_the_machine_takes(dtype: str, target: str) -> None:
    x, w = te.placeholder((5, 32), "int8", name="x"), te.placeholder((16, 32), "int8", name="w")
    r = te.placeholder((5, 16), dtype, name="r")
    s = product(x, w, lambda a, b: a * b)
    y = te.compute((5, 16), lambda *i: te.max(te.min((s(*i) >> 7) + wide(r(*i)), 127), -128).astype("int8"), name="y")
    func = te.create_prim_func([x, w, r, y])
    if dtype != "uint8":
        computes(func, target)
        return
    with refused(SpaceError, "type") as caught:
        Space(func, target)
    assert str(caught.value).endswith("reads r as uint8; the ALU takes int32, and int8 by the GEMM: give the program r as int32")


# -- what is made of a sum and read elsewhere ---------------------------------------------------------------------------

MEANS: dict[str, Callable[[Expr], Expr]] = {
    "shifted": lambda s: s >> 5, "multiplied": lambda s: (s * 3) >> 7, "limited": lambda s: te.max(te.min(s, 100), -100),
    "scaled behind": lambda s: (s >> 5) * 3,
}


def without_means(mean: Callable[[Expr], Expr], axes: int = 1, made: bool = False) -> PrimFunc:
    """Rows, or planes, of which each has what is made of its sum taken away."""
    shape = (3, 32) if axes == 1 else (1, 16, 4, 8)
    x, w = te.placeholder(shape, "int8", name="x"), te.placeholder((32, 32), "int8", name="w")
    read = int8(product(x, w, lambda a, b: a * b, "p"), "a") if made else x
    over = [te.reduce_axis((0, n), f"r{n}") for n in shape[-axes:]]
    s = te.compute(shape[:-axes], lambda *i: te.sum(wide(read[(*i, *over)]), axis=over), name="s")
    y = te.compute(shape, lambda *i: te.max(te.min(wide(read(*i)) - mean(s[i[:-axes]]), 127), -128).astype("int8"), name="y")
    return te.create_prim_func([x, *([w] if made else []), y])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("axes", "made"), [(1, False), (2, False), (1, True)])
@pytest.mark.parametrize("mean", MEANS)
def test_a_mean_is_written_where_it_is_taken_away(mean: str, axes: int, made: bool, target: str) -> None:
    computes(without_means(MEANS[mean], axes, made), target)


def test_of_what_depends_on_more_a_part_is_a_sums_alone() -> None:
    x, k = te.placeholder((3, 32), "int8", name="x"), te.reduce_axis((0, 32), "k")
    s = te.compute((3,), lambda i: te.sum(wide(x[i, k]), axis=k), name="s")
    y = te.compute((3, 32), lambda i, j: te.max(te.min(
        wide(x[i, j]) - te.max(te.min((s[i] >> 5) + j, 100), -100), 127), -128).astype("int8"), name="y")
    computes(te.create_prim_func([x, y]), "vta-de10")


@pytest.mark.parametrize("target", TARGETS)
def test_what_int8_does_not_hold_of_a_sum_is_made_for_every_lane(target: str) -> None:
    computes(without_means(lambda s: s >> 3), target)


def less_an_eighth(squared: bool, stored: bool) -> PrimFunc:
    x, k = te.placeholder((3, 32), "int8", name="x"), te.reduce_axis((0, 32), "k")
    s = te.compute((3,), lambda i: te.sum(wide(x[i, k]) * (wide(x[i, k]) if squared else 1), axis=k), name="s")
    y = te.compute((3, 32), lambda i, j: te.max(te.min(wide(x[i, j]) - (s[i] >> 3), 127), -128).astype("int8"), name="y")
    return te.create_prim_func([x, *([s] if stored else []), y])


def test_what_int8_does_not_hold_of_a_result_is_read_where_it_is_made() -> None:
    with refused(SpaceError, "index") as caught:
        Space(less_an_eighth(False, True), "vta-de10")
    assert "reads s at another place than it writes" in str(caught.value)


@pytest.mark.parametrize("target", TARGETS)
def test_what_int8_does_not_hold_of_squares_is_made_anew_for_each_tile(target: str) -> None:
    """What its sums start with is loaded once and read by every tile, so none of them works in its place."""
    computes(less_an_eighth(True, False), target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_term_that_is_chosen_by_data_is_computed(target: str) -> None:
    x, k = te.placeholder((32, 16), "int8", name="x"), te.reduce_axis((0, 32), "k")

    def counted(term: Callable[[Expr, Expr], Expr]) -> PrimFunc:
        s = te.compute((4, 16), lambda i, j: te.sum(term(wide(x[k, j]), i), axis=k), name="s")
        return te.create_prim_func([x, te.compute((4, 16), lambda i, j: s[i, j].astype("int8"), name="y")])

    computes(counted(lambda v, i: te.if_then_else(v >= i, 1, 0)), target)


# -- numbers of iterations ----------------------------------------------------------------------------------------------

PLACES: dict[str, Callable[[Expr, Expr, Expr], Expr]] = {
    "added": lambda v, i, j: v + j * 2 - i, "as a factor": lambda v, i, j: (v * (31 - j)) >> 5,
    "of a limit": lambda v, i, j: te.min(v, j - i),
    "also in another one": lambda v, i, j: v + (i * 3 - j) + (i * 3 - j) % 7,
    "wide": lambda v, i, j: v + (j * 300 >> 3), "chosen by place": lambda v, i, j: v + te.if_then_else(j > i, 5, 0),
    "beside a choice by it": lambda v, i, j: te.if_then_else(j > i, v, -128) + j,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("behind", ["parameter", "product"])
@pytest.mark.parametrize("place", PLACES)
def test_what_depends_on_places_alone_is_a_tensor_of_the_hosts(place: str, behind: str, target: str) -> None:
    x, w = te.placeholder((5, 32), "int8", name="x"), te.placeholder((32, 32), "int8", name="w")
    read = int8(product(x, w, lambda a, b: a * b), "a") if behind == "product" else x
    y = te.compute((5, 32), lambda i, j: te.max(te.min(
        PLACES[place](wide(read[i, j]), i, j), 127), -128).astype("int8"), name="y")
    computes(te.create_prim_func([x, *([w] if behind == "product" else []), y]), target)


@pytest.mark.parametrize(("place", "made"), [
    ("added", [("int8", 1), ("int8", 1)]), ("as a factor", [("int8", 1)]), ("of a limit", [("int8", 2)]),
    ("also in another one", [("int8", 1), ("int8", 1), ("int8", 2)]),
    ("wide", [("int32", 1)]),
    ("beside a choice by it", [("int8", 1), ("int32", 2)]), ("under a choice by data", []), ("chosen by place", [("int32", 2)]),
])
def test_tensors_of_places_are_as_small_as_they_can_be(place: str, made: list[tuple[str, int]]) -> None:
    x = te.placeholder((5, 32), "int8", name="x")
    values = {**PLACES, "under a choice by data": lambda v, i, j: te.if_then_else(v > j, v, 0)}
    y = te.compute((5, 32), lambda i, j: values[place](wide(x[i, j]), i, j), name="y")
    sch = Schedule(te.create_prim_func([x, y]))
    choices.apply(sch, get_target("vta-de10"))
    tensors = [store_of(block).buffer for block in pack_blocks(sch)]
    assert sorted((b.dtype, len(b.shape)) for b in tensors) == sorted(made)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("start", [0, 1])
def test_what_has_no_value_at_some_places_is_no_tensor(start: int, target: str) -> None:
    x = te.placeholder((5, 32), "int32", name="x")
    y = te.compute((5, 32), lambda i, j: te.max(te.min(
        te.if_then_else(i > 0, x[i, j] + 100 // (i + start), 127), 127), -128).astype("int8"), name="y")
    func = te.create_prim_func([x, y])
    if start:
        computes(func, target)
        return
    with refused(SpaceError, "machine") as caught:
        require_lowerable(Space(func, target))
    assert "block y computes with the number of an iteration" in str(caught.value)


@pytest.mark.parametrize("target", TARGETS)
def test_the_number_of_a_step_goes_into_a_maximum(target: str) -> None:
    x, k = te.placeholder((16, 33), "int8", name="x"), te.reduce_axis((0, 33), "k")
    computes(te.create_prim_func([x, te.compute((16,), lambda i: te.max((wide(x[i, k]) << 6) + k, axis=k), name="y")]), target)


@pytest.mark.parametrize("target", TARGETS)
def test_terms_count_by_their_places(target: str) -> None:
    x, k = te.placeholder((16, 32), "int8", name="x"), te.reduce_axis((0, 16), "k")

    def summed(term: Callable[[Expr, Expr], Expr], all_of: Callable[..., Expr] = te.sum) -> PrimFunc:
        s = te.compute((16, 32), lambda i, j: all_of(term(x[k, j], k <= i), axis=k), name="s")
        return te.create_prim_func([x, int8(s)])

    computes(summed(lambda v, holds: wide(v) * te.if_then_else(holds, 1, 0)), target)
    computes(summed(lambda v, holds: te.if_then_else(holds, wide(v), 0)), target)
    computes(summed(lambda v, holds: wide(te.if_then_else(holds, te.const(0, "int8"), v))), target)
    advice = "compute it in a block before the sum"
    for term, all_of, said in (  # what is no element, and what is no sum
        (lambda v, holds: te.if_then_else(holds, wide(v) >> 1, 0), te.sum,
         advice + ", or multiply what is read by a choice of 1 or 0"),
        (lambda v, holds: te.if_then_else(holds, wide(v), -128), te.max, advice),
    ):
        with refused(SpaceError, "layout") as caught:
            Space(summed(term, all_of), target)
        assert str(caught.value).endswith(said)


# -- finer maps ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("before", [False, True])
def test_what_is_made_coarsely_is_added_to_what_is_finer(times: int, before: bool, target: str) -> None:
    x, w = te.placeholder((4, 32), "int8", name="x"), te.placeholder((32, 32), "int8", name="w")
    z = te.placeholder((4 * times, 32), "int8", name="z")
    coarse = int8(product(x, w, lambda a, b: a * b), "coarse")
    fine = product(z, w, lambda a, b: a * b, "t")
    if before:
        fine = int8(fine, "fine")
    y = te.compute((4 * times, 32), lambda i, j: te.max(te.min(
        (wide(fine[i, j]) >> 3) + wide(coarse[i // times, j]), 127), -128).astype("int8"), name="y")
    computes(te.create_prim_func([x, w, z, y]), target)


def test_what_is_read_at_no_digit_is_no_finer_map() -> None:
    x, w = te.placeholder((4, 32), "int8", name="x"), te.placeholder((32, 32), "int8", name="w")
    z, coarse = te.placeholder((8, 32), "int32", name="z"), int8(product(x, w, lambda a, b: a * b), "coarse")
    y = te.compute((8, 32), lambda i, j: te.max(te.min(
        z[i, j] + wide(coarse[i * i // 16, j]), 127), -128).astype("int8"), name="y")
    with refused(SpaceError, "index") as caught:
        Space(te.create_prim_func([x, w, z, y]), "vta-de10")
    assert str(caught.value).startswith("block 'y' reads coarse at another place than it writes")


# -- products of what a product makes ------------------------------------------------------------------------------------

@pytest.mark.parametrize("target", TARGETS)
def test_a_difference_of_products_behind_a_product(target: str) -> None:
    x, w = te.placeholder((5, 32), "int8", name="x"), te.placeholder((32, 32), "int8", name="w")
    c, d = (te.placeholder((5, 16), "int8", name=name) for name in "cd")
    q = int8(product(x, w, lambda a, b: a * b), "q")
    y = te.compute((5, 16), lambda i, j: (
        (wide(q[i, j]) * wide(c[i, j]) - wide(q[i, j + 16]) * wide(d[i, j])) >> 7).astype("int8"), name="y")
    computes(te.create_prim_func([x, w, c, d, y]), target)


# -- differences of values and themselves ------------------------------------------------------------------------------------

ITSELF = """
@T.prim_func
def main(X: T.Buffer((4, 3, 1, 16), "int32"), Y: T.Buffer((4, 3, 1, 16), "int32"), out: T.Buffer((4, 3, 1, 16), "int8")):
    t = T.alloc_buffer((4, 3, 1, 16), "int32")
    for i, j, k, l in T.grid(4, 3, 1, 16):
        with T.block("t"):
            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
            t[vi, vj, vk, vl] = {}
    for i, j, k, l in T.grid(4, 3, 1, 16):
        with T.block("out"):
            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
            out[vi, vj, vk, vl] = T.Cast("int8", t[vi, vj, vk, vl])
"""
HERE, OTHER = "X[vi, vj, vk, vl]", "Y[vi, vj, vk, vl]"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("value", [f"({HERE} - ({HERE} + {OTHER})) >> 3", f"{HERE} - {HERE}",
                                   f"T.min({OTHER} - {OTHER}, {HERE}) - ({HERE} - {HERE})"])
def test_a_value_may_be_taken_away_from_itself(value: str, target: str) -> None:
    computes(parse(ITSELF.format(value)), target)


@pytest.mark.parametrize("value", ["A[vi] - (A[vi] - vi)", "T.min(A[vi] - A[vi] + vi, 5)"])
def test_where_places_alone_are_left_the_value_stays(value: str) -> None:
    computes(parse(f"""
@T.prim_func
def main(A: T.Buffer((32,), "int32"), out: T.Buffer((32,), "int8")):
    for i in range(32):
        with T.block("out"):
            vi = T.axis.spatial(32, i)
            out[vi] = T.Cast("int8", {value})
"""), "vta-de10")


def test_what_is_taken_away_still_is_refused_by_a_space_in_the_words_of_lowering() -> None:
    func = parse(ITSELF.format(f"{HERE} - {OTHER}"))
    with pytest.raises(SpaceError) as caught:
        analyse(func, get_target("vta-de10"))  # as it is, and in no form
    assert (caught.value.code, str(caught.value)) == ("machine", no_difference("t"))
    sch = Schedule(func)
    sch.set_scope("t", 0, "local.acc_buffer")
    for k in (0, 1):
        sch.cache_read("t", k, "local.acc_buffer")
    with pytest.raises(LoweringError) as met:
        lower_table(sch.func, get_target("vta-de10"))
    assert str(met.value) == f"alu: {caught.value}"
    assert analyse(parse(ITSELF.format(f"{HERE} - 5")), get_target("vta-de10"))
