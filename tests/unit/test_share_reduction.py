"""Windows that share what they reduce, and padding that is added: share_reduction, add_padding, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.script import T, parse

Same = Callable[..., None]
Verify = Callable[..., None]


def text_of(
    windows: int, k: int, stride: int = 1, step: int = 1, op: str = "+", init: int = 0, reads: int | None = None
) -> str:
    """A reduction of ``k`` places a ``step`` apart of each of ``windows``, and of three rows of which each window has all."""
    reads = reads or (windows - 1) * stride + (k - 1) * step + 1
    term = f"T.Cast(\"int32\", A[vi * {stride} + vk * {step}, vr])"
    own = "C[vi, 0]"
    value = f"{own} + {term}" if op == "+" else f"T.{op}({own}, {term})"
    return f"""from tvm.script import tirx as T

@T.prim_func
def main(A: T.Buffer(({reads}, 3), "int8"), C: T.Buffer(({windows}, 1), "int32")):
    for i, k, r in T.grid({windows}, {k}, 3):
        with T.block("C"):
            vi, vk, vr = T.axis.remap("SRR", [i, k, r])
            with T.init():
                C[vi, 0] = {init}
            C[vi, 0] = {value}
"""


def line(*sizes: int, **more: str | int) -> PrimFunc:
    return parse(text_of(*sizes, **more))  # type: ignore[arg-type]


def lengths(sch: Schedule, block: object) -> list[int]:
    return [sch.get(loop).extent.value for loop in sch.get_loops(block)]  # type: ignore[arg-type, union-attr]


@pytest.mark.parametrize(("windows", "k", "stride", "step", "inner", "further"), [
    (9, 4, 1, 1, 2, 2), (9, 6, 1, 1, 2, 2), (9, 3, 1, 1, 1, 1), (9, 8, 2, 1, 4, 2), (7, 6, 3, 1, 3, 1), (9, 4, 1, 3, 2, 6),
    (9, 4, 2, 2, 2, 2), (9, 6, 4, 2, 2, 1), (2, 4, 1, 1, 2, 2),
])
def test_windows_share_terms(
    windows: int, k: int, stride: int, step: int, inner: int, further: int, same: Same, verify_trace_roundtrip: Verify
) -> None:
    for op, init in (("+", 0), ("+", 5), ("max", -128), ("min", 3)):
        func = line(windows, k, stride, step, op=op, init=init)
        sch = Schedule(func)
        made = sch.share_reduction("C", 1, inner)
        assert lengths(sch, made) == [windows + (k // inner - 1) * further, inner, 3]
        assert lengths(sch, sch.get_sblock("C")) == [windows, k // inner]
        same(func, sch)
    verify_trace_roundtrip(sch, func)


def test_halves_of_halves_are_a_sum_of_two_each(same: Same) -> None:
    sch = Schedule(func := line(10, 8))
    name: object = "C"
    for inner in (4, 2, 1):
        made = sch.share_reduction(name, 1, inner)  # type: ignore[arg-type]
        sch.expand_reduction(name)  # type: ignore[arg-type]
        name = made
    assert lengths(sch, name) == [10 + 4 + 2 + 1, 1, 3]
    same(func, sch)


@pytest.mark.parametrize(("position", "inner", "code"), [
    (1, 2, None), (1, 4, "argument"), (1, 0, "argument"), (1, 3, "argument"), (1, -2, "argument"), (0, 2, "argument"),
    (2, 1, "index"), (3, 1, "argument"), (-1, 1, "argument"), (1, 1, None),
])
def test_what_no_windows_share_is_refused(position: int, inner: int, code: str | None, same: Same) -> None:
    sch = Schedule(func := line(9, 4))
    if code is None:
        sch.share_reduction("C", position, inner)
        same(func, sch)
    else:
        with refused(ScheduleError, code):
            sch.share_reduction("C", position, inner)


@pytest.mark.parametrize(("old", "new", "code"), [
    ("C[vi, 0] = 0", "C[vi, 0] = vi * 3", None),
    ("C[vi, 0] = 0", "C[vi, 0] = vk", "reduction"),
    ("C[vi, 0] = 0", "C[vi, 0] = C[vi, 0]", "form"),
    ("C[vi, 0] = 0", "C[8 - vi, 0] = 0", "form"),
    ("vi * 1 + vk * 1, vr]", "vi * 1 + vk * 1, vr] * T.int8(2)", None),
    ("vi * 1 + vk * 1, vr])", "vi * 1 + vk * 1, vr]) * vr", None),
    ("vi * 1 + vk * 1, vr])", "vi * 1 + vk * 1, vr]) * vi", "index"),  # another factor in every window
    ("vi * 1 + vk * 1, vr])", "vi * 1 + vk * 1, vr]) * vk", "index"),
    ("vi * 1 + vk * 1, vr])", "vi * 1 + vk * 1, vr]) * (vi + vk)", None),
    ("vi * 1 + vk * 1", "vi * 1 + (3 - vk) * 1", "index"),
    ("vi * 1 + vk * 1", "8 - vi + vk", "index"),
    ("vi * 1 + vk * 1", "(vi + vk) % 4", "index"),
    ("vi * 1 + vk * 1", "vk", "index"),
    ("vi * 1 + vk * 1, vr", "vi + vk, 0] + A[vi + vk * 2, vr", "index"),  # of 15 rows, below
    ('vi, vk, vr = T.axis.remap("SRR", [i, k, r])', """vi = T.axis.spatial(9, i % 8)
            vk, vr = T.axis.remap("RR", [k, r])""", "domain"),
])
def test_terms_have_to_be_the_same_in_the_next_window(old: str, new: str, code: str | None, same: Same) -> None:
    text = text_of(9, 4, reads=15)
    assert old in text
    func = parse(text.replace(old, new))
    if code is None:
        sch = Schedule(func)
        sch.share_reduction("C", 1, 2)
        same(func, sch)
    else:
        with refused(ScheduleError, code):
            Schedule(func).share_reduction("C", 1, 2)


def test_only_what_is_reduced_over_is_shared() -> None:
    for position in (0, -3, 3):
        with refused(ScheduleError, "argument"):
            Schedule(line(8, 4)).share_reduction("C", position, 2)


def test_windows_that_do_not_overlap_by_whole_ones_are_refused(same: Same) -> None:
    for windows, k, stride, inner in ((9, 4, 2, 1), (9, 6, 4, 3), (1, 4, 1, 2), (3, 8, 1, 4)):
        with refused(ScheduleError, "index"):
            Schedule(line(windows, k, stride)).share_reduction("C", 1, inner)
    sch = Schedule(func := line(4, 8))
    sch.share_reduction("C", 1, 4)  # so that the last window begins where the first one's second half does
    same(func, sch)
    floats = line(9, 4).script().replace("int32", "float32").replace("= 0", "= T.float32(0)")
    with refused(ScheduleError, "form"):
        Schedule(parse(floats)).share_reduction("C", 1, 2)
    for init in ("vi", "A[vi, 0]"):
        with refused(ScheduleError, "form"):
            Schedule(parse(line(9, 4, op="max").script().replace("C[vi, 0] = 0", f'C[vi, 0] = T.Cast("int32", {init})'))
                     ).share_reduction("C", 1, 2)


@T.prim_func
def padded(X: T.Buffer((6, 5, 16), "int8"), C: T.Buffer((6, 5, 16), "int32"), D: T.Buffer((8, 16), "int32")):
    P = T.alloc_buffer((8, 6, 16), "int8")
    for i, j, c in T.grid(8, 6, 16):
        with T.block("P"):
            vi, vj, vc = T.axis.remap("SSS", [i, j, c])
            P[vi, vj, vc] = T.if_then_else(vi >= 1 and vi < 7 and vj < 5, X[vi - 1, vj, vc], T.int8(-128))
    for i, j, c, k in T.grid(6, 5, 16, 3):
        with T.block("C"):
            vi, vj, vc, vk = T.axis.remap("SSSR", [i, j, c, k])
            with T.init():
                C[vi, vj, vc] = -128
            C[vi, vj, vc] = T.max(C[vi, vj, vc], T.Cast("int32", P[vi + vk, vj + 1, vc]))
    for i, c in T.grid(8, 16):
        with T.block("D"):
            vi, vc = T.axis.remap("SS", [i, c])
            D[vi, vc] = T.Cast("int32", P[vi, 5, vc]) * 3


@pytest.mark.parametrize(("dims", "shape"), [([], (8, 6)), ([2], (8, 6, 16)), ([0], (8, 6))])
def test_padding_is_added_where_it_is_read(
    dims: list[int], shape: tuple[int, ...], same: Same, verify_trace_roundtrip: Verify
) -> None:
    sch = Schedule(padded)
    made = sch.add_padding("P", dims)
    assert tuple(lengths(sch, made)) == shape
    assert "T.int8(0))" in sch.script() and sch.script().count("P_padding[") >= 3
    same(padded, sch)
    sch.host_stage(made)
    verify_trace_roundtrip(sch, padded)
    with refused(ScheduleError, "form"):
        sch.add_padding("P", dims)  # with zeros already


@pytest.mark.parametrize(("old", "new", "dims", "code"), [
    ("", "", [3], "argument"), ("", "", [-1], "argument"),
    ("T.int8(-128))", "T.int8(0))", [], "form"),
    ("T.int8(-128))", "X[0, vj, vc])", [], "form"),
    ("vj < 5, X", "vj < 5 and X[0, 0, vc] < T.int8(0), X", [], "form"),
    ('T.Cast("int32", P[vi, 5, vc]) * 3', 'T.Cast("int32", P[vi, 5, vc] * T.int8(3))', [], None),
    ('T.Cast("int32", P[vi, 5, vc]) * 3', 'T.Cast("int32", P[vi, 5, vc]) + T.Cast("int32", P[0, 0, 0])', [], None),
    ('T.Cast("int32", P[vi, 5, vc]) * 3', 'T.Cast("int32", T.Cast("float32", P[vi, 5, vc]))', [], None),
    ("P[vi, vj, vc] = ", "P[7 - vi, vj, vc] = ", [], "index"),
    ("P[vi, vj, vc] = ", "P[vi, vj, 15 - vc] = ", [], "index"),
    ("P[vi, vj, vc] = T.if_then_else(vi >= 1 and", "P[vi, vj, 0] = T.if_then_else(vc >= 1 and", [], "index"),
    ('vi, vj, vc = T.axis.remap("SSS", [i, j, c])\n            P', """vi = T.axis.spatial(8, i % 4)
            vj, vc = T.axis.remap("SS", [j, c])
            P""", [], "domain"),
    ('(8, 6, 16), "int8"', '(8, 6, 16), "int32"', [], None),
    ("    for i, c in", """    for i in range(1):
        with T.block("again"):
            P[0, 0, 0] = T.int8(1)
    for i, c in""", [], "writer"),
])
def test_other_padding_is_refused(old: str, new: str, dims: list[int], code: str | None, same: Same) -> None:
    text = "\n".join(row for row in padded.script().split("\n") if "T.reads" not in row and "T.writes" not in row)
    assert old in text
    text = text.replace(old, new)
    if old.startswith("(8, 6"):
        text = text.replace("X[vi - 1, vj, vc], T.int8(-128)", 'T.Cast("int32", X[vi - 1, vj, vc]), -1000')
    func = parse(text)
    if code is None:
        sch = Schedule(func)
        sch.add_padding("P", dims)
        same(func, sch)
    else:
        with refused(ScheduleError, code):
            Schedule(func).add_padding("P", dims)


def test_padding_of_a_result_stays() -> None:
    text = padded.script().replace("D: T.Buffer", 'P: T.Buffer((8, 6, 16), "int8"), D: T.Buffer')
    lines = [row for row in text.split("\n") if "P = T." not in row]
    with refused(ScheduleError, "output"):
        Schedule(parse("\n".join(lines))).add_padding("P")


@T.prim_func
def nested(X: T.Buffer((6, 16), "int8"), C: T.Buffer((8, 16), "int32")):
    P = T.alloc_buffer((8, 16), "int8")
    for i, j in T.grid(8, 16):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else(T.And(vi >= 1, vi < 7), X[vi - 1, vj], T.int8(-128))
    for io, j in T.grid(4, 16):
        with T.block("outer"):
            vo, vj = T.axis.remap("SS", [io, j])
            for ii in range(2):
                with T.block("C"):
                    vi = T.axis.spatial(2, ii)
                    C[vo * 2 + vi, vj] = T.Cast("int32", P[vo * 2 + vi, vj])


def test_blocks_inside_of_readers_read_the_padding_too(same: Same) -> None:
    """Later steps see who reads it: it goes ahead of its readers, or into them."""
    sch = Schedule(nested)
    made = sch.add_padding("P", [])
    assert [sch.get(b).name for b in sch.get_consumers(made)] == ["outer"]  # type: ignore[union-attr]
    sch.compute_at(made, sch.get_loops("outer")[1])
    same(nested, sch)
    other = Schedule(nested)
    other.compute_inline(other.add_padding("P", []))
    same(nested, other)
