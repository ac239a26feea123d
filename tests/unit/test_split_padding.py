"""split_padding: what operands that are padded with a constant contribute to a sum of products, apart."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from autosched import te
from autosched.errors import ScheduleError, SpaceError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import random_inputs, run
from autosched.ir.verify import verify
from autosched.kernel import of_schedule
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.normalise import FILLED, Wanted, normal_forms, normalise, normalised

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(A: T.Buffer((9, 7), "int8"), W: T.Buffer((5, 7, 3), "int8"), z: T.Buffer((1,), "int8"), C: T.Buffer((9, 5), "int32")):
    for i, j, c, k in T.grid(9, 5, 7, 3):
        with T.block("C"):
            vi, vj, vc, vk = T.axis.remap("SSRR", [i, j, c, k])
            {init}
            C[vi, vj] = {value}
'''
INIT = "with T.init():\n                C[vi, vj] = 4"
INSIDE = "vi + vk >= 1 and vi + vk < 10"
A, W = "A[vi + vk - 1, vc]", 'T.Cast("int32", W[vj, vc, vk])'
PADDED = f'T.Cast("int32", T.if_then_else({INSIDE}, {A}, T.int8(-9)))'
WIDE = f'T.if_then_else({INSIDE}, T.Cast("int32", {A}), 300)'


def program(value: str, init: str = INIT) -> PrimFunc:
    return parse(TEXT.format(value=value, init=init))


def equal(func: PrimFunc, other: PrimFunc) -> bool:
    return all(np.array_equal(a, b) for seed in (0, 1) for a, b in zip(run(func, *random_inputs(func, seed)),
                                                                    run(other, *random_inputs(func, seed)), strict=True))


# With what stays of the factor, and what is summed up by place.
FACTORS = {
    PADDED: (f'T.Cast("int32", T.if_then_else({INSIDE}, {A}, T.int8(0)))', f"T.if_then_else({INSIDE}, 0, -9)"),
    WIDE: (f'T.Cast("int32", T.if_then_else({INSIDE}, {A}, T.int8(0)))', f"T.if_then_else({INSIDE}, 0, 300)"),
    f"({PADDED} + 9)": (f'T.Cast("int32", T.if_then_else({INSIDE}, {A}, T.int8(0)))', f"T.if_then_else({INSIDE}, 9, 0)"),
    f'T.if_then_else({INSIDE}, T.Cast("int32", {A}) - 5, 0)': (
        f'T.Cast("int32", T.if_then_else({INSIDE}, {A}, T.int8(0)))', f"T.if_then_else({INSIDE}, -5, 0)"),
    'T.Cast("int32", T.if_then_else(vi < 2, T.int8(3), T.if_then_else(vk < 1, T.int8(7), A[vi, vc])))': (
        'T.Cast("int32", T.if_then_else(vi < 2, T.int8(0), T.if_then_else(vk < 1, T.int8(0), A[vi, vc])))',
        "T.if_then_else(vi < 2, 3, T.if_then_else(vk < 1, 7, 0))"),
    # Only a conversion to a narrow type wraps around: the padding is a constant still, what is inside of it is as it was.
    f'T.Cast("int32", T.if_then_else({INSIDE}, T.Cast("int8", T.Cast("int32", {A}) + 5), T.int8(3)))': (
        f'T.Cast("int32", T.Cast("int8", T.if_then_else({INSIDE}, T.Cast("int32", {A}) + 5, 0)))',
        f"T.if_then_else({INSIDE}, 0, 3)"),
    'T.if_then_else(vi < 2, T.Cast("int32", A[vi, vc]) + 1, T.Cast("int32", A[vi - 2, vc]) - 1)': (
        'T.if_then_else(vi < 2, T.Cast("int32", A[vi, vc]), T.Cast("int32", A[vi - 2, vc]))', "T.if_then_else(vi < 2, 1, -1)"),
}


@pytest.mark.parametrize("factor", FACTORS)
def test_the_sum_starts_with_it(factor: str, verify_trace_roundtrip: Verify) -> None:
    stays, offset = FACTORS[factor]
    for value in (f"C[vi, vj] + {factor} * {W}", f"{W} * {factor} + C[vi, vj]"):
        func = program(value)
        sch = Schedule(func)
        made = [sch.get(b).name for b in sch.split_padding("C")]
        assert made == (["C_taps", "C_padding"] if "vk" in offset else ["C_padding"])
        assert equal(func, sch.func) and not verify(sch.func)
        text = sch.script()
        assert f"C[vi, vj] + {stays} * {W}" in text and f"* {offset}" in text
        verify_trace_roundtrip(sch, func)
        with refused(ScheduleError, "form"):
            sch.split_padding("C")


@pytest.mark.parametrize(("value", "made"), [
    (f"C[vi, vj] + {PADDED} * 3", None), (f'C[vi, vj] + {PADDED} * T.Cast("int32", W[1, vc, 2])', ["C_taps", "C_padding"]),
    (f'C[vi, vj] + T.Cast("int32", T.if_then_else(vi < 2, A[vi, vc], T.int8(1))) * {W}', ["C_padding"]),
    (f'C[vi, vj] + T.Cast("int32", T.if_then_else(vc + vk < 7, A[vi, vc], T.int8(1))) * {W}', ["C_padding"]),
    ('C[vi, vj] + T.Cast("int32", T.if_then_else(vk < 2, A[vi, vc], T.int8(1))) * T.Cast("int32", W[1, vc, vk])',
     ["C_taps", "C_padding"]),
])
def test_sums_of_other_places(value: str, made: list[str] | None) -> None:
    func = program(value)
    sch = Schedule(func)
    if made is None:
        sch.split_padding("C")
    else:
        assert [sch.get(b).name for b in sch.split_padding("C")] == made
    assert equal(func, sch.func) and not verify(sch.func)


@pytest.mark.parametrize(("value", "init", "code"), [
    (f"C[vi, vj] + ({PADDED}) * {W}".replace("-9", "0"), INIT, "form"),
    (f'C[vi, vj] + (T.Cast("int32", A[vi, vc]) - 3) * {W}', INIT, "form"),
    (f"T.max(C[vi, vj], {PADDED} * {W})", INIT, "form"),
    (f"C[vi, vj] + {PADDED} * {W}".replace("T.int8(-9)", "z[0]"), INIT, "form"),
    (f"C[vi, vj] + {PADDED} * {W}".replace("vi + vk < 10", "z[0] < 10"), INIT, "form"),
    (f"C[vi, vj] + {PADDED} * {W}", "", "form"),
    (f"C[vi, vj] + {PADDED} * {W}", "T.where(k < 2)\n            " + INIT, "domain"),
    (f'C[vi, vj] + T.Cast("int32", T.if_then_else({INSIDE}, {A}, T.int8(1)) + T.int8(1)) * {W}', INIT, "form"),
    # What wraps around is no sum of what it was made of.
    (f'C[vi, vj] + T.Cast("int32", T.Cast("int8", {WIDE} + 5)) * {W}', INIT, "form"),
])
def test_what_has_no_padding(value: str, init: str, code: str) -> None:
    func = program(value, init)
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.split_padding("C")
    assert sch.func == func


def test_an_element_that_several_iterations_write_is_started_by_each() -> None:
    func = parse(TEXT.format(value=f"C[vi, vj] + {PADDED} * {W}", init=INIT).replace("C[vi, vj]", "C[vi, 0]"))
    with refused(ScheduleError, "index"):
        Schedule(func).split_padding("C")


@settings(max_examples=25)
@given(st.data())
def test_whatever_is_split_computes_the_same(data: st.DataObject) -> None:
    condition = data.draw(st.sampled_from(["vi < 4", "vk >= vi", "vc + vk < 6", "vj == vc or vi < 3", "vi + vk >= 1"]))
    load = data.draw(st.sampled_from(["A[vi, vc]", "A[vk, vj]", "A[8 - vi, vc]"]))
    sides = [load, f"T.int8({data.draw(st.integers(-128, 127))})"]
    side = data.draw(st.permutations(sides))
    factor = f'T.Cast("int32", T.if_then_else({condition}, {side[0]}, {side[1]})) - {data.draw(st.integers(-200, 200))}'
    other = data.draw(st.sampled_from([W, 'T.Cast("int32", W[2, vc, vk])', 'T.Cast("int32", A[vj, vc])']))
    func = program(f"C[vi, vj] + ({factor}) * {other}")
    sch = Schedule(func, error_render_level="fast")
    try:
        sch.split_padding("C")
    except ScheduleError:
        assert "T.int8(0)" in factor
        return
    assert equal(func, sch.func), func.script()


@pytest.mark.parametrize(("name", "steps"), [
    ("conv_padded_zero_point", ["compute_inline", "split_padding", "host_stage", "host_stage"]),
    ("conv_zero_point_inside", ["split_padding", "host_stage", "host_stage"]),
    ("depthwise_padded_four", ["compute_inline", "split_padding", "host_stage"]),
    ("conv_padded_by_tensor", []), ("pad_three_result", []),
])
def test_the_host_sums_up_what_padding_contributes(user_programs, name: str, steps: list[str]) -> None:
    made = [s.op for s in normalise(user_programs.program(name), get_target("vta-de10"))[1]]
    kept = [op for op in made if op in ("compute_inline", "split_padding", "host_stage")]
    assert kept[: len(steps)] == steps and ("split_padding" in kept) == bool(steps)


@pytest.mark.parametrize(("inside", "said"), [
    ("x[vc, vy - 1]", None),
    ('T.Cast("int8", T.Cast("int32", x[vc, vy - 1]) + 5)', "block 'p' pads x with 3; the DMA pads with 0"),
])
def test_a_stage_that_computes_what_it_pads_is_the_one_in_the_way(inside: str, said: str | None) -> None:
    func = parse(f"""
from autosched.script import T

@T.prim_func
def main(x: T.Buffer((16, 8), "int8"), w: T.Buffer((16, 16, 3), "int8"), out: T.Buffer((16, 8), "int8")):
    p = T.alloc_buffer((16, 10), "int8")
    acc = T.alloc_buffer((16, 8), "int32")
    for c, y in T.grid(16, 10):
        with T.block("p"):
            vc, vy = T.axis.remap("SS", [c, y])
            p[vc, vy] = T.if_then_else(vy >= 1 and vy < 9, {inside}, T.int8(3))
    for o, y, c, k in T.grid(16, 8, 16, 3):
        with T.block("acc"):
            vo, vy, vc, vk = T.axis.remap("SSRR", [o, y, c, k])
            with T.init():
                acc[vo, vy] = 0
            acc[vo, vy] += T.Cast("int32", p[vc, vy + vk]) * T.Cast("int32", w[vo, vc, vk])
    for o, y in T.grid(16, 8):
        with T.block("out"):
            vo, vy = T.axis.remap("SS", [o, y])
            out[vo, vy] = T.Cast("int8", acc[vo, vy] >> 6)
""")
    if said is None:
        assert Space(func, "vta-de10").raw() > 0  # type: ignore[arg-type]
        return
    with pytest.raises(SpaceError, match=re.escape(said)):
        Space(func, "vta-de10")  # type: ignore[arg-type]


def quantized(channels: int, fill: int, made: bool, kept: bool) -> PrimFunc:
    """A convolution of what is padded with its zero point; ``made`` by the program, ``kept`` as a result besides."""
    x = te.placeholder((1, channels, 6, 5), "int8", name="x")
    w = te.placeholder((24, channels, 3, 3), "int8", name="w")
    y = te.compute(x.shape, lambda *i: te.max(x(*i), -100), name="y") if made else x
    p = te.compute((1, channels, 8, 7), lambda n, c, i, j: te.if_then_else(
        te.all(i >= 1, i < 7, j >= 1, j < 6), y[n, c, i - 1, j - 1], te.const(fill, "int8")), name="p")
    c, dy, dx = te.reduce_axis((0, channels), name="c"), te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    s = te.compute((1, 24, 6, 5), lambda n, o, i, j: te.sum(
        (p[n, c, i + dy, j + dx].astype("int32") - fill) * w[o, c, dy, dx].astype("int32"), axis=[c, dy, dx]), name="s")
    out = te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 9, 127), -128).astype("int8"), name="out")
    also = te.compute(p.shape, lambda *i: te.max(p(*i), 3), name="also")
    return te.create_prim_func([x, w, out, also] if kept else [x, w, out])


@pytest.mark.parametrize(("channels", "fill", "made", "kept", "filled"), [
    (20, -7, False, False, True), (3, 127, False, False, True), (20, 0, False, False, False), (20, -7, True, False, False),
    (20, -7, False, True, False),
])
def test_the_host_pads_a_parameter_with_what_is_no_zero(
    channels: int, fill: int, made: bool, kept: bool, filled: bool
) -> None:
    """No load pads otherwise than with 0. Boundaries: what is 0, what the program makes, what others read as well."""
    copied_by_the_host(quantized(channels, fill, made, kept), filled)


@pytest.mark.parametrize(("each", "filled"), [(2, True), (1, False)])
def test_the_host_repeats_elements_of_a_parameter(each: int, filled: bool) -> None:
    """An image that is made larger for a convolution: each element would be a load. Boundary: one that is as large as it was."""
    x, w = te.placeholder((16, 6, 6), "int8", name="x"), te.placeholder((16, 16, 3, 3), "int8", name="w")
    up = te.compute((16, 6 * each, 6 * each), lambda c, i, j: x[c, i // each, j // each], name="up")
    c, dy, dx = te.reduce_axis((0, 16), name="c"), te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    s = te.compute((16, 6 * each - 2, 6 * each - 2), lambda o, i, j: te.sum(
        up[c, i + dy, j + dx].astype("int32") * w[o, c, dy, dx].astype("int32"), axis=[c, dy, dx]), name="s")
    out = te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 9, 127), -128).astype("int8"), name="out")
    copied_by_the_host(te.create_prim_func([x, w, out]), filled)


def copied_by_the_host(func: PrimFunc, filled: bool) -> None:
    """There is such a form, or none; schedules of it give the interpreter's bytes, and none is below the machine's bound."""
    target = get_target("vta-de10")
    forms = dict(normal_forms(func, target))
    assert ((FILLED,) in forms) == filled
    assert bool(normalised(func, target, Wanted(filled=True)).trace.insts) == filled
    if not filled:
        return
    space = Space(func, "vta-de10")
    assert [FILLED in s.done for s in space.sketches] == [*[False] * (len(space.sketches) - 1), True], "behind what had points"
    drawn = space.sample(np.random.default_rng(0), 300)
    last = drawn[drawn[:, 0] == len(space.sketches) - 1][:3]
    assert len(last) == 3
    for point in last:
        kernel = of_schedule(func, target, space.schedule(point))
        assert space.machine_bound() <= space.bound(point[None])[0] <= kernel.cycles
        inputs = random_inputs(func, 1)
        (wanted,) = run(func, *inputs)
        assert np.array_equal(kernel(*inputs), wanted)
