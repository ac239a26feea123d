"""One value in several spellings: each has a space, whose points give the interpreter's bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from spaces import computes

from autosched import te
from autosched.ir import PrimFunc
from autosched.ir.expr import Expr
from autosched.script import parse

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
