"""Index maps: shapes, inverses and padding, against enumeration and TVM's examples."""

from __future__ import annotations

import itertools
import pickle
import random

import numpy as np
import pytest

from autosched.errors import ProgramError
from autosched.ir.expr import Expr, IntImm, Var, eq, logical_and
from autosched.ir.functor import substitute
from autosched.ir.index_map import AXIS_SEPARATOR, IndexMap
from autosched.ir.simplify import Analyzer, simplify


def value(e: Expr, env: dict[Var, int]) -> int:
    new = simplify(substitute(e, {v: IntImm(x) for v, x in env.items()}))
    assert isinstance(new, IntImm), new
    return new.value


def ints(shape: tuple[Expr, ...]) -> tuple[int, ...]:
    return tuple(s.value for s in shape)  # type: ignore[attr-defined]


def same(a: IndexMap, b: IndexMap) -> bool:
    return a.is_equivalent_to(b)


def test_mapping() -> None:
    m = IndexMap.from_func(lambda i: [i // 4, i % 4])
    assert m.map_indices([0]) == (IntImm(0), IntImm(0))
    assert m.map_indices([42]) == (IntImm(10), IntImm(2))
    assert ints(m.map_shape([256])) == (64, 4)
    i, j = Var("i"), Var("j")
    dom = Analyzer()
    dom.bind(i, (0, 8))
    dom.bind(j, (0, 4))
    assert m.map_indices([i * 4 + j], dom) == (i, j)
    swap = IndexMap.from_func(lambda i, j: [j, i])
    assert ints(swap.map_shape([3, 5])) == (5, 3)
    assert swap.map_indices([i, j + 1]) == (j + 1, i)


def test_inverse_of_tvm_examples() -> None:
    m = IndexMap.from_func(lambda i: [i // 4, i % 4])
    assert same(m.inverse([16]), IndexMap.from_func(lambda i, j: [i * 4 + j]))
    with pytest.raises(ProgramError, match="no inverse"):
        m.inverse([14])
    m = IndexMap.from_func(lambda i, j, k, c: [i * 16 + j // 2, k, j % 2 * 8 + c])
    back = m.inverse([4, 32, 5, 8])
    assert same(back, IndexMap.from_func(lambda a, k, b: [a // 16, a % 16 * 2 + b // 8, k, b % 8]))
    with pytest.raises(ProgramError, match="no inverse"):
        IndexMap.from_func(lambda i, j: [i + j]).inverse([4, 4])
    with pytest.raises(ProgramError, match="no inverse"):
        IndexMap.from_func(lambda i, j: [i]).inverse([4, 4])


def predicate_of(m: IndexMap, shape: list[int]) -> tuple[IndexMap, Expr]:
    return m.non_surjective_inverse(shape)


def test_padding_of_tvm_examples() -> None:
    m = IndexMap.from_func(lambda i: [i // 4, i % 4])
    back, pad = predicate_of(m, [14])
    a, b = back.initial
    assert same(back, IndexMap.from_func(lambda i, j: [i * 4 + j]))
    assert pad == logical_and(eq(a, 3), IntImm(2) <= b) or pad == logical_and(eq(a, 3), b >= 2)
    assert ints(m.map_shape([14])) == (4, 4)
    # An offset pads on the left.
    m = IndexMap.from_func(lambda i: [(i + 1) // 4, (i + 1) % 4])
    back, pad = predicate_of(m, [14])
    a, b = back.initial
    for x, y in itertools.product(range(4), range(4)):
        at = x * 4 + y - 1
        assert value(back.final[0], {a: x, b: y}) == at
        assert bool(value(pad, {a: x, b: y})) == (not 0 <= at < 14)
    # Smaller than one row.
    m = IndexMap.from_func(lambda i: [i // 4, i % 4])
    assert ints(m.map_shape([3])) == (1, 4)
    back, pad = predicate_of(m, [3])
    assert [bool(value(pad, {back.initial[0]: 0, back.initial[1]: y})) for y in range(4)] == [False, False, False, True]
    # Without padding, no predicate.
    assert predicate_of(m, [16])[1] == IntImm(0, "bool")
    # Not one-to-one.
    with pytest.raises(ProgramError, match="no inverse"):
        IndexMap.from_func(lambda i, j: [i + j]).non_surjective_inverse([4, 4])


@pytest.mark.parametrize("seed", range(4))
def test_random_packings_round_trip(seed: int) -> None:
    """Random splits (divisible or not) and permutations: the inverse undoes the map, the predicate marks padding."""
    rng = random.Random(seed)
    for _ in range(25):
        ndim = rng.randint(1, 3)
        shape = [rng.randint(1, 9) for _ in range(ndim)]
        factors = [rng.choice([1, 2, 3, 4]) for _ in range(ndim)]
        order = rng.sample(range(2 * ndim), 2 * ndim)
        fuse = rng.random() < 0.3 and ndim > 1

        def layout(*i: Var, factors=factors, order=order, fuse=fuse, shape=shape) -> list[Expr]:  # type: ignore[no-untyped-def]
            parts = [i[d // 2] // factors[d // 2] if d % 2 == 0 else i[d // 2] % factors[d // 2] for d in order]
            return [i[0] * shape[1] + i[1], *i[2:]] if fuse else parts

        m = IndexMap.from_func(layout, ndim)
        new = ints(m.map_shape(shape))
        back, pad = m.non_surjective_inverse(shape)
        reached = {}
        for p in itertools.product(*map(range, shape)):
            reached[tuple(value(e, dict(zip(m.initial, p))) for e in m.final)] = p
        assert len(reached) == np.prod(shape)
        for q in itertools.product(*map(range, new)):
            env = dict(zip(back.initial, q))
            assert bool(value(pad, env)) == (q not in reached), (shape, factors, order)
            if q in reached:
                assert tuple(value(e, env) for e in back.final) == reached[q]
        if len(reached) == np.prod(new):
            assert same(m.inverse(shape), back)
        array = np.arange(np.prod(shape)).reshape(shape)
        mapped = m.map_ndarray(array, fill=-1)
        assert mapped.shape == new
        assert all(mapped[q] == (array[reached[q]] if q in reached else -1) for q in np.ndindex(*new))


def test_axis_separators_and_functions() -> None:
    m = IndexMap.from_func(lambda i, j: [i, AXIS_SEPARATOR, j // 4, AXIS_SEPARATOR, j % 4])
    assert m.axis_separators == (1, 2) and len(m) == 3
    assert pickle.loads(pickle.dumps(AXIS_SEPARATOR)) is AXIS_SEPARATOR
    assert IndexMap.from_func(lambda n, *rest: [*rest, n], 3).map_indices([1, 2, 3]) == (
        IntImm(2), IntImm(3), IntImm(1))
    # A keyword with a default is the function's own business; one without is a mistake.
    assert len(IndexMap.from_func(lambda i, *, f=4: [i // f, i % f]).initial) == 1
    with pytest.raises(ProgramError, match="positional indices only"):
        IndexMap.from_func(lambda i, *, f: [i // f])
    with pytest.raises(ProgramError, match="needs ndim"):
        IndexMap.from_func(lambda *i: i)
    with pytest.raises(ProgramError, match="takes 2 indices, the buffer has 3"):
        IndexMap.from_func(lambda i, j: [i, j], 3)
    with pytest.raises(ProgramError, match="returns indices, got str"):
        IndexMap.from_func(lambda i: ["i"])
    with pytest.raises(ProgramError, match="takes 1 indices, 2 given"):
        IndexMap.from_func(lambda i: [i]).map_indices([1, 2])


def test_given_inverse_is_used() -> None:
    m = IndexMap.from_func(lambda i, j: [i * j + 1], inverse=lambda a: [a, a])
    assert len(m.inverse([4, 4]).final) == 2
    with pytest.raises(ProgramError):
        IndexMap.from_func(lambda i, j: [i * j + 1]).inverse([4, 4])


def test_equivalence_and_plain_data() -> None:
    m = IndexMap.from_func(lambda i, j: [i, j // 4, AXIS_SEPARATOR, j % 4])
    again = IndexMap.from_data(m.to_data())
    assert m.is_equivalent_to(again) and again.axis_separators == (2,)
    assert not m.is_equivalent_to(IndexMap.from_func(lambda i, j: [i, j // 8, AXIS_SEPARATOR, j % 8]))
    assert not m.is_equivalent_to(IndexMap.from_func(lambda i, j: [i, j // 4, j % 4]))
    outside = Var("n")
    with pytest.raises(ProgramError, match="from outside"):
        IndexMap.from_func(lambda i: [i * outside]).to_data()


def test_symbolic_shape() -> None:
    n = Var("n")
    m = IndexMap.from_func(lambda i, j: [j, i])
    assert m.map_shape([n, 4]) == (IntImm(4), n)
    assert m.inverse([n, 4]).is_equivalent_to(m)
