"""Small pieces of the space at their boundaries: each what a change of one sign or word would alter."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused

from autosched.errors import SpaceError
from autosched.ir import PrimFunc
from autosched.ir.expr import BinOp, IntImm, Var
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.nest import analyse
from space.normalise import diagonal, groups, loops, normalise, why_unpacked
from space.normalise.blocks import device_block, device_blocks, is_extremum, is_packed, store_of
from space.plan import Part
from space.rules import NUMERIC, STRUCTURAL
from space.rules.epilogue import Epilogue
from space.sites import match_gemm

DE10 = get_target("vta-de10")
SUM = '''
    for i, j, k in T.grid(4, 16, 16):
        with T.block("S"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                S[vi, vj] = 0
            S[vi, vj] = S[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
'''


def test_the_tiles_of_a_part_follow_whichever_of_its_figures_is_replaced() -> None:
    extents, tiles = np.array([[8, 6]]), np.array([[4, 6]])
    part = Part(extents, tiles, np.ones(1, dtype=np.bool_), np.zeros_like(extents), np.zeros(1, dtype=np.int64),
                np.ones(1, dtype=np.int64), np.full(1, 2), np.full(1, 2))
    assert part.outer.tolist() == [[2, 1]]
    part.tiles = np.array([[2, 4]])
    assert part.outer.tolist() == [[4, 2]] and part.rest.tolist() == [[2, 2]]
    part.extents = np.array([[7, 9]])
    assert part.outer.tolist() == [[4, 3]] and part.rest.tolist() == [[1, 1]]


def two_blocks(lanes: int) -> PrimFunc:
    """A sum of vectors, and behind it a product."""
    return parse(f'''
@T.prim_func
def f(X: T.Buffer((4, 1, 16), "int32"), A: T.Buffer((8, 1, 16), "int8"), W: T.Buffer(({lanes}, 16), "int8"),
      Y: T.Buffer((4, 1, 16), "int32"), C: T.Buffer((8, 1, {lanes}), "int32")):
    for i, l in T.grid(4, 16):
        with T.block("Y"):
            vi, vl = T.axis.remap("SS", [i, l])
            Y[vi, 0, vl] = X[vi, 0, vl] + 1
    for i, j, k in T.grid(8, {lanes}, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, 0, vj] = 0
            C[vi, 0, vj] = C[vi, 0, vj] + T.Cast("int32", A[vi, 0, vk]) * T.Cast("int32", W[vj, vk])
''')


@pytest.mark.parametrize("lanes", [16, 24])
def test_every_block_has_to_be_packed(lanes: int) -> None:
    assert is_packed(two_blocks(lanes), DE10) == (lanes == 16)
    if lanes == 16:
        with refused(SpaceError, "result") as caught:
            analyse(two_blocks(lanes), DE10)
        assert "Y is a result and int32" in str(caught.value)


def test_a_product_element_by_element_becomes_one_of_matrices_behind_any_other_block() -> None:
    func = parse('''
@T.prim_func
def f(X: T.Buffer((4, 1, 16), "int32"), A: T.Buffer((8, 1, 16), "int8"), W: T.Buffer((16,), "int8"),
      Y: T.Buffer((4, 1, 16), "int32"), C: T.Buffer((8, 1, 16), "int32")):
    for i, l in T.grid(4, 16):
        with T.block("Y"):
            vi, vl = T.axis.remap("SS", [i, l])
            Y[vi, 0, vl] = X[vi, 0, vl] + 1
    for i, l in T.grid(8, 16):
        with T.block("C"):
            vi, vl = T.axis.remap("SS", [i, l])
            C[vi, 0, vl] = T.Cast("int32", A[vi, 0, vl]) * T.Cast("int32", W[vl])
''')
    sch = Schedule(func)
    diagonal.apply(sch, DE10)
    assert len(sch.get(sch.get_sblock("C")).iter_vars) == 3 and len(sch.get(sch.get_sblock("Y")).iter_vars) == 2


def test_a_single_row_written_at_a_constant_becomes_one_of_matrices_too() -> None:
    func = parse('''
@T.prim_func
def f(A: T.Buffer((1, 16), "int8"), W: T.Buffer((16,), "int8"), C: T.Buffer((1, 16), "int32")):
    for l in T.serial(16):
        with T.block("C"):
            vl = T.axis.spatial(16, l)
            C[0, vl] = T.Cast("int32", A[0, vl]) * T.Cast("int32", W[vl])
''')
    sch = Schedule(func)
    diagonal.apply(sch, DE10)
    assert [iv.kind for iv in sch.get(sch.get_sblock("C")).iter_vars] == ["spatial", "reduce"]


@pytest.mark.parametrize(("products", "left"), [(16, 0), (17, 1)])
def test_as_many_products_of_one_value_as_are_taken_apart(products: int, left: int) -> None:
    weights = ", ".join(f'W{n}: T.Buffer((8, 16), "int8")' for n in range(products))
    value = " + ".join(f'T.Cast("int32", A[vi, vl]) * T.Cast("int32", W{n}[vi, vl])' for n in range(products))
    sch = Schedule(parse(f'''
@T.prim_func
def f(A: T.Buffer((8, 16), "int8"), {weights}, C: T.Buffer((8, 16), "int32")):
    for i, l in T.grid(8, 16):
        with T.block("C"):
            vi, vl = T.axis.remap("SS", [i, l])
            C[vi, vl] = {value}
'''))
    diagonal.apart(sch, DE10)
    assert len(diagonal._products(store_of(device_block(sch, "C")).value)) == left


def test_a_block_that_keeps_its_loops_is_not_in_the_way_of_the_next() -> None:
    """The first one makes every element twice: its loops are not its iterators in another form."""
    sch = Schedule(parse('''
@T.prim_func
def f(X: T.Buffer((16,), "int32"), Y: T.Buffer((16,), "int32"), Z: T.Buffer((16,), "int32")):
    for i in T.serial(32):
        with T.block("Y"):
            vi = T.axis.spatial(16, i // 2)
            Y[vi] = X[vi]
    for i, j in T.grid(4, 4):
        with T.block("Z"):
            vi = T.axis.spatial(16, i * 4 + j)
            Z[vi] = X[vi]
'''))
    loops.apply(sch, DE10)
    assert [len(sch.get_loops(name)) for name in ("Y", "Z")] == [1, 1]
    assert str(sch.state.realizes[sch.get(sch.get_sblock("Y")).ident].iter_values[0]) != str(sch.get(sch.get_loops("Y")[0]).var)


@pytest.mark.parametrize("shape", ["(4, 16)", "(4, 1, 16)"])
def test_a_nest_has_loops_around_its_vectors(shape: str) -> None:
    rows = ", ".join(["i", *(["0"] if shape.count(",") == 2 else []), "l"])
    func = parse(f'''
@T.prim_func
def f(X: T.Buffer({shape}, "int32"), Y: T.Buffer({shape}, "int8")):
    S = T.alloc_buffer({shape}, "int32")
    for i, l in T.grid(4, 16):
        with T.block("S"):
            vi, vl = T.axis.remap("SS", [i, l])
            S[{rows.replace("i", "vi").replace("l", "vl")}] = X[{rows.replace("i", "vi").replace("l", "vl")}] + 1
    for i, l in T.grid(4, 16):
        with T.block("Y"):
            vi, vl = T.axis.remap("SS", [i, l])
            Y[{rows.replace("i", "vi").replace("l", "vl")}] = T.Cast("int8", S[{rows.replace("i", "vi").replace("l", "vl")}])
''')
    if shape == "(4, 16)":
        with refused(SpaceError, "order"):
            analyse(func, DE10)
    else:
        assert [axis.extent for axis in analyse(func, DE10)[0].axes] == [4]


@pytest.mark.parametrize("at", ["vi", "3 - vi"])
def test_a_stage_reads_the_stage_before_where_it_writes(at: str) -> None:
    func = parse(f'''
@T.prim_func
def f(X: T.Buffer((4, 1, 16), "int32"), Y: T.Buffer((4, 1, 16), "int8")):
    S = T.alloc_buffer((4, 1, 16), "int32")
    for i, l in T.grid(4, 16):
        with T.block("S"):
            vi, vl = T.axis.remap("SS", [i, l])
            S[vi, 0, vl] = X[vi, 0, vl] + 1
    for i, l in T.grid(4, 16):
        with T.block("Y"):
            vi, vl = T.axis.remap("SS", [i, l])
            Y[vi, 0, vl] = T.Cast("int8", S[{at}, 0, vl])
''')
    if at == "vi":
        assert [s.block for s in analyse(func, DE10)[0].stages] == ["S"]  # with the cast behind it
    else:
        with refused(SpaceError, "index"):
            analyse(func, DE10)


@pytest.mark.parametrize(("value", "negated"), [
    ("b[vi, vj] - S[vi, vj]", True), ("(b[vi, vj] - S[vi, vj]) + (S[vi, vj] >> 1)", True), ("b[vi, vj] + S[vi, vj]", False),
])
def test_a_sum_that_is_taken_away_and_read_besides_is_negative_where_it_is_taken_away(value: str, negated: bool) -> None:
    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((4, 16), "int8"), W: T.Buffer((16, 16), "int8"), b: T.Buffer((4, 16), "int32"), C: T.Buffer((4, 16), "int8")):
    S = T.alloc_buffer((4, 16), "int32")
    D = T.alloc_buffer((4, 16), "int32")
{SUM}    for i, j in T.grid(4, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = {value}
    for i, j in T.grid(4, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.Cast("int8", D[vi, vj])
''')
    _, steps = normalise(func, DE10)
    assert any("negate_sum(" in str(step) for step in steps) == negated


@pytest.mark.parametrize(("name", "column", "uneven"), [
    ("conv2d:h=4,w=4,ci=512,co=16,k=1", "last_ci", True), ("conv2d:h=4,w=4,ci=240,co=16,k=1", "last_ci", False),
    ("conv2d:h=20,w=4,ci=16,co=16,k=17,pad=8", "last_ky", False),
    ("max_pool2d:h=17,w=17,c=16,k=17,stride=1,pad=0", "last_ky", False),
])
def test_the_last_piece_of_a_long_reduction_of_products_that_nothing_else_moves_may_be_uneven(
    name: str, column: str, uneven: bool
) -> None:
    space = Space(workload(name).func, "vta-de10")
    choices = dict(zip(space.names, space.choices))[column]
    extent = int(choices.max())
    assert (extent >= 16) == ("240" not in name) and any(extent % c for c in choices.tolist() if c) == uneven


def test_without_the_rule_of_their_order_loops_stand_as_in_the_first_one() -> None:
    func = workload("dense:m=4,k=64,n=64").func
    whole = Space(func, DE10)
    without = Space(func, DE10, [*STRUCTURAL, *(rule for rule in NUMERIC if rule.name != "order")])
    decisions = {"tile_m": 2, "tile_n": 2, "tile_k": 2, "load_data": 3, "load_weight": 3}
    assert "order" in whole.names and "order" not in without.names
    traces = [space.trace(space.point(**decisions)).as_json() for space in (whole, without)]
    assert traces[0] == traces[1]


@pytest.mark.parametrize(("more", "joined"), [("b[vi, vj]", True), ("D[vi, vj]", False)])
def test_a_stage_that_one_other_reads_is_part_of_it_where_a_sum_takes_in_what_is_added(more: str, joined: bool) -> None:
    """A shift and the sum behind it, in blocks of their own; what two blocks read stays a stage."""
    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((4, 16), "int8"), W: T.Buffer((16, 16), "int8"), b: T.Buffer((4, 16), "int32"), out: T.Buffer((4, 16), "int8"),
      more: T.Buffer((4, 16), "int8")):
    T.func_attr({{"autosched.value_ranges": {{"b": [-16384, 16383]}}}})
    S = T.alloc_buffer((4, 16), "int32")
    D = T.alloc_buffer((4, 16), "int32")
    E = T.alloc_buffer((4, 16), "int32")
{SUM}    for i, j in T.grid(4, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = S[vi, vj] >> 8
    for i, j in T.grid(4, 16):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = D[vi, vj] + b[vi, vj]
    for i, j in T.grid(4, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", E[vi, vj])
    for i, j in T.grid(4, 16):
        with T.block("more"):
            vi, vj = T.axis.remap("SS", [i, j])
            more[vi, vj] = T.Cast("int8", {more})
''')
    forms = dict(Epilogue().apply(Schedule(func), DE10))
    assert ("init by copy" in forms) == joined
    if joined:  # the shift and the sum are one; the cast, which no sum starts with, stays a stage
        assert [b.name for b in device_blocks(forms["init by copy"].func)] == ["S", "E", "out", "more"]
    if joined:
        assert "D" not in {r.block.name for r in forms["init by copy"].state.realizes.values()}


@pytest.mark.parametrize(("steps", "needed"), [(4, False), (5, True)])
def test_a_clip_that_a_sum_of_so_many_elements_never_needs_is_not_in_the_bound(steps: int, needed: bool) -> None:
    def bound(value: str) -> int:
        return Space(parse(f'''
@T.prim_func
def f(X: T.Buffer(({8 + steps}, 1, 16), "int8"), out: T.Buffer((8, 1, 16), "int8")):
    S = T.alloc_buffer((8, 1, 16), "int32")
    C = T.alloc_buffer((8, 1, 16), "int32")
    for i, j, l, k in T.grid(8, 1, 16, {steps}):
        with T.block("S"):
            vi, vj, vl, vk = T.axis.remap("SSSR", [i, j, l, k])
            with T.init():
                S[vi, vj, vl] = 0
            S[vi, vj, vl] = S[vi, vj, vl] + T.Cast("int32", X[vi + vk, vj, vl])
    for i, j, l in T.grid(8, 1, 16):
        with T.block("C"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            C[vi, vj, vl] = {value.format("(S[vi, vj, vl] >> 2)")}
    for i, j, l in T.grid(8, 1, 16):
        with T.block("out"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            out[vi, vj, vl] = T.Cast("int8", C[vi, vj, vl])
'''), DE10).machine_bound()

    assert (bound("T.max(T.min({}, 127), -128)") > bound("{}")) == needed


@pytest.mark.parametrize(("rows", "at", "why"), [
    (16, "vi, vj", ""), (31, "vi * 2, vj", "block S does not store at its plain iterators"),
    (1, "0, vj", "block S does not store at its plain iterators"),
])
def test_a_stage_that_is_not_packed_is_said_to_store_elsewhere(rows: int, at: str, why: str) -> None:
    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((16, 32), "int32"), b: T.Buffer((16, 32), "int32"), out: T.Buffer((16, 32), "int8")):
    S = T.alloc_buffer(({rows}, 32), "int32")
    for i, j in T.grid(16, 32):
        with T.block("S"):
            vi, vj = T.axis.remap("SS", [i, j])
            S[{at}] = A[vi, vj] + b[vi, vj]
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", S[{at}])
''')
    said = why_unpacked(func, DE10)
    assert said.startswith(why) and bool(said) == bool(why) and bool(normalise(func, DE10)[1]) == (not why)


@pytest.mark.parametrize(("value", "taken_out", "made"), [
    ('(T.Cast("int32", X[vi, vk]) - 3) * T.Cast("int32", W[vj, vk])', True, False),
    ('T.Cast("int32", X[vi, vk]) * (T.Cast("int32", W[vj, vk]) - 3)', False, True),
    ('(T.Cast("int32", X[vi, vk]) - 3) * (T.Cast("int32", W[vj, vk]) - 2)', True, True),
])
def test_an_offset_is_summed_up_by_the_host_where_the_other_operand_is_given(value: str, taken_out: bool, made: bool) -> None:
    """``X`` is what the accelerator makes: nobody has it before, and the accelerator sums it up."""
    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((16, 16), "int8"), B: T.Buffer((16, 16), "int8"), W: T.Buffer((16, 16), "int8"), C: T.Buffer((16, 16), "int8")):
    X = T.alloc_buffer((16, 16), "int8")
    P = T.alloc_buffer((16, 16), "int32")
    S = T.alloc_buffer((16, 16), "int32")
    for i, j, k in T.grid(16, 16, 16):
        with T.block("P"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                P[vi, vj] = 0
            P[vi, vj] = P[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vj, vk])
    for i, j in T.grid(16, 16):
        with T.block("X"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = T.Cast("int8", P[vi, vj] >> 8)
    for i, j, k in T.grid(16, 16, 16):
        with T.block("S"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                S[vi, vj] = 0
            S[vi, vj] = S[vi, vj] + {value}
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.Cast("int8", S[vi, vj] >> 8)
''')
    steps = [str(step) for step in normalise(func, DE10)[1]]
    assert any("split_offset(" in step for step in steps) == taken_out
    assert any("split_terms(" in step for step in steps) == made and not why_unpacked(func, DE10)


@pytest.mark.parametrize("domain", ["n", "(n, 16)"])
def test_a_domain_without_constants_is_no_form(domain: str) -> None:
    func = parse(f'''
@T.prim_func
def f(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (16, 16), "int32")
    C = T.match_buffer(c, (16, 16), "int8")
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi = T.axis.spatial({domain}, i)
            vj = T.axis.spatial(16, j)
            C[vi, vj] = T.Cast("int8", A[vi, vj])
''')
    assert normalise(func, DE10) == (func, ())
    with refused(SpaceError, "order"):
        Space(func, DE10)


@pytest.mark.parametrize(("value", "holds"), [
    ("T.max(A[vi, vj], B[vi, vj])", True), ("T.min(A[vi, vj], T.int8(3))", True), ("A[vi, vj]", True),
    ("A[vi, vj] + B[vi, vj]", False), ('T.max(T.Cast("int8", X[vi, vj]), A[vi, vj])', False),
    ('T.Cast("int8", X[vi, vj])', False),
])
def test_an_extremum_is_made_in_int8(value: str, holds: bool) -> None:
    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((4, 16), "int8"), B: T.Buffer((4, 16), "int8"), X: T.Buffer((4, 16), "int32"), C: T.Buffer((4, 16), "int8"),
      D: T.Buffer((4, 16), "int32")):
    for i, j in T.grid(4, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {value}
    for i, j in T.grid(4, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(X[vi, vj], 0)
''')
    sch = Schedule(func)
    assert is_extremum(store_of(device_block(sch, "C")).value) == holds
    assert not is_extremum(store_of(device_block(sch, "D")).value), "int32"


@pytest.mark.parametrize(("op", "found"), [("//", True), ("max", False), ("%", False), ("truncdiv", False)])
def test_a_group_of_channels_is_a_quotient(op: str, found: bool) -> None:
    c, k = Var("c"), Var("k")
    index = BinOp(op, c, IntImm(4, "int32"), "int32") * 8 + k
    assert groups._group(index, {c: 16, k: 8}, [c]) == ((c, 4, 8) if found else None)
    assert groups._group(index, {c: 18, k: 8}, [c]) is None and groups._group(index, {c: 16, k: 9}, [c]) is None
    # Alone, it is a channel that several of the result's read.
    alone = BinOp(op, c, IntImm(4, "int32"), "int32")
    assert groups._group(alone, {c: 16}, [k, c]) == ((c, 4, 1) if found else None)
    assert groups._group(alone, {c: 16}, [k]) is None and groups._group(alone, {c: 18}, [c]) is None


@pytest.mark.parametrize(("value", "vector"), [
    ("(S[vi, 0, vj] + 128) >> 8", 2), ("((S[vi, 0, vj] >> 1) + b[vi, 0, vj]) >> 8", 3),
    ("(S[vi, 0, vj] + b[vi, 0, vj]) >> 8", 1),  # a load of it writes the accumulator
])
def test_only_a_tensor_that_is_added_has_to_be_brought_in(value: str, vector: int) -> None:
    """With no form but the program's own: cycles for each vector, two of which bring the addend into the accumulator."""
    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((4, 1, 16), "int8"), W: T.Buffer((16, 16), "int8"), b: T.Buffer((4, 1, 16), "int32"),
      out: T.Buffer((4, 1, 16), "int8")):
    S = T.alloc_buffer((4, 1, 16), "int32")
    D = T.alloc_buffer((4, 1, 16), "int32")
    for i, j, k in T.grid(4, 16, 16):
        with T.block("S"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                S[vi, 0, vj] = 0
            S[vi, 0, vj] = S[vi, 0, vj] + T.Cast("int32", A[vi, 0, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(4, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, 0, vj] = {value}
    for i, j in T.grid(4, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, 0, vj] = T.Cast("int8", D[vi, 0, vj])
''')
    assert Space(func, "vta-de10-portable", NUMERIC).machine.vector == vector


@pytest.mark.parametrize("condition", [
    "vj < 16", "vj <= 15", "15 < vj", "vj >= 16", "16 > vj", "vi < 8", "vi == 3", "vi < vj", "vj < 15", "vj <= 16", "16 < vj",
    "vj > 16", "vj >= 15", "vj == 16", "vj != 16", "vj * 2 < 32", "vj < 16 and vi < 3", "vj < 16 or vj == 17",
])
def test_the_host_lays_out_what_a_choice_by_place_takes_of_int32(condition: str) -> None:
    """Also where it cuts no element: a load brings one tensor, or 0 where a border is, and the ALU has no choice."""
    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((16, 32), "int32"), B: T.Buffer((16, 32), "int32"), C: T.Buffer((16, 32), "int8")):
    P = T.alloc_buffer((16, 32), "int32")
    for i, j in T.grid(16, 32):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else({condition}, A[vi, vj], 0)
    for i, j in T.grid(16, 32):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.Cast("int8", T.max(B[vi, vj], P[vi, vj]))
''')
    new, _ = normalise(func, DE10)
    kinds = [block.name for block in device_blocks(new)]
    assert "P" not in kinds and "C" in kinds
    space = Space(func, DE10)
    for point in space.sample(np.random.default_rng(0), 1):
        result = measure(Candidate(func, "vta-de10", tuple(space.trace(point).as_json())), execute=True, wide=True)
        assert result.ok, result


@pytest.mark.parametrize(("weight", "packed"), [("vj, vk", True), ("vk, vj", False)])
def test_the_gemm_takes_weights_by_rows_of_the_result(weight: str, packed: bool) -> None:
    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((8, 1, 16), "int8"), W: T.Buffer((16, 16), "int8"), C: T.Buffer((8, 1, 16), "int32")):
    for i, j, k in T.grid(8, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, 0, vj] = 0
            C[vi, 0, vj] = C[vi, 0, vj] + T.Cast("int32", A[vi, 0, vk]) * T.Cast("int32", W[{weight}])
''')
    assert (match_gemm(device_block(Schedule(func), "C"), DE10) is not None) == packed == is_packed(func, DE10)


@pytest.mark.parametrize(("begin", "op", "clip", "needed"), [
    ("B[vi, vj, vl]", "max", "max", True), ("0", "max", "max", False), ("B[vi, vj, vl]", "min", "min", True),
    ("0", "min", "min", False), ("B[vi, vj, vl]", "min", "max", True),
])
def test_an_extremum_that_begins_with_a_tensor_can_be_what_that_is(begin: str, op: str, clip: str, needed: bool) -> None:
    """A clip at -50 from below, or at 50 from above, of what is known to be at least or at most 0 is no work of its own."""
    def bound(value: str) -> int:
        return Space(parse(f'''
@T.prim_func
def f(X: T.Buffer((12, 1, 16), "int32"), B: T.Buffer((8, 1, 16), "int32"), out: T.Buffer((8, 1, 16), "int8")):
    S = T.alloc_buffer((8, 1, 16), "int32")
    C = T.alloc_buffer((8, 1, 16), "int32")
    for i, j, l, k in T.grid(8, 1, 16, 4):
        with T.block("S"):
            vi, vj, vl, vk = T.axis.remap("SSSR", [i, j, l, k])
            with T.init():
                S[vi, vj, vl] = {begin}
            S[vi, vj, vl] = T.{op}(S[vi, vj, vl], X[vi + vk, vj, vl])
    for i, j, l in T.grid(8, 1, 16):
        with T.block("C"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            C[vi, vj, vl] = {value} + 1
    for i, j, l in T.grid(8, 1, 16):
        with T.block("out"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            out[vi, vj, vl] = T.Cast("int8", C[vi, vj, vl])
'''), DE10).machine_bound()

    plain = "S[vi, vj, vl]"
    assert (bound(f"T.{clip}({plain}, {-50 if clip == 'max' else 50})") > bound(plain)) == needed


def test_a_dimension_of_one_element_is_no_axis_whatever_a_stage_calls_it() -> None:
    func = parse('''
@T.prim_func
def f(X: T.Buffer((1, 8, 1, 16), "int32"), b: T.Buffer((8, 1, 16), "int32"), out: T.Buffer((1, 8, 1, 16), "int8")):
    S = T.alloc_buffer((1, 8, 1, 16), "int32")
    D = T.alloc_buffer((1, 8, 1, 16), "int32")
    for n, i, l in T.grid(1, 8, 16):
        with T.block("S"):
            vn, vi, vl = T.axis.remap("SSS", [n, i, l])
            S[vn, vi, 0, vl] = T.max(X[vn, vi, 0, vl], 1)
    for i, l in T.grid(8, 16):
        with T.block("D"):
            vi, vl = T.axis.remap("SS", [i, l])
            D[0, vi, 0, vl] = S[0, vi, 0, vl] + b[vi, 0, vl]
    for i, l in T.grid(8, 16):
        with T.block("out"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[0, vi, 0, vl] = T.Cast("int8", D[0, vi, 0, vl])
''')
    (nest,) = analyse(func, DE10)
    assert [a.extent for a in nest.axes] == [8] and {o.name: o.uses(0) for o in nest.operands} == {"X": True, "b": True}


@pytest.mark.parametrize(("lanes", "at", "packed"), [(16, "vj", True), (1, "0", False)])
def test_a_product_without_lanes_of_its_own_is_not_packed(lanes: int, at: str, packed: bool) -> None:
    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((8, 1, 16), "int8"), W: T.Buffer(({lanes}, 16), "int8"), C: T.Buffer((8, 1, {lanes}), "int32")):
    for i, j, k in T.grid(8, {lanes}, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, 0, {at}] = 0
            C[vi, 0, {at}] = C[vi, 0, {at}] + T.Cast("int32", A[vi, 0, vk]) * T.Cast("int32", W[{at}, vk])
''')
    assert is_packed(func, DE10) == packed


@pytest.mark.parametrize(("third", "named"), [("", "c"), (" + R[vi, 0, vl]", "b")])
def test_the_last_of_several_that_are_made_together_is_named_where_a_block_feeds_others_too(third: str, named: str) -> None:
    """``b`` waits for a product of ``a``; ``c`` is made with it, unless a product of ``b`` is part of it."""
    def total(name: str, of: str) -> str:
        return f'''    for i, j, k in T.grid(4, 16, 16):
        with T.block("{name}"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                {name}[vi, 0, vj] = 0
            {name}[vi, 0, vj] = {name}[vi, 0, vj] + T.Cast("int32", {of}[vi, 0, vk]) * T.Cast("int32", W[vj, vk])
'''

    def each(name: str, value: str) -> str:
        return f'''    for i, l in T.grid(4, 16):
        with T.block("{name}"):
            vi, vl = T.axis.remap("SS", [i, l])
            {name}[vi, 0, vl] = {value}
'''

    def cast(name: str, of: str) -> str:
        return each(name, f'T.Cast("int8", {of}[vi, 0, vl])')

    parameters = ", ".join(f'{name}: T.Buffer((4, 1, 16), "int8")' for name in "Xabc")
    sums = "\n".join(f'    {name} = T.alloc_buffer((4, 1, 16), "int32")' for name in ("SPRBC" if third else "SPBC"))
    func = parse(f'''
@T.prim_func
def f(W: T.Buffer((16, 16), "int8"), {parameters}):
{sums}
{total("S", "X")}{cast("a", "S")}{total("P", "a")}{each("B", "S[vi, 0, vl] + P[vi, 0, vl]")}{cast("b", "B")}'''
                 f'''{total("R", "b") if third else ""}{each("C", "S[vi, 0, vl]" + (third or " + 2"))}{cast("c", "C")}''')
    with refused(SpaceError, "copy") as caught:
        analyse(func, DE10)
    assert str(caught.value).startswith(f"block 'S' feeds both a and {named};")


@pytest.mark.parametrize(("at", "within"), [("vp + vq", (0, 1, 2)), ("vp * 2 + vq", (0, 1, 2, 3)), ("vp - vq + 1", None)])
def test_the_smaller_of_two_sums_reads_all_that_its_own_iterators_reach(at: str, within: tuple[int, ...] | None) -> None:
    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((8, 5, 1, 16), "int8"), W: T.Buffer((5, 16, 16), "int8"), B: T.Buffer((11, 1, 16), "int8"),
      V: T.Buffer((2, 2, 16, 16), "int8"), out: T.Buffer((8, 1, 16), "int8")):
    P = T.alloc_buffer((8, 1, 16), "int32")
    Q = T.alloc_buffer((8, 1, 16), "int32")
    R = T.alloc_buffer((8, 1, 16), "int32")
    for i, j, o, k in T.grid(8, 16, 5, 16):
        with T.block("P"):
            vi, vj, vo, vk = T.axis.remap("SSRR", [i, j, o, k])
            with T.init():
                P[vi, 0, vj] = 0
            P[vi, 0, vj] = P[vi, 0, vj] + T.Cast("int32", A[vi, vo, 0, vk]) * T.Cast("int32", W[vo, vj, vk])
    for i, j, p, q, k in T.grid(8, 16, 2, 2, 16):
        with T.block("Q"):
            vi, vj, vp, vq, vk = T.axis.remap("SSRRR", [i, j, p, q, k])
            with T.init():
                Q[vi, 0, vj] = 0
            Q[vi, 0, vj] = Q[vi, 0, vj] + T.Cast("int32", B[vi + {at}, 0, vk]) * T.Cast("int32", V[vp, vq, vj, vk])
    for i, l in T.grid(8, 16):
        with T.block("R"):
            vi, vl = T.axis.remap("SS", [i, l])
            R[vi, 0, vl] = P[vi, 0, vl] + Q[vi, 0, vl]
    for i, l in T.grid(8, 16):
        with T.block("out"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, 0, vl] = T.Cast("int8", R[vi, 0, vl])
''')
    if within is None:
        with refused(SpaceError, "index"):
            analyse(func, DE10)
    else:
        (nest,) = analyse(func, DE10)
        (read,) = [o for o in nest.operands if o.name == "B"]
        assert (nest.anchor, read.within[0]) == ("P", within)
