"""What lowering says of accesses, with some loops fixed, against all their iterations."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.ir.expr import IntImm
from autosched.ir.stmt import Buffer
from autosched.lower.affine import Lin, Loop, floordiv, floormod
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
    bound = st.one_of(sums(loops), st.sampled_from([*write.indices, *ends]))
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
