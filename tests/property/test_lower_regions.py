"""What lowering says of accesses, with some loops fixed, against all their iterations."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.ir.expr import IntImm
from autosched.ir.stmt import Buffer
from autosched.lower.affine import Atom, Lin, Loop, _make, floordiv, floormod
from autosched.lower.regions import always, box, writes_all
from autosched.lower.tree import Access, Site


@st.composite
def sums(draw: st.DrawFn, loops: list[Loop], cut: bool = True) -> Lin:
    """An index: affine, or a digit of an affine one."""
    terms = {loop: c for loop in loops if (c := draw(st.sampled_from([0, 0, 1, 1, 2, 3, -1])))}
    lin = Lin(terms, draw(st.integers(-2, 3)))
    return draw(st.sampled_from([lin, lin, floordiv(lin, 2), floormod(lin, 3)])) if cut else lin


def value(lin: Lin, env: dict[Loop, int]) -> int:
    return int(lin.evaluate(env))  # type: ignore[arg-type]


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_what_a_site_is_said_to_write_it_writes(data: st.DataObject) -> None:
    loops = [Loop(n, data.draw(st.integers(1, 4))) for n in "oabc"]
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=2)))
    buffer = Buffer("x", tuple(IntImm(n) for n in shape))
    extents = tuple(data.draw(st.sampled_from([1, 1, 2])) for _ in shape)
    write = Access(buffer, tuple(data.draw(sums(loops)) for _ in shape), extents)
    read = Access(buffer, write.indices, (1,) * len(shape)) if data.draw(st.booleans()) else Access(
        buffer, tuple(data.draw(sums(loops)) for _ in shape), (1,) * len(shape))
    ends = [i.scale(-1).plus(n - 1) for i, n in zip(write.indices, shape)]
    # How far an index goes may depend on what stands still, through a quotient or the smaller of two ends.
    limit = floordiv(Lin({loops[0]: data.draw(st.integers(1, 3))}, data.draw(st.integers(-1, 3))), data.draw(st.integers(1, 3)))
    nearer = Lin({Atom("min", limit, Lin(None, data.draw(st.integers(0, 4)))): 1})
    upto = [end.add(i, -1) for i in write.indices for end in (limit, nearer)]
    bound = st.one_of(sums(loops), st.sampled_from([*write.indices, *ends, *upto, *(i.add(limit, -1) for i in write.indices)]))
    conds = data.draw(st.lists(bound, max_size=2))
    site = Site("load", "b", write, [], conds=conds, path=tuple(loops))
    fixed, before = (loops[0],), data.draw(st.sampled_from([(), (loops[0],)]))
    given_too = conds[:1] if data.draw(st.booleans()) else []
    whole = set(itertools.product(*(range(n) for n in shape)))

    def touched(access: Access, at: range, holds: list[Lin]) -> set[tuple[int, ...]]:
        found: set[tuple[int, ...]] = set()
        for point in itertools.product(at, *(range(loop.extent) for loop in loops[1:])):
            env = dict(zip(loops, point))
            if all(value(c, env) >= 0 for c in holds):
                starts = [value(i, env) for i in access.indices]
                found |= set(itertools.product(*(range(s, s + n) for s, n in zip(starts, access.extents))))
        return found & whole

    sides = box(write, fixed)
    nothing_left_out = always(site, fixed, given_too, before)
    covers = writes_all(site, box(read, fixed), fixed, given_too, before)
    for o in range(loops[0].extent):
        here = range(o, o + 1)
        all_of_it = touched(write, here, [])
        spans = [range(*(k + sum(c * value(Lin({t: 1}), {loops[0]: o}) for t, c in terms.items()) + end
                         for end, (terms, k) in enumerate(side[:2]))) for side in sides]
        assert all_of_it <= set(itertools.product(*spans))
        if all(side[2] for side in sides):
            assert all_of_it == set(itertools.product(*spans)) & whole
        for span, n, side in zip(spans, shape, sides):
            assert side[0][0] or side[1][0] or (span.start >= 0 and span.stop <= n)
        if given_too and any(all(value(c, dict(zip(loops, p))) < 0 for c in given_too)
                             for p in itertools.product(here, *(range(x.extent) for x in loops[1:]))):
            continue  # what is given does not hold here
        done = touched(write, range(0 if before else o, o + 1), [c for c in conds if c not in given_too])
        if nothing_left_out:
            assert all_of_it <= done
        if covers:
            assert touched(read, here, []) <= done


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_what_is_read_through_a_quotient_is_seen_to_be_written(data: st.DataObject) -> None:
    """Tiles of an image enlarged by repeating elements: what a load brings of it, cut to the image, is all that a tile reads."""
    by, tile, taps, off = (data.draw(st.integers(*ends)) for ends in ((2, 4), (1, 6), (1, 3), (4, 7)))
    most, lacking = (tile - 2) // by + 2, data.draw(st.sampled_from([0, 0, 1]))
    o, k, y, w = Loop("o", data.draw(st.integers(1, 4))), Loop("k", taps), Loop("y", tile), Loop("w", most)
    start = Lin({o: tile, k: 1}, off)
    low, high = floordiv(start, by).plus(-1), floordiv(start.plus(tile - 1), by).plus(-1)
    size = low.bounds()[1] + data.draw(st.integers(1, 5))  # every tile reads something of the image
    buffer, index = Buffer("x", (IntImm(size),)), low.add(Lin({w: 1}))
    last = _make("min", high, Lin(None, size - 1)).plus(-lacking)
    conds = [index, last.add(index, -1)]
    read = Access(buffer, (floordiv(start.add(Lin({y: 1})), by).plus(-1),), (1,))
    site = Site("load", "b", Access(buffer, (index,), (1,)), [], conds=conds, path=(o, k, w))
    wanted = box(read, (o, k))
    assert writes_all(site, wanted, (o, k)) == (not lacking)  # the last element that a tile reads
