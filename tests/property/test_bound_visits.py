"""Visits of results: no packing needs fewer, and what may be shared, folded or left out is not counted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from math import ceil
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import AutoschedError
from autosched.ir.stmt import PrimFunc
from autosched.lower import lower_table
from autosched.script import parse
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.machine_bound import machine_bound
from space.visits import _text, told_apart, visits

PROGRAMS = Path(__file__).resolve().parents[1] / "data" / "programs"
TARGET = get_target("vta-de10")
HEAD = "from autosched.script import T\n\n@T.prim_func\ndef main("
TAIL = "T.Cast('int8', T.min(T.max({} >> 4, -128), 127))"


def summed(
    params: str, axes: dict[str, int], kinds: str, at: str, term: str, out: str, value: str = ""
) -> PrimFunc:
    """A program of one sum of products and one stage on it.

    Args:
        params: tensors that are given.
        axes: extents of the sum's iterators by name.
        kinds: S or R for each.
        at: where the sum is stored.
        term: of the sum.
        out: shape of the result, which is the sum's.
        value: what is stored of ``acc[..]``; requantized without.
    """
    spatial = [v for v, kind in zip(axes, kinds) if kind == "S"]
    free = [f"o{n}" for n in range(len(out.strip("(),").split(",")))]
    text = f"""{HEAD}{params}, out: T.Buffer({out}, "int8")):
    acc = T.alloc_buffer({out}, "int32")
    for {', '.join(axes)} in T.grid({', '.join(map(str, axes.values()))}):
        with T.block("acc"):
            {', '.join('v' + v for v in axes)} = T.axis.remap("{kinds}", [{', '.join(axes)}])
            with T.init():
                acc[{at}] = 0
            acc[{at}] += {term}
    for {', '.join(free)} in T.grid{out}:
        with T.block("out"):
            {', '.join('v' + v for v in free)} = T.axis.remap("{'S' * len(free)}", [{', '.join(free)}])
            out[{', '.join('v' + v for v in free)}] = {value or TAIL.format(f"acc[{', '.join('v' + v for v in free)}]")}
"""
    assert spatial
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def times(x: str, w: str) -> str:
    return f"T.Cast('int32', {x}) * T.Cast('int32', {w})"


def conv(c: int, o: int, size: int, k: int, stride: int, pad: int, dilation: int, depthwise: bool) -> tuple[PrimFunc, int]:
    """A convolution, and its visits counted pair by pair."""
    n = (size + 2 * pad - dilation * (k - 1) - 1) // stride + 1
    own = f"vy * {stride} + vp * {dilation} - {pad}", f"vx * {stride} + vq * {dilation} - {pad}"
    inside = " and ".join(f"0 <= {i} and {i} < {size}" for i in own)
    channel = "vo" if depthwise else "vc"
    data = f"T.if_then_else({inside}, X[{channel}, {own[0]}, {own[1]}], T.int8(0))"
    weight = "W[vo, vp, vq]" if depthwise else "W[vo, vc, vp, vq]"
    axes = {"o": o, "y": n, "x": n, **({} if depthwise else {"c": c}), "p": k, "q": k}
    shape = f"({o}, {k}, {k})" if depthwise else f"({o}, {c}, {k}, {k})"
    func = summed(f'X: T.Buffer(({o if depthwise else c}, {size}, {size}), "int8"), W: T.Buffer({shape}, "int8")', axes,
                  "SSS" + "R" * (len(axes) - 3), "vo, vy, vx", times(data, weight), f"({o}, {n}, {n})")
    owner: dict[tuple[int, ...], tuple[int, ...]] = {}
    terms: dict[tuple[int, ...], int] = {}
    for result in product(range(o), range(n), range(n)):
        for ci, p, q in product(range(1 if depthwise else c), range(k), range(k)):
            at = result[1] * stride + p * dilation - pad, result[2] * stride + q * dilation - pad
            if all(0 <= i < size for i in at):
                pair = (result[0] if depthwise else ci, *at, result[0], ci, p, q)
                assert owner.setdefault(pair, result) == result
                terms[result] = terms.get(result, 0) + 1
    return func, sum(ceil(count / 16) for count in terms.values())


@pytest.mark.parametrize("shape", [
    (3, 2, 9, 7, 2, 3, 1, False), (3, 4, 6, 3, 1, 1, 1, False), (17, 2, 5, 3, 1, 0, 1, False), (2, 3, 7, 3, 1, 2, 2, False),
    (1, 5, 8, 3, 1, 1, 1, True), (1, 3, 9, 5, 2, 2, 1, True), (1, 1, 4, 1, 1, 0, 1, True),
])
def test_visits_of_a_convolution_are_those_counted_pair_by_pair(shape: tuple[int, int, int, int, int, int, int, bool]) -> None:
    func, wanted = conv(*shape)
    assert visits(func, TARGET) == wanted


def spanning(counts: tuple[int, ...], most: int) -> int:
    """The fewest sums of at most so many products each, of which others are made by adding up: over the field of two elements."""
    total, forms, at = sum(counts), [], 0
    for count in counts:
        forms.append(((1 << count) - 1) << at)
        at += count
    vectors = [sum(1 << k for k in some) for size in range(1, most + 1) for some in combinations(range(total), size)]
    for n in range(1, total + 1):
        for some in combinations(vectors, n):
            spanned = {0}
            for v in some:
                spanned |= {v ^ s for s in spanned}
            if spanned.issuperset(forms):
                return n
    raise AssertionError


@pytest.mark.parametrize(("counts", "most"), [
    ((3,), 2), ((3, 3), 2), ((3, 1, 1), 2), ((5, 1), 2), ((2, 3), 2), ((3, 2, 1), 2), ((4, 2), 3), ((4, 4), 3), ((1, 1, 1, 1), 3),
])
def test_mixing_repeating_and_cancelling_products_saves_no_visit(counts: tuple[int, ...], most: int) -> None:
    """A visit may add products of several sums, one may be formed again, and sums be taken from each other: it does not help."""
    assert spanning(counts, most) == sum(ceil(count / most) for count in counts)


X = 'x: T.Buffer((40, 40), "int8"), w: T.Buffer((8, 40), "int8")'
DENSE = {"i": 40, "j": 8, "k": 40}


def twins() -> Iterator[tuple[str, PrimFunc, int]]:
    """(name, program, visits): of what the first has three a result, the others have fewer, or nobody knows."""
    dense = times("x[vi, vk]", "w[vj, vk]")
    yield "dense", summed(X, DENSE, "SSR", "vi, vj", dense, "(40, 8)"), 40 * 8 * 3
    # Sums that have products in common might go on from each other.
    prefix = times("T.if_then_else(vk <= vi, x[0, vk], T.int8(0))", "w[vj, vk]")
    yield "prefixes", summed(X, DENSE, "SSR", "vi, vj", prefix, "(40, 8)"), 0
    yield "windows of products", summed(X, {"y": 33, "j": 8, "k": 8}, "SSR", "vy, vj", times("x[vj, vy + vk]", "w[vj, vy + vk]"),
                                        "(33, 8)"), 0
    yield "results that are alike", summed(X, DENSE, "SSR", "vi, vj", times("x[vi, vk]", "w[0, vk]"), "(40, 8)"), 0
    yield "both ways around", summed('x: T.Buffer((40, 40), "int8")', {"i": 40, "j": 40, "k": 40}, "SSR", "vi, vj",
                                     times("x[vi, vk]", "x[vj, vk]"), "(40, 40)"), 0
    # The host adds up weights that one element is multiplied by: of 40 products one is left.
    yield "one element, many weights", summed(X, DENSE, "SSR", "vi, vj", times("x[vi, vj]", "w[vj, vk]"), "(40, 8)"), 40 * 8
    yield "elements repeated", summed(X, DENSE, "SSR", "vi, vj", times("x[vi, vk // 2]", "w[vj, vk]"), "(40, 8)"), 0
    yield "weights repeated", summed(X, DENSE, "SSR", "vi, vj", times("x[vi, vk]", "w[vj, vk // 2]"), "(40, 8)"), 0
    # What no result needs, nobody has to form.
    even = TAIL.format("acc[vo0 // 2 * 2, vo1]")
    yield "a part of the sums", summed(X, DENSE, "SSR", "vi, vj", dense, "(40, 8)", even), 20 * 8 * 3
    yield "constant", summed(X, DENSE, "SSR", "vi, vj", dense, "(40, 8)", "T.Cast('int8', T.min(T.max(0, -128), 127))"), 0
    # What is added behind a shift might be a part of the sum, and of x * w + x the host might make one product.
    added = "T.Cast('int8', (acc[vo0, vo1] >> 4) + T.Cast('int32', {}))"
    yield "addend", summed(X + ', r: T.Buffer((40, 8), "int8")', DENSE, "SSR", "vi, vj", dense, "(40, 8)",
                           added.format("r[vo0, vo1]")), 40 * 8 * 3
    wide = 'w: T.Buffer((8, 48), "int8"), x: T.Buffer((40, 48), "int8"), r: T.Buffer((40, 8), "int8")'
    full = {"i": 40, "j": 8, "k": 48}
    other, own = added.format("r[vo0, vo1]"), added.format("x[vo0, vo1]")
    yield "addend in a lane too many", summed(wide, full, "SSR", "vi, vj", dense, "(40, 8)", other), 40 * 8 * 4
    yield "own data added", summed(wide, full, "SSR", "vi, vj", dense, "(40, 8)", own), 40 * 8 * 3
    after = "T.Cast('int8', T.max(acc[vo0, vo1] >> 4, 0) + T.Cast('int32', {}))"
    yield "addend behind a maximum", summed(X + ', r: T.Buffer((40, 8), "int8")', DENSE, "SSR", "vi, vj", dense, "(40, 8)",
                                            after.format("r[vo0, vo1]")), 40 * 8 * 4


    more = X + ', v: T.Buffer((8, 40), "int8"), y: T.Buffer((40, 40), "int8")'
    one, two = (f"{dense} + {times(f'{name}[vi, vk]', 'v[vj, vk]')}" for name in "xy")
    yield "one element, two weights", summed(more, DENSE, "SSR", "vi, vj", one, "(40, 8)"), 40 * 8 * 3
    yield "two elements, two weights", summed(more, DENSE, "SSR", "vi, vj", two, "(40, 8)"), 40 * 8 * 5


@pytest.mark.parametrize(("func", "wanted"), [pytest.param(f, n, id=name) for name, f, n in twins()])
def test_only_what_each_sum_has_alone_is_counted(func: PrimFunc, wanted: int) -> None:
    assert visits(func, TARGET) == wanted


def test_sums_of_sums_are_one_sum() -> None:
    """Of four windows' sums a mean is one, which with other weights has 16 products; a maximum needs all four."""
    text = f"""{HEAD}X: T.Buffer((4, 10, 10), "int8"), W: T.Buffer((4, 3, 3), "int8"), out: T.Buffer((4, 4, 4), "int8")):
    c = T.alloc_buffer((4, 8, 8), "int32")
    m = T.alloc_buffer((4, 4, 4), "int32")
    for o, y, x, p, q in T.grid(4, 8, 8, 3, 3):
        with T.block("c"):
            vo, vy, vx, vp, vq = T.axis.remap("SSSRR", [o, y, x, p, q])
            with T.init():
                c[vo, vy, vx] = 0
            c[vo, vy, vx] += {times("X[vo, vy + vp, vx + vq]", "W[vo, vp, vq]")}
    for o, y, x, p, q in T.grid(4, 4, 4, 2, 2):
        with T.block("m"):
            vo, vy, vx, vp, vq = T.axis.remap("SSSRR", [o, y, x, p, q])
            with T.init():
                m[vo, vy, vx] = FIRST
            m[vo, vy, vx] = POOL
    for o, y, x in T.grid(4, 4, 4):
        with T.block("out"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo, vy, vx] = {TAIL.format("m[vo, vy, vx]")}
"""
    read = "c[vo, vy * 2 + vp, vx * 2 + vq]"
    mean = text.replace("FIRST", "0").replace("POOL", f"m[vo, vy, vx] + {read}")
    most = text.replace("FIRST", "T.min_value('int32')").replace("POOL", f"T.max(m[vo, vy, vx], {read})")
    overlapping = mean.replace("vy * 2 + vp", "vy + vp")
    found = [visits(f, TARGET) for f in map(parse, (mean, most, overlapping)) if isinstance(f, PrimFunc)]
    assert found == [4 * 16, 4 * 64, 0]


def test_what_no_result_reads_is_not_counted() -> None:
    text = f"""{HEAD}{X}, r: T.Buffer((40, 8), "int32"), out: T.Buffer((40, 8), "int8")):
    acc = T.alloc_buffer((40, 8), "int32")
    t = T.alloc_buffer((40, 8), "int32")
    for i, j, k in T.grid(40, 8, 40):
        with T.block("acc"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                acc[vi, vj] = 0
            acc[vi, vj] += {times("x[vi, vk]", "w[vj, vk]")}
    for i, j in T.grid(40, 8):
        with T.block("t"):
            vi, vj = T.axis.remap("SS", [i, j])
            t[vi, vj] = T.max(acc[vi, vj], 0)
    for i, j in T.grid(40, 8):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = {TAIL.format("READ[vi, vj]")}
"""
    found = [visits(f, TARGET) for name in ("t", "r") if isinstance(f := parse(text.replace("READ", name)), PrimFunc)]
    assert found == [40 * 8 * 3, 0]


def best(space: Space, count: int = 24) -> int:
    points = space.sample(np.random.default_rng(0), 256)
    found = []
    for point in points[np.argsort(space.draft(points))[:count]]:
        try:
            found.append(lower_table(space.schedule(point).func, TARGET).cycles())
        except AutoschedError:
            continue
    return min(found)


def rows_times_matrix(rows: int) -> Space:
    """What a user packs: one product for each row of sixteen."""
    return Space(summed(f'x: T.Buffer(({rows}, 1, 16), "int8"), w: T.Buffer((1, 1, 16, 16), "int8")',
                        {"m": rows, "i": 1, "n": 16, "k": 16}, "SSSR", "vm, vi, vn", times("x[vm, vi, vk]", "w[0, 0, vn, vk]"),
                        f"({rows}, 1, 16)", "T.Cast('int8', acc[vo0, vo1, vo2] >> 4)"), TARGET)


def test_filters_whose_windows_share_an_element_of_lanes_are_above_the_bound() -> None:
    """Of a row of 16 elements one product makes 14 results of a filter of three: its matrix has the filter in every row."""
    func = summed('x: T.Buffer((400, 16), "int8"), w: T.Buffer((3,), "int8")', {"m": 400, "j": 14, "t": 3}, "SSR", "vm, vj",
                  times("x[vm, vj + vt]", "w[vt]"), "(400, 14)", "T.Cast('int8', acc[vo0, vo1] >> 4)")
    assert visits(func, TARGET) == 400 * 14
    assert Space(func, TARGET).machine.terms["products"] == 350 > ceil(400 * 14 * 3 / 256)
    assert Space(func, TARGET).machine_bound() <= best(rows_times_matrix(400))


def test_weights_that_are_folded_beat_a_count_of_all_products() -> None:
    """Of the sum over k and t of x[m, k] w[n, k, t] the host may sum up w over t: one product is left of sixteen."""
    axes = {"m": 400, "n": 16, "k": 16, "t": 16}
    func = summed('x: T.Buffer((400, 16), "int8"), w: T.Buffer((16, 16, 16), "int8")', axes, "SSRR",
                  "vm, vn", times("x[vm, vk]", "w[vn, vk, vt]"), "(400, 16)", "T.Cast('int8', acc[vo0, vo1] >> 4)")
    assert visits(func, TARGET) == 400 * 16
    assert best(rows_times_matrix(400)) < 400 * 16 * (16 * 16 // 16) // 16  # what all of them would come to


@pytest.mark.parametrize("name", ["conv_depthwise", "conv_image", "channel_scale", "conv_then_pool", "blocks_apart"])
def test_visits_raise_a_bound_which_schedules_stay_above(name: str) -> None:
    space = Space(workload(f"{PROGRAMS / name}.py:main").func, TARGET)
    before = min(machine_bound(s.models).cycles for s in space.sketches)
    assert before < space.machine_bound() <= best(space, 6)


def test_a_layout_that_is_the_users_counts_its_elements() -> None:
    space = rows_times_matrix(10)
    assert machine_bound(space.sketches[0].models, 10**6) == space.machine


INT8_SUMS = """
@T.prim_func
def main(x: T.Buffer((400, 16), "int8"), w: T.Buffer((16, 8), "int8"), v: T.Buffer((16, 8), "int8"),
         out: T.Buffer((400, 16), "int8")):
    acc = T.alloc_buffer((400, 16), "int32")
    e = T.alloc_buffer((400, 16), "int32")
    a8 = T.alloc_buffer((400, 16), "int8")
    for m, j, k in T.grid(400, 16, 8):
        with T.block("acc"):
            vm, vj, vk = T.axis.remap("SSR", [m, j, k])
            with T.init():
                acc[vm, vj] = 0
            acc[vm, vj] += T.Cast("int32", x[vm, vk]) * T.Cast("int32", w[vj, vk])
    for m, j in T.grid(400, 16):
        with T.block("a8"):
            vm, vj = T.axis.remap("SS", [m, j])
            a8[vm, vj] = T.Cast("int8", acc[vm, vj])
    for m, j, k in T.grid(400, 16, 8):
        with T.block("e"):
            vm, vj, vk = T.axis.remap("SSR", [m, j, k])
            with T.init():
                e[vm, vj] = 0
            e[vm, vj] += T.Cast("int32", %s) * T.Cast("int32", v[vj, vk])
    for m, j in T.grid(400, 16):
        with T.block("out"):
            vm, vj = T.axis.remap("SS", [m, j])
            out[vm, vj] = T.Cast("int8", %s)
"""

PARTS = """
@T.prim_func
def main(x: T.Buffer((400, 16), "int8"), w: T.Buffer((16, 4, 4), "int8"), out: T.Buffer((400, 16), "int8")):
    acc = T.alloc_buffer((400, 16, 4), "int32")
    e = T.alloc_buffer((400, 16), "int32")
    for m, j, q, k in T.grid(400, 16, 4, 4):
        with T.block("acc"):
            vm, vj, vq, vk = T.axis.remap("SSSR", [m, j, q, k])
            with T.init():
                acc[vm, vj, vq] = 0
            acc[vm, vj, vq] += T.Cast("int32", x[vm, vq * 4 + vk]) * T.Cast("int32", w[vj, vq, vk])
    for m, j, q in T.grid(400, 16, 4):
        with T.block("e"):
            vm, vj, vq = T.axis.remap("SSR", [m, j, q])
            with T.init():
                e[vm, vj] = 0
            e[vm, vj] += acc[vm, vj, vq]
    for m, j in T.grid(400, 16):
        with T.block("out"):
            vm, vj = T.axis.remap("SS", [m, j])
            out[vm, vj] = T.Cast("int8", e[vm, vj] >> 4)
"""


def test_what_is_only_widened_need_not_be_stored() -> None:
    """Half of each sum is narrowed and added to the other half: in one layout that is one product, and nothing in between."""
    rival = best(rows_times_matrix(400))
    kept = Space(parse(INT8_SUMS % ("x[vm, 8 + vk]", 'T.Cast("int32", a8[vm, vj]) + e[vm, vj]')), TARGET).machine
    assert kept.cycles <= rival
    # What a product multiplies comes from memory: the same with data in place of the second half.
    stored = Space(parse(INT8_SUMS % ("a8[vm, vk]", "e[vm, vj] >> 4")), TARGET).machine
    # Half of what is made is read, which another layout has in half as many vectors.
    assert stored.terms["store chain"] > 1.45 * kept.terms["store chain"]


def test_of_parts_that_overlap_the_largest_counts() -> None:
    """Four windows of the lanes, each packed from where it begins to the end."""
    bound = Space(parse(PARTS), TARGET).machine
    assert bound.cycles <= best(rows_times_matrix(400))
    assert bound.terms["load chain"] < 1000


def test_what_takes_too_many_values_is_not_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the boundary: as many as the weight has elements."""
    func, target = workload("dense:m=2,k=32,n=48").func, get_target("vta-de10")
    for most, told in ((32 * 48 - 1, False), (32 * 48, True)):
        monkeypatch.setattr("space.elements.LARGE", most)
        _text.cache_clear()
        assert told_apart(func, target) == told
    _text.cache_clear()
