"""Elementwise programs: chains in place, operands that live on, constants, reductions, and what the ALU does not have."""

from __future__ import annotations

import pickle
import textwrap
from dataclasses import replace
from types import ModuleType

import pytest
from refusals import refused

from autosched.errors import LoweringError
from autosched.ir.expr import BinOp, Expr, IntImm
from autosched.ir.functor import Mutator
from autosched.ir.stmt import PrimFunc
from autosched.lower import lower_table
from autosched.script import parse
from sim import isa

TARGETS = ("vta-de10", "vta-de10-portable", "vta-fsim")


def elementwise(expr: str, shape: str = "(4, 6, 1, 16)", extra: str = "", after: str = "") -> PrimFunc:
    """``out = int8(expr)`` over int32 tensors ``a`` and ``b`` that are loaded into the accumulator as ``x`` and ``y``."""
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer({shape}, "int32"), b: T.Buffer({shape}, "int32"), out: T.Buffer({shape}, "int8")):
    x = T.alloc_buffer({shape}, "int32", scope="local.acc_buffer")
    y = T.alloc_buffer({shape}, "int32", scope="local.acc_buffer")
    z = T.alloc_buffer({shape}, "int32", scope="local.acc_buffer")
    for i0 in range(2):
        for i, j, l in T.grid(2, 6, 16):
            with T.block("load_x"):
                vi = T.axis.spatial(4, i0 * 2 + i)
                vj, vl = T.axis.remap("SS", [j, l])
                x[vi, vj, 0, vl] = a[vi, vj, 0, vl]
        for i, j, l in T.grid(2, 6, 16):
            with T.block("load_y"):
                vi = T.axis.spatial(4, i0 * 2 + i)
                vj, vl = T.axis.remap("SS", [j, l])
                y[vi, vj, 0, vl] = b[vi, vj, 0, vl]
        for i, j, l in T.grid(2, 6, 16):
            with T.block("compute"):
                vi = T.axis.spatial(4, i0 * 2 + i)
                vj, vl = T.axis.remap("SS", [j, l])
                z[vi, vj, 0, vl] = {expr}
{after}        for i, j, l in T.grid(2, 6, 16):
            with T.block("store"):
                vi = T.axis.spatial(4, i0 * 2 + i)
                vj, vl = T.axis.remap("SS", [j, l])
                out[vi, vj, 0, vl] = T.cast(z[vi, vj, 0, vl]{extra}, "int8")
''')


X, Y = "x[vi, vj, 0, vl]", "y[vi, vj, 0, vl]"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("expr", [
    f"{X} + {Y}",
    f"{X}",
    "7",
    "0",
    "1234567",
    "-2147483648",
    f"{X} - 5",
    f"T.min(T.max(T.shift_right({X}, 8), -100), 100)",
    f"T.shift_left({X}, 20)",
    f"T.shift_right({X}, 20)",
    f"{X} * 8",
    f"{X} // 16",
    f"{X} + 100000",
    f"T.min({X}, 100000)",
    f"{Y} + T.shift_right({X}, 3)",
    f"T.shift_right({X}, 3) + T.shift_right({Y}, 5)",
    f"T.max(T.shift_right({X}, 3) + {Y}, T.shift_right({Y}, 5) + {X})",
    f"{X} + {X}",
    f"T.shift_right({X}, 1) + {X}",
    f"T.max({X} + 1, {X})",
    f"T.cast(T.cast({X}, \"int8\"), \"int32\") + {Y}",
])
def test_expressions(expr: str, target: str, vta_schedules: ModuleType) -> None:
    vta_schedules.verify(elementwise(expr), target)


def test_clip_chain_is_in_place_and_immediate(vta_schedules: ModuleType) -> None:
    low = vta_schedules.verify(elementwise(f"T.min(T.max(T.shift_right({X}, 8), -100), 100)"), "vta-de10")
    alu = low.table[low.table[:, isa.OPCODE] == isa.OP_ALU]
    assert len(alu) == 2 * 3
    assert (alu[:, isa.USE_IMM] == 1).all()
    assert {s.buffer for s in low.storages} == {"x", "y"}


@pytest.mark.parametrize(("expr", "operations"), [
    (f"T.max({X}, T.shift_right({X}, 3))", ["SHR", "MAX"]),
    (f"T.min({X} + T.shift_left({X}, 1), 127)", ["SHR", "ADD", "MIN"]),
    (f"T.max({X}, T.shift_right({X}, 1) + {Y})", ["SHR", "ADD", "MAX"]),
    (f"T.max({X}, {X} + {Y})", ["SHR", "ADD", "MAX"]),  # begins with no constant: a move of its own
    (f"T.max({X}, {X} + T.shift_right({X}, 1))", ["SHR", "ADD", "MAX"]),  # read three times: the result stands apart
    (f"T.shift_left({X}, 3) + {X} + T.shift_left({X}, 1)", ["SHR", "SHR", "ADD", "ADD"]),  # the third is made aside
])
def test_what_goes_with_an_operand_read_again_is_made_aside(expr: str, operations: list[str], vta_schedules: ModuleType) -> None:
    low = vta_schedules.verify(elementwise(expr), "vta-de10")
    alu = low.table[low.table[:, isa.OPCODE] == isa.OP_ALU]
    assert [isa.ALU_NAMES[op] for op in alu[:, isa.ALU_OP]] == 2 * operations


def test_operand_that_lives_on_is_not_overwritten(vta_schedules: ModuleType) -> None:
    later = f"""        for i, j, l in T.grid(2, 6, 16):
            with T.block("again"):
                vi = T.axis.spatial(4, i0 * 2 + i)
                vj, vl = T.axis.remap("SS", [j, l])
                z[vi, vj, 0, vl] = z[vi, vj, 0, vl] + {X}
"""
    low = vta_schedules.verify(elementwise(f"T.shift_right({X}, 2)", after=later), "vta-de10")
    assert {s.buffer for s in low.storages} == {"x", "y", "z"}


@pytest.mark.parametrize(("expr", "apart"), [
    (f"{X} + {X}", False), (f"T.max({X}, {Y}) + {X}", False), ("x[vi, vj, 0, vl] + x[vi, 5 - vj, 0, vl]", True),
])
def test_a_result_takes_the_place_of_an_operand_that_is_read_there_alone(
    expr: str, apart: bool, vta_schedules: ModuleType
) -> None:
    low = vta_schedules.verify(elementwise(expr), "vta-fsim")
    assert ("z" in {s.buffer for s in low.storages}) == apart


@pytest.mark.parametrize("inside", [True, False])
def test_what_reads_a_sum_under_way_has_a_place_of_its_own(inside: bool, vta_schedules: ModuleType) -> None:
    """``D`` is made of ``S`` at every step, or once behind the last."""
    made = '''
for i, l in T.grid(4, 16):
    with T.block("make"):
        vi, vl = T.axis.remap("SS", [i, l])
        D[vi, vl] = T.shift_right(S[vi, vl], 1)
'''
    func = parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((4, 4, 16), "int32"), out: T.Buffer((4, 16), "int8")):
    x = T.alloc_buffer((4, 4, 16), "int32", scope="local.acc_buffer")
    S = T.alloc_buffer((4, 16), "int32", scope="local.acc_buffer")
    D = T.alloc_buffer((4, 16), "int32", scope="local.acc_buffer")
    for k, i, l in T.grid(4, 4, 16):
        with T.block("load"):
            vk, vi, vl = T.axis.remap("SSS", [k, i, l])
            x[vk, vi, vl] = a[vk, vi, vl]
    for i, l in T.grid(4, 16):
        with T.block("begin"):
            vi, vl = T.axis.remap("SS", [i, l])
            S[vi, vl] = 0
    for k in range(4):
        for i, l in T.grid(4, 16):
            with T.block("add"):
                vk, vi, vl = T.axis.remap("RSS", [k, i, l])
                S[vi, vl] = S[vi, vl] + x[vk, vi, vl]
{textwrap.indent(made, "        " if inside else "    ")}
    for i, l in T.grid(4, 16):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, vl] = T.cast(D[vi, vl], "int8")
''')
    low = vta_schedules.verify(func, "vta-de10")
    assert len({s.buffer for s in low.storages} & {"S", "D"}) == 1 + inside


@pytest.mark.parametrize("scope", ["cache", "global", "local.acc_buffer"])
def test_a_parameter_that_nobody_reads_is_in_dram_too(scope: str) -> None:
    func = parse(f'''
@T.prim_func
def main(a: T.Buffer((4, 16), "int32"), other: T.Buffer((4, 16), "int32", scope="{scope}"), out: T.Buffer((4, 16), "int8")):
    x = T.alloc_buffer((4, 16), "int32", scope="local.acc_buffer")
    for i, l in T.grid(4, 16):
        with T.block("load"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, vl] = a[vi, vl]
    for i, l in T.grid(4, 16):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, vl] = T.cast(x[vi, vl], "int8")
''')
    if scope == "global":
        lower_table(func, "vta-de10")
    else:
        with refused(LoweringError, "scope"):
            lower_table(func, "vta-de10")


@pytest.mark.parametrize(("expr", "target", "word"), [
    (f"{X} - {Y}", "vta-de10", "subtracts a tensor"),
    (f"{X} * {Y}", "vta-de10", "multiplies"),
    (f"{X} * 3", "vta-de10-portable", "multiplies"),
    (f"T.shift_right({X}, {Y})", "vta-de10-portable", "shifts by a tensor"),
    (f"T.shift_left({X}, {Y})", "vta-de10", "shifts left by a tensor"),
    (f"{X} // 3", "vta-de10", "cannot compute"),
    ("x[vi, 5 - vj, 0, vl]", "vta-de10", "beyond|another place|order"),
])
def test_what_the_alu_does_not_have(expr: str, target: str, word: str) -> None:
    func = elementwise(expr)
    if "5 - vj" in expr:
        # Legal: a reversed copy goes through micro-ops.
        lower_table(func, target)
        return
    with pytest.raises(LoweringError, match=word):
        lower_table(func, target)


@pytest.mark.parametrize("expr", [f"{X} * {Y}", f"{X} * 3", "x[vi, 5 - vj, 0, vl]"])
def test_multiplication_and_reversal_on_fsim(expr: str, vta_schedules: ModuleType) -> None:
    vta_schedules.verify(elementwise(expr), "vta-fsim")


@pytest.mark.parametrize("expr", [f"T.shift_right({X}, 8)", f"T.shift_left({X}, {Y})", f"{X} * 8"])
def test_a_program_that_was_pickled_is_the_same(expr: str) -> None:
    """Its names are other objects then."""
    def outcome(func: PrimFunc) -> object:
        try:
            return lower_table(func, "vta-fsim").table.tolist()
        except LoweringError as error:
            return error.code

    func = elementwise(expr)
    assert outcome(pickle.loads(pickle.dumps(func))) == outcome(func)


def test_store_must_not_compute() -> None:
    with refused(LoweringError, "pattern"):
        lower_table(elementwise(X, extra=" + 1"), "vta-de10")


def pool(width: int, window: int, stride: int, op: str = "T.max", post: str = "") -> PrimFunc:
    """A reduction on the ALU: each output is the maximum (or sum) over a window."""
    n = (width - window) // stride + 1
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({width}, 1, 16), "int32"), out: T.Buffer(({n}, 1, 16), "int8")):
    x = T.alloc_buffer(({width}, 1, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer(({n}, 1, 16), "int32", scope="local.acc_buffer")
    for i, l in T.grid({width}, 16):
        with T.block("load_x"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, 0, vl] = a[vi, 0, vl]
    for i, k, l in T.grid({n}, {window}, 16):
        with T.block("pool"):
            vi, vk, vl = T.axis.remap("SRS", [i, k, l])
            with T.init():
                z[vi, 0, vl] = -32768
            z[vi, 0, vl] = {op}(z[vi, 0, vl], x[vi * {stride} + vk, 0, vl]{post})
    for i, l in T.grid({n}, 16):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, 0, vl] = T.cast(z[vi, 0, vl], "int8")
''')


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("width", "window", "stride"), [(9, 2, 2), (9, 3, 1), (3, 3, 1), (5, 4, 1), (20, 3, 2)])
def test_reductions_on_the_alu(width: int, window: int, stride: int, target: str, vta_schedules: ModuleType) -> None:
    vta_schedules.verify(pool(width, window, stride), target)


@pytest.mark.parametrize("target", TARGETS)
def test_reduction_of_an_expression(target: str, vta_schedules: ModuleType) -> None:
    vta_schedules.verify(pool(9, 3, 2, post=" + 3"), target)


class Factor(Mutator):
    """Puts a constant into products, unfolded: the parser writes ``x * 0`` as 0 and ``x * 1`` as x."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, BinOp) and expr.op == "*" and expr.b == IntImm(12345):
            return replace(expr, b=IntImm(self.factor))
        return super().visit_expr(expr)


@pytest.mark.parametrize(("factor", "shifts"), [(0, False), (1, True), (2, True), (3, False), (-2, False)])
def test_a_product_with_a_positive_power_of_two_is_a_shift(factor: int, shifts: bool, vta_schedules: ModuleType) -> None:
    func = elementwise(f"{X} * 12345 + {Y}")
    func = replace(func, body=Factor(factor).visit_stmt(func.body))
    if shifts:
        vta_schedules.verify(func, "vta-de10")
        return
    with refused(LoweringError, "alu"):
        lower_table(func, "vta-de10")
    vta_schedules.verify(func, "vta-fsim")


def test_a_program_that_only_loads_has_no_micro_ops() -> None:
    low = lower_table(parse('''
@T.prim_func
def main(a: T.Buffer((4, 16), "int32"), out: T.Buffer((4, 16), "int8")):
    x = T.alloc_buffer((4, 16), "int32", scope="local.acc_buffer")
    for i, l in T.grid(4, 16):
        with T.block("load"):
            vi, vl = T.axis.remap("SS", [i, l])
            x[vi, vl] = a[vi, vl]
'''), "vta-de10")
    assert low.triples.shape == (0, 3) and low.uop_words.tolist() == [] and low.cycles() > 0
    assert low.table[:, isa.OPCODE].tolist() == [isa.OP_LOAD, isa.OP_FINISH]
