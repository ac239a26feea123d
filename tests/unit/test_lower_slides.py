"""Windows of two that slide on in place: what they read ahead, what they cost, and where the order of instances forbids it."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from refusals import refused

from autosched.errors import LoweringError
from autosched.ir.stmt import PrimFunc
from autosched.lower import lower_table
from autosched.script import parse
from sim import isa

TARGETS = ("vta-de10", "vta-de10-portable", "vta-fsim")
ROWS, COLUMNS = 4, 6


def window(
    expr: str, reach: tuple[int, int], loops: str = "for j, k, l in T.grid(4, 6, 16)", column: str = "k", after: str = "",
    stored: str = "z",
) -> PrimFunc:
    """``z = expr`` of ``x``, larger by ``reach``, of which both tiles load what they need; ``stored`` is what ``out`` is."""
    rows, columns = ROWS + reach[0], COLUMNS + reach[1]
    *outer, inner = loops.split("|")
    around = "".join(f"        {'    ' * n}{loop}:\n" for n, loop in enumerate(outer))
    deep = "    " * len(outer)
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((2, {rows}, {columns}, 1, 16), "int32"), out: T.Buffer((2, 4, 6, 1, 16), "int8")):
    x = T.alloc_buffer((2, {rows}, {columns}, 1, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer((2, 4, 6, 1, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer((2, 4, 6, 1, 16), "int32", scope="local.acc_buffer")
    for i in range(2):
        for j, k, l in T.grid({rows}, {columns}, 16):
            with T.block("load"):
                vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
                x[vi, vj, vk, 0, vl] = a[vi, vj, vk, 0, vl]
{around}        {deep}{inner}:
            {deep}with T.block("slide"):
                {deep}vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                {deep}vk = T.axis.spatial(6, {column})
                {deep}z[vi, vj, vk, 0, vl] = {expr}
{after}        for j, k, l in T.grid(4, 6, 16):
            with T.block("store"):
                vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
                out[vi, vj, vk, 0, vl] = T.cast({stored}[vi, vj, vk, 0, vl], "int8")
''')


def plain(func: PrimFunc) -> str:
    """A program's text without what its blocks say that they access."""
    return "\n".join(row for row in func.script().split("\n") if "T.reads" not in row and "T.writes" not in row)


def changed(func: PrimFunc, *pairs: tuple[str, str]) -> PrimFunc:
    """The program with other text."""
    text = plain(func)
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return parse(text)


def x(j: int = 0, k: int = 0) -> str:
    """An element so many rows and columns on."""
    return f"x[vi, vj + {j}, vk + {k}, 0, vl]"


def work(func: PrimFunc, target: str = "vta-de10") -> list[tuple[int, int]]:
    """(operation, or -1 for a reset; elements) of what computes in the first tile."""
    found = []
    for row in lower_table(func, target).table:
        if row[isa.OPCODE] == isa.OP_STORE:
            break
        if row[isa.OPCODE] in (isa.OP_GEMM, isa.OP_ALU):
            times = int(row[isa.ITER_OUT] * row[isa.ITER_IN] * (row[isa.UOP_END] - row[isa.UOP_BGN]))
            found.append((-1 if row[isa.OPCODE] == isa.OP_GEMM else int(row[isa.ALU_OP]), times))
    return found


def places(func: PrimFunc, target: str = "vta-de10") -> dict[str, int]:
    """Elements of every storage of the accumulator, by name."""
    return {s.buffer: s.elements for s in lower_table(func, target).storages if s.scope == "local.acc_buffer"}


@pytest.mark.parametrize("reach", [(0, 1), (1, 0), (1, 1), (0, 3), (2, 5)])
@pytest.mark.parametrize("expr", ["T.max({0}, {1})", "T.max({1}, {0})", "T.min({0}, {1})", "{0} + {1}"])
def test_the_result_stands_where_the_first_of_two_was(expr: str, reach: tuple[int, int], vta_schedules: ModuleType) -> None:
    func = window(expr.format(x(), x(*reach)), reach)
    for target in TARGETS:
        vta_schedules.verify(func, target)
    # One operation with a tensor, which STORE may read behind: no move.
    (operation,) = work(func)
    assert operation[1] == ROWS * COLUMNS and operation[0] != isa.ALU_SHR
    assert len(places(func)) == 1 and len(places(func, "vta-de10-portable")) == 2


@pytest.mark.parametrize(("expr", "why"), [
    ("T.max(x[vi, vj + 1, vk, 0, vl], x[vi, vj, vk + 1, 0, vl])", "it stores where neither was"),
    ("T.max(T.max({0}, {1}), x[vi, vj + 1, vk, 0, vl])", "three elements: the second is gone by then"),
    ("T.max({1}, T.shift_right({0}, 1))", "the chain begins with a constant, which moves it at no cost"),
    ("T.max(T.max({0}, 3), {1})", "the same, and what is read ahead would be changed by then"),
])
def test_what_does_not_begin_with_two_has_a_place_of_its_own(expr: str, why: str, vta_schedules: ModuleType) -> None:
    func = window(expr.format(x(), x(1, 1)), (1, 1))
    for target in TARGETS:
        vta_schedules.verify(func, target)
        assert len(places(func, target)) > 1, why


@pytest.mark.parametrize("expr", [
    "T.max({0}, {1}) + 7", "T.shift_right({0} + {1}, 2)", "T.max(T.min({0}, {1}) - 3, 0) + 1",
    "T.max({0}, T.max({1}, 5))",
])
def test_a_chain_goes_on_where_it_begins(expr: str, vta_schedules: ModuleType) -> None:
    func = window(expr.format(x(), x(1, 0)), (1, 0))
    for target in TARGETS:
        vta_schedules.verify(func, target)


def test_what_lies_before_is_not_read_in_place(vta_schedules: ModuleType) -> None:
    """A row on and a column back: with columns outermost it would be written first."""
    func = changed(
        window(f"T.max({x()}, {x(1, 0)})", (1, 0)), ("vk, 0, vl] = T.max(", "vk + 1, 0, vl] = T.max("),
        ("max(x[vi, vj, vk,", "max(x[vi, vj, vk + 1,"), ('T.Cast("int8", z[vi, vj, vk,', 'T.Cast("int8", z[vi, vj, vk + 1,'),
        ('(2, 4, 6, 1, 16), "int32"', '(2, 4, 7, 1, 16), "int32"'), ("(2, 5, 6,", "(2, 5, 7,"),
        ("T.grid(5, 6, 16)", "T.grid(5, 7, 16)"))
    for column, alone in ((0, False), (1, True)):
        moved = changed(func, ("x[vi, vj + 1, vk,", f"x[vi, vj + 1, vk + {column},"))
        vta_schedules.verify(moved, "vta-de10")
        assert (len(places(moved)) == 1) == alone


def test_instances_in_another_order_are_apart(vta_schedules: ModuleType) -> None:
    """An index of two loops, the one that counts more inside: the next element is not a later instance."""
    loops = "for k1, j, k0, l in T.grid(3, 4, 2, 16)"
    for index, alone in (("k1 * 2 + k0", False), ("k0 * 3 + k1", False)):
        func = window(f"T.max({x()}, {x(0, 1)})", (0, 1), loops, index)
        vta_schedules.verify(func, "vta-de10")
        assert (len(places(func)) == 1) == alone
    turned = window(f"T.max({x()}, {x(1, 1)})", (1, 1), "for k, j, l in T.grid(6, 4, 16)")
    vta_schedules.verify(turned, "vta-de10")
    assert len(places(turned)) == 1, "each index is a loop's: any order will do"


def test_instances_that_come_again_or_backwards_are_apart(vta_schedules: ModuleType) -> None:
    for loops, column in (("for r, j, k, l in T.grid(2, 4, 6, 16)", "k"), ("for j, k, l in T.grid(4, 6, 16)", "5 - k")):
        func = window(f"T.max({x()}, {x(0, 1)})", (0, 1), loops, column)
        vta_schedules.verify(func, "vta-de10")
        assert len(places(func)) == 2


def test_what_several_tiles_read_is_none_of_theirs(vta_schedules: ModuleType) -> None:
    """Loaded once, in front of the loop over the tiles: the second would find what the first has left."""
    func = changed(window(f"T.max({x()}, {x(0, 1)})", (0, 1)), ("x[vi, vj, vk, 0, vl], x[vi", "x[0, vj, vk, 0, vl], x[0"))
    text = plain(func)
    load = text[text.index("    for i in range(2):") : text.index("        for j, k, l in T.grid(4, 6, 16):")]
    once = changed(func, (load, load.replace("range(2)", "range(1)") + "    for i in range(2):\n"))
    vta_schedules.verify(once, "vta-de10")
    assert len(places(once)) == 2


FILL = """        for k, l in T.grid(6, 16):
            with T.sblock("fill"):
                vi, vk, vl = T.axis.remap("SSS", [i, k, l])
                z[vi, ROW, vk, 0, vl] = 5
"""


def test_a_result_that_others_fill_too_has_a_place_of_its_own(vta_schedules: ModuleType) -> None:
    """The first of its rows before anything is loaded, which would lie on top of it, or one more than is loaded."""
    loads = "        for j, k, l in T.grid(4, 7, 16):"
    stores = "        for j, k, l in T.grid(4, 6, 16):\n            with T.sblock(\"store\")"
    func = window(f"T.max({x(1)}, {x(1, 1)})", (0, 1), "for j, k, l in T.grid(3, 6, 16)")
    before = changed(func, ("z[vi, vj, vk, 0, vl] = ", "z[vi, vj + 1, vk, 0, vl] = "), (loads, FILL.replace("ROW", "0") + loads))
    func = window(f"T.max({x()}, {x(0, 1)})", (0, 1))
    after = changed(func, ("z = T.sblock_alloc_buffer((2, 4, 6", "z = T.sblock_alloc_buffer((2, 5, 6"),
                    ("out: T.Buffer((2, 4, 6", "out: T.Buffer((2, 5, 6"),
                    (stores, FILL.replace("ROW", "4") + stores.replace("grid(4", "grid(5")))
    for program in (before, after):
        vta_schedules.verify(program, "vta-de10")
        assert len(places(program)) == 2


@pytest.mark.parametrize(("expr", "fits"), [
    ("T.max({0}, {1})", True), ("T.max({1}, {0})", True), ("T.max(T.max({0}, {1}), 3)", True),
    ("T.max(T.max({0}, 3), {1})", False),
    ("T.max(y[vi, vj, vk, 0, vl], {1})", False), ("T.max({0}, x[vi, vj, vk - 1, 0, vl])", False), ("{1}", False),
])
def test_a_program_may_say_itself_that_a_window_slides(expr: str, fits: bool, vta_schedules: ModuleType) -> None:
    func = window(expr.format(x(), x(0, 1)), (0, 2), stored="x")
    func = changed(func, ("z[vi, vj, vk, 0, vl] =", "x[vi, vj, vk, 0, vl] ="))
    for target in TARGETS:
        if fits and target != "vta-de10-portable":
            vta_schedules.verify(func, target)
        else:
            with refused(LoweringError, "alu"):
                lower_table(func, target)


def test_what_is_worked_out_ahead_is_read_before_it_is_changed(vta_schedules: ModuleType) -> None:
    """A part that the chain cannot take in is made for all instances first."""
    split = "for k1, k0, j, l in T.grid(3, 2, 4, 16)"
    for step, loops, column, fits in (
        (1, "for j, k, l in T.grid(4, 6, 16)", "k", True), (-1, "for j, k, l in T.grid(4, 6, 16)", "k", False),
        (1, split, "k1 * 2 + k0", True), (1, split, "k0 * 3 + k1", False), (-1, split, "5 - (k1 * 2 + k0)", True),
    ):
        func = window(f"T.max({x(0, 1)}, T.shift_right({x(0, 1 + step)}, 1))", (0, 2), loops, column, stored="x")
        func = changed(func, ("z[vi, vj, vk, 0, vl] =", "x[vi, vj, vk + 1, 0, vl] ="))
        for target in TARGETS:
            if fits:
                vta_schedules.verify(func, target)
            else:
                with refused(LoweringError, "alu"):
                    lower_table(func, target)


def small(large: int, little: int, after: int = 0, banks: bool = False) -> PrimFunc:
    """A little of a large tensor is compared, and stored behind what is done with another tensor."""
    more = f"""        for j, l in T.grid({after}, 16):
            with T.block("another"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                y[vj, 0, vl] = b[vi, vj, 0, vl]
        for j, l in T.grid({after}, 16):
            with T.block("store_another"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                more[vi, vj, 0, vl] = T.cast(y[vj, 0, vl], "int8")
"""
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((2, {large}, 1, 16), "int32"), b: T.Buffer((2, {max(after, 1)}, 1, 16), "int32"),
         out: T.Buffer((2, {little}, 1, 16), "int8"), more: T.Buffer((2, {max(after, 1)}, 1, 16), "int8")):
    x = T.alloc_buffer(({large}, 1, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer(({max(after, 1)}, 1, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer(({little}, 1, 16), "int32", scope="local.acc_buffer")
    for i in range(2):
        for j, l in T.grid({large}, 16):
            with T.block("load"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                x[vj, 0, vl] = a[vi, vj, 0, vl]
        for j, l in T.grid({little}, 16):
            with T.block("slide"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                {'T.block_attr({"double_buffer_scope": 0})' if banks else ""}
                z[vj, 0, vl] = T.max(x[vj, 0, vl], x[vj + {large - little}, 0, vl])
{more if after else ""}        for j, l in T.grid({little}, 16):
            with T.block("store"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                out[vi, vj, 0, vl] = T.cast(z[vj, 0, vl], "int8")
''')


@pytest.mark.parametrize(("large", "little", "after", "banks", "alone"), [
    (600, 500, 0, False, True), (600, 500, 0, True, False),  # whose banks are not its operand's
    (1000, 100, 1048, False, True), (1000, 100, 1049, False, False),  # one more, and both would not be there at once
])
def test_banks_and_room_come_first(
    large: int, little: int, after: int, banks: bool, alone: bool, vta_schedules: ModuleType
) -> None:
    func = small(large, little, after, banks)
    vta_schedules.verify(func, "vta-de10")
    assert ("z" not in places(func)) == alone


STALE = """
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((4, 6, 16), "int32"), out: T.Buffer((4, 4, 16), "int8")):
    x = T.alloc_buffer((6, 16), "int32", scope="local.acc_buffer")
    for o in range(4):
        for i, l in T.grid(6, 16):
            with T.block("load"):
                vo, vi, vl = T.axis.remap("SSS", [o, i, l])
                x[vi, vl] = a[vo, vi, vl]
        for i in range(4):
            for l in range(16):
                with T.block("alu"):
                    vi = T.axis.spatial(4, PLACE)
                    vl = T.axis.spatial(16, l)
                    x[vi, vl] = x[vi, vl] + 1
            for l in range(16):
                with T.block("store"):
                    vo, vi, vl = T.axis.remap("SSS", [o, i, l])
                    out[vo, vi, vl] = T.cast(x[vi, vl], "int8")
            AGAIN
"""
AGAIN = """for l in range(16):
                with T.block("again"):
                    vo, vl = T.axis.remap("SS", [o, l])
                    vi = T.axis.spatial(4, NEXT)
                    x[vi, vl] = a[vo, vi, vl]"""


@pytest.mark.parametrize(("place", "after", "adds"), [
    ("i", "", 1), ("3 - i", "", 2), ("i", AGAIN.replace("NEXT", "i"), 1), ("3 - i", AGAIN.replace("NEXT", "i"), 2),
])
def test_a_store_reads_what_was_written_last(place: str, after: str, adds: int, vta_schedules: ModuleType) -> None:
    """The ALU writes a place in the turn that stores it, or in another; what loads write beside or behind it is none of these."""
    func = parse(STALE.replace("PLACE", place).replace("AGAIN", after))
    for target in TARGETS:
        vta_schedules.verify(func, target)
    table = lower_table(func, "vta-de10").table
    assert int((table[:, isa.OPCODE] == isa.OP_ALU).sum()) == 16 * adds


def test_what_is_read_again_or_kept_stays(vta_schedules: ModuleType) -> None:
    again = """        for j, k, l in T.grid(4, 6, 16):
            with T.block("again"):
                vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
                y[vi, vj, vk, 0, vl] = T.max(z[vi, vj, vk, 0, vl], x[vi, vj + 1, vk, 0, vl])
"""
    func = window(f"T.max({x()}, {x(1, 0)})", (1, 0), after=again, stored="y")
    vta_schedules.verify(func, "vta-de10")
    assert len(places(func)) == 2
    # Whose results live beyond the tile: what the next one loads for its border would lie on top of them.
    text = window(f"T.max({x()}, {x(1, 0)})", (1, 0)).script()
    at = text.rindex("        for j, k, l in")
    late = text[:at] + "    for i in range(2):\n" + text[at:]
    vta_schedules.verify(parse(late), "vta-de10")
    assert len(places(parse(late))) == 2


def test_steps_of_a_pyramid_share_one_storage(vta_schedules: ModuleType) -> None:
    """A window of two rows behind one of two columns."""
    down = """        for j, k, l in T.grid(4, 6, 16):
            with T.block("down"):
                vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
                y[vi, vj, vk, 0, vl] = T.max(z[vi, vj, vk, 0, vl], z[vi, vj + 1, vk, 0, vl])
"""
    func = changed(window(f"T.max({x()}, {x(0, 1)})", (1, 1), "for j, k, l in T.grid(5, 6, 16)", after=down, stored="y"),
                   ("z = T.sblock_alloc_buffer((2, 4, 6", "z = T.sblock_alloc_buffer((2, 5, 6"))
    vta_schedules.verify(func, "vta-de10")
    assert len(places(func)) == 1 and work(func) == [(isa.ALU_MAX, 30), (isa.ALU_MAX, 24)]


@pytest.mark.parametrize("seed", range(40))
def test_drawn_windows_are_what_the_program_says(seed: int, vta_schedules: ModuleType) -> None:
    """Offsets, orders of loops, loops split, kept for micro-ops or unrolled, chains of several steps."""
    rng = np.random.default_rng(seed)
    reach = (int(rng.integers(0, 3)), int(rng.integers(0, 3)))
    ahead = x(int(rng.integers(0, reach[0] + 1)), int(rng.integers(0, reach[1] + 1)))
    expr = rng.choice(["T.max({0}, {1})", "T.min({1}, {0})", "{0} + {1}", "T.max({0} + {1}, -9)", "T.max(T.max({0}, {1}), {2})",
                       "T.max({1} + 2, {0})"]).format(x(), ahead, x(*reach))
    names = ["j", "k"] if rng.random() < 0.6 else ["j", "k1", "k0"]
    extents = {"j": 4, "k": 6, "k1": 3, "k0": 2}
    order = list(rng.permutation(names))
    column = "k" if "k" in names else "k1 * 2 + k0"
    loops = [f"for {name} in T.serial({extents[name]}{_note(rng)})" for name in order]
    func = window(expr, reach, "|".join([*loops, "for l in range(16)"]), column)
    for target in TARGETS:
        vta_schedules.verify(func, target)


def _note(rng: np.random.Generator) -> str:
    note = rng.choice(["", "", "hw", "uop", "unroll"])
    return f', annotations={{"vta.loop": "{note}"}}' if note else ""
