"""What steps make of one block is made once for all programs of a search, and is what each of them would make alone."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.ir import PrimFunc
from autosched.ir.stmt import Block
from autosched.kernel import scheduled
from autosched.schedule import Schedule
from autosched.schedule.kit import once, shared
from autosched.schedule.primitives.tensorize.intrin import TensorIntrin
from autosched.script import T, parse
from autosched.workloads import workload
from space import Space

Steps = Callable[[Schedule], object]
KNOWN: dict[str, PrimFunc] = {}
CONV = "conv2d:h=6,w=6,ci=32,co=32,k=3,pad=1,tail=cast"


@T.prim_func
def padded(A: T.Buffer((7,), "int32"), W: T.Buffer((3,), "int32"), C: T.Buffer((7,), "int32")):
    P = T.sblock_alloc_buffer((9,), "int32")
    for i in range(9):
        with T.sblock("pad"):
            vi = T.axis.spatial(9, i)
            P[vi] = T.if_then_else(vi >= 1 and vi < 8, A[vi - 1], 0)
    for y, k in T.grid(7, 3):
        with T.sblock("conv"):
            vy, vk = T.axis.remap("SR", [y, k])
            with T.init():
                C[vy] = 0
            C[vy] = C[vy] + P[vy + vk] * W[vk]


def dense(rows: int) -> PrimFunc:
    """A matrix product."""
    return parse(f'''
@T.prim_func
def main(A: T.Buffer(({rows}, 32), "int8"), W: T.Buffer((32, 32), "int8"), C: T.Buffer(({rows}, 32), "int32")):
    for i, j, k in T.grid({rows}, 32, 32):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
''')


def intrinsic(callee: str) -> str:
    """The name of an intrinsic of 1 x 16 by 16 x 16 that calls this."""
    text = '''
@T.prim_func
def main(out: T.Buffer((1, 16), "int32"), inp: T.Buffer((1, 16), "int8"), wgt: T.Buffer((16, 16), "int8")):
    with T.sblock("root"):
        T.reads(out[0:1, 0:16], inp[0:1, 0:16], wgt[0:16, 0:16])
        T.writes(out[0:1, 0:16])
        BODY
'''
    sums = '''for i, j, k in T.grid(1, 16, 16):
            with T.sblock("out"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                out[vi, vj] = out[vi, vj] + T.Cast("int32", inp[vi, vk]) * T.Cast("int32", wgt[vj, vk])'''
    call = f'T.evaluate(T.call_extern("int32", "{callee}", out.data, inp.data, wgt.data))'
    if callee not in KNOWN:
        desc = KNOWN.setdefault("", parse(text.replace("BODY", sums)))
        KNOWN[callee] = parse(text.replace("BODY", call))
        TensorIntrin.register(f"test.once.{callee}", desc, KNOWN[callee], override=True)
    return f"test.once.{callee}"


@T.prim_func
def pairs(A: T.Buffer((8, 16), "int32"), C: T.Buffer((8, 16), "int32"), D: T.Buffer((8, 16), "int32")):
    B, E = T.sblock_alloc_buffer((16,), "int32"), T.sblock_alloc_buffer((16,), "int32")
    for i in range(8):
        for j in range(16):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj] = A[vi, vj] + 1
                E[vj] = A[vi, vj] - 1
        for j in range(16):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vj]
                D[vi, vj] = E[vj]


def forget() -> None:
    shared.forget()
    once.forget()


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    forget()
    yield
    forget()


def played(func: PrimFunc, steps: Steps) -> str:
    """What some steps make of a program on trust, or why they do not."""
    sch = Schedule(func, seed=1, enable_check=False, error_render_level="fast")
    try:
        steps(sch)
    except ScheduleError as error:
        return str(error)
    return sch.script()


def alone_and_among(func: PrimFunc, several: list[Steps]) -> list[str]:
    """What steps make alone, which has to be what they make one after the other, in either order."""
    alone = []
    for steps in several:
        forget()
        alone.append(played(func, steps))
    for order in (1, -1):
        forget()
        assert [played(func, steps) for steps in several[::order]] == alone[::order]
    return alone


def test_points_of_a_space_are_what_they_are_alone_and_checked() -> None:
    space = Space(workload(CONV).func, "vta-de10")
    traces = [space.trace(p).as_json() for p in space.sample(np.random.default_rng(3), 12)]
    assert any(step["op"] == "drop_zero_terms" for trace in traces for step in trace)
    among = [scheduled(space.func, trace, check=False) for trace in traces]
    for trace, got in zip(traces, among):
        forget()
        expected = scheduled(space.func, trace, check=True)
        assert got == expected and got.script() == expected.script()


@pytest.mark.parametrize("check", [False, True])
def test_blocks_of_trusted_programs_that_differ_in_their_loops_alone_are_the_same_objects(check: bool) -> None:
    product = dense(16)

    def blocks(parts: int) -> list[Block]:
        sch = Schedule(padded, seed=1, enable_check=check)
        sch.split(sch.get_loops("conv")[0], [None, parts])
        sch.decompose_reduction("conv", sch.get_loops("conv")[-1])
        sch.compute_inline("pad")
        sch.drop_zero_terms("conv_update")
        found = [sch.get(sch.get_sblock(name)) for name in ("conv_init", "conv_update")]
        sch = Schedule(product, seed=1, enable_check=check)
        sch.split(sch.get_loops("C")[0], [None, parts + 1])
        called(sch)
        return [*found, sch.get(sch.get_child_blocks("root")[0])]

    assert [a is b for a, b in zip(blocks(1), blocks(7))] == [not check] * 3


def inlined(sch: Schedule, first: bool) -> None:
    if first:
        sch.cache_read("pad", 0, "global")
    sch.compute_inline("pad")


def test_what_is_inlined_is_what_its_block_says_now() -> None:
    plain, cached = alone_and_among(padded, [partial(inlined, first=False), partial(inlined, first=True)])
    assert "A_global[" in cached and "A_global[" not in plain


def skipped(sch: Schedule, host: bool) -> None:
    sch.decompose_reduction("conv", sch.get_loops("conv")[1])
    if host:
        sch.host_stage("pad")
    sch.drop_zero_terms("conv_update")


def test_what_makes_an_operand_is_asked_where_it_is_zero() -> None:
    """What a host stage has filled with zeros stays: the sum is the same block in both."""
    dropped, kept = alone_and_among(padded, [partial(skipped, host=False), partial(skipped, host=True)])
    assert "T.where(" in dropped and "no term of block conv_update is known to be zero" in kept


def banked(sch: Schedule, index: int) -> None:
    sch.double_buffer("B", index)


def test_each_buffer_of_a_block_has_banks_of_its_own() -> None:
    first, second = alone_and_among(pairs, [partial(banked, index=0), partial(banked, index=1)])
    assert '{"double_buffer_scope": 0}' in first and '{"double_buffer_scope": 1}' in second


def called(sch: Schedule, lanes: str = "jk", intrin: str = "one", unit: bool = True) -> None:
    *around, i, j, k = sch.get_loops("C")
    loops = {"i": i, "j": j, "k": k}
    split = {name: sch.split(loops[name], [None, 16]) for name in lanes}
    outer = [split[name][0] if name in split else loops[name] for name in "ijk"]
    inner = [split[name][1] for name in lanes]
    sch.reorder(*around, *outer, *inner)
    sch.tensorize(inner[0], intrinsic(intrin), unit)


def test_an_intrinsic_is_called_for_what_is_inside() -> None:
    """Of one block: other loops inside, another intrinsic of the same meaning."""
    found = alone_and_among(dense(16), [
        called, partial(called, lanes="kj"), partial(called, lanes="ik"), partial(called, intrin="two"),
    ])
    assert [text.count('"one"') for text in found] == [1, 1, 0, 0] and found[3].count('"two"') == 1
    assert "tensorize" in found[2]


def test_iterators_of_one_value_stay_where_it_is_asked_for() -> None:
    kept, gone = alone_and_among(dense(1), [called, partial(called, unit=False)])
    assert "C[vi_o, " in kept and "C[0, " in gone
