"""What a program copies, and what it widens, in form: copies that only move are read where they come from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from spaces import computes

from autosched import te
from autosched.ir.expr import Expr
from autosched.ir.functor import walk
from autosched.ir.host import is_move, split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import BlockRealize, BufferStore, PrimFunc
from autosched.kernel import of_schedule
from autosched.measure import Candidate, measure
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.normalise import normalise


def moved(func: PrimFunc) -> list[str]:
    """The device's blocks that only move elements of int8."""
    device = split_host(normalise(func, get_target("vta-de10"))[0]).device
    return [s.block.name for s in walk(device.body) if isinstance(s, BlockRealize) and isinstance(s.block.body, BufferStore)
            and is_move(s.block.body.value)]


@pytest.mark.parametrize(("name", "left"), [("dense_own_copies", ["C"]), ("conv_own_copies", ["padded"])])
def test_own_copies_are_read_where_they_come_from(user_programs, name: str, left: list[str]) -> None:
    assert moved(user_programs.program(name)) == left


RESIDUAL = '''
@T.prim_func
def main(a: T.Buffer((5, 32), "int32"), r: T.Buffer((5, 32), "int8"), y: T.Buffer((5, 32), "int8")):
    for i, j in T.grid(5, 32):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = ((a[vi, vj] + %s) >> 9).astype("int8")
'''
R = 'r[vi, vj].astype("int32")'


@pytest.mark.parametrize(("value", "identity", "target"), [
    (f"({R} << 6)", 64, "vta-de10"), (f"({R} << 7)", 1, "vta-de10"), (f"{R} * 128", 1, "vta-de10"), (f"{R} * 300", 1, "vta-de10"),
    (f"({R} << 10)", 1, "vta-fsim"), (f"{R} * -128", -128, "vta-fsim"), (f"{R} * -129", 1, "vta-fsim"),
])
def test_an_identity_multiplies_by_what_int8_holds(value: str, identity: int, target: str) -> None:
    func = parse(RESIDUAL % value)
    new = normalise(func, get_target(target))[0]
    assert identity in {np.frombuffer(c.data, np.int8)[0] for c in new.constants}
    space = Space(func, target)
    kernel = of_schedule(func, target, space.schedule(space.sample(np.random.default_rng(0), 1)[0]))
    inputs = random_inputs(func)
    assert np.array_equal(kernel(*inputs), run(func, *inputs)[0])


def int8(t: te.Tensor) -> te.Tensor:
    return te.compute(t.shape, lambda *i: te.max(te.min(t(*i) >> 6, 127), -128).astype("int8"), name="y")


def product(z: te.Tensor, w: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, 32), "k")
    return te.compute((z.shape[0], 16), lambda i, j: te.sum(
        z[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name="s")


# Of x, 6 rows of 48.
CHOICES: dict[str, Callable[[te.Tensor], te.Tensor]] = {
    "mirrored": lambda x: te.compute((7, 32), lambda i, j: te.if_then_else(i < 1, x[1 - i, j], x[i - 1, j]), name="z"),
    "mirrored on both sides": lambda x: te.compute((8, 32), lambda i, j: te.if_then_else(
        i < 1, x[1 - i, j], te.if_then_else(i > 6, x[11 - i, j], x[i - 1, j])), name="z"),
    "edge": lambda x: te.compute((7, 32), lambda i, j: te.if_then_else(i < 1, x[0, j], x[i - 1, j]), name="z"),
    "edge and zeros": lambda x: te.compute((9, 32), lambda i, j: te.if_then_else(
        i < 1, x[0, j], te.if_then_else(i < 7, x[i - 1, j], te.const(0, "int8"))), name="z"),
    "slices": lambda x: te.compute((6, 32), lambda i, j: te.if_then_else(j < 16, x[i, j], x[i, j + 16]), name="z"),
    "rolled": lambda x: te.compute((6, 32), lambda i, j: te.if_then_else(i < 1, x[i + 5, j], x[i - 1, j]), name="z"),
}


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable"])
@pytest.mark.parametrize("reader", ["product", "stage", "result", "weight"])
@pytest.mark.parametrize("choice", CHOICES)
def test_the_host_chooses_between_places_of_one_parameter(choice: str, reader: str, target: str) -> None:
    x, w = te.placeholder((6, 48), "int8", name="x"), te.placeholder((16, 32), "int8", name="w")
    z = CHOICES[choice](x)
    if reader == "product":
        made, params = int8(product(z, w)), [x, w]
    elif reader == "weight":
        k = te.reduce_axis((0, 32), "k")
        made = int8(te.compute((16, z.shape[0]), lambda i, j: te.sum(
            w[i, k].astype("int32") * z[j, k].astype("int32"), axis=k), name="s"))
        params = [x, w]
    else:
        made = z if reader == "result" else te.compute(z.shape, lambda i, j: te.max(z[i, j], te.const(3, "int8")), name="y")
        params = [x]
    computes(te.create_prim_func([*params, made]), target)


def zeros_around(x: te.Tensor, name: str, by: int = 1) -> te.Tensor:
    n, c, h, w = (int(e.value) for e in x.shape)
    return te.compute((n, c, h + 2 * by, w + 2 * by), lambda b, k, y, z: te.if_then_else(
        te.all(y >= by, y < h + by, z >= by, z < w + by), x[b, k, y - by, z - by], te.const(0, "int8")), name=name)


def convolution(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    c, p, q = te.reduce_axis((0, 16), "c"), te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 3), "q")
    return te.compute((1, 16, int(x.shape[2].value) - 2, int(x.shape[3].value) - 2), lambda n, o, y, z: te.sum(
        x[n, c, y + p, z + q].astype("int32") * w[o, c, p, q].astype("int32"), axis=[c, p, q]), name="s")


# By what is moved: the shape of the parameter, and where in it lies an element of (1, 16, 6, 6).
MOVES: dict[str, tuple[tuple[int, ...], Callable[..., tuple[Expr, ...]]]] = {
    "slice": ((1, 32, 6, 6), lambda n, k, y, z: (n, k + 16, y, z)),
    "transposed": ((1, 6, 6, 16), lambda n, k, y, z: (n, y, z, k)),
    "upsampled": ((1, 16, 3, 3), lambda n, k, y, z: (n, k, y // 2, z // 2)),
    "every other": ((1, 16, 12, 12), lambda n, k, y, z: (n, k, y * 2, z * 2)),
    "turned": ((1, 16, 6, 6), lambda n, k, y, z: (n, k, y, 5 - z)),
    "shuffled": ((1, 16, 6, 6), lambda n, k, y, z: (n, k % 4 * 4 + k // 4, y, z)),
    "space to depth": ((1, 4, 12, 12), lambda n, k, y, z: (n, k // 4, y * 2 + k // 2 % 2, z * 2 + k % 2)),
}


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable"])
@pytest.mark.parametrize("reader", ["convolution", "residual", "twice padded"])
@pytest.mark.parametrize("move", MOVES)
def test_what_is_moved_may_be_padded(move: str, reader: str, target: str) -> None:
    shape, place = MOVES[move]
    x, w = te.placeholder(shape, "int8", name="x"), te.placeholder((16, 16, 3, 3), "int8", name="w")
    m = te.compute((1, 16, 6, 6), lambda *i: x(*place(*i)), name="m")
    s = convolution(zeros_around(m, "xp"), w)
    if reader == "residual":
        s = te.compute(s.shape, lambda *i: s(*i) + m(*i).astype("int32"), name="r")
    elif reader == "twice padded":
        s = convolution(zeros_around(zeros_around(m, "xp"), "xpp", 2), w)
    computes(te.create_prim_func([x, w, int8(s)]), target)


@pytest.mark.parametrize("keeps", [lambda k, j: k <= j, lambda k, j: k < 17])
def test_a_weight_may_be_what_the_host_makes_of_a_parameter(keeps: Callable[[Expr, Expr], Expr]) -> None:
    """Behind scores that are stored, values that are masked: no block but the copy reads what the host has masked."""
    q, key, v = (te.placeholder((21, 18), "int8", name=name) for name in ("q", "key", "v"))
    r, k = te.reduce_axis((0, 18), "r"), te.reduce_axis((0, 21), "k")
    scores = te.compute((21, 21), lambda i, j: te.sum(q[i, r].astype("int32") * key[j, r].astype("int32"), axis=r), name="scores")
    weights = int8(scores)
    masked = te.compute((21, 18), lambda i, j: te.if_then_else(keeps(i, j), v[i, j], te.const(0, "int8")), name="masked")
    total = te.compute((21, 18), lambda i, j: te.sum(
        weights[i, k].astype("int32") * masked[k, j].astype("int32"), axis=k), name="total")
    computes(te.create_prim_func([q, key, v, int8(total)]), "vta-de10")


def masked_dense(holds: Callable[[Expr, Expr], Expr]) -> PrimFunc:
    """A product of which a factor is masked."""
    p, v = (te.placeholder(shape, "int8", name) for shape, name in (((21, 21), "p"), ((21, 18), "v")))
    q = te.compute((21, 21), lambda i, k: te.if_then_else(holds(i, k), p[i, k], te.const(0, "int8")), name="masked")
    k = te.reduce_axis((0, 21), name="k")
    total = te.compute((21, 18), lambda i, j: te.sum(q[i, k].astype("int32") * v[k, j].astype("int32"), axis=k), name="total")
    out = te.compute((21, 18), lambda i, j: te.max(te.min(total[i, j] >> 5, 127), -128).astype("int8"), name="out")
    return te.create_prim_func([p, v, out])


@pytest.mark.parametrize("holds", [
    lambda i, k: te.equal((i + k) % 3, 0), lambda i, k: te.any(k < 3, k > i + 9), lambda i, k: te.all(k <= i, i < k + 5),
], ids=["every third", "either", "band"])
def test_what_cuts_inside_elements_of_a_parameter_is_made_by_the_host(holds: Callable[[Expr, Expr], Expr]) -> None:
    """No load brings some lanes of an element and zeros for others: it was refused with "a condition cuts inside an element"."""
    func = masked_dense(holds)
    assert moved(func) == []
    computes(func, "vta-de10", 3)


def squares(rows: int, size: int, of: str) -> PrimFunc:
    """Sums of squares: of all elements, of those of each row, or of differences of all of them.

    Args:
        rows: of the data.
        size: of a row.
        of: ``all``, ``rows``, ``differences``.
    """
    x, y = te.placeholder((rows, size), "int8", name="x"), te.placeholder((rows, size), "int8", name="y")
    i, j = te.reduce_axis((0, rows), name="i"), te.reduce_axis((0, size), name="j")

    def at(i, j):
        return x[i, j].astype("int32") - y[i, j].astype("int32") if of == "differences" else x[i, j].astype("int32")

    out = te.compute((rows,), lambda n: te.sum(at(n, j) * at(n, j), axis=j), name="out") if of == "rows" else te.compute(
        (1,), lambda n: te.sum(at(i, j) * at(i, j), axis=[i, j]), name="out")
    return te.create_prim_func([x, y, out] if of == "differences" else [x, out])


@pytest.mark.parametrize(("of", "diagonals", "alone"), [("all", 0, 1), ("differences", 0, 2), ("rows", 1, 0)])
def test_of_a_square_of_all_elements_one_factor_is_a_copy(of: str, diagonals: int, alone: int) -> None:
    """Of one for each row the host makes a diagonal, and what is data of it as well."""
    func = squares(8, 24, of)
    steps = normalise(func, get_target("vta-de10"))[1]
    assert sum(step.op == "diagonalize" for step in steps) == diagonals
    assert sum(step.op == "decompose_value" and step.args.get("alone") is True for step in steps) == alone
    computes(func, "vta-de10", 1)


@pytest.mark.parametrize(("rows", "size", "of"), [(1, 16, "all"), (3, 5, "all"), (17, 33, "all"), (17, 33, "differences")])
@pytest.mark.parametrize("target", ["vta-de10", "vta-fsim"])
def test_squares_of_all_elements_are_summed_up(rows: int, size: int, of: str, target: str) -> None:
    """Also where others have read the parameter before, and where windows of it are gathered."""
    computes(squares(rows, size, of), target, 1)


def test_squares_of_what_others_read_have_copies_of_their_own() -> None:
    x, w = te.placeholder((8, 32), "int8", name="x"), te.placeholder((16, 32), "int8", name="w")
    k, i, j = te.reduce_axis((0, 32), name="k"), te.reduce_axis((0, 8), name="i"), te.reduce_axis((0, 32), name="j")
    p = te.compute((8, 16), lambda n, c: te.sum(x[n, k].astype("int32") * w[c, k].astype("int32"), axis=k), name="p")
    q = te.compute((1,), lambda n: te.sum(x[i, j].astype("int32") * x[i, j].astype("int32"), axis=[i, j]), name="q")
    func = te.create_prim_func([x, w, *[te.compute(t.shape, lambda *at, t=t: (t(*at) >> 9).astype("int8"), name=f"{t.name}n")
                                        for t in (p, q)]])
    computes(func, "vta-de10", 2)


@pytest.mark.parametrize(("each", "hosts"), [(4, True), (8, True), (16, False), (32, False)])
def test_no_load_brings_an_element_whose_lanes_lie_at_several_places(each: int, hosts: bool) -> None:
    """Groups of channels are shifted, each by its own distance: where an element has several groups, the host makes the copy."""
    x, w, r = te.placeholder((12, 32), "int8", name="x"), te.placeholder((16, 32), "int8", name="w"), te.reduce_axis((0, 32), "r")
    z = te.compute((5, 32), lambda i, c: x[i + c // each, c], name="z")
    s = te.compute((5, 16), lambda i, o: te.sum(z[i, r].astype("int32") * w[o, r].astype("int32"), axis=r), name="s")
    func = te.create_prim_func([x, w, int8(s)])
    space = Space(func, "vta-de10")
    drawn = space.sample(np.random.default_rng(0), 12)
    results = [measure(Candidate(func, "vta-de10", tuple(space.trace(p).as_json())), execute=True) for p in drawn]
    assert all(r.ok for r in results), [r.reason for r in results if not r.ok]
    assert moved(func) == ([] if hosts else ["z"])
