"""Exact boxes of affine accesses against brute force, and the plain normal form of bindings against the general one."""

import itertools
from collections.abc import Mapping

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autosched.ir.cover import Box, apart, covers, encloses, gapless, hull, joined, keeps_inside, left_out, some_run, swept
from autosched.ir.expr import BinOp, Expr, IntImm, Var
from autosched.ir.forms import NO_TERMS, conditions, index_forms, ranging
from autosched.ir.itermap import iter_map_simplify
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import TRUE, Buffer, BufferRegion, Range
from autosched.ir.swept import bounding_box, exact_box, limits_within
from autosched.schedule.analysis.bindings import plain_digits

NAMES = "abcd"

Question = tuple[list[Var], dict[Var, Range], list[tuple[Expr, int]], list[Expr], list[int]]


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


def boxed(access: list[tuple[Expr, int]], inner: Mapping[Var, tuple[int, int]]) -> Box:
    region = BufferRegion(Buffer("x", tuple(IntImm(8) for _ in access)), tuple(Range(i, IntImm(n)) for i, n in access))
    forms = index_forms(region, {})
    assert forms is not None
    return swept(forms, inner)


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
    # What is plain is the same in general.
    loop_ranges = {v: Range(IntImm(lo), IntImm(n)) for v, (lo, n) in inner.items()}
    general = exact_box(of_buffer(write, shape), loop_ranges)
    assert general == have or not all(side[2] for side in have)
    assert [side[:2] for side in bounding_box(of_buffer(read, shape), loop_ranges)] == [side[:2] for side in need]
    whole = set(itertools.product(*(range(n) for n in shape)))
    exact = True
    for x in range(outer[loops[0]][0], sum(outer[loops[0]])):
        env = {loops[0]: x}
        written = touched(write, inner, env)
        if covers(have, need, shape, ranging(outer)):
            assert touched(read, inner, env) & whole <= written
        spans = [range(lo + sum(c * env[v] for v, c in still.items()), hi + 1 + sum(c * env[v] for v, c in still.items()))
                 for (still, lo), (_, hi), _ in have]
        assert written <= set(itertools.product(*spans))
        if all(side[2] for side in have):
            assert written == set(itertools.product(*spans)), "a box that is said to have no holes has one"
        box = [range(lo + sum(c * env[v] for v, c in still.items()), hi + 1 + sum(c * env[v] for v, c in still.items()))
               for (still, lo), (_, hi), _ in need]
        exact = exact and set(itertools.product(*box)) & whole <= written
    # Where both stand still in the same way, and inside the buffer, the answer is not only safe but complete.
    same = all(a[0][0] == b[0][0] and a[2] for a, b in zip(have, need))
    inside = all(not still and lo >= 0 and hi < n for ((still, lo), (_, hi), _), n in zip(need, shape))
    if same and inside:
        assert covers(have, need, shape, ranging(outer)) == exact


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
    access = data.draw(accesses(loops, 2))
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
    (slack,) = conditions(cond, {}) or ()
    if not keeps_inside(slack, forms, shape):
        return
    for point in itertools.product(*(range(lo, lo + n) for lo, n in ranges.values())):
        env = dict(zip(ranges, point))
        index = [value(i, env) for i, _ in access]
        outside = any(not -length < i < n.value for (_, length), i, n in zip(access, index, shape))
        a, b = value(cond.a, env), value(cond.b, env)  # type: ignore[attr-defined]
        met = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[cond.op]  # type: ignore[attr-defined]
        assert met or outside


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




def evaluate(expr: Expr, env: Mapping[Var, int]) -> int:
    """The value of an index or a condition."""
    if isinstance(expr, Var):
        return env[expr]
    if isinstance(expr, IntImm):
        return expr.value
    assert isinstance(expr, BinOp)
    a, b = evaluate(expr.a, env), evaluate(expr.b, env)
    match expr.op:
        case "+" | "-" | "*":
            return {"+": a + b, "-": a - b, "*": a * b}[expr.op]
        case "//":
            return a // b
        case "%":
            return a % b
        case "min" | "max":
            return {"min": min, "max": max}[expr.op](a, b)
    return int({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b}[expr.op])


@st.composite
def indices(draw: st.DrawFn, loops: list[Var], extents: Mapping[Var, int]) -> Expr:
    """An affine index, or digits of several loops fused, with or without what stands still."""
    total: Expr = IntImm(draw(st.sampled_from([0, 0, 0, 1, -1, 3])))
    chosen = draw(st.permutations(loops))[: draw(st.integers(1, 3))]
    if draw(st.booleans()):
        for var in chosen:
            total = total + var * draw(st.sampled_from([1, 1, 2, 3, -1]))
        return total
    fused: Expr = IntImm(0)
    for var in chosen:
        fused = fused * draw(st.sampled_from([extents[var], extents[var], 2, 3])) + var
    total = fused + total
    cut = draw(st.sampled_from([2, 3, 4]))
    return draw(st.sampled_from([total, total // cut, total % cut, total // 2 % 2]))


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Loops (the first one stands still), what is touched in them, under which conditions, of a buffer of which shape."""
    loops = [Var(n) for n in NAMES]
    ranges = {v: Range(IntImm(draw(st.sampled_from([0, 0, 1, -1]))), IntImm(draw(st.integers(1, 4)))) for v in loops}
    sizes = {v: r.extent.value for v, r in ranges.items()}  # type: ignore[attr-defined]
    access: list[tuple[Expr, int]] = []
    if draw(st.booleans()):
        # A layout: two digits of one index.
        fused, cut = draw(indices(loops[draw(st.integers(0, 1)):], sizes)), draw(st.sampled_from([2, 3, 4]))
        access = [(fused // cut, 1), (fused % cut, 1)]
    else:
        for _ in range(draw(st.integers(1, 2))):
            access.append((draw(indices(loops, sizes)), draw(st.sampled_from([1, 1, 1, 2, 3]))))
    conds: list[Expr] = []
    for _ in range(draw(st.integers(0, 2))):
        left = draw(st.sampled_from([access[0][0], access[-1][0], *loops, loops[1] * 3 + loops[2], draw(indices(loops, sizes))]))
        op = draw(st.sampled_from(["<", "<=", ">", ">=", "=="]))
        right: Expr = IntImm(draw(st.integers(-1, 6)))
        if draw(st.booleans()):
            # An end that moves with what stands still, or with another loop.
            moving = loops[draw(st.sampled_from([0, 0, 0, 1]))] * draw(st.integers(1, 3)) + draw(st.integers(-1, 3))
            right = BinOp(draw(st.sampled_from(["min", "max"])), moving // draw(st.integers(1, 3)), right, "int32")
        conds.append(BinOp(op, left, right, "bool"))
    return loops, ranges, access, conds, [draw(st.integers(1, 7)) for _ in access]


def points_of(ranges: Mapping[Var, Range]) -> list[dict[Var, int]]:
    spans = [range(r.min.value, r.min.value + r.extent.value) for r in ranges.values()]  # type: ignore[attr-defined]
    return [dict(zip(ranges, point)) for point in itertools.product(*spans)]


def elements(access: list[tuple[Expr, int]], envs: list[dict[Var, int]], conds: list[Expr]) -> set[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()
    for env in envs:
        if all(evaluate(c, env) for c in conds):
            found |= set(itertools.product(*(range(s := evaluate(i, env), s + n) for i, n in access)))
    return found


def inside(box: Box, env: Mapping[Var, int], shape: list[int]) -> set[tuple[int, ...]]:
    """The elements of a box that lie inside a buffer."""
    sides = []
    for (low, high, _), n in zip(box, shape):
        first, last = (k + sum(c * evaluate(t, env) for t, c in terms.items()) for terms, k in (low, high))
        sides.append(range(max(first, 0), min(last, n - 1) + 1))
    return set(itertools.product(*sides))


def of_buffer(access: list[tuple[Expr, int]], shape: list[int]) -> BufferRegion:
    return BufferRegion(Buffer("x", tuple(IntImm(n) for n in shape)), tuple(Range(i, IntImm(n)) for i, n in access))


@settings(deadline=None, max_examples=150)
@given(questions())
def test_a_box_without_holes_is_touched_and_one_around_holds_all(question: Question) -> None:
    loops, ranges, access, conds, shape = question
    region = of_buffer(access, shape)
    inner, outer = {v: ranges[v] for v in loops[1:]}, {loops[0]: ranges[loops[0]]}
    have = exact_box(region, inner, conds, analyzer=Analyzer(outer))
    around = bounding_box(region, inner)
    whole = set(itertools.product(*(range(n) for n in shape)))
    for still in points_of(outer):
        envs = [{**still, **env} for env in points_of(inner)]
        assert elements(access, envs, []) & whole <= inside(around, still, shape)
        if have is not None:
            assert inside(have, still, shape) <= elements(access, envs, conds)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_what_is_read_through_a_quotient_is_seen_to_be_written(data: st.DataObject) -> None:
    """Tiles of an image enlarged by repeating elements: the elements behind a tile and a tap, within the image, and no other."""
    by, tile, count = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 7)), data.draw(st.integers(1, 5))
    taps, off, size = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 3)), data.draw(st.integers(1, 12))
    o, k, y, w = (Var(n) for n in ("o", "k", "y", "w"))
    start = o * tile + k + off
    low, high = start // by - 1, (start + tile - 1) // by - 1
    lacking = data.draw(st.sampled_from([0, 0, 1]))
    outer = {o: Range(IntImm(0), IntImm(count)), k: Range(IntImm(0), IntImm(taps))}
    analyzer = Analyzer(outer)
    most = analyzer.largest(high - low + 1)
    assert most is not None
    written, rows = {w: Range(IntImm(0), IntImm(most))}, {y: Range(IntImm(0), IntImm(tile))}
    write, read = [(low + w, 1)], [((start + y) // by - 1, 1)]
    last = BinOp("min", high, IntImm(size - 1), "int32") - lacking
    conds = [low + w >= 0, low + w <= last]
    moving = data.draw(st.sampled_from([(), (o,), (k,), (o, k)]))  # of the loops around, these are around both apart
    mine = {v: outer.pop(v) for v in moving}
    known = Analyzer(outer)
    have = exact_box(of_buffer(write, [size]), {**mine, **written}, conds, analyzer=known)
    need = bounding_box(of_buffer(read, [size]), {**mine, **rows}, Analyzer(outer))
    true = True
    for still in points_of(outer):
        envs = [{**still, **env} for env in points_of({**mine, **written})]
        wanted = elements(read, [{**still, **env} for env in points_of({**mine, **rows})], []) & {(i,) for i in range(size)}
        true = true and wanted <= elements(write, envs, conds)
    said = have is not None and covers(have, need, [size], known.never_negative)
    assert true or not said
    assert said or not true or mine or lacking


def test_tiles_that_overlap_leave_no_gap_behind_them() -> None:
    """Twelve rows of an image enlarged by two, each with the rows around it: all that is read, wherever that begins."""
    o, w, y = (Var(n) for n in ("o", "w", "y"))
    low, high = (o + 1) // 2 - 1, o // 2 + 1
    inner = {o: Range(IntImm(0), IntImm(12)), w: Range(IntImm(0), IntImm(3))}
    conds = [low + w >= 0, low + w <= BinOp("min", high, IntImm(5), "int32")]
    rows = of_buffer([(low + w, 1), (y, 1)], [6, 4])
    four = Range(IntImm(0), IntImm(4))
    box = exact_box(rows, {**inner, y: four}, conds)
    assert box is not None and covers(box, [((NO_TERMS, 0), (NO_TERMS, 5), False), ((NO_TERMS, 0), (NO_TERMS, 3), False)], [6, 4])
    # A gap behind each tile; a place in both dimensions; one iteration, of which nothing is asked.
    known, holes = Analyzer(), of_buffer([((o + 1) // 2 * 4 + w, 1), (y, 1)], [48, 4])
    assert exact_box(holes, {**inner, y: four}, [(o + 1) // 2 * 4 + w <= o // 2 * 4 + 2], analyzer=known) is None
    assert known.int_bounds(o) == (0, 11)
    both = of_buffer([(low + w, 1), ((o + 1) // 2 + y, 1)], [6, 12])
    assert exact_box(both, {**inner, y: four}, conds) is None
    once = exact_box(rows, {**inner, o: Range(IntImm(3), IntImm(1)), y: four}, conds)
    assert once is not None and once[0] == ((NO_TERMS, 1), (NO_TERMS, 2), True)
    # Behind the last tile, which the buffer ends, is nothing: that another one would begin further on does not matter.
    start = o * 3 // 2
    last = exact_box(of_buffer([(start + w, 1)], [12]), {o: Range(IntImm(0), IntImm(6)), w: Range(IntImm(0), IntImm(3))},
                     [start + w <= BinOp("min", (o * 3 + 3) // 2, IntImm(7), "int32")])
    assert last == [((NO_TERMS, 0), (NO_TERMS, 7), True)]


def test_a_condition_on_an_index_cuts_the_box() -> None:
    i, k, w = Var("i"), Var("k"), Var("w")
    eight, around = Range(IntImm(0), IntImm(8)), Analyzer({k: Range(IntImm(0), IntImm(4))})
    rows = of_buffer([(i // 4, 1), (i % 4, 1), (w + k, 1)], [2, 4, 12])
    digits = [((NO_TERMS, 0), (NO_TERMS, 1), True), ((NO_TERMS, 0), (NO_TERMS, 3), True)]
    assert exact_box(rows, {i: eight, w: eight}, [w + k <= k + 5], analyzer=around) == [*digits, (({k: 1}, 0), ({k: 1}, 5), True)]
    half = exact_box(rows, {i: eight, w: eight}, [w + k <= (k + 9) // 2], analyzer=around)
    assert half == [*digits, (({k: 1}, 0), ({(k + 9) // 2: 1}, 0), True)]
    # Before the buffer is nothing to leave out.
    most = BinOp("max", k - 1, IntImm(0), "int32")
    before = exact_box(of_buffer([(w - 3, 1)], [5]), {w: eight}, [w - 3 >= most], analyzer=around)
    assert before == [(({k: 1}, -1), (NO_TERMS, 4), True)]
    # Where nobody knows which end is the nearer one, it is either.
    ends = [w * 1 >= BinOp("max", k, 3 - k, "int32"), w <= k + 4]
    wide = exact_box(of_buffer([(w, 1)], [8]), {w: eight}, ends, analyzer=around)
    assert wide is not None
    for n in range(4):
        assert inside(wide, {k: n}, [8]) == {(at,) for at in range(max(n, 3 - n), min(7, n + 4) + 1)}
    # Nothing is said to be touched where the last one of interest may lie before the first.
    assert exact_box(of_buffer([(w + 1, 1)], [8]), {w: eight}, [w + 1 <= k], analyzer=around) is None
    assert exact_box(of_buffer([(w, 1)], [8]), {w: eight}, [w * 1 <= k], analyzer=around) == [((NO_TERMS, 0), ({k: 1}, 0), True)]
    # An access of two elements that begins at the first one of interest may have left out one that began before.
    assert exact_box(of_buffer([(i * 2, 2)], [16]), {i: eight}, [i * 2 >= k], analyzer=around) is None


@settings(deadline=None, max_examples=120)
@given(questions(), st.data())
def test_what_is_said_to_cover_a_read_has_been_written(question: Question, data: st.DataObject) -> None:
    """In general, and where only what is ever written counts, or what earlier iterations of the loop around have written."""
    loops, ranges, write, conds, shape = question
    inner, outer = {v: ranges[v] for v in loops[1:]}, {loops[0]: ranges[loops[0]]}
    read = [(index + data.draw(st.integers(-1, 1)), max(1, n + data.draw(st.integers(-1, 0)))) for index, n in write]
    if data.draw(st.booleans()):
        sizes = {v: r.extent.value for v, r in ranges.items()}  # type: ignore[attr-defined]
        read = [(data.draw(indices(loops, sizes)), 1) for _ in write]
    known = Analyzer(outer).never_negative
    need = bounding_box(of_buffer(read, shape), inner)
    whole = set(itertools.product(*(range(n) for n in shape)))
    first, ever = outer[loops[0]].min.value, elements(write, points_of(ranges), conds)  # type: ignore[attr-defined]
    for before, missing in itertools.product(({}, outer), (False, True)):
        have = exact_box(of_buffer(write, shape), inner, conds, analyzer=Analyzer(outer), before=before, missing=missing)
        if have is None or not covers(have, need, shape, known):
            continue
        for still in points_of(outer):
            earlier = range(first, still[loops[0]]) if before else ()
            envs = [{**env, loops[0]: x} for env in points_of(inner) for x in (*earlier, still[loops[0]])]
            wanted = elements(read, [{**still, **env} for env in points_of(inner)], []) & whole
            assert (wanted & ever if missing else wanted) <= elements(write, envs, conds)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_boxes_are_joined_where_they_touch(data: st.DataObject) -> None:
    still, n = Var("o"), data.draw(st.integers(1, 2))
    boxes: list[Box] = []
    for _ in range(data.draw(st.integers(1, 4))):
        at = [data.draw(st.integers(0, 4)) for _ in range(n)]
        ends = [(lo, lo + data.draw(st.integers(0, 2)), data.draw(st.integers(0, 7)) > 0) for lo in at]
        boxes.append([(({still: 1}, lo), ({still: 1}, hi), whole) for lo, hi, whole in ends])
    filled = [b for b in boxes if all(whole for _, _, whole in b)]
    every = set().union(*(inside(b, {still: 0}, [9] * n) for b in filled)) if filled else set()
    found = joined(boxes)
    for box in found:
        assert inside(box, {still: 0}, [9] * n) <= every
    if n == 1 and every:
        # Along one dimension nothing that touches stays apart.
        assert len(found) == sum(1 for (x,) in every if (x - 1,) not in every)
    around = hull(boxes[0], boxes[-1])
    assert around is not None and encloses(around, boxes[0]) and encloses(around, boxes[-1])
    both = [inside(b, {still: 0}, [9] * n) for b in (boxes[0], boxes[-1])]
    assert apart(boxes[0], boxes[-1]) == both[0].isdisjoint(both[1])
    assert encloses(boxes[0], boxes[-1]) == (both[1] <= both[0])
    assert hull(boxes[0], [((NO_TERMS, 0), (NO_TERMS, 0), True)] * n) is None
    # What is known of what stands still tells the outer ends.
    still_known = hull(boxes[0], [((NO_TERMS, 0), (NO_TERMS, 0), True)] * n, ranging({still: (0, 3)}))
    assert still_known == [((NO_TERMS, 0), high, False) for _, high, _ in boxes[0]]


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.dictionaries(st.sampled_from("abc"), st.sampled_from([-3, -2, -1, 1, 2, 3]), max_size=2),
                          st.integers(-6, 6)), max_size=3),
       st.tuples(*[st.tuples(st.integers(-1, 1), st.integers(1, 4))] * 3))
def test_conditions_that_are_said_to_hold_somewhere_do(
    conds: list[tuple[dict[str, int], int]], spans: tuple[tuple[int, int], ...]
) -> None:
    loops = dict(zip("abc", spans))
    envs = [dict(zip("abc", p)) for p in itertools.product(*(range(lo, lo + n) for lo, n in spans))]
    met = any(all(k + sum(c * env[t] for t, c in terms.items()) >= 0 for terms, k in conds) for env in envs)
    found = some_run(conds, loops)
    assert met or not found
    if len(conds) < 2:
        assert found == met
    # One loop that nothing is known of: for all of its values, or not at all.
    fewer = {t: span for t, span in loops.items() if t != "a"}
    if some_run(conds, fewer, ranging({"a": loops["a"]})):
        for a in range(spans[0][0], sum(spans[0])):
            assert any(all(k + sum(c * env[t] for t, c in terms.items()) >= 0 for terms, k in conds)
                       for env in envs if env["a"] == a)


@settings(deadline=None, max_examples=400)
@given(st.data())
def test_conditions_that_leave_nothing_out_hold_wherever_the_access_is_inside(data: st.DataObject) -> None:
    """Two loops drive the index, one repeats the access, one stands still: wherever they are, in some repetition."""
    steps = {t: data.draw(st.integers(1, 3)) for t in "ab"}
    index: tuple[dict[str, int], int] = (steps, data.draw(st.integers(-1, 1)))
    spans = {t: (0, data.draw(st.integers(1, 4))) for t in "abkf"}
    shape = data.draw(st.integers(1, 9))
    conds: list[tuple[dict[str, int], int]] = []
    for _ in range(data.draw(st.integers(1, 4))):
        sign, k = data.draw(st.sampled_from([-1, 1])), data.draw(st.integers(-1, 1))
        terms = {t: sign * c for t, c in {**steps, "k": k, "f": data.draw(st.sampled_from([0, 0, 1]))}.items() if c}
        conds.append((terms, data.draw(st.integers(-2, 9))))
    if data.draw(st.booleans()):
        conds.append(({t: -c for t, c in steps.items()}, shape - 1 - index[1]))  # the last tile ends with the buffer
    idle = {"k": spans["k"]}
    if left_out(conds, [(index, 1)], [shape], idle, known=ranging({t: spans[t] for t in "abf"})):
        return
    for a, b, f in itertools.product(*(range(spans[t][1]) for t in "abf")):
        if 0 <= steps["a"] * a + steps["b"] * b + index[1] < shape:
            envs = [{"a": a, "b": b, "f": f, "k": k} for k in range(spans["k"][1])]
            assert any(all(c + sum(x * env[t] for t, x in terms.items()) >= 0 for terms, c in conds) for env in envs), (a, b, f)


def test_the_last_tile_ends_with_the_buffer_whichever_taps_it_has() -> None:
    """Nine rows in tiles of two: of the tenth nobody asks, and each of the others has a tap that no border takes away."""
    row, taps = ({"tile": 2, "y": 1}, 0), {"k": (0, 3)}
    known = ranging({"tile": (0, 5), "y": (0, 2)})
    border = [({"tile": 2, "y": 1, "k": 1}, -1), ({"tile": -2, "y": -1, "k": -1}, 9)]
    last = ({"tile": -2, "y": -1}, 8)
    assert not left_out([last, *border], [(row, 1)], [9], taps, known=known)
    assert left_out([last, *border], [(row, 1)], [10], taps, known=known), "the tenth row is left out"
    assert left_out(border, [(row, 1)], [9], taps, known=known), "without the guard the last tap may be none of the buffer's"
    nearer = [border[0], (border[1][0], 8)]
    assert left_out([last, *nearer], [(row, 1)], [9], taps, known=known), "the ninth row has no tap"


def test_what_lies_beyond_the_elements_of_interest_may_be_left_out() -> None:
    i = Var("i")
    index = [(({i: 1}, 0), 1)]
    upto, onwards = ({i: -1}, 4), ({i: 1}, -2)  # i <= 4, i >= 2
    assert keeps_inside(upto, index, [8], [(None, 4)]) and not keeps_inside(upto, index, [8], [(None, 5)])
    assert keeps_inside(onwards, index, [8], [(2, None)]) and not keeps_inside(onwards, index, [8], [(1, None)])
    assert not keeps_inside(upto, index, [8]) and keeps_inside(upto, index, [5])
    assert keeps_inside((NO_TERMS, 0), index, [8]) and not keeps_inside((NO_TERMS, -1), index, [8])
    # A reader that looks at rows 2 to 4 alone, of every second one that is written.
    rows = of_buffer([(i * 2, 1)], [16])
    assert limits_within(rows, [i * 2 <= 8, IntImm(4) <= i * 2, i < 3]) == [(4, 8)]
    assert limits_within(of_buffer([(i, 2)], [16]), [i <= 8]) == [(None, None)]
    eight = {i: Range(IntImm(0), IntImm(8))}
    plain = of_buffer([(i, 1)], [8])
    for given_limits, last in (((), 4), ([(None, 4)], 7)):
        assert exact_box(plain, eight, [i < 5], limits=given_limits) == [((NO_TERMS, 0), (NO_TERMS, last), True)]


def test_digits_and_conditions_together() -> None:
    i, k = Var("i"), Var("k")
    around = {k: Range(IntImm(0), IntImm(3))}
    rows = of_buffer([(i // 8, 1), (i % 8, 1)], [7, 8])
    every = [((NO_TERMS, 0), (NO_TERMS, n), True) for n in (6, 7)]
    # The iteration that is one too many leaves the buffer: without its condition the rows are not whole.
    most = {i: Range(IntImm(0), IntImm(57))}
    assert exact_box(rows, most, [i < 56]) == every and exact_box(rows, most) is None
    # What is left out by a loop that stands still is left out, whatever else holds.
    plain = of_buffer([(i, 1)], [4])
    four = {i: Range(IntImm(0), IntImm(4))}
    inside_it = [IntImm(0) <= i * 1, i < 4]
    assert exact_box(plain, four, inside_it, analyzer=Analyzer(around)) is not None
    assert exact_box(plain, four, [*inside_it, k < 2], analyzer=Analyzer(around)) is None
    assert exact_box(plain, four, [*inside_it, k < 3], analyzer=Analyzer(around)) is not None
    # A row that is never full may count as full; one that is in another iteration may not.
    eight = {i: Range(IntImm(0), IntImm(8))}
    halves = of_buffer([(i // 4, 1), (i % 4, 1)], [2, 4])
    full = [((NO_TERMS, 0), (NO_TERMS, n), True) for n in (1, 3)]
    assert exact_box(halves, eight, [i < 5], analyzer=Analyzer(around)) is None
    assert exact_box(halves, eight, [i < 5], analyzer=Analyzer(around), missing=True) == full
    assert exact_box(halves, eight, [i < k + 5], analyzer=Analyzer(around), missing=True) is None
    later = of_buffer([((k * 4 + i) // 4, 1), ((k * 4 + i) % 4, 1)], [4, 4])
    assert exact_box(later, {i: Range(IntImm(0), IntImm(5))}, analyzer=Analyzer(around), missing=True) is None
    # Every fifth of a fused loop starts a row; conditions on a loop that drives nothing have to hold in one iteration.
    forty, thrice = {i: Range(IntImm(0), IntImm(40))}, {**four, k: Range(IntImm(0), IntImm(3))}
    assert exact_box(of_buffer([(i // 5, 1)], [8]), forty, [i % 5 < 2]) == [((NO_TERMS, 0), (NO_TERMS, 7), True)]
    assert exact_box(plain, thrice, [k % 2 < 1, k < 1]) is not None
    assert exact_box(plain, thrice, [k % 2 < 1, IntImm(1) <= k * 1, k < 2]) is None
    # Of a loop of unknown length nothing is known but that it begins.
    unknown = {**four, k: Range(IntImm(0), Var("n"))}
    assert exact_box(plain, unknown, [k < 1]) is not None and exact_box(plain, unknown, [IntImm(5) <= k * 1]) is None
    n = unknown[k].extent
    ends = exact_box(of_buffer([(k, 1)], [16]), {k: Range(IntImm(2), n)})
    assert ends is None or ends == [((NO_TERMS, 2), ({n: 1}, 1), True)]
    assert exact_box(of_buffer([(k, 1)], [16]), {k: Range(IntImm(0), n)}) == [((NO_TERMS, 0), ({n: 1}, -1), True)]
    assert exact_box(of_buffer([(k * 2, 1)], [16]), {k: Range(IntImm(0), n)}) is None
