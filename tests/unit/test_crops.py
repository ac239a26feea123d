"""Results that are a part of what is computed, from its first place on: as behind an offset, only that part is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import refused
from spaces import computes
from turns import in_turn

from autosched import te
from autosched.errors import SpaceError
from autosched.ir.expr import Expr
from autosched.ir.stmt import PrimFunc
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.normalise import Wanted, normal_forms

CROPPED = '''
from autosched import te

def cropped():
    x, w = te.placeholder((64, 64), "int8", name="x"), te.placeholder((64, 64), "int8", name="w")
    k = te.reduce_axis((0, 64), name="k")
    y = te.compute((64, 64), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name="y")
    z = te.compute((32, 64), lambda i, j: te.max(te.min(y[i, j] >> 8, 127), 0).astype("int8"), name="z")
    return te.create_prim_func([x, w, z])
'''

NESTED = """
@T.prim_func
def f(A: T.Buffer((8, 16), "int32"), B: T.Buffer((8, 16), "int8")):
    for i in range(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            for j in range(16):
                with T.block("inner"):
                    vj = T.axis.spatial(16, j)
                    B[vi, vj] = (A[vi, vj] >> 2).astype("int8")
"""


def product(m: int = 24, n: int = 32, k: int = 16) -> tuple[te.Tensor, list[te.Tensor]]:
    """A sum of products, and what it is made of."""
    x, w = te.placeholder((m, k), "int8", name="x"), te.placeholder((n, k), "int8", name="w")
    r = te.reduce_axis((0, k), name="r")
    return te.compute((m, n), lambda i, j: te.sum(x[i, r].astype("int32") * w[j, r].astype("int32"), axis=r), name="y"), [x, w]


def clipped(value: Expr) -> Expr:
    return te.max(te.min(value >> 6, 127), -128).astype("int8")


def cut(rows: int, columns: int, row: int = 0, column: int = 0) -> PrimFunc:
    y, given = product()
    return te.create_prim_func(
        [*given, te.compute((rows, columns), lambda i, j: clipped(y[i + row, j + column]), name="z")])


def staged() -> PrimFunc:
    """What is cut stands behind a stage of its own."""
    y, given = product()
    b = te.placeholder((32,), "int32", name="b")
    t = te.compute((24, 32), lambda i, j: y[i, j] + b[j], name="t")
    return te.create_prim_func([*given, b, te.compute((9, 32), lambda i, j: clipped(t[i, j]), name="z")])


def turned() -> PrimFunc:
    y, given = product()
    return te.create_prim_func([*given, te.compute((20, 9), lambda i, j: clipped(y[j, i]), name="z")])


def twice(rows: int) -> PrimFunc:
    """One result cut, another one with as many rows as are asked for."""
    y, given = product()
    results = [te.compute((n, 32), lambda i, j: clipped(y[i, j]), name=f"z{n}") for n in (9, rows)]
    return te.create_prim_func([*given, *results])


def padded() -> PrimFunc:
    """What is cut is moved by the host then, zeros behind it."""
    y, given = product()
    z = te.compute((9, 32), lambda i, j: clipped(y[i, j]), name="z")
    return te.create_prim_func([*given, te.compute((24, 32), lambda i, j: te.if_then_else(
        i < 9, z[i, j], te.const(0, "int8")), name="padded")])


def filtered(row: int = 0) -> PrimFunc:
    x, w = te.placeholder((1, 16, 8, 8), "int8", name="x"), te.placeholder((16, 16, 3, 3), "int8", name="w")
    c, p, q = (te.reduce_axis((0, n), name=name) for n, name in ((16, "c"), (3, "p"), (3, "q")))
    y = te.compute((1, 16, 6, 6), lambda n, o, i, j: te.sum(
        x[n, c, i + p, j + q].astype("int32") * w[o, c, p, q].astype("int32"), axis=[c, p, q]), name="y")
    return te.create_prim_func([x, w, te.compute((1, 16, 4, 5), lambda n, o, i, j: clipped(y[n, o, i + row, j]), name="z")])


CUTS: dict[str, Callable[[], PrimFunc]] = {
    "rows": lambda: cut(9, 32),
    "columns": lambda: cut(24, 20),
    "both": lambda: cut(9, 20),
    "a row": lambda: cut(1, 32),
    "staged": staged,
    "turned": turned,
    "two results": lambda: twice(24),
    "two parts": lambda: twice(5),
    "padded": padded,
    "windows": filtered,
}


@pytest.mark.parametrize(("what", "target"), in_turn(CUTS, ("vta-de10", "vta-de10-portable")))
def test_what_is_cut_at_its_first_place_computes_its_bytes(what: str, target: str) -> None:
    computes(CUTS[what](), target)


@pytest.mark.parametrize(("first", "behind"), [(cut(9, 32), cut(9, 32, 1)), (filtered(), filtered(1))], ids=["rows", "windows"])
def test_it_is_made_in_the_steps_that_make_it_behind_an_offset(first: PrimFunc, behind: PrimFunc) -> None:
    one, other = Space(first, "vta-de10"), Space(behind, "vta-de10")
    assert one.machine_bound() == other.machine_bound()
    assert [[step.op for step in s.prefix.insts] for s in one.sketches] == [
        [step.op for step in s.prefix.insts] for s in other.sketches]


def test_whole_sums_have_no_such_form() -> None:
    target = get_target("vta-de10")
    assert normal_forms(cut(24, 32), target, Wanted(cropped=True)) == []
    assert normal_forms(cut(9, 32), target, Wanted(cropped=True))
    x = te.placeholder((24, 16), "int8", name="x")
    part = te.compute((9, 16), lambda i, j: te.max(x[i, j], 0), name="part")
    assert normal_forms(te.create_prim_func([x, part]), target, Wanted(cropped=True)) == [], "what is given is read where it lies"


def test_a_block_inside_another_is_refused_as_ever() -> None:
    func = parse(NESTED)
    assert isinstance(func, PrimFunc)
    with refused(SpaceError, "form"):
        Space(func, "vta-de10")


def test_what_the_host_moves_stays_what_it_was() -> None:
    """Of a sum whose first rows are the result the host takes these: that had points first."""
    y, given = product()
    func = te.create_prim_func([*given, te.compute((9, 32), lambda i, j: y[i, j], name="z")])
    assert Space(func, "vta-de10").sketches[0].prefix.insts[1].op == "host_stage"
    computes(func, "vta-de10")


def test_a_user_tunes_it(here, tmp_path: Path, brief) -> None:
    file = tmp_path / "mine.py"
    file.write_text(CROPPED)
    done = here("tune", f"{file}:cropped", "--trials", "2", "--jobs", "1", "--log", tmp_path / "log")
    assert done.returncode == 0 and "bit-equal" in done.stdout, done.stderr
