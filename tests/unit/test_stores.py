"""Stores in loops without blocks: each gets a block, variables a place for each iteration, what is set twice is stored once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError, SpaceError
from autosched.ir.expr import int_value
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.ir.verify import verify
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from space.normalise import normal_forms
from space.normalise.blocks import device_blocks

Verify = Callable[..., None]

HEAD = '''
@T.prim_func
def f(A: T.Buffer((6, 9), "int32"), B: T.Buffer((9,), "int32"), C: T.Buffer((6,), "int32"), D: T.Buffer((6, 9), "int32")):
    t = T.alloc_buffer((1,), "int32")
    r = T.alloc_buffer((9,), "int32")
    q = T.alloc_buffer((9, 9), "int32")
    '''


def program(body: str) -> PrimFunc:
    return parse(HEAD + body.replace("\n", "\n    "))


def same(func: PrimFunc, other: PrimFunc) -> bool:
    """What both make of equal arrays, results included, for what is not stored is read."""
    inputs = random_inputs(func, 5)
    return all(np.array_equal(a, b) for a, b in zip(run(other, *inputs), run(func, *inputs), strict=True))


# With the kinds of iterators of each block.
LOOPS = {
    "for i, j in T.grid(6, 9):\n    D[i, j] = A[i, j] + 1": ["SS"],
    "for i in range(6):\n    C[i] = 0\n    for k in range(9):\n        C[i] = C[i] + A[i, k]": ["S", "SR"],
    "for k in range(1, 8):\n    for i in range(6):\n        C[i] = T.max(C[i], A[i, k + 1])": ["RS"],
    "for f in range(2):\n    for i in range(3):\n        C[f * 3 + i] = A[f * 3 + i, 2]": ["SS"],
    "for i, j in T.grid(6, 9):\n    if j < 4:\n        D[i, j] = A[i, j]\n    else:\n        D[i, j] = B[j]": ["SS"],
    "for i in range(6):\n    if i < 4:\n        for j in range(9):\n            D[i, j] = 1\n    else:\n"
    "        for j in range(9):\n            D[i, j] = B[j]\n            C[i] = C[i] + j": ["SS", "SS", "SR"],
    "for i in range(6):\n    for j in range(i, 9 - i):\n        D[i, j] = A[i, j]": ["SS"],
    "for i in range(6):\n    C[i] = 3\n    if A[i, 2] > 0:\n        C[i] = C[i] + B[i]\n    for j in range(9):\n"
    "        if A[i, j] < 0:\n            C[i] += 1": ["S", "SR"],
    "for i in range(6):\n    for k in range(2):\n        C[i] = C[i] + 7": ["SR"],
    "for i in range(6):\n    x: T.int32 = A[i, 1] * 2\n    C[i] = x + 1\n    D[i, 0] = x": ["S", "S"],
    "for i in range(6):\n    D[i, 3] = A[i, 0]\n    D[i, 4] = D[i, 3]": ["S", "S"],
    "C[2] = B[3]": [""],
    "for i in range(6):\n    for k in range(1, 9):\n        C[i] += A[i, k]\n        if k == 8:\n            D[i, 2] = C[i] + k\n"
    "        if k == 8 and k > i + 4:\n            C[i] = D[i, 2]": ["SR", "S", "S"],
    "for i, k in T.grid(6, 9):\n    if k == 8:\n        C[i] = A[i, k]": ["S"],
    "for i in range(6):\n    for j, k in T.grid(3, 3):\n        C[i] += A[i, j + k]\n        if j == 2 and k == 2:\n"
    "            for l in range(9):\n                D[i, l] = C[i] * B[l]\n        if k == 2 and j == 2:\n            C[i] = 0":
        ["SRR", "SS", "S"],
}


@pytest.mark.parametrize("body", LOOPS)
def test_every_store_is_one_of_a_block(body: str, verify_trace_roundtrip: Verify) -> None:
    func = program(body)
    sch = Schedule(func)
    made = sch.blockize_stores("root")
    blocks = device_blocks(sch.func)
    assert ["".join(iv.kind[0].upper() for iv in b.iter_vars) for b in blocks] == LOOPS[body]
    assert [sch.get(b) for b in made] == blocks and len({b.name for b in blocks}) == len(blocks)
    assert not verify(sch.func) and same(func, sch.func)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("body", "code"), [
    ("for i, j in T.grid(6, 9):\n    C[i] = A[i, j]", "order"),
    ("for i, j in T.grid(6, 3):\n    B[i + j] = B[i + j] + A[i, j]", "order"),
    ("for i, j in T.grid(6, 9):\n    B[j // 2] = A[i, j]", "order"),
    ("for i in range(6):\n    for j in range(B[i]):\n        D[i, j] = 1", "loop"),
    ("for i, k in T.grid(6, 9):\n    C[i] += A[i, k]\n    if k == 7:\n        D[i, 2] = C[i]", "order"),
    ("for i, k in T.grid(6, 9):\n    if k == 8:\n        D[i, 2] = C[i]\n    C[i] += A[i, k]", "order"),
    ("for i, k in T.grid(6, 9):\n    C[i] += A[i, k]\n    if k == 8:\n        D[i, 2] = C[i]\n    else:\n        D[i, 3] = 1",
     "order"),
    ("for i in T.parallel(6):\n    C[i] = 1", "loop"),
    ("for i in range(6):\n    if B[i] > 0:\n        for j in range(9):\n            D[i, j] = 1", "form"),
    ("for i in range(6):\n    x: T.int32 = C[i]\n    C[i] = 3\n    D[i, 0] = x", "order"),
    ("for i in range(6):\n    with T.block('C'):\n        vi = T.axis.spatial(6, i)\n        C[vi] = 1", "form"),
])
def test_what_is_no_block(body: str, code: str) -> None:
    sch = Schedule(program(body))
    before = sch.func
    with refused(ScheduleError, code):
        sch.blockize_stores("root")
    assert sch.func == before


BLOCK = "for i in range(6):\n    with T.block('C'):\n        {}\n        C[vi] = 1\n        for k in range(9):\n            {}"


@pytest.mark.parametrize(("iters", "update", "kinds"), [
    ("vi = T.axis.spatial(6, i)", "C[vi] += A[vi, k]", ["S", "SR"]),
    ("vi = T.axis.spatial(6, 5 - i)", "C[vi] += A[vi, k]", ["S", "SR"]),
    ("vi = T.axis.spatial(6, i)\n        T.where(i < 4)", "if k < vi:\n                C[vi] += A[vi, k]", ["S", "SR"]),
])
def test_a_block_of_loops_is_dissolved(iters: str, update: str, kinds: list[str], verify_trace_roundtrip: Verify) -> None:
    func = program(BLOCK.format(iters, update))
    sch = Schedule(func)
    sch.blockize_stores("C")
    assert ["".join(iv.kind[0].upper() for iv in b.iter_vars) for b in device_blocks(sch.func)] == kinds
    assert not verify(sch.func) and same(func, sch.func)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("body", [
    "for i in range(6):\n    with T.block('C'):\n        vi = T.axis.spatial(6, i)\n        C[vi] = 1",
    BLOCK.format("vi = T.axis.spatial(6, i)\n        T.block_attr({'a': 1})", "C[vi] += A[vi, k]"),
    "for i in range(6):\n    with T.block('C'):\n        vi = T.axis.spatial(6, i)\n        for k in range(9):\n"
    "            with T.block('D'):\n                vk = T.axis.spatial(9, k)\n                D[vi, vk] = 1\n"
    "        for k in range(9):\n            D[vi, k] = 1",
])
def test_a_block_that_is_not_dissolved(body: str) -> None:
    sch = Schedule(program(body))
    with refused(ScheduleError, "form"):
        sch.blockize_stores("C")


# With the variable's shape afterwards.
VARIABLES = {
    "for i in range(6):\n    t[0] = 0\n    for k in range(9):\n        t[0] += A[i, k]\n    C[i] = t[0]": (0, (6,)),
    "for i in range(2, 5):\n    for j in range(1):\n        t[0] = B[i]\n        C[i] = t[0] + t[0]": (0, (3,)),
    "for i in range(6):\n    for j in range(9):\n        r[j] = A[i, j]\n    for j in range(9):\n        D[i, j] = r[8 - j]":
        (1, (6, 9)),
    "for i in range(6):\n    for j in range(9):\n        r[j] = A[i, j]\n        D[i, j] = r[j] * r[j]": (1, (6, 9)),
    "for i, j in T.grid(6, 9):\n    t[0] = A[i, j]\n    if t[0] < 0:\n        t[0] = 0 - t[0]\n    D[i, j] = t[0]": (0, (6, 9)),
}


@pytest.mark.parametrize("body", VARIABLES)
def test_every_iteration_has_a_variable_of_its_own(body: str, verify_trace_roundtrip: Verify) -> None:
    func = program(body)
    index, shape = VARIABLES[body]
    sch = Schedule(func)
    sch.expand_buffer("root", index)
    made = sch.state.root.alloc_buffers[index]
    assert tuple(int_value(e) for e in made.shape) == shape and same(func, sch.func)
    verify_trace_roundtrip(sch, func)
    sch.blockize_stores("root")
    assert same(func, sch.func)


ROW = "for i in range(6):\n    for j in range({}):\n        r[{}] = A[i, j]\n    for j in range(9):\n        D[i, j] = r[j]"


@pytest.mark.parametrize(("body", "index", "code"), [
    ("t[0] = 0\nfor i in range(6):\n    t[0] = t[0] + B[i]\n    C[i] = t[0]", 0, "form"),
    ("for i in range(6):\n    t[0] = t[0] + B[i]\n    C[i] = t[0]", 0, "order"),
    ("for i in range(6):\n    C[i] = t[0]\n    t[0] = B[i]", 0, "order"),
    ("for i in range(6):\n    if i < 3:\n        t[0] = B[i]\n    C[i] = t[0]", 0, "order"),
    (ROW.format(8, "j"), 1, "order"), (ROW.format(9, "i"), 1, "order"), (ROW.format(9, "0"), 1, "order"),
    ("for i in range(6):\n    for j in range(9):\n        r[j] = A[i, j]\n        D[i, j] = r[8 - j]", 1, "order"),
    ("for i in range(6):\n    for j in range(i):\n        t[0] = A[i, j]\n        D[i, j] = t[0]", 0, "symbolic"),
    ("for i in range(6):\n    C[i] = B[i]", 0, "form"),
    ("for i in range(6):\n    C[i] = B[i]", 3, "argument"),
    (ROW.format(9, "j").replace("r[j] = ", "q[j, j] = ").replace("r[j]", "q[8, j]"), 2, "order"),
    ("for i in range(6):\n    t[0] = B[i]\n    with T.block('C'):\n        vi = T.axis.spatial(6, i)\n        C[vi] = t[0]",
     0, "form"),
])
def test_what_is_no_variable_of_every_iteration(body: str, index: int, code: str) -> None:
    sch = Schedule(program(body))
    before = sch.func
    with refused(ScheduleError, code):
        sch.expand_buffer("root", index)
    assert sch.func == before


def test_a_blocks_own_variable_becomes_one_of_the_root(verify_trace_roundtrip: Verify) -> None:
    func = program('for i in range(6):\n    with T.block("C"):\n        vi = T.axis.spatial(6, i)\n'
                   '        s = T.alloc_buffer((1,), "int32")\n        s[0] = B[vi]\n        for k in range(9):\n'
                   "            s[0] += A[vi, k]\n        C[vi] = s[0] * 2")
    sch = Schedule(func)
    sch.expand_buffer("C", 0)
    assert "s[vi] * 2" in sch.script() and [b.name for b in sch.state.root.alloc_buffers] == ["t", "r", "q", "s"]
    assert same(func, sch.func)
    sch.blockize_stores("C")
    assert same(func, sch.func) and not verify(sch.func)
    verify_trace_roundtrip(sch, func)


def pair(over: str, extents: str, first: str = "A[vi, vj]", between: str = "") -> PrimFunc:
    count = extents.count(",") + 1
    names = ["a", "b", "c"][:count]
    return program(
        'for i, j in T.grid(6, 9):\n    with T.block("all"):\n        vi, vj = T.axis.remap("SS", [i, j])\n'
        f"        D[vi, vj] = {first}\n{between}for {', '.join(names)}{',' if count == 1 else ''} in T.grid({extents}):\n"
        f'    with T.block("part"):\n        v{", v".join(names)} = T.axis.remap("{"S" * count}", [{", ".join(names)}])\n'
        f"        {over}")


@pytest.mark.parametrize(("over", "extents"), [
    ("D[va + 1, vb + 2] = B[vb] * 3", "4, 7"), ("D[va, 8] = B[va]", "6"), ("D[5, va] = B[va] + va", "9"),
    ("D[va, vb] = 0", "6, 1"), ("D[va + 5, vb] = B[vb]", "1, 9"),
])
def test_what_is_set_anew_is_chosen_by_place(over: str, extents: str, verify_trace_roundtrip: Verify) -> None:
    func = pair(over, extents)
    sch = Schedule(func)
    sch.compose_overwrite("all", "part")
    assert [b.name for b in device_blocks(sch.func)] == ["all"] and same(func, sch.func) and not verify(sch.func)
    verify_trace_roundtrip(sch, func)


def test_a_part_may_begin_elsewhere() -> None:
    func = pair("D[va, 2] = B[va]", "4")
    func = parse(func.script().replace(
        "va = T.axis.spatial(4, a)", "va = T.axis.spatial((1, 5), a + 1)"))
    sch = Schedule(func)
    sch.compose_overwrite("all", "part")
    assert "vi >= 1 and vi < 5 and vj == 2" in sch.script() and same(func, sch.func)


READ = 'for i, j in T.grid(6, 9):\n    with T.block("x"):\n        vi, vj = T.axis.remap("SS", [i, j])\n        {}\n'


@pytest.mark.parametrize(("func", "code"), [
    (pair("D[va, vb * 2] = 1", "6, 3"), "index"),
    (pair("D[va, va] = 1", "6"), "index"),
    (pair("D[va, vb] = B[vb]", "6, 9"), "form"),
    (pair("D[va, 3] = B[vb]", "6, 9"), "index"),
    (pair("D[va, vb] = D[va, vb] + 1", "6, 3"), "form"),
    (pair("C[va] = 1", "6"), "form"),
    (pair("T.where(a < 3)\n        D[va, 1] = 1", "6"), "domain"),
    (pair("D[va, vb] = 1", "6, 3", "D[vi, vj] + 1"), "form"),
    (pair("D[va, vb] = 1", "6, 3", between=READ.format("A[vi, vj] = 2")), "order"),
    (pair("D[va, vb] = 1", "6, 3", between='for i in range(6):\n    with T.block("x"):\n        vi = T.axis.spatial(6, i)\n'
          "        C[vi] = D[vi, 0]\n"), "order"),
])
def test_what_is_not_stored_at_once(func: PrimFunc, code: str) -> None:
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.compose_overwrite("all", "part")
    assert sch.func == func


def test_blocks_in_the_other_order_stay() -> None:
    sch = Schedule(pair("D[va, vb] = 1", "6, 3"))
    with refused(ScheduleError, "domain"):
        sch.compose_overwrite("part", "all")


@pytest.mark.parametrize(("body", "said"), [
    ("for i, j in T.grid(6, 9):\n    C[i] = A[i, j]", "every iteration of j stores the same elements of C again: store what"),
    ("for i in range(6):\n    for j in range(B[i]):\n        D[i, j] = 1", "loop j runs to B[i], which is data"),
])
def test_loops_without_blocks_are_refused_in_one_line(body: str, said: str) -> None:
    with pytest.raises(SpaceError, match="^" + said.replace("[", r"\[")):
        normal_forms(program(body), get_target("vta-de10"))


def test_an_element_may_be_changed_under_a_condition_on_itself() -> None:
    func = program("for i in range(6):\n    C[i] = B[i] * 2\n    if C[i] < 0:\n        C[i] = 0")
    sch = Schedule(func)
    sch.blockize_stores("root")
    with refused(ScheduleError, "form"):  # on another one it may not
        Schedule(parse(sch.script().replace("C[vi] < 0", "C[5 - vi] < 0"))).single_store("C")
    sch.single_store("C")
    assert "T.if_then_else(B[vi] * 2 < 0, 0, B[vi] * 2)" in sch.script() and same(func, sch.func)
