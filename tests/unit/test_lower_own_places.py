"""Results that stand in a larger operand's storage, where no other of their elements reads: windows that move on by several."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autosched.ir.stmt import PrimFunc
from autosched.lower import lower_table
from autosched.lower.affine import Lin, Loop
from autosched.lower.regions import disjoint
from autosched.lower.tree import Access, Site
from autosched.script import parse
from autosched.target import get_target
from sim import isa
from space.halos import slides
from space.sites import loads_of, sites_of

TARGETS = ("vta-de10", "vta-de10-portable", "vta-fsim")
MOVED = "T.shift_right(z[vi, vj, vk, 0, vl], 1)"


def windows(
    expr: str, shape: tuple[int, int], behind: str = MOVED, loops: str = "for j, k, l in T.grid(3, 4, 16)", after: str = "",
    stored: str = "w",
) -> PrimFunc:
    """``z = expr`` of ``x``, and what is done to it ``behind``; both tiles load what they need."""
    return parse(text_of(expr, shape, behind, loops, after, stored))


def text_of(
    expr: str, shape: tuple[int, int], behind: str = MOVED, loops: str = "for j, k, l in T.grid(3, 4, 16)", after: str = "",
    stored: str = "w",
) -> str:
    rows, columns = shape
    return f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((2, {rows}, {columns}, 1, 16), "int32"), out: T.Buffer((2, 3, 4, 1, 16), "int8")):
    x = T.alloc_buffer((2, {rows}, {columns}, 1, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer((2, 3, 4, 1, 16), "int32", scope="local.acc_buffer")
    w = T.alloc_buffer((2, 3, 4, 1, 16), "int32", scope="local.acc_buffer")
    for i in range(2):
        for j, k, l in T.grid({rows}, {columns}, 16):
            with T.block("load"):
                vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
                x[vi, vj, vk, 0, vl] = a[vi, vj, vk, 0, vl]
        {loops}:
            with T.block("window"):
                vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
                z[vi, vj, vk, 0, vl] = {expr}
{after}        for j, k, l in T.grid(3, 4, 16):
            with T.block("behind"):
                vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
                w[vi, vj, vk, 0, vl] = {behind}
        for j, k, l in T.grid(3, 4, 16):
            with T.block("store"):
                vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
                out[vi, vj, vk, 0, vl] = T.cast({stored}[vi, vj, vk, 0, vl], "int8")
'''


def x(j: int, k: int, by: tuple[int, int] = (2, 2)) -> str:
    """An element of a window that moves on by so many rows and columns."""
    return f"x[vi, vj * {by[0]} + {j}, vk * {by[1]} + {k}, 0, vl]"


def in_place(func: PrimFunc, target: str = "vta-de10") -> bool:
    """Whether the window has no storage of its own."""
    names = {s.buffer for s in lower_table(func, target).storages if s.scope == "local.acc_buffer"}
    return "z" not in names


def known(func: PrimFunc, target: str = "vta-de10") -> bool:
    """Whether a space knows that: its costs depend on it."""
    site = next(s for s in sites_of(func) if s.block.name == "window")
    return slides(site, next(load.buffer for load in loads_of(site) if load.buffer.name == "x"), get_target(target))


def room(size: tuple[int, int], by: tuple[int, int]) -> tuple[int, int]:
    """What three by four windows read."""
    return 2 * by[0] + size[0], 3 * by[1] + size[1]


@pytest.mark.parametrize(("size", "by", "there"), [
    ((1, 3), (1, 2), True), ((3, 1), (2, 1), True), ((3, 3), (2, 2), True), ((2, 2), (2, 2), True), ((1, 2), (1, 3), True),
    ((3, 5), (2, 4), True), ((1, 5), (1, 3), True),
    ((1, 4), (1, 2), False),  # of two and two elements each is some other window's, too
    ((1, 5), (1, 2), False), ((1, 3), (1, 1), False), ((2, 3), (1, 2), False),
])
def test_where_windows_have_an_element_of_their_own(
    size: tuple[int, int], by: tuple[int, int], there: bool, vta_schedules: ModuleType
) -> None:
    """The chain begins with it: so the program says it here, as the first or the second of two."""
    own = next(((j, k) for j in range(size[0]) for k in range(size[1]) if _alone(j, k, size, by)), None)
    assert (own is not None) == there
    elements = [(j, k) for j in range(size[0]) for k in range(size[1])]
    first = own or elements[0]
    rest = [e for e in elements if e != first]
    for begun in ((first, rest[0]), (rest[0], first)):
        expr = f"T.max({x(*begun[0], by)}, {x(*begun[1], by)})"
        for e in rest[1:]:
            expr = f"T.max({expr}, {x(*e, by)})"
        func = windows(expr, room(size, by))
        for target in TARGETS:
            vta_schedules.verify(func, target)
        assert in_place(func) == there == known(func)
        assert not in_place(func, "vta-de10-portable") and not in_place(func, "vta-fsim")
        assert not known(func, "vta-de10-portable") and not known(func, "vta-fsim")


def _alone(j: int, k: int, size: tuple[int, int], by: tuple[int, int]) -> bool:
    """Whether no other window reads an element, by trying them all."""
    others = {(j - by[0] * a, k - by[1] * b) for a in range(-9, 10) for b in range(-9, 10) if (a, b) != (0, 0)}
    return not any(0 <= p < size[0] and 0 <= q < size[1] for p, q in others)


def test_nothing_is_moved(vta_schedules: ModuleType) -> None:
    func = windows(f"T.max(T.max({x(0, 1)}, {x(0, 0)}), {x(0, 2)})", room((1, 3), (2, 2)))
    found = []
    for row in lower_table(func, "vta-de10").table:
        if row[isa.OPCODE] == isa.OP_STORE:
            break
        if row[isa.OPCODE] == isa.OP_ALU:
            found.append((int(row[isa.ALU_OP]), int(row[isa.USE_IMM])))
    assert found == [(isa.ALU_MAX, 0), (isa.ALU_MAX, 0), (isa.ALU_SHR, 1)]
    vta_schedules.verify(func, "vta-de10")


THREE = f"T.max(T.max({x(0, 1)}, {x(0, 0)}), {x(0, 2)})"
READ = "z[vi, vj, vk, 0, vl] + x[vi, vj * 2, vk * 2 + {0}, 0, vl]"


@pytest.mark.parametrize(("change", "why"), [
    ({"stored": "z"}, "stored element by element"),
    ({"expr": f"T.max(T.max({x(0, 0)}, {x(0, 2)}), {x(0, 1)})"}, ""),  # it slides on
    ({"expr": f"T.max(T.max({x(0, 0)}, {x(0, 1)}), {x(0, 2)})"}, ""),
    ({"expr": f"T.max(T.max({x(0, 1)}, 3), {x(0, 0)})"}, "a constant moves it at no cost"),
    ({"behind": READ.format(1)}, "it is read behind"), ({"behind": READ.format(0)}, "others of it are"),
    ({"loops": "for k, j, l in T.grid(4, 3, 16)"}, ""),
    ({"loops": "for j, k, r, l in T.grid(3, 4, 2, 16)"}, "it is done twice"),
    ({"loops": "for j, k, r, l in T.grid(3, 4, 1, 16)"}, ""),
    ({"expr": f"T.max(T.max({x(0, 2)}, {x(0, 0)}), {x(0, 1)})"}, ""),  # it slides on, the other way around
    ({"expr": THREE.replace("vk * 2", "6 - vk * 2")}, "it goes backwards"),
    ({"expr": THREE.replace("vk * 2", "0")}, "all have one element"),
    ({"expr": "T.max(x[vi, vj, 3 - vk, 0, vl], x[vi, vj, 4 - vk, 0, vl])"}, "they slide backwards"),
    ({"expr": f"T.max({x(0, 1, (1, 1))}, {x(1, 0, (1, 1))})"}, "neither is ahead of the other"),
    ({"expr": f"T.max(T.max({x(0, 0)}, {x(0, 2)}), {x(0, 4)})", "shape": (7, 11)}, "the third is no other's second"),
])
def test_what_is_in_the_way(change: dict[str, str], why: str, vta_schedules: ModuleType) -> None:
    func = windows(**{"expr": THREE, "shape": room((1, 3), (2, 2)), **change})  # type: ignore[arg-type]
    for target in TARGETS:
        vta_schedules.verify(func, target)
    assert in_place(func) == (not why), why
    if "expr" in change:
        assert known(func) == (not why), why


def block(name: str, value: str, grid: str = "3, 4, 16") -> str:
    """A block of its own in the loop over tiles."""
    return f"""        for j, k, l in T.grid({grid}):
            with T.block("{name}"):
                vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
                {value}
"""


Z = 'z = T.alloc_buffer((2, 3, 4, 1, 16), "int32", scope="local.acc_buffer")'
WINDOW = "        for j, k, l in T.grid(3, 4, 16):\n            with T.block(\"window\"):"
LONGER = (Z, Z.replace("3, 4", "3, 5"))


@pytest.mark.parametrize(("changes", "columns", "there"), [
    ([LONGER], 10, True), ([LONGER], 9, False),  # the last that it has, though nobody uses that
    ([LONGER, ("z[vi, vj, vk,", "z[vi, vj, vk + 1,"), ("vk * 2 + ", "vk * 2 + 1 + ")], 10, True),
    ([LONGER, ("z[vi, vj, vk,", "z[vi, vj, vk + 1,")], 10, False),  # one ahead of the first
    # Some of it is written before, and stays.
    ([(WINDOW, block("some", "z[vi, vj, vk, 0, vl] = 3") + WINDOW.replace("3, 4", "3, 3"))], 9, False),
    # It is compared with another tensor first, which stays; what becomes of it is stored behind the loop that its operand is for.
    ([(Z, f'{Z}\n    y{Z[1:]}'), (WINDOW, block("other", "y[vi, vj, vk, 0, vl] = a[vi, vj, vk, 0, vl]") + WINDOW),
      (f"{x(0, 1)}, {x(0, 0)}", f"{x(0, 1)}, y[vi, vj, vk, 0, vl]"), (MOVED, f"{MOVED} + y[vi, vj, vk, 0, vl]")], 9, False),
    ([("vi, vj, vk, vl = T.axis.remap(\"SSSS\", [i, j, k, l])\n                z[",
       "vi, vj, vk, vl = T.axis.remap(\"SSSS\", [i, j, k, l])\n                T.block_attr({\"double_buffer_scope\": 0})\n"
       "                z[")], 9, False),  # it has banks of its own
    ([("        for j, k, l in T.grid(3, 4, 16):\n            with T.block(\"behind\")",
       "    for i, j, k, l in T.grid(2, 3, 4, 16):\n            with T.block(\"behind\")"),
      ("        for j, k, l in T.grid(3, 4, 16):\n            with T.block(\"store\")",
       "    for i, j, k, l in T.grid(2, 3, 4, 16):\n            with T.block(\"store\")")], 9, False),
])
def test_what_else_is_in_the_way(
    changes: list[tuple[str, str]], columns: int, there: bool, vta_schedules: ModuleType
) -> None:
    text = text_of(THREE, (7, columns))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    func = parse(text)
    vta_schedules.verify(func, "vta-de10")
    assert in_place(func) == there


@pytest.mark.parametrize(("more", "there"), [(1949, True), (1950, False)])
def test_there_is_no_room(more: int, there: bool, vta_schedules: ModuleType) -> None:
    """What stands in a larger tensor's place needs that as long as it is used: where that is too much, it gets its own."""
    func = parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((99, 1, 16), "int32"), b: T.Buffer(({more}, 1, 16), "int32"), out: T.Buffer((49, 1, 16), "int8"),
         more: T.Buffer(({more}, 1, 16), "int8")):
    x = T.alloc_buffer((99, 1, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer(({more}, 1, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer((49, 1, 16), "int32", scope="local.acc_buffer")
    w = T.alloc_buffer((49, 1, 16), "int32", scope="local.acc_buffer")
    for j, l in T.grid(99, 16):
        with T.block("load"):
            vj, vl = T.axis.remap("SS", [j, l])
            x[vj, 0, vl] = a[vj, 0, vl]
    for j, l in T.grid(49, 16):
        with T.block("window"):
            vj, vl = T.axis.remap("SS", [j, l])
            z[vj, 0, vl] = T.max(T.max(x[vj * 2 + 1, 0, vl], x[vj * 2, 0, vl]), x[vj * 2 + 2, 0, vl])
    for j, l in T.grid({more}, 16):
        with T.block("another"):
            vj, vl = T.axis.remap("SS", [j, l])
            y[vj, 0, vl] = b[vj, 0, vl]
    for j, l in T.grid({more}, 16):
        with T.block("store_another"):
            vj, vl = T.axis.remap("SS", [j, l])
            more[vj, 0, vl] = T.cast(y[vj, 0, vl], "int8")
    for j, l in T.grid(49, 16):
        with T.block("behind"):
            vj, vl = T.axis.remap("SS", [j, l])
            w[vj, 0, vl] = T.shift_right(z[vj, 0, vl], 1)
    for j, l in T.grid(49, 16):
        with T.block("store"):
            vj, vl = T.axis.remap("SS", [j, l])
            out[vj, 0, vl] = T.cast(w[vj, 0, vl], "int8")
''')
    vta_schedules.verify(func, "vta-de10")
    assert in_place(func) == there


SLICED = f"T.max(T.max({x(1, 1)}, {x(0, 1)}), {x(2, 0)})"


@pytest.mark.parametrize(("slices", "value", "read", "there"), [
    (1, SLICED, "", True), (2, SLICED, "", True), (4, SLICED, "", True),
    (1, f"T.max(T.max({x(1, 1, (1, 2))}, {x(2, 1, (1, 2))}), {x(0, 1, (1, 2))})", "", False),  # the slice before wrote there
    (1, f"T.max(T.max({x(0, 1, (1, 2))}, {x(1, 1, (1, 2))}), {x(2, 0, (1, 2))})", "", True),  # what a later one does
    (1, SLICED, "x[vi, 1, vk * 2 + 1, 0, vl]", False),  # in each slice what the first one has written
])
def test_windows_of_a_larger_tile_slice_by_slice(
    slices: int, value: str, read: str, there: bool, vta_schedules: ModuleType
) -> None:
    """What one slice reads no other one has written."""
    func = parse(f"""
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((2, 9, 9, 1, 16), "int32"), out: T.Buffer((2, 4, 4, 1, 16), "int8")):
    x = T.alloc_buffer((2, 9, 9, 1, 16), "int32", scope="local.acc_buffer")
    v = T.alloc_buffer((2, 4, 4, 1, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer((2, 4, 4, 1, 16), "int32", scope="local.acc_buffer")
    w = T.alloc_buffer((2, 4, 4, 1, 16), "int32", scope="local.acc_buffer")
    for i in range(2):
        for j, k, l in T.grid(9, 9, 16):
            with T.block("load"):
                vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
                x[vi, vj, vk, 0, vl] = a[vi, vj, vk, 0, vl]
        for s in range({4 // slices}):
            for j, k, l in T.grid({slices}, 4, 16):
                with T.block("read"):
                    vi, vk, vl = T.axis.remap("SSS", [i, k, l])
                    vj = T.axis.spatial(4, s * {slices} + j)
                    v[vi, vj, vk, 0, vl] = {read or 0}
            for j, k, l in T.grid({slices}, 4, 16):
                with T.block("window"):
                    vi, vk, vl = T.axis.remap("SSS", [i, k, l])
                    vj = T.axis.spatial(4, s * {slices} + j)
                    z[vi, vj, vk, 0, vl] = {value}
            for j, k, l in T.grid({slices}, 4, 16):
                with T.block("behind"):
                    vi, vk, vl = T.axis.remap("SSS", [i, k, l])
                    vj = T.axis.spatial(4, s * {slices} + j)
                    w[vi, vj, vk, 0, vl] = {MOVED} + v[vi, vj, vk, 0, vl]
            for j, k, l in T.grid({slices}, 4, 16):
                with T.block("store"):
                    vi, vk, vl = T.axis.remap("SSS", [i, k, l])
                    vj = T.axis.spatial(4, s * {slices} + j)
                    out[vi, vj, vk, 0, vl] = T.cast(w[vi, vj, vk, 0, vl], "int8")
""")
    for target in TARGETS:
        vta_schedules.verify(func, target)
    assert in_place(func) == there


STEPS = st.integers(0, 6)
EVERY = st.tuples(STEPS, STEPS, st.integers(0, 9), st.integers(1, 2))


@given(st.lists(st.tuples(EVERY, EVERY), min_size=1, max_size=2), st.integers(1, 4), st.integers(1, 4), STEPS, STEPS)
@example([((0, 2, 1, 1), (0, 2, 0, 1))], 1, 3, 2, 0)
@example([((0, 2, 1, 1), (0, 1, 0, 1))], 1, 3, 2, 0)
@example([((0, 1, 1, 1), (0, 2, 0, 1))], 1, 3, 2, 0)
@example([((0, 2, 1, 1), (0, 2, 0, 2))], 1, 3, 2, 0)
@example([((0, 2, 1, 2), (0, 2, 0, 1))], 1, 3, 2, 0)
def test_what_lies_between_what_is_written(
    dims: list[tuple[tuple[int, int, int, int], tuple[int, int, int, int]]], first: int, second: int, outer: int, apart: int
) -> None:
    """Against all instances: where it is said to be so, no place that is read is one that is written."""
    a, b, out = Loop("a", first), Loop("b", second), Loop("o", 3)
    read, write = (tuple([Lin({k: v for k, v in ((a, p), (b, q), (out, outer + apart * bool(n) * wrote)) if v}, c)
                          for n, (p, q, c, _) in enumerate(every)]) for wrote, every in enumerate(zip(*dims)))
    taken_at_once, made_at_once = (tuple([length for *_, length in every]) for every in zip(*dims))
    buffer = parse("""from tvm.script import tir as T
@T.prim_func
def main(x: T.Buffer((64, 64), "int32")):
    for i in range(64):
        with T.block("x"):
            v = T.axis.spatial(64, i)
            x[v, 0] = 0
""").buffers[0]
    site = Site("alu", "s", Access(buffer, write, made_at_once), [], path=(out, a, b), own=2)
    if not disjoint(site, Access(buffer, read, taken_at_once)):
        return
    for at in range(3):
        runs = [{a: i, b: j, out: at} for i in range(first) for j in range(second)]
        made, taken = ({tuple(i.const + sum(c * run[t] for t, c in i.terms.items()) + more for i, more in zip(places, also))
                        for run in runs for also in np.ndindex(*lengths)}
                       for places, lengths in ((write, made_at_once), (read, taken_at_once)))
        assert not made & taken
