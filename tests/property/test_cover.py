"""Exact boxes of affine accesses against brute force, and the plain normal form of bindings against the general one."""

import itertools
from collections.abc import Mapping

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autosched.ir.cover import Side, affine_box, gapless, holds, index_forms, keeps_inside
from autosched.ir.expr import BinOp, Expr, IntImm, Var
from autosched.ir.itermap import iter_map_simplify
from autosched.ir.stmt import TRUE, Buffer, BufferRegion, Range
from autosched.schedule.analysis.bindings import plain_digits

NAMES = "abcd"


@st.composite
def accesses(draw: st.DrawFn, loops: list[Var], dims: int) -> list[tuple[Expr, int]]:
    """First index and length per dimension: sums of multiples of some loops."""
    found: list[tuple[Expr, int]] = []
    for _ in range(dims):
        index: Expr = IntImm(draw(st.integers(-2, 3)))
        for var in loops:
            c = draw(st.sampled_from([0, 0, 1, 1, 2, 3, -1]))
            index = index + var * c if draw(st.booleans()) else index - var * -c
        found.append((index, draw(st.integers(1, 3))))
    return found


def touched(
    access: list[tuple[Expr, int]], inner: Mapping[Var, tuple[int, int]], still: Mapping[Var, int]
) -> set[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()
    for point in itertools.product(*(range(lo, lo + n) for lo, n in inner.values())):
        env = {**still, **dict(zip(inner, point))}
        starts = [value(index, env) for index, _ in access]
        found |= set(itertools.product(*(range(s, s + n) for s, (_, n) in zip(starts, access))))
    return found


def value(expr: Expr, env: Mapping[Var, int]) -> int:
    if isinstance(expr, Var):
        return env[expr]
    if isinstance(expr, IntImm):
        return expr.value
    assert isinstance(expr, BinOp)
    a, b = value(expr.a, env), value(expr.b, env)
    return a + b if expr.op == "+" else a - b if expr.op == "-" else a * b


def boxed(access: list[tuple[Expr, int]], inner: Mapping[Var, tuple[int, int]]) -> list[Side]:
    region = BufferRegion(Buffer("x", tuple(IntImm(8) for _ in access)), tuple(Range(i, IntImm(n)) for i, n in access))
    forms = index_forms(region, {})
    assert forms is not None
    return affine_box(forms, inner)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_box_that_holds_another_does_so_element_by_element(data: st.DataObject) -> None:
    loops = [Var(n) for n in NAMES]
    ranges = {v: (data.draw(st.integers(-1, 1)), data.draw(st.integers(1, 3))) for v in loops}
    outer = {v: ranges[v] for v in loops[:1]}
    inner = {v: ranges[v] for v in loops[1:]}
    dims = data.draw(st.integers(1, 2))
    read = data.draw(accesses(loops, dims))
    write = data.draw(accesses(loops, dims))
    if data.draw(st.booleans()):
        # Nearly what is read: one element earlier or later, longer or shorter.
        write = [(index + data.draw(st.integers(-1, 1)), max(1, n + data.draw(st.integers(-1, 1)))) for index, n in read]
    if data.draw(st.booleans()):
        # The same under a shift of what stands still.
        write = [(index + loops[0] * data.draw(st.integers(-1, 1)), n + 1) for index, n in write]
    shape = [data.draw(st.integers(1, 6)) for _ in range(dims)]
    have, need = boxed(write, inner), boxed(read, inner)
    whole = set(itertools.product(*(range(n) for n in shape)))
    exact = True
    for x in range(outer[loops[0]][0], sum(outer[loops[0]])):
        env = {loops[0]: x}
        written = touched(write, inner, env)
        if holds(have, need, [IntImm(n) for n in shape], outer):
            assert touched(read, inner, env) & whole <= written
        spans = [range(lo + sum(c * env[v] for v, c in still.items()), hi + 1 + sum(c * env[v] for v, c in still.items()))
                 for still, lo, hi, _ in have]
        assert written <= set(itertools.product(*spans))
        if all(side[3] for side in have):
            assert written == set(itertools.product(*spans)), "a box that is said to have no holes has one"
        box = [range(lo + sum(c * env[v] for v, c in still.items()), hi + 1 + sum(c * env[v] for v, c in still.items()))
               for still, lo, hi, _ in need]
        exact = exact and set(itertools.product(*box)) & whole <= written
    # Where both stand still in the same way, and inside the buffer, the answer is not only safe but complete.
    same = all(a[0] == b[0] and a[3] for a, b in zip(have, need))
    inside = all(not b[0] and b[1] >= 0 and b[2] < n for b, n in zip(need, shape))
    if same and inside:
        assert holds(have, need, [IntImm(n) for n in shape], outer) == exact


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), max_size=3), st.integers(1, 4))
def test_gapless_is_what_it_says(steps: list[tuple[int, int]], reach: int) -> None:
    sums = {sum(c * i for (c, _), i in zip(steps, point)) for point in itertools.product(*(range(n) for _, n in steps))}
    covered = {s + k for s in sums for k in range(reach)}
    assert gapless(steps, reach) == (covered == set(range(max(covered) + 1)))


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_condition_that_keeps_an_index_inside_takes_nothing_else_away(data: st.DataObject) -> None:
    loops = [Var(n) for n in NAMES[:2]]
    ranges = {v: (0, data.draw(st.integers(1, 6))) for v in loops}
    access = [(index, 1) for index, _ in data.draw(accesses(loops, 2))]
    shape = [IntImm(data.draw(st.integers(1, 6))) for _ in access]
    left, size = data.draw(st.sampled_from(list(zip([index for index, _ in access], shape))))
    right: Expr = IntImm(data.draw(st.integers(-2, 7)))
    if data.draw(st.booleans()):
        right = IntImm(data.draw(st.sampled_from([0, size.value])) + data.draw(st.integers(-1, 1)))
    op = data.draw(st.sampled_from(["<", "<=", ">", ">="]))
    cond = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op]
    if data.draw(st.booleans()):
        cond = {"<": right < left, "<=": right <= left, ">": right > left, ">=": right >= left}[op]
    assume(not isinstance(cond, IntImm))
    region = BufferRegion(Buffer("x", tuple(shape)), tuple(Range(i, IntImm(n)) for i, n in access))
    forms = index_forms(region, {})
    assert forms is not None
    if not keeps_inside(cond, forms, shape):
        return
    for point in itertools.product(*(range(lo, lo + n) for lo, n in ranges.values())):
        env = dict(zip(ranges, point))
        index = [value(i, env) for i, _ in access]
        a, b = value(cond.a, env), value(cond.b, env)  # type: ignore[attr-defined]
        met = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[cond.op]  # type: ignore[attr-defined]
        assert met or any(not 0 <= i < n.value for i, n in zip(index, shape))


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_the_plain_normal_form_of_bindings_is_the_general_one(data: st.DataObject) -> None:
    loops = [Var(f"v{k}") for k in range(data.draw(st.integers(1, 5)))]
    dom = {v: Range(IntImm(0), IntImm(data.draw(st.sampled_from([1, 1, 2, 3, 4])))) for v in loops}
    pool = data.draw(st.permutations(loops))
    values: list[Expr] = []
    for _ in range(data.draw(st.integers(1, 3))):
        mine, pool = pool[: (n := data.draw(st.integers(0, 3)))], pool[n:]
        total: Expr = IntImm(data.draw(st.sampled_from([0, 0, 0, 1, -1])))
        for v in mine:
            extent = dom[v].extent
            assert isinstance(extent, IntImm)
            total = total * extent.value + v if data.draw(st.booleans()) else total + v * data.draw(st.integers(1, 6))
        values.append(total)
    plain = plain_digits(values, dom)
    if plain is not None:
        assert plain == list(iter_map_simplify(values, dom, TRUE, simplify_trivial=False))
