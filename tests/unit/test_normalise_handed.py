"""Results that only move what is computed: the accelerator stores that, and the host moves it as it unpacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from spaces import computes
from turns import in_turn

from autosched import te
from autosched.errors import SpaceError
from autosched.ir.expr import Expr
from autosched.ir.stmt import PrimFunc
from autosched.target import get_target
from space import Space
from space.normalise import Wanted, normal_forms


def filtered(dtype: str) -> tuple[te.Tensor, list[te.Tensor]]:
    """A convolution's result, int8 by a clip or int32 as it is, and what it is made of."""
    x, w = te.placeholder((1, 7, 4, 6), "int8", name="x"), te.placeholder((5, 7, 1, 1), "int8", name="w")
    c = te.reduce_axis((0, 7), "c")
    s = te.compute((1, 5, 4, 6), lambda n, o, y, z: te.sum(
        x[n, c, y, z].astype("int32") * w[o, c, 0, 0].astype("int32"), axis=c), name="s")
    if dtype == "int32":
        return s, [x, w]
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 5, 127), -128).astype("int8"), name="q"), [x, w]


def padded(q: te.Tensor, fill: int = 0, name: str = "padded") -> te.Tensor:
    n, c, h, w = (int(e.value) for e in q.shape)
    return te.compute((n, c, h + 2, w + 2), lambda b, k, y, z: te.if_then_else(
        te.all(y >= 1, y < h + 1, z >= 1, z < w + 1), q[b, k, y - 1, z - 1], te.const(fill, q.dtype)), name=name)


def enlarged(q: te.Tensor) -> te.Tensor:
    n, c, h, w = (int(e.value) for e in q.shape)
    return te.compute((n, c, h * 2, w * 2), lambda b, k, y, z: q[b, k, y // 2, z // 2], name="enlarged")


def moved(shape: tuple[int, ...], place: Callable[..., tuple[Expr, ...]]) -> Callable[[te.Tensor], te.Tensor]:
    return lambda q: te.compute(shape, lambda *i: q(*place(*i)), name="moved")


ENDS: dict[str, Callable[[te.Tensor], te.Tensor]] = {
    "padded": padded,
    "enlarged": enlarged,
    "enlarged and padded": lambda q: padded(enlarged(q)),
    "padded and turned": lambda q: moved((1, 5, 8, 6), lambda n, k, y, z: (n, k, 5 - z, 7 - y))(padded(q)),
    "filled with a constant": lambda q: padded(q, 3),
    "padded channels": lambda q: te.compute((1, 8, 4, 6), lambda b, k, y, z: te.if_then_else(
        te.all(k >= 1, k < 6), q[b, k - 1, y, z], te.const(0, q.dtype)), name="channels"),
}


def program(given: list[te.Tensor], *results: te.Tensor) -> PrimFunc:
    return te.create_prim_func([*given, *results])


def beside(q: te.Tensor, o: te.Tensor, first: bool) -> te.Tensor:
    """Both along the channels."""
    one, two, n = (q, o, 5) if first else (o, q, 3)
    return te.compute((1, 8, 4, 6), lambda b, k, y, z: te.if_then_else(
        k < n, one[b, k, y, z], two[b, k - n, y, z]), name="beside")


@pytest.mark.parametrize(("end", "dtype"), in_turn(ENDS, ("int8", "int32")))
def test_what_ends_a_program_is_moved_by_the_host(end: str, dtype: str) -> None:
    q, given = filtered(dtype)
    computes(program(given, ENDS[end](q)), "vta-de10" if dtype == "int8" else "vta-de10-portable")


@pytest.mark.parametrize("end", ["padded", "padded and turned"])
def test_no_program_takes_less_for_what_the_host_moves(end: str) -> None:
    """The bound is that of what the accelerator stores: all of it, once, whatever becomes of it."""
    q, given = filtered("int8")
    alone, ended = (Space(program(given, result), "vta-de10") for result in (q, ENDS[end](q)))
    assert ended.machine_bound() == alone.machine_bound()


@pytest.mark.parametrize("first", [True, False])
def test_what_stands_beside_a_result_is_put_there_by_the_host(first: bool) -> None:
    q, given = filtered("int32")
    o = te.placeholder((1, 3, 4, 6), "int32", name="o")
    computes(program([*given, o], beside(q, o, first)), "vta-de10")


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_what_is_moved_may_be_a_result_as_well(dtype: str) -> None:
    q, given = filtered(dtype)
    computes(program(given, q, padded(q)), "vta-de10")


def test_what_a_stage_reads_is_for_the_accelerator() -> None:
    """The twin: a result that something else is made of is no end of a program."""
    q, given = filtered("int32")
    made = padded(q)
    more = te.compute(made.shape, lambda *i: te.max(made(*i), 3), name="more")
    with pytest.raises(SpaceError, match="'padded' chooses by place what is in the accumulator, s;"):
        Space(program(given, made, more), "vta-de10")
    target = get_target("vta-de10")
    assert [len(sch.trace.insts) for _, sch in normal_forms(program(given, made, more), target, Wanted(handed=True))] == [0]


@pytest.mark.parametrize(("of", "said"), [
    (lambda q, rows, b, k, y, z: q[b, k, te.min(te.max(rows[y], 0), 3), z], "an index that is data"),
    (lambda q, rows, b, k, y, z: te.if_then_else(rows[y] > 0, q[b, k, 4 - y, z], te.const(0, "int8")), "chooses by data"),
])
def test_what_is_chosen_by_data_is_not_moved_by_the_host(of: Callable[..., Expr], said: str) -> None:
    q, given = filtered("int8")
    rows = te.placeholder((4,), "int32", name="rows")
    chosen = te.compute((1, 5, 4, 6), lambda *i: of(q, rows, *i), name="chosen")
    with pytest.raises(SpaceError, match=said):
        Space(program([*given, rows], chosen), "vta-de10")


def test_a_program_of_moves_alone_stays_with_the_accelerator() -> None:
    """What is moved is given, not computed: no host stage makes the result of it."""
    x = te.placeholder((1, 5, 4, 6), "int8", name="x")
    func = program([x], padded(x))
    assert [len(sch.trace.insts) for _, sch in normal_forms(func, get_target("vta-de10"), Wanted(handed=True))] == [0]
    computes(func, "vta-de10")
