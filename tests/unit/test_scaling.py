"""scale_terms: a constant behind a sum is multiplied with its terms, where all readers multiply by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refused
from spaces import computes

from autosched import te
from autosched.errors import ScheduleError
from autosched.ir import PrimFunc
from autosched.ir.interp import run
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.normalise import normalise

TEXT = '''
@T.prim_func
def f(A: T.Buffer((4, 6), "int32"), b: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32")):
    S = T.alloc_buffer((4,), "int32")
    for i, k in T.grid(4, 6):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = {start}
            S[vi] = {sum}
    for i in T.grid(4):
        with T.block("C"):
            vi = T.axis.remap("S", [i])
            C[vi] = {value}
    for i in T.grid(4):
        with T.block("D"):
            vi = T.axis.remap("S", [i])
            D[vi] = {more}
'''
PLAIN = {"start": "0", "sum": "S[vi] + A[vi, vk]", "value": "S[vi] * 57", "more": "b[vi]"}


def program(**changes: str) -> PrimFunc:
    return parse(TEXT.format(**{**PLAIN, **changes}))


@pytest.mark.parametrize("changes", [
    {}, {"value": "57 * S[vi] + b[vi]"}, {"value": "T.shift_right(S[vi] * -3, 4)"}, {"start": "1234567891"},
    {"sum": "A[vi, vk] * 5 + S[vi]"}, {"value": "S[3 - vi] * 7 + S[vi] * 7"}, {"more": "T.max(S[vi] * 57, b[vi])"},
    {"value": "S[vi] * 2147483647"}, {"value": "S[vi] * 64"}, {"value": "T.shift_left(S[vi], 6)", "more": "S[vi] * 64"},
    {"value": "T.shift_left(S[vi], 31)"}, {"value": "b[vi] - S[vi]"}, {"value": "b[vi] - S[vi] - S[3 - vi]", "more": "3 - S[vi]"},
    {"value": "b[vi] - S[vi]", "more": "S[vi] * -1"}, {"value": "b[vi] - S[vi] * 7"},
])
def test_results_are_the_same_also_where_they_wrap(changes: dict[str, str]) -> None:
    func = program(**changes)
    sch = Schedule(func)
    sch.scale_terms("S")
    assert "S_scaled" in str(sch.func) and " S[" not in str(sch.func)
    rng = np.random.default_rng(0)
    for _ in range(4):
        a = rng.integers(-2**31, 2**31, (4, 6)).astype(np.int32)
        b = rng.integers(-2**31, 2**31, 4).astype(np.int32)
        outs = [np.zeros((2, 4), np.int32) for _ in range(2)]
        for one, out in zip((func, sch.func), outs):
            run(one, a, b, out[0], out[1])
        assert np.array_equal(*outs)


@pytest.mark.parametrize(("changes", "code"), [
    ({"value": "S[vi]"}, "reader"),
    ({"value": "S[vi] * 57 + S[vi]"}, "reader"),
    ({"more": "S[vi] * 58"}, "reader"),
    ({"more": "S[vi] + b[vi]"}, "reader"),
    ({"value": "S[vi] - b[vi]"}, "reader"), ({"value": "b[vi] - S[vi] + S[vi]"}, "reader"),
    ({"value": "b[vi] - S[vi]", "more": "S[vi]"}, "reader"), ({"value": "b[vi] - S[vi]", "more": "b[vi] - S[vi] * 2"}, "reader"),
    ({"value": "S[vi] * b[vi]"}, "reader"),
    ({"value": "b[vi]"}, "reader"),  # nobody reads it
    ({"value": "T.shift_right(S[vi], 1)"}, "reader"), ({"value": "T.shift_left(S[vi], b[vi])"}, "reader"),
    ({"sum": "S[vi] + A[vi, vk] * S[3 - vi]"}, "writer"),  # a term reads the sum elsewhere
    ({"start": "b[vi]"}, "reduction"), ({"sum": "T.max(S[vi], A[vi, vk])"}, "form"),
])
def test_what_is_no_such_sum_is_refused(changes: dict[str, str], code: str) -> None:
    sch = Schedule(program(**changes))
    before = sch.func
    with refused(ScheduleError, code):
        sch.scale_terms("S")
    assert sch.func is before


BETWEEN = """    for i in T.grid(4):
        with T.block("M"):
            vi = T.axis.remap("S", [i])
            {where}
            S[vi] = {value}
    for i in T.grid(4):
        with T.block("C"):
"""


@pytest.mark.parametrize(("where", "value", "writer"), [
    ("T.reads()", "S[vi] * 57", "M"), ("T.reads()", "b[vi]", "M"), ("T.where(i < 2)", "b[vi]", "M"),
])
def test_another_writer_of_the_sum_is_in_the_way(where: str, value: str, writer: str) -> None:
    head, tail = TEXT.split("    for i in T.grid(4):\n        with T.block(\"C\"):\n")
    between = BETWEEN.replace("            T.reads()\n" if "reads" in where else "", "").format(where=where, value=value)
    between = between.replace("            T.reads()\n", "")
    sch = Schedule(parse((head + between + tail).format(**PLAIN)))
    with refused(ScheduleError, "writer") as caught:
        sch.scale_terms("S")
    assert f"block {writer} writes it" in str(caught.value)


@pytest.mark.parametrize("where", ["S[i] > 3", "S[i] * 57 > 3"])
def test_a_condition_on_the_sum_is_a_use_of_it(where: str) -> None:
    text = TEXT.replace('            C[vi] = {value}', f"            T.where({where})\n            C[vi] = {{value}}")
    sch = Schedule(parse(text.format(**PLAIN)))
    with refused(ScheduleError, "reader"):
        sch.scale_terms("S")


def test_a_result_is_no_sum_in_between() -> None:
    text = TEXT.replace('D: T.Buffer((4,), "int32")', 'D: T.Buffer((4,), "int32"), S: T.Buffer((4,), "int32")')
    sch = Schedule(parse(text.replace('    S = T.alloc_buffer((4,), "int32")\n', "").format(**PLAIN)))
    with refused(ScheduleError, "output"):
        sch.scale_terms("S")


def mean(factor: int, plain: bool = False) -> PrimFunc:
    """An average of 3 x 3 by a factor and a shift; where ``plain`` the sum is a result besides, narrowed."""
    x = te.placeholder((1, 16, 8, 8), "int8", name="x")
    ry, rx = te.reduce_axis((0, 3), name="ry"), te.reduce_axis((0, 3), name="rx")
    total = te.compute((1, 16, 6, 6), lambda n, c, i, j: te.sum(x[n, c, i + ry, j + rx].astype("int32"), axis=[ry, rx]), name="t")
    out = te.compute((1, 16, 6, 6), lambda n, c, i, j: ((total[n, c, i, j] * factor) >> 9).astype("int8"), name="out")
    if not plain:
        return te.create_prim_func([x, out])
    other = te.compute((1, 16, 6, 6), lambda n, c, i, j: (total[n, c, i, j] >> 4).astype("int8"), name="other")
    return te.create_prim_func([x, out, other])


def steps(func: PrimFunc, target: str) -> list[str]:
    return [inst.op for inst in normalise(func, get_target(target))[1]]


@pytest.mark.parametrize(("factor", "scaled"), [(57, True), (127, True), (-128, True), (-127, True), (128, False), (-129, False)])
def test_an_average_has_its_factor_in_the_products(factor: int, scaled: bool) -> None:
    """Boundaries: what an int8 weight holds."""
    func = mean(factor)
    assert ("scale_terms" in steps(func, "vta-de10")) == scaled
    assert "scale_terms" not in steps(func, "vta-fsim"), "its ALU multiplies"
    computes(func, "vta-de10", 4)
    computes(func, "vta-de10-portable", 2)


def test_a_sum_that_is_read_as_it_is_besides_keeps_its_terms() -> None:
    assert "scale_terms" not in steps(mean(57, True), "vta-de10")
    computes(mean(57, True), "vta-de10", 2)


def two(one: int, other: int) -> PrimFunc:
    """Two sums of rows, each by its factor, in one value."""
    x, y = te.placeholder((16, 16), "int8", name="x"), te.placeholder((16, 16), "int8", name="y")

    def total(t: Any, name: str) -> Any:
        k = te.reduce_axis((0, 4), name=f"k{name}")
        return te.compute((13, 16), lambda i, j: te.sum(t[i + k, j].astype("int32"), axis=[k]), name=name)

    t, u = total(x, "t"), total(y, "u")
    out = te.compute((13, 16), lambda i, j: ((t[i, j] * one + u[i, j] * other) >> 6).astype("int8"), name="out")
    return te.create_prim_func([x, y, out])


@pytest.mark.parametrize(("factors", "scaled"), [((3, 5), 2), ((3, 1), 0), ((64, 5), 2), ((3, 300), 0)])
def test_of_sums_that_are_added_all_are_scaled_or_none(factors: tuple[int, int], scaled: int) -> None:
    """One that is scaled alone could not go on from the other."""
    assert steps(two(*factors), "vta-de10").count("scale_terms") == scaled
    computes(two(*factors), "vta-de10", 2)


def test_no_operation_multiplies() -> None:
    """A product a window's element, a shift, and a first write: no more, as without the factor."""
    def vector(factor: Any) -> int:
        return Space(mean(factor), "vta-de10").sketches[0].models[0].nest.stages[0].cycles

    assert vector(57) == vector(1) == 1


def sharpened(alike: bool) -> PrimFunc:
    """A column without a share of those around it; where not ``alike``, these are added elsewhere besides."""
    x, b = te.placeholder((18, 32), "int8", name="x"), te.placeholder((16, 32), "int32", name="b")
    k = te.reduce_axis((0, 3), name="k")
    s = te.compute((16, 32), lambda i, j: te.sum(x[i + k, j].astype("int32"), axis=[k]), name="s")
    out = te.compute((16, 32), lambda i, j: te.max(te.min((b[i, j] - s[i, j]) >> 3, 127), -128).astype("int8"), name="out")
    if alike:
        return te.create_prim_func([x, b, out])
    more = te.compute((16, 32), lambda i, j: te.max(te.min(s[i, j] >> 2, 127), -128).astype("int8"), name="more")
    return te.create_prim_func([x, b, out, more])


@pytest.mark.parametrize("alike", [True, False])
def test_what_takes_a_sum_of_int8_away_adds_its_negative_terms(alike: bool) -> None:
    """No negative is made by doubling, which takes the ALU many times as long as the GEMM takes to sum up."""
    found = steps(sharpened(alike), "vta-de10")
    assert "scale_terms" in found and "negate_by_doubling" not in found
    assert ("recompute_at_consumers" in found) != alike, "others read the sum as it is"
    computes(sharpened(alike), "vta-de10", 2)
    computes(sharpened(alike), "vta-de10-portable", 2)


def centred(alone: bool) -> PrimFunc:
    """Channels without the mean of their group, which int8 holds; where ``alone``, a number without the mean of a row."""
    x = te.placeholder((16, 12, 5), "int8", name="x")
    c, p = te.reduce_axis((0, 4), name="c"), te.reduce_axis((0, 5), name="p")
    s = te.compute((16, 3), lambda n, g: te.sum(x[n, g * 4 + c, p].astype("int32"), axis=[c, p]), name="s")
    m = te.compute((16, 3), lambda n, g: te.max(te.min((s[n, g] * 5) >> 6, 99), -128).astype("int8"), name="m")
    if alone:
        y = te.compute((16, 3), lambda n, g: (9 - m[n, g].astype("int32")).astype("int8"), name="y")
    else:
        y = te.compute(x.shape, lambda n, k, i: te.max(te.min(x[n, k, i].astype("int32") - m[n, k // 4].astype("int32"), 127),
                                                       -128).astype("int8"), name="y")
    return te.create_prim_func([x, y])


@pytest.mark.parametrize("alone", [True, False])
def test_a_product_takes_away_what_comes_from_memory(alone: bool) -> None:
    """Boundary: what stays in the accumulator, as it is added to nothing else, no product takes away."""
    found = steps(centred(alone), "vta-de10")
    assert ("negate_by_doubling" in found) == alone
    computes(centred(alone), "vta-de10", 2)
