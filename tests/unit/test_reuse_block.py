"""reuse_block: what is made twice is made once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from autosched import te, tune
from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.expr import BufferLoad, Expr
from autosched.ir.functor import walk_expr
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from space.normalise import normalise
from space.normalise.blocks import device_blocks, readers_of, store_of

Same = Callable[..., None]
Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), W: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32"), D: T.Buffer((6, 8), "int32")):
    B = T.alloc_buffer((6, 8), "int32")
    E = T.alloc_buffer(({shape}), "int32")
    {begin}
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2 + W[0, vj]
    {between}
    for {loops}:
        with T.block("E"):
            {binding}
            E[{at}] = {value}
    for i, j in T.grid(6, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1
    for i, j in T.grid(6, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = E[{read}] + E[{read}] * 4
'''
PLAIN = {"shape": "6, 8", "begin": "", "between": "", "loops": "y, x in T.grid(6, 8)",
         "binding": 'vy, vx = T.axis.remap("SS", [y, x])', "at": "vy, vx", "value": "A[vy, vx] * 2 + W[0, vx]",
         "read": "5 - vi, vj"}
WRITES = '''for i, j in T.grid(6, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = W[vi, vj]'''


def program(**changes: str) -> PrimFunc:
    return parse(TEXT.format(**{**PLAIN, **changes}))


@pytest.mark.parametrize("changes", [
    {}, {"begin": WRITES}, {"loops": "x, y in T.grid(8, 6)"},
    {"binding": 'vx, vy = T.axis.remap("SS", [x, y])'},  # its iterators in another order
])
def test_a_block_is_read_in_place_of_another(changes: dict[str, str], same: Same, verify_trace_roundtrip: Verify) -> None:
    func = program(**changes)
    sch = Schedule(func)
    sch.reuse_block("E", "B")
    assert "E" not in {b.name for b in device_blocks(sch.func)} and "E = T.sblock_alloc_buffer" not in sch.script()
    same(func, sch)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("changes", "names", "code"), [
    ({"value": "A[vy, vx] * 2 + W[1, vx]"}, ("E", "B"), "form"), ({"value": "A[vy, vx] * 3 + W[0, vx]"}, ("E", "B"), "form"),
    ({"at": "5 - vy, vx"}, ("E", "B"), "form"), ({"shape": "8, 8"}, ("E", "B"), "form"),
    ({"loops": "y, x in T.grid(5, 8)", "binding": "vy = T.axis.spatial(5, y)\n            vx = T.axis.spatial(8, x)"},
     ("E", "B"), "form"),
    ({"between": WRITES}, ("E", "B"), "writer"), ({}, ("B", "E"), "order"), ({}, ("D", "B"), "output"),
])
def test_what_is_not_the_same(changes: dict[str, str], names: tuple[str, str], code: str) -> None:
    func = program(**changes)
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.reuse_block(*names)
    assert sch.func == func


USERS = '''
@T.prim_func
def f(A: T.Buffer((4, 16), "int8"), W: T.Buffer((16, 16), "int8"), b: T.Buffer((16,), "int32"), P: T.Buffer((4, 16), "int8"),
      Q: T.Buffer((4, 16), "int8")):
    C = T.alloc_buffer((4, 16), "int32")
    for i, j, k in T.grid(4, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(4, 16):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.Cast("int8", {one})
    for y, x in T.grid(4, 16):
        with T.block("Q"):
            vy, vx = T.axis.remap("SS", [y, x])
            Q[vy, vx] = T.Cast("int8", {other})
'''


@pytest.mark.parametrize(("one", "other", "once"), [
    ("(C[vi, vj] + b[vj]) >> 4", "T.max(C[vy, vx] + b[vx], 0)", True),
    ("T.max(C[vi, vj] + b[vj], 0) >> 4", "T.max(C[vy, vx] + b[vx], 0) >> 6", True),
    ("(C[vi, vj] + b[vj]) >> 4", "T.max(C[vy, vx] + b[15 - vx], 0)", False),
    ("(C[vi, vj] + b[vj]) >> 4", "T.max(C[vy, vx], 0) + b[vx]", False),
    ("(C[vi, vj] >> 1) + 4", "(C[vy, vx] >> 1) + 5", False),  # no tensor is added
    ("(C[vi, vj] + b[vj]) >> 4", "C[vy, vx] + b[vx] + C[vy, vx]", False),  # the sum is wanted as it is, too
])
def test_what_readers_of_a_sum_begin_with(one: str, other: str, once: bool) -> None:
    new = split_host(normalise(parse(USERS.format(one=one, other=other)), get_target("vta-de10"))[0]).device
    total = next(store_of(b).buffer for b in device_blocks(new) if b.name == "C")
    assert (len(readers_of(new, total)) == 1) == once


def one_result(value: str) -> PrimFunc:
    """A product of which one stage makes the only result."""
    text = USERS[: USERS.index("    for y, x")].replace('"int32"), P:', '"int32"),\n      P:').replace(
        ' P: T.Buffer((4, 16), "int8"),\n      Q: T.Buffer((4, 16), "int8")):', ' P: T.Buffer((4, 16), "int8")):')
    func = parse(text.format(one=value))
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize(("value", "once"), [
    ("T.max(C[vi, vj] + b[vj] >> 6, C[vi, vj] + b[vj] >> 9)", True),
    ("T.max(C[vi, vj] + b[vj] >> 6, T.min(C[vi, vj] + b[vj], 0)) + T.min(C[vi, vj] + b[vj], 7)", True),
    ("T.max(C[vi, vj] >> 6, (C[vi, vj] >> 6) + 5)", True),
    ("T.max(C[vi, vj] + b[vj] >> 6, C[vi, vj] + b[15 - vj] >> 9)", False),
    ("T.max(C[vi, vj] + b[vj] >> 6, C[vi, vj] >> 9)", False),  # the sum is wanted as it is, too
    ("T.max(C[vi, vj] >> 6, C[vi, vj] >> 9)", False),
])
def test_what_one_stage_does_several_times(value: str, once: bool) -> None:
    func, target = one_result(f"T.min(T.max({value}, -128), 127)"), get_target("vta-de10")
    new = normalise(func, target)[0]
    blocks = device_blocks(split_host(new).device)
    total = next(store_of(b).buffer for b in blocks if b.name == "C")
    values = [store_of(b).value for b in blocks if b.name != "C"]
    loads = [e for value in values for e in walk_expr(value) if isinstance(e, BufferLoad) and e.buffer is total]
    assert (len(loads) == 1) == once
    inputs = random_inputs(func, 0)
    assert np.array_equal(run(new, *inputs)[0], run(func, *inputs)[0])


def leaky(stage: bool) -> PrimFunc:
    """A leaky ReLU of a product and a bias, which is a stage of its own or written out wherever it is used."""
    a, w, b = (te.placeholder(shape, dtype, name) for shape, dtype, name in (
        ((8, 32), "int8", "a"), ((32, 32), "int8", "w"), ((32,), "int32", "b")))
    k = te.reduce_axis((0, 32), name="k")
    total = te.compute((8, 32), lambda i, j: te.sum(a[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name="total")
    t = te.compute((8, 32), lambda i, j: (total[i, j] + b[j]) >> 6, name="t")

    def at(i: Expr, j: Expr) -> Expr:
        return t[i, j] if stage else (total[i, j] + b[j]) >> 6

    out = te.compute((8, 32), lambda i, j: te.max(te.min(te.max(at(i, j), at(i, j) >> 3), 127), -128).astype("int8"), name="out")
    return te.create_prim_func([a, w, b, out])


@pytest.mark.usefixtures("brief")
def test_a_program_is_as_fast_however_it_says_so(tmp_path: Path) -> None:
    found = [tune(leaky(stage), trials=8, jobs=1, cold=True, log=tmp_path / str(stage)) for stage in (True, False)]
    assert found[0].verified and found[1].verified
    assert (found[0].cycles, found[0].machine_bound) == (found[1].cycles, found[1].machine_bound)
