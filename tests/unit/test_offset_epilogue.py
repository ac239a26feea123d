"""A clip and a constant start moved by what narrowing drops: equal bytes, the least multiple, and the resets that it saves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import random_inputs, run
from autosched.lower import lower_table
from autosched.lower.starts import start_by_extremum
from autosched.lower.tokens import Stream
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from sim import asm, isa
from space import Space

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
@contextmanager
def refused_for(code: str, reason: str) -> Iterator[pytest.ExceptionInfo[ScheduleError]]:
    """A refusal of a code, whose text has a reason."""
    with refused(ScheduleError, code) as caught:
        yield caught
    assert reason in str(caught.value)


IMMEDIATES = range(-(1 << 15), 1 << 15)


def dense(
    start: int = 64, shift: int = 7, low: int | None = -128, high: int | None = 127, terms: int = 16, ranges: str = ""
) -> PrimFunc:
    """A sum that starts with a constant, shifted, clipped where a bound is given, and narrowed."""
    value = f"T.shift_right(C[vi, vj], {shift})"
    value = value if low is None else f"T.max({value}, {low})"
    value = value if high is None else f"T.min({value}, {high})"
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((4, {terms}), "int8"), W: T.Buffer((8, {terms}), "int8"), E: T.Buffer((4, 8), "int8")):
    T.func_attr({{"autosched.value_ranges": {{{ranges}}}}})
    C = T.sblock_alloc_buffer((4, 8), "int32")
    D = T.sblock_alloc_buffer((4, 8), "int32")
    for i, j, k in T.grid(4, 8, {terms}):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = {start}
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(4, 8):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = {value}
    for i, j in T.grid(4, 8):
        with T.sblock("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = T.Cast("int8", D[vi, vj])
''')


def bytes_of(func: PrimFunc, seed: int) -> np.ndarray:
    """What a program stores, of any int8 or, for odd seeds, of the largest alone."""
    rng = np.random.default_rng(seed)
    inputs = [x if seed % 2 == 0 else np.full_like(x, rng.choice([-128, 127])) for x in random_inputs(func, seed)]
    return np.asarray(run(func, *inputs)[0])


@pytest.mark.parametrize("decomposed", [False, True])
def test_the_bytes_stay(decomposed: bool, verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(dense())
    if decomposed:
        sch.decompose_reduction("C", sch.get_loops("C")[2])
    sch.offset_epilogue("D")
    text = sch.script()
    assert "C[vi, vj] = -32704\n" in text
    assert "D[vi, vj] = T.min(T.max(T.shift_right(C[vi, vj], 7), -384), -129)" in text
    for seed in range(8):
        assert np.array_equal(bytes_of(sch.func, seed), bytes_of(dense(), seed))
    verify_trace_roundtrip(sch, dense())
    with refused_for("form", "-32704, which is beyond all from -384 to -129 as it is"):
        sch.offset_epilogue("D")


def least_multiple(start: int, shift: int, low: int, high: int) -> set[int]:
    """By trial: the multiples of 256, as few as bring the start beyond the clip, all in reach of immediates."""
    fit = [
        n for n in range(-300, 301)
        if n and start + (256 * n << shift) in IMMEDIATES and low + 256 * n in IMMEDIATES and high + 256 * n in IMMEDIATES
        and not low + 256 * n < start + (256 * n << shift) < high + 256 * n
    ]
    return {n for n in fit if abs(n) == min(map(abs, fit))}


@settings(deadline=None, max_examples=60)
@example(-100, 1, -128, 528)  # 500 above what is clipped, and 28 below
@example(300, 1, -128, 528)
@given(st.integers(-33000, 33000) | st.integers(-300, 300), st.integers(0, 10), st.integers(-300, 200), st.integers(0, 400))
def test_the_least_multiple_that_does(start: int, shift: int, low: int, span: int) -> None:
    func = dense(start, shift, low, low + span)
    sch = Schedule(func)
    wanted = least_multiple(start, shift, low, low + span)
    if start == 0 or start >= low + span or start <= low or not wanted:
        with pytest.raises(ScheduleError, match=r"starts with"):
            sch.offset_epilogue("D")
        return
    sch.offset_epilogue("D")
    found = [n for n in wanted if f"C[vi, vj] = {start + (256 * n << shift)}\n" in sch.script()]
    assert len(found) == 1
    assert f"{low + 256 * found[0]}), {low + span + 256 * found[0]})" in sch.script()
    for seed in range(4):
        assert np.array_equal(bytes_of(sch.func, seed), bytes_of(func, seed))


@pytest.mark.parametrize(("start", "shift", "moved"), [
    (64, 7, -32704), (-64, 7, 32704), (32, 6, 32 + 16384), (-1, 7, 32767), (-2, 7, 32766), (1, 7, 1 - 32768),
    (64, 8, None),  # 65536 more, or less, is no constant of an instruction
    (126, 9, None), (1, 0, None),  # no shift: the start never gets ahead of the clip
])
def test_constants_of_instructions(start: int, shift: int, moved: int | None) -> None:
    sch = Schedule(dense(start, shift))
    if moved is None:
        before = sch.script()
        with refused_for("range", f"starts with {start}, and no multiple of {256 << shift} brings it beyond"):
            sch.offset_epilogue("D")
        assert sch.script() == before
    else:
        sch.offset_epilogue("D")
        assert f"C[vi, vj] = {moved}\n" in sch.script()


@pytest.mark.parametrize(("start", "low", "high", "accepted"), [
    (64, -128, None, True), (64, None, 127, True),  # one bound is enough where the start goes to that side of it
    (64, None, None, False), (-64, -128, None, False),  # from below, -64 - 32768 is out of reach
    (128, -128, 128, False), (127, -128, 128, True), (-128, -128, 127, False), (-127, -128, 127, True), (0, -128, 127, False),
])
def test_bounds_at_their_edges(start: int, low: int | None, high: int | None, accepted: bool) -> None:
    func = dense(start, 6 if (low, high) == (None, 127) else 7, low, high)
    sch = Schedule(func)
    if not accepted:
        with pytest.raises(ScheduleError, match="starts with"):
            sch.offset_epilogue("D")
        return
    sch.offset_epilogue("D")
    for seed in range(4):
        assert np.array_equal(bytes_of(sch.func, seed), bytes_of(func, seed))


@pytest.mark.parametrize(("start", "weight", "most"), [
    (64, (-128, 0), (2**31 - 32704) // (127 * 128)),  # as moved, down to -2**31
    (-64, (0, 127), (2**31 - 1 - 32704) // (127 * 127)),  # as moved, up to 2**31 - 1
    (64, (0, 127), (2**31 - 1 - 64) // (127 * 127)),  # as it was: what wraps around there would not from -32704 on
])
def test_no_partial_sum_overflows(start: int, weight: tuple[int, int], most: int) -> None:
    ranges = f'"A": [0, 127], "W": [{weight[0]}, {weight[1]}]'
    Schedule(dense(start, terms=most, ranges=ranges)).offset_epilogue("D")
    with refused_for("range", "a partial sum may be between") as caught:
        Schedule(dense(start, terms=most + 1, ranges=ranges)).offset_epilogue("D")
    assert "declare narrower ranges" in caught.value.hint


CLIP = "T.min(T.max(T.shift_right(L[vi, vj], 4), -128), 127)"


def chained(goes_on: str, clip: str = CLIP) -> PrimFunc:
    """A second sum, of an int8 residual, which starts with what is made of the first one."""
    head, _, tail = dense(terms=8).script().partition('    for i, j in T.grid(4, 8):\n        with T.sblock("D")')
    tail = tail[tail.index('    for i, j in T.grid(4, 8):\n        with T.sblock("E")') :]
    return parse(head.replace('E: T.Buffer', 'R: T.Buffer((4, 8), "int8"), eye: T.Buffer((8, 8), "int8"), E: T.Buffer').replace(
        "    for i, j, k", '    L = T.sblock_alloc_buffer((4, 8), "int32")\n    for i, j, k') + f'''
    for i, j, k in T.grid(4, 8, 8):
        with T.sblock("L"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                L[vi, vj] = {goes_on}
            L[vi, vj] = L[vi, vj] + T.Cast("int32", R[vi, vk]) * T.Cast("int32", eye[vj, vk])
    for i, j in T.grid(4, 8):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = {clip}
''' + tail)


@pytest.mark.parametrize(("goes_on", "after", "clip"), [
    ("C[vi, vj]", "L[vi, vj] = C[vi, vj]\n", 7),
    ("T.shift_right(C[vi, vj], 3)", "L[vi, vj] = T.shift_right(C[vi, vj], 3)\n", 4),
    ("T.max(T.shift_right(C[vi, vj], 3), 5)", "L[vi, vj] = T.max(T.shift_right(C[vi, vj], 3), -4091)\n", 4),
    ("T.shift_right(T.min(C[vi, vj], 999), 3)", "L[vi, vj] = T.shift_right(T.min(C[vi, vj], -31769), 3)\n", 4),
    ("T.max(T.shift_right(C[vi, vj], 7), 0)", "L[vi, vj] = T.max(T.shift_right(C[vi, vj], 7), -256)\n", 0),
])
def test_through_sums_that_go_on(goes_on: str, after: str, clip: int) -> None:
    func = chained(goes_on, f"T.min(T.max(T.shift_right(L[vi, vj], {clip}), -128), 127)")
    sch = Schedule(func)
    sch.offset_epilogue("D")
    text = sch.script()
    assert after in text and "C[vi, vj] = -32704\n" in text and "-384), -129)" in text
    for seed in range(6):
        assert np.array_equal(bytes_of(sch.func, seed), bytes_of(func, seed))


def test_through_a_stage() -> None:
    func = chained("T.max(T.shift_right(C[vi, vj], 3), 5)")
    lines = func.script().replace("L[vi, vj] = T.max(T.shift_right(C[vi, vj], 3), 5)", "L[vi, vj] = M[vi, vj]").replace(
        "T.reads(C[vi, vj], R", "T.reads(M[vi, vj], R").replace(
        '    L = T.sblock_alloc_buffer', '    M = T.sblock_alloc_buffer((4, 8), "int32")\n    L = T.sblock_alloc_buffer')
    head, loop, tail = lines.partition("    for i, j, k in T.grid(4, 8, 8):\n        with T.sblock(\"L\")")
    staged = parse(head + '''
    for i, j in T.grid(4, 8):
        with T.sblock("M"):
            vi, vj = T.axis.remap("SS", [i, j])
            M[vi, vj] = T.max(T.shift_right(C[vi, vj], 3), 5)
''' + loop + tail)
    sch = Schedule(staged)
    sch.offset_epilogue("D")
    text = sch.script()
    assert "M[vi, vj] = T.max(T.shift_right(C[vi, vj], 3), -4091)\n" in text and "C[vi, vj] = -32704\n" in text
    for seed in range(6):
        assert np.array_equal(bytes_of(sch.func, seed), bytes_of(func, seed))
    also = staged.script().replace('T.Cast("int8", D[vi, vj])', 'T.Cast("int8", D[vi, vj]) + T.Cast("int8", M[vi, vj])').replace(
        "T.reads(D[vi, vj])", "T.reads(D[vi, vj], M[vi, vj])")
    with pytest.raises(ScheduleError, match="M is also read by E"):
        Schedule(parse(also)).offset_epilogue("D")


def test_refused() -> None:
    def tried(func: PrimFunc, code: str, reason: str, block: str = "D") -> None:
        sch = Schedule(func)
        before = sch.script()
        with refused_for(code, reason):
            sch.offset_epilogue(block)
        assert sch.script() == before

    def edited(*changes: tuple[str, str]) -> PrimFunc:
        text = "".join(line for line in dense().script().splitlines(True) if "T.reads" not in line and "T.writes" not in line)
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        return parse(text)

    tried(dense(), "form", "body of block C is not one store of a clip", "C")
    tried(edited(("T.shift_right(C[vi, vj], 7)", "T.shift_right(C[vi, vj] + 64, 7)")), "form", "block D clips no sum")
    tried(edited(("T.shift_right(C[vi, vj], 7)", "T.shift_left(C[vi, vj], 7)")), "form", "block D clips no sum")
    tried(edited(('T.Cast("int8", D[vi, vj])', 'T.Cast("int8", T.shift_right(D[vi, vj], 1))')), "reader", "E reads more of D")
    tried(edited(('E: T.Buffer((4, 8), "int8")', 'E: T.Buffer((4, 8), "int16")'), ('T.Cast("int8", D', 'T.Cast("int16", D')),
          "reader", "E reads more of D")
    tried(edited((' + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])', ' * T.Cast("int32", A[vi, vk])')), "form", "")
    also = 'T.Cast("int8", D[vi, vj]) + T.Cast("int8", C[vi, vj])'
    tried(edited(('T.Cast("int8", D[vi, vj])', also)), "output", "C is also read by E")
    tried(edited(("    D = T.sblock_alloc_buffer((4, 8), \"int32\")\n", ""), ('E: T.Buffer((4, 8), "int8")',
          'E: T.Buffer((4, 8), "int8"), D: T.Buffer((4, 8), "int32")')), "output", "D, which is an output")
    tried(edited(("C[vi, vj] = 64", "C[vi, vj] = vj * 64")), "form", "C starts with neither a constant nor another sum")
    tried(chained("C[vi, vj] * 2"), "form", "L starts with neither a constant nor another sum")
    twice = chained("C[vi, vj]").script().replace('T.Cast("int32", R[vi, vk])', "C[vi, vk]")
    tried(parse(twice.replace("T.reads(C[vi, vj], R[vi, vk]", "T.reads(C[vi, vj], C[vi, vk]")), "reader", "uses C several times")
    # The first clip moves by 1 << 14.
    tried(chained("T.max(T.shift_right(C[vi, vj], 1), -16385)", CLIP.replace("4", "6")), "range", "no multiple of 32768")
    Schedule(chained("T.max(T.shift_right(C[vi, vj], 1), -16384)", CLIP.replace("4", "6"))).offset_epilogue("D")


def standing(first: tuple[int, int], second: tuple[int, int], start: str, most: int = 0, tiles: int = 4) -> PrimFunc:
    """``z = start`` and anything, then clipped in two halves, ``tiles`` times in one place; ``x`` is up to ``most``."""
    def half(at: str, clip: tuple[int, int]) -> str:
        return f'''
        for j, l in T.grid(3, 16):
            with T.block("clip{at}"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                z[vi, vj{at}, 0, vl] = T.min(T.max(z[vi, vj{at}, 0, vl], {clip[0]}), {clip[1]})'''

    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((6, 1, 16), "int32"), b: T.Buffer((6, 1, 16), "int32"), out: T.Buffer(({tiles}, 6, 1, 16), "int8")):
    T.func_attr({{"autosched.value_ranges": {{"a": [{most - 5000}, {most}]}}}})
    x = T.alloc_buffer((6, 1, 16), "int32", scope="local.acc_buffer")
    y = T.alloc_buffer((6, 1, 16), "int32", scope="local.acc_buffer")
    z = T.alloc_buffer(({tiles}, 6, 1, 16), "int32", scope="local.acc_buffer")
    for j, l in T.grid(6, 16):
        with T.block("load"):
            vj, vl = T.axis.remap("SS", [j, l])
            x[vj, 0, vl] = a[vj, 0, vl]
    for j, l in T.grid(6, 16):
        with T.block("any"):
            vj, vl = T.axis.remap("SS", [j, l])
            y[vj, 0, vl] = b[vj, 0, vl]
    for i in range({tiles}):
        for j, l in T.grid(6, 16):
            with T.block("move"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                z[vi, vj, 0, vl] = {start}
        for j, l in T.grid(6, 16):
            with T.block("add"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                z[vi, vj, 0, vl] = z[vi, vj, 0, vl] + y[vj, 0, vl]{half("", first)}{half(" + 3", second)}
        for j, l in T.grid(6, 16):
            with T.block("store"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                out[vi, vj, 0, vl] = T.cast(z[vi, vj, 0, vl], "int8")
''')


def resets(func: PrimFunc, target: str) -> int:
    table = lower_table(func, target).table
    return int(((table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] == 1)).sum())


@pytest.mark.parametrize("target", ["vta-de10-portable", "vta-fsim"])
@pytest.mark.parametrize(("first", "second", "start", "most", "found"), [
    ((-384, -129), (-384, -129), "-32704", 0, 1),
    ((0, 100), (-3, 50), "-3", 0, 1), ((0, 100), (-4, 50), "-3", 0, 4),  # -4 would be kept below -3
    ((0, 100), (0, 50), "100", 0, 1), ((0, 101), (0, 50), "100", 0, 4),
    ((-9, 5), (5, 9), "5", 0, 4),  # above some and below others, and one operation is for all
    ((0, 100), (0, 100), "x[vj, 0, vl]", 0, 1), ((0, 100), (0, 100), "x[vj, 0, vl]", 1, 4),
    ((0, 100), (-1, 100), "x[vj, 0, vl]", 0, 4),
])
def test_a_reset_goes_where_all_that_stands_there_is_on_one_side(
    first: tuple[int, int], second: tuple[int, int], start: str, most: int, found: int, target: str, vta_schedules: ModuleType
) -> None:
    func = standing(first, second, start, most)
    vta_schedules.verify(func, target)
    assert resets(func, target) == found


@pytest.mark.parametrize(("shift", "least", "found"), [(20, -2047, 1), (20, -2049, 3)])
def test_what_overflows_may_be_above_all_that_stands_there(shift: int, least: int, found: int, vta_schedules: ModuleType) -> None:
    # x << 20 is at most 0 as long as it does not wrap around: below -2**31 it may be anything.
    text = standing((0, 100), (0, 100), "x[vj, 0, vl]", tiles=3).script().replace('"a": [-5000, 0]', f'"a": [{least}, 0]')
    head, tiles, rest = text.partition("    for i in range(3):")
    text = head + f'''
    for j, l in T.grid(6, 16):
        with T.sblock("wrap"):
            vj, vl = T.axis.remap("SS", [j, l])
            x[vj, 0, vl] = T.shift_left(x[vj, 0, vl], {shift})
''' + tiles + rest
    vta_schedules.verify(parse(text), "vta-de10-portable")
    assert resets(parse(text), "vta-de10-portable") == found


def rounded(addends: str, more: str = "", ranges: str = "", shift: int = 7) -> PrimFunc:
    """A product with what is added to it, shifted to the right and clipped to int8."""
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((64, 32), "int8"), W: T.Buffer((64, 32), "int8"), {more}E: T.Buffer((64, 64), "int8")):
    T.func_attr({{"autosched.value_ranges": {{{ranges}}}}})
    C = T.sblock_alloc_buffer((64, 64), "int32")
    for i, j, k in T.grid(64, 64, 32):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(64, 64):
        with T.sblock("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = T.Cast("int8", T.min(T.max((C[vi, vj] + {addends}) >> {shift}, -128), 127))
''')


BIAS = {"more": 'b: T.Buffer((64,), "int32"), ', "ranges": '"b": [-4096, 4096]'}
RESIDUAL = {"more": 'R: T.Buffer((64, 64), "int8"), '}
SCALED = 'T.Cast("int32", R[vi, vj]) * 16'
BOTH = rounded(f"b[vj] + {SCALED} + 64", BIAS["more"] + RESIDUAL["more"], BIAS["ranges"])


@pytest.mark.parametrize(("func", "form", "cycles"), [
    (rounded("64"), "addend in front", 1 + 3),
    (rounded(f"{SCALED} + 64", **RESIDUAL), "addend in front", 1 + 1 + 3),
    (BOTH, "addend by product", 1 + 1 + 1 + 3),
])
def test_spaces_start_with_a_constant_that_no_clip_leaves(func: PrimFunc, form: str, cycles: int) -> None:
    space = Space(func, "vta-de10-portable")
    nest = next(s.model.nest for s in space.sketches if s.done == (form,))
    assert nest.init_cycles + sum(s.taken for s in nest.stages) == cycles and nest.clears
    assert "= -32704\n" in nest.func.script()
    # The RTL moves: there it is a constant like any other.
    assert all("-32704" not in s.model.nest.func.script() for s in Space(func, "vta-de10").sketches)


def test_estimates_know_a_constant_beyond_the_clip_as_it_is() -> None:
    # With a clip down to -2**15 no multiple fits.
    for most, cycles in ((127, 1), (128, 1), (129, 2)):
        func = rounded("128", shift=8).script().replace("-128), 127)", f"-32768), {most})")
        space = Space(parse(func), "vta-de10-portable")
        nest = next(s.model.nest for s in space.sketches if s.done == ("addend in front",))
        assert (nest.init_cycles, nest.clears) == (cycles, cycles == 1)


@pytest.mark.parametrize(("start", "cycles"), [((1 << 15) - 1, 1), (1 << 15, 2), (-(1 << 15), 1), (-(1 << 15) - 1, 2)])
def test_estimates_know_that_one_instruction_holds_no_larger_constant(start: int, cycles: int) -> None:
    # What it does not hold is made by a reset, two additions and a shift: no MAX or MIN brings it in.
    nest = Space(dense(start), "vta-de10-portable").sketches[0].model.nest
    assert (nest.init_cycles, nest.clears) == (cycles, cycles == 1)


@pytest.mark.parametrize("func", [rounded("64"), BOTH])
def test_programs_of_the_space_write_the_same_bytes(func: PrimFunc, vta_schedules: ModuleType) -> None:
    """With two banks and four tiles the later two find what the clip has left."""
    from autosched.kernel import build

    space = Space(func, "vta-de10-portable")
    rng = np.random.default_rng(5)
    found = False
    for point in space.sample(rng, 12):
        kernel = build(func, "vta-de10-portable", space.trace(point).as_json())
        inputs = random_inputs(func, 1)
        assert np.array_equal(kernel(*inputs), run(func, *inputs)[0])
        table = kernel.program.table
        found |= bool(((table[:, isa.ALU_OP] == isa.ALU_MIN) & (table[:, isa.IMM] == -32704)).any())
    assert found


@pytest.mark.parametrize(("reset", "add", "imm", "found"), [
    ("dst_in=1", "dst_in=1", 9, isa.ALU_MAX), ("dst_in=1", "dst_in=1", -9, isa.ALU_MIN),
    ("dst_in=1", "dst_in=1", 1, isa.ALU_ADD),  # some of what stands there is above, and some below
    ("dst_in=1", "dst_in=2", 9, isa.ALU_ADD), ("dst_in=1", "dst_in=2", -9, isa.ALU_ADD),  # others than what was cleared
    ("dst_in=0", "dst_in=0", 9, isa.ALU_ADD), ("dst_in=0", "dst_in=0", -9, isa.ALU_ADD),  # four times to one place
])
def test_only_what_adds_once_to_all_that_was_cleared(reset: str, add: str, imm: int, found: int) -> None:
    config = get_target("vta-de10-portable").config
    table = asm.assemble(f'''
        ALU MAX use_imm imm=-5 uop_end=1 iter_out=1 iter_in=8 dst_in=1 src_in=1
        ALU MIN use_imm imm=5 uop_end=1 iter_out=1 iter_in=8 dst_in=1 src_in=1
        GEMM reset uop_end=1 iter_out=1 iter_in=4 {reset}
        ALU ADD use_imm imm={imm} uop_end=1 iter_out=1 iter_in=4 {add} {add.replace("dst", "src")}
    ''', config)
    stream = Stream(table, np.zeros(len(table), dtype=np.int64), np.zeros((1, 3), dtype=np.int64))
    new, kept = start_by_extremum(stream, config, [])
    assert list(kept) == ([0, 1, 3] if found != isa.ALU_ADD else [0, 1, 2, 3])
    assert new.table[-1, isa.ALU_OP] == found
