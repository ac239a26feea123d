"""Iteration maps against enumeration: what is accepted is true, and inverses compose to the identity."""

from __future__ import annotations

import itertools
import random

import pytest

from autosched.ir.expr import Expr, IntImm, Var, as_expr, logical_and
from autosched.ir.functor import substitute
from autosched.ir.itermap import detect_iter_map, inverse_affine_map, iter_map_simplify, to_expr
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import TRUE, Range
from autosched.ir.subspace import subspace_divide

VARS = [Var(n) for n in "ijkl"]


def value(e: Expr, env: dict[Var, int]) -> int:
    new = simplify(substitute(e, {v: IntImm(x) for v, x in env.items()}))
    assert isinstance(new, IntImm), new
    return new.value


def domain(rng: random.Random, count: int, low: bool = False) -> dict[Var, Range]:
    starts = [rng.choice([0, 0, 3, -2]) if low else 0 for _ in range(count)]
    return {v: Range(IntImm(s), IntImm(rng.choice([1, 2, 3, 4, 6, 8]))) for v, s in zip(VARS, starts)}


def points(dom: dict[Var, Range], predicate: Expr) -> list[dict[Var, int]]:
    axes = [range(r.min.value, r.min.value + r.extent.value) for r in dom.values()]  # type: ignore[attr-defined]
    every = [dict(zip(dom, p)) for p in itertools.product(*axes)]
    return every if predicate is TRUE else [p for p in every if value(predicate, p)]


def fuse_split(rng: random.Random, dom: dict[Var, Range]) -> list[Expr]:
    """Random fusing and splitting of iterators: mostly bijective maps, some spoilt."""
    pool: list[tuple[Expr, int]] = [(v, r.extent.value) for v, r in dom.items()]  # type: ignore[attr-defined]
    for _ in range(rng.randint(1, 4)):
        if len(pool) > 1 and rng.random() < 0.6:
            (a, n), (b, m) = pool.pop(rng.randrange(len(pool))), pool.pop(rng.randrange(len(pool)))
            stride = m if rng.random() < 0.75 else rng.randint(1, m)
            pool.append((a * stride + b, (n - 1) * stride + m))
        else:
            a, n = pool.pop(rng.randrange(len(pool)))
            f = rng.choice([d for d in range(1, n + 1) if n % d == 0] if rng.random() < 0.8 else [2, 3, 4])
            if rng.random() < 0.15:
                a = a + rng.randint(1, 5)
            pool += [(a // f, -(-n // f)), (a % f, f)]
    rng.shuffle(pool)
    if rng.random() < 0.25 and len(pool) > 1:
        pool.pop()
    indices = [e for e, _ in pool]
    if rng.random() < 0.2:
        indices[0] = indices[0] * rng.choice([2, 3]) + rng.randint(0, 2)
    if rng.random() < 0.15:
        indices.append(rng.choice(indices))
    if rng.random() < 0.3:
        indices[0] = simplify(indices[0], dom)
    return indices


def random_predicate(rng: random.Random, dom: dict[Var, Range], indices: list[Expr]) -> Expr:
    e = rng.choice([*indices, *dom, next(iter(dom)) * 4 + list(dom)[-1]])
    size = max(1, max(value(e, p) for p in points(dom, TRUE)) + 1)
    bound = e < rng.randint(1, max(1, size)) if rng.random() < 0.7 else as_expr(rng.randint(0, size // 2)) <= e
    return logical_and(bound, e < size) if rng.random() < 0.3 else bound


@pytest.mark.parametrize("seed", range(8))
def test_accepted_maps_are_what_they_claim(seed: int) -> None:
    rng = random.Random(seed)
    accepted = onto = 0
    for n in range(60):
        dom = domain(rng, rng.randint(1, 3), low=n % 5 == 0)
        indices = fuse_split(rng, dom)
        predicate = TRUE if n % 2 else random_predicate(rng, dom, indices)
        where = points(dom, predicate)
        if not where:
            continue
        images = [tuple(value(e, p) for e in indices) for p in where]
        axes = [sorted({im[d] for im in images}) for d in range(len(indices))]
        box = 1
        for axis in axes:
            box *= len(axis)
        for level in ("bijective", "surjective"):
            result = detect_iter_map(indices, dom, predicate, level)
            if not result:
                continue
            # Every index takes exactly the values base + scale * [0, extent), and all combinations occur.
            claimed = []
            for s in result.indices:
                assert isinstance(s.base, int) and len(s.args) <= 1
                d = s.args[0] if s.args else None
                claimed.append([s.base + (d.scale * x if d else 0) for x in range(d.extent if d else 1)])  # type: ignore[operator,arg-type]
            assert [sorted(c) for c in claimed] == axes, (indices, dom, predicate, level)
            assert len(set(images)) == box, (indices, dom, predicate, level)
            rewritten = [to_expr(s) for s in result.indices]
            assert [tuple(value(e, p) for e in rewritten) for p in where] == images, (indices, dom, predicate, level)
            if level == "bijective":
                assert len(images) == box, (indices, dom, predicate)
                accepted += 1
            else:
                onto += 1
    assert accepted > 5 and onto > 10


@pytest.mark.parametrize("seed", range(4))
def test_splits_and_fusions_are_accepted(seed: int) -> None:
    """Perfect splits and full fusions in any order are bijective, and found to be."""
    rng = random.Random(100 + seed)
    for _ in range(40):
        dom = domain(rng, rng.randint(1, 3))
        pool: list[tuple[Expr, int]] = [(v, r.extent.value) for v, r in dom.items()]  # type: ignore[attr-defined]
        for _ in range(rng.randint(1, 5)):
            if len(pool) > 1 and rng.random() < 0.5:
                (a, n), (b, m) = pool.pop(rng.randrange(len(pool))), pool.pop(rng.randrange(len(pool)))
                pool.append((a * m + b, n * m))
            else:
                a, n = pool.pop(rng.randrange(len(pool)))
                f = rng.choice([d for d in range(1, n + 1) if n % d == 0])
                pool += [(a // f, n // f), (a % f, f)]
        result = detect_iter_map([e for e, _ in pool], dom)
        # A fused iterator cut across its parts (6 = 2 * 3 in thirds) is found too.
        assert result, (pool, result.errors)


@pytest.mark.parametrize("seed", range(4))
def test_inverse_composes_to_identity(seed: int) -> None:
    rng = random.Random(200 + seed)
    done = 0
    for n in range(60):
        dom = domain(rng, rng.randint(1, 3), low=n % 4 == 0)
        indices = fuse_split(rng, dom)
        result = detect_iter_map(indices, dom)
        if not result or any(s.args and s.args[0].scale != 1 for s in result.indices):
            continue
        outs = [Var(f"o{d}") for d in range(len(indices))]
        inverse = inverse_affine_map(result.indices, outs)
        for p in points(dom, TRUE):
            env = {o: value(e, p) for o, e in zip(outs, indices)}
            for v, e in inverse.items():
                assert value(e, env) == p[v], (indices, dom)
        done += 1
    assert done > 5


@pytest.mark.parametrize("seed", range(4))
def test_subspace_division_rebuilds_bindings(seed: int) -> None:
    rng = random.Random(300 + seed)
    done = 0
    for n in range(60):
        dom = domain(rng, 3)
        indices = fuse_split(rng, dom)
        predicate = TRUE if n % 2 else random_predicate(rng, dom, indices)
        inner = rng.sample(list(dom), rng.randint(1, 2))
        result = subspace_divide(indices, dom, inner, predicate)
        if result is None:
            continue
        done += 1
        outer_vars = set(dom) - set(inner)
        for part in result:
            assert not _uses(part.outer, set(inner)) and not _uses(part.inner, outer_vars)
        assert not _uses(result.outer_predicate, set(inner)) and not _uses(result.inner_predicate, outer_vars)
        inside = points(dom, logical_and(result.outer_predicate, result.inner_predicate))
        for p in points(dom, predicate):
            for e, part in zip(indices, result):
                inner_extent = value(part.inner_extent, {})
                assert value(part.outer, p) * inner_extent + value(part.inner, p) == value(e, p), (indices, inner)
                assert 0 <= value(part.outer, p) < value(part.outer_extent, {})
        # Bounds of single iterators narrow ranges instead of becoming predicates.
        assert all(p in inside for p in points(dom, predicate))
    assert done > 8


def _uses(e: Expr, variables: set[Var]) -> bool:
    from autosched.ir.functor import walk_expr

    return any(v in variables for v in walk_expr(e) if isinstance(v, Var))


@pytest.mark.parametrize("seed", range(3))
def test_simplified_indices_keep_their_values(seed: int) -> None:
    rng = random.Random(400 + seed)
    changed = 0
    for n in range(60):
        dom = domain(rng, rng.randint(1, 3))
        indices = fuse_split(rng, dom)
        if n % 3 == 0:
            indices.append(indices[0] // 2 * 2 + indices[0] % 2)
        predicate = TRUE if n % 2 else random_predicate(rng, dom, indices)
        for level in ("none", "surjective"):
            new = iter_map_simplify(indices, dom, predicate, level)
            changed += list(new) != indices
            for p in points(dom, predicate):
                assert [value(e, p) for e in new] == [value(e, p) for e in indices], (indices, dom, predicate)
    assert changed


@pytest.mark.parametrize("seed", range(3))
def test_padding_predicate_marks_what_was_added(seed: int) -> None:
    """Without a check, the padded box is larger; the predicate is false on every point that is really reached."""
    rng = random.Random(500 + seed)
    padded = 0
    for _ in range(60):
        n, f = rng.randint(2, 30), rng.choice([2, 3, 4, 8])
        i = VARS[0]
        shift = rng.choice([0, 0, 1, 5])
        dom = {i: Range(IntImm(0), IntImm(n))}
        result = detect_iter_map([(i + shift) // f, (i + shift) % f], dom, check="none")
        assert result, result.errors
        outs = [Var("o0"), Var("o1")]
        inverse = inverse_affine_map(result.indices, outs)
        where = Analyzer().simplify(substitute(result.padding_predicate, inverse))
        outer = result.indices[0]
        base, extent = outer.base, outer.args[0].extent if outer.args else 1
        assert isinstance(base, int) and isinstance(extent, int)
        for a in range(base, base + extent):
            for b in range(f):
                x = value(inverse[i], {outs[0]: a, outs[1]: b})
                assert x == a * f + b - shift
                assert bool(value(where, {outs[0]: a, outs[1]: b})) == (not 0 <= x < n), (n, f, shift)
        padded += where != IntImm(0, "bool")
    assert padded
