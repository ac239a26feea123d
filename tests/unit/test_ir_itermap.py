"""Iteration maps against TVM's own examples (facts from its tests of iteration maps)."""

from __future__ import annotations

import pytest

from autosched.ir.expr import Expr, IntImm, Var, as_expr, logical_and
from autosched.ir.itermap import (
    IterSum,
    detect_iter_map,
    inverse_affine_map,
    is_bijective,
    iter_map_simplify,
    to_expr,
)
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import TRUE, Range
from autosched.ir.subspace import subspace_divide

x, y, z, c, i, j, k, n = (Var(name) for name in "xyzcijkn")
xo, xi = Var("xo"), Var("xi")
i0, i1, i2, i3, i4, i5 = (Var(f"i{d}") for d in range(6))
a, b = Var("a"), Var("b")


def dom(**extents: int | Expr) -> dict[Var, Range]:
    return {globals()[name]: Range(IntImm(0), as_expr(e)) for name, e in extents.items()}


def digit(s: IterSum) -> tuple[Expr | int, Expr | int, Expr | int]:
    """(extent, base, scale) of an index, as TVM's tests state it."""
    assert len(s.args) <= 1
    return (s.args[0].extent, s.base, s.args[0].scale) if s.args else (1, s.base, 1)


both = logical_and
ACCEPTED = [
    ([x, y, as_expr(3)], dom(x=3, y=4), TRUE, "surjective", [(3, 0), (4, 0), (1, 3)]),
    ([x, y], dom(x=3, y=4, z=1), TRUE, "bijective", [(3, 0), (4, 0)]),
    ([y * 3 + 1 + c + x], dom(x=3, y=4), TRUE, "bijective", [(12, c + 1)]),
    ([x * 4 + y * 2], dom(x=3, y=2), TRUE, "surjective", [(6, 0, 2)]),
    ([x // 3, x % 3 * 2 + c], dom(x=24), TRUE, "surjective", [(8, 0), (3, c, 2)]),
    ([x // 6, x % 6 // 2, x % 2], dom(x=24), TRUE, "bijective", [(4, 0), (3, 0), (2, 0)]),
    ([x // 6, x % 2], dom(x=24), TRUE, "surjective", [(4, 0), (2, 0)]),
    ([x * 2 // 4, x * 2 % 4], dom(x=8), TRUE, "surjective", [(4, 0, 1), (2, 0, 2)]),
    ([x * 2 // 4 * 4 + x * 2 % 4], dom(x=8), TRUE, "surjective", [(8, 0, 2)]),
    ([y // 3 * 6 + x // 5 * 3 + y % 3, x % 5], dom(x=10, y=9), TRUE, "bijective", [(18, 0), (5, 0)]),
    ([(i * 192 + j) % 128, (i * 192 + j) // 128], dom(i=64, j=192), TRUE, "bijective", [(128, 0), (96, 0)]),
    ([x * 10 + y], dom(x=13, y=10), x * 10 + y < 128, "bijective", [(128, 0)]),
    ([x * 10 + y], dom(x=13, y=10), x * 10 + y <= 127, "bijective", [(128, 0)]),
    ([x * 10 + y], dom(x=13, y=10), x * 10 + y > 5, "bijective", [(124, 6)]),
    ([x * 10 + y], dom(x=13, y=10), both(x * 10 + y >= 6, x * 10 + y <= 127), "bijective", [(122, 6)]),
    ([x * 64 + y * 4 + z], dom(x=16, y=16, z=4), both(x * 64 + y * 4 + z < 32, as_expr(4) <= x * 16 + y),
     "surjective", [(16, 16)]),
    ([i * 8 + j * 2 + k], dom(i=11, j=5, k=2), both(as_expr(1) <= j * 2 + k, j * 2 + k < 9), "bijective", [(88, 1)]),
    ([i], dom(i=48), i < 10, "bijective", [(10, 0)]),
    ([i + j], dom(i=1), j <= 24, "surjective", [(1, j)]),
    ([i * 8 + j * 2 + k], dom(i=11, j=5, k=2),
     both(as_expr(1) <= j * 2 + k, j * 2 + k < 9, as_expr(3) <= i * 8 + j * 2 + k, i * 8 + j * 2 + k < 25),
     "surjective", [(22, 3)]),
    ([i * 6 + j * 2 + k], dom(i=11, j=5, k=2),
     both(as_expr(1) <= j * 2 + k, as_expr(2) <= j * 2 + k, j * 2 + k < 8, j * 2 + k < 9), "surjective", [(66, 2)]),
    ([(i * 16 + j) // 23 * 8 + (i * 16 + j) % 23 - 15], dom(i=12, j=16),
     both(i * 16 + j < 184, as_expr(8) <= (i * 16 + j) % 23, as_expr(15) <= (i * 16 + j) % 23), "surjective", [(64, 0)]),
    ([i0 * 180 + i1 * 60 + i2 * 30 + i3 * 15 + i4 * 6 + i5], dom(i0=3, i1=4, i2=3, i3=2, i4=3, i5=6),
     both(as_expr(1) <= i1, as_expr(2) <= i2 * 2 + i3, as_expr(3) <= i4 * 6 + i5), "surjective", [(540, 93)]),
    ([i0 * 45 + i1 * 45 + i2 * 9 + i3 * 4 + i4], dom(i0=3, i1=2, i2=5, i3=3, i4=4),
     both(as_expr(3) <= i1 * 5 + i2, i1 * 5 + i2 < 8, as_expr(1) <= i3 * 4 + i4, i3 * 4 + i4 < 10), "surjective",
     [(135, 28)]),
    ([i % 16, i // 16], dom(i=1024), both(as_expr(3) <= i % 16, i % 16 < 10, as_expr(4) <= i // 16, i // 16 < 12),
     "bijective", [(7, 3), (8, 4)]),
    ([(i * 32 + j) % 16], dom(i=5, j=32), both(as_expr(3) <= (i * 32 + j) % 16, (i * 32 + j) % 16 < 10), "surjective",
     [(7, 3)]),
    ([(i * 32 + j - 1) % 16, (i * 32 + j - 1) // 16], dom(i=5, j=32),
     both(as_expr(1) <= i * 32 + j, i * 32 + j <= 64), "surjective", [(16, 0), (4, 0)]),
    ([x * 10 + y], dom(x=13, y=10), x * 10 < as_expr(128) - y, "bijective", [(128, 0)]),
    ([x * 10 + y], dom(x=13, y=10), both(x * 10 + y < 128, x * 10 + y < 64), "bijective", [(64, 0)]),
    ([x * 10 + y], dom(x=13, y=10), x * 10 + y < 140, "bijective", [(130, 0)]),
    ([i1 * 20 + i2 * 10 + i3 * 3 + i4], dom(i1=7, i2=2, i3=4, i4=3),
     both(i1 * 2 + i2 < 13, i1 * 20 + i2 * 10 + i3 * 3 + i4 < 128, i3 * 3 + i4 < 10), "bijective", [(128, 0)]),
    ([xo * 129 + xi, y], dom(xo=1, xi=129, y=128), xo * 129 + xi < 128, "surjective", [(128, 0), (128, 0)]),
    ([xo * 16 + xi * 4], dom(xo=3, xi=4), xo * 4 + xi < 10, "surjective", [(10, 0, 4)]),
    ([z * 19 + y * 3 + x], dom(x=3, y=3), TRUE, "bijective", [(9, z * 19)]),
    ([z * z + y * 3 + x], dom(x=3, y=3), TRUE, "bijective", [(9, z * z)]),
    ([(y + 64) // 32, (y + 64) % 32], dom(y=192), TRUE, "bijective", [(6, 2), (32, 0)]),
    ([(y + 80) // 32], dom(y=176), TRUE, "surjective", [(6, 2)]),
    ([(y + 80) // 2 % 16, (y + 80) % 2], dom(y=176), TRUE, "surjective", [(16, 0), (2, 0)]),
    ([(x * 32 + y * 8) // 16, (x * 32 + y * 8) % 16], dom(x=5, y=4), TRUE, "surjective", [(10, 0), (2, 0, 8)]),
    ([x // 15], dom(x=26), TRUE, "surjective", [(2, 0)]),
    ([x // 3 % 5, x % 3], dom(x=26), TRUE, "surjective", [(5, 0), (3, 0)]),
    ([(x + 71) // 32], dom(x=45), TRUE, "surjective", [(2, 2)]),
    ([x // 4 % 8, x % 4], dom(x=45), TRUE, "surjective", [(8, 0), (4, 0)]),
    ([(x + 10) % 3, (x + 10) // 3 % 4, (x + 10) // 3 // 4 % 5], dom(x=240), TRUE, "surjective",
     [(3, 0), (4, 0), (5, 0)]),
    ([x * 7 + y], dom(x=3, y=8), TRUE, "surjective", [(22, 0)]),
    ([x * 18 + y * 7 + z], dom(x=2, y=3, z=8), TRUE, "surjective", [(40, 0)]),
    ([a * 40 + b * 20 + x * 18 + y * 3 + z], dom(a=3, b=2, x=2, y=6, z=8),
     both(z < 4, as_expr(1) < x * 6 + y, x * 6 + y < 10), "surjective", [(125, 6)]),
    ([x + a], dom(x=224, a=7), TRUE, "surjective", [(230, 0)]),
]

REFUSED = [
    ([x, x, as_expr(3)], dom(x=3, y=4), TRUE, "surjective"),
    ([x, z], dom(x=3, y=4, z=1), TRUE, "bijective"),
    ([y * 3 + x, y], dom(x=3, y=4), TRUE, "surjective"),
    ([y, x + 1, y], dom(x=3, y=4), TRUE, "surjective"),
    ([y * 4 + x], dom(x=3, y=4), TRUE, "surjective"),
    ([x // (y % 8 % 6)], dom(x=24, y=8), TRUE, "surjective"),
    ([x // 2 * 2 - x % 2 + 1], dom(x=8), TRUE, "surjective"),
    ([i, j, k], dom(i=128, j=128, k=128), i * 16384 + j * 128 + k < 100, "surjective"),
    ([i * 128 + j, k], dom(i=128, j=128, k=128), i * 16384 + j * 128 + k < 100, "surjective"),
    # TVM accepts this one, although the predicate leaves one value to i and to j.
    ([i, j], dom(i=128, j=128, k=128), i * 16384 + j * 128 + k < 100, "surjective"),
    ([i * 8 + j * 2 + k], dom(i=11, j=5, k=2), both(as_expr(2) <= j * 2 + k, as_expr(0) <= i * 4 + j), "surjective"),
    ([(i * 32 + j) % 16], dom(i=5, j=32), both(as_expr(1) <= i * 32 + j, i * 32 + j <= 32), "bijective"),
    ([i1 * 20 + i2 * 10 + i3 * 3 + i4], dom(i1=7, i2=2, i3=4, i4=3),
     both(i1 * 2 + i2 < 13, i1 * 20 + i2 * 10 + i3 * 3 + i4 < 128, i3 * 3 + i4 < 7), "surjective"),
    ([i1 * 20 + i2 * 10 + i3 * 3 + i4], dom(i1=7, i2=2, i3=4, i4=3),
     both(i1 * 2 + i2 < 13, i1 * 20 + i2 * 10 + i3 * 3 + i4 < 128, i3 * 3 + i4 < 10, i1 * 4 + i3 < 20), "surjective"),
    ([z * 19 + y * 3 + x], dom(x=3, y=3, z=3), TRUE, "surjective"),
    ([(y + 80) // 32, (y + 80) % 32], dom(y=176), TRUE, "surjective"),
    ([(y + 80) // 32, (y + 80) // 4], dom(y=176), TRUE, "surjective"),
    ([(x * 32 + y * 8) // 5], dom(x=5, y=4), TRUE, "surjective"),
    ([(x + 10) % 3, (x + 10) // 3 % 4, (x + 10) // 3 // 4 % 5, (x + 10) // 3 // 4 // 5], dom(x=240), TRUE,
     "surjective"),
    ([x % 16], dom(x=3), TRUE, "surjective"),
    ([x % 255 // 16], dom(x=255), TRUE, "bijective"),
    ([x * 7 + y], dom(x=3, y=8), TRUE, "bijective"),
    ([x * -7 + y], dom(x=3, y=8), TRUE, "surjective"),
    ([x * 7 - y], dom(x=3, y=8), TRUE, "surjective"),
    ([x * 5 + y * 2], dom(x=4, y=3), TRUE, "surjective"),
    # TVM accepts this one, although index 1 runs to 2.
    ([(y + 1) % 32, (y + 1) // 32], dom(y=64), TRUE, "bijective"),
]


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: f"{ACCEPTED.index(case)}")
def test_accepts(case) -> None:  # type: ignore[no-untyped-def]
    indices, domain, predicate, check, want = case
    result = detect_iter_map(indices, domain, predicate, check)
    assert result, result.errors
    ana = Analyzer()
    for s, expected in zip(result.indices, want):
        extent, base, scale = digit(s)
        e_extent, e_base, e_scale = (*expected, 1)[:3]
        assert (extent, scale) == (e_extent, e_scale)
        assert ana.can_prove_equal(as_expr(base), as_expr(e_base))


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{REFUSED.index(case)}")
def test_refuses(case) -> None:  # type: ignore[no-untyped-def]
    indices, domain, predicate, check = case
    result = detect_iter_map(indices, domain, predicate, check)
    assert not result
    assert result.errors and not result.indices


def test_symbolic_extents() -> None:
    ana = Analyzer()
    ana.bind_bounds(n, 1, None)
    assert detect_iter_map([i * n + j], {i: Range(IntImm(0), IntImm(4)), j: Range(IntImm(0), n)}, analyzer=ana)
    assert detect_iter_map([x // c, x % c], {x: Range(IntImm(0), n * c)}, analyzer=ana)
    assert not detect_iter_map([x // c, x % c], {x: Range(IntImm(0), n)}, analyzer=ana)
    fuse = x // n * n + x % n
    assert iter_map_simplify([fuse], {x: Range(IntImm(0), n * 32)}) == (x,)
    # What an analyzer knows counts.
    tile = Var("tile")
    assert not detect_iter_map([i % tile], dom(i=16), check="surjective")
    known = Analyzer()
    known.bind(tile, 4)
    assert detect_iter_map([i % tile], dom(i=16), check="surjective", analyzer=known)


def test_simplify_by_digits() -> None:
    assert iter_map_simplify([x // 4 * 4 + x % 4], dom(x=64)) == (x,)
    flat = i * 192 + j
    assert iter_map_simplify([flat // 192, flat % 192], dom(i=64, j=192)) == (
        (i * 192 + j) // 192, (i * 192 + j) % 192
    )
    strange = [x // 5 + y // 3]
    assert iter_map_simplify(strange, dom(x=7, y=8)) == tuple(strange)


def parts(bindings, domain, inner, predicate=TRUE):  # type: ignore[no-untyped-def]
    result = subspace_divide(bindings, domain, inner, predicate)
    if result is None:
        return None
    return [(d.outer, d.inner) for d in result], result.outer_predicate, result.inner_predicate


def test_subspace_divide() -> None:
    zero = IntImm(0)
    domain = dom(x=3, y=4, z=5)
    fused = z * 12 + y * 3 + x + c
    assert parts([fused], domain, [x]) == ([(z * 4 + y, x + c)], TRUE, TRUE)
    assert parts([fused], domain, [x], z * 4 + y < 18) == ([(z * 4 + y, x + c)], z * 4 + y < 18, TRUE)

    domain = {i0: Range(zero, IntImm(4)), j: Range(zero, IntImm(8)), i3: Range(zero, IntImm(2))}
    k0, k1 = i0 * 2 + j // 4, j % 4 * 2 + i3
    assert parts([k0, k1], domain, [i3]) == ([(k0, zero), (j % 4, i3)], TRUE, TRUE)
    assert parts([k0, k1], domain, [j, i3]) == ([(i0, j // 4), (zero, k1)], TRUE, TRUE)
    assert parts([k0, k1], domain, [i0, i3]) is None
    assert parts([k0, k1], domain, [i3], k0 < 7) == ([(k0, zero), (j % 4, i3)], k0 < 7, TRUE)
    assert parts([k0, k1], domain, [j, i3], k1 < 7) == ([(i0, j // 4), (zero, k1)], TRUE, k1 < 7)
    assert parts([k0, k1], domain, [i3], both(k0 < 7, k1 < 7)) is None


def test_subspace_divide_of_nested_digits() -> None:
    zero = IntImm(0)
    domain = {i0: Range(zero, IntImm(4)), x: Range(zero, IntImm(2)), y: Range(zero, IntImm(6)),
              i3: Range(zero, IntImm(3))}
    fused = x * 6 + y
    first, second, third = i0 * 2 + fused // 3 // 2, fused // 3 % 2, fused % 3 * 3 + i3
    assert parts([first, second, third], domain, [y, i3]) == (
        [(i0 * 2 + x, zero), (zero, y // 3), (zero, y % 3 * 3 + i3)], TRUE, TRUE)
    ana = Analyzer(domain)
    got = parts([first, second, third], domain, [x, y, i3])
    assert got is not None
    for (outer, inner), (want_outer, want_inner) in zip(
        got[0], [(i0, fused // 6), (zero, fused % 6 // 3), (zero, fused % 3 * 3 + i3)]
    ):
        assert ana.can_prove_equal(outer, want_outer) and ana.can_prove_equal(inner, want_inner)
    assert parts([first, second, third], domain, [x, i3]) is None
    assert parts([first, second, third], domain, [y, i3], both(first < 7, third < 8)) == (
        [(i0 * 2 + x, zero), (zero, y // 3), (zero, y % 3 * 3 + i3)], i0 * 2 + x < 7, y % 3 * 3 + i3 < 8)
    assert parts([first, second, third], domain, [i3], third < 8) is None


def test_overlapping_iterators_keep_their_strides() -> None:
    domain = dom(x=3, y=5, z=4)
    window = y * 2 + x
    assert parts([window, z], domain, [z]) == ([(window, IntImm(0)), (IntImm(0), z)], TRUE, TRUE)
    assert parts([window, z], domain, [x, y]) == ([(IntImm(0), window), (z, IntImm(0))], TRUE, TRUE)
    assert parts([window, z], domain, [z], window < 9) == (
        [(window, IntImm(0)), (IntImm(0), z)], window < 9, TRUE)
    assert parts([window, z], domain, [x]) is None


def test_unit_iterators_can_be_kept() -> None:
    domain = dom(x=1, y=16)
    result = subspace_divide([x * 16 + y], domain, [y], simplify_trivial=False)
    assert result is not None and [(d.outer, d.inner) for d in result] == [(x, y)]
    result = subspace_divide([x, y], dom(x=1, y=1), [y], simplify_trivial=False)
    assert result is not None and [(d.outer, d.inner) for d in result] == [(x, IntImm(0)), (IntImm(0), y)]


def test_inverse() -> None:
    domain = dom(x=64, y=64)
    sums = detect_iter_map([x % 16 * 4 + y % 4, x // 16, y // 4], domain).indices
    outs = [Var(f"o{d}") for d in range(3)]
    inverse = inverse_affine_map(sums, outs)
    ana = Analyzer()
    assert ana.can_prove_equal(inverse[x], outs[0] // 4 + outs[1] * 16)
    assert ana.can_prove_equal(inverse[y], outs[0] % 4 + outs[2] * 4)
    # A diamond: the second fusion takes digits of the first.
    once = x % 16 * 4 + x // 16
    twice = once % 8 * 8 + once // 8
    inverse = inverse_affine_map(detect_iter_map([twice], dom(x=64)).indices, outs[:1])
    back = outs[0] % 8 * 8 + outs[0] // 8
    bound = Analyzer({outs[0]: Range(IntImm(0), IntImm(64))})
    assert bound.can_prove_equal(inverse[x], back % 4 * 16 + back // 4)
    strided = detect_iter_map([x * 2], dom(x=4), check="surjective").indices
    with pytest.raises(ValueError, match="stride"):
        inverse_affine_map(strided, outs[:1])


def test_expression_of_a_digit() -> None:
    result = detect_iter_map([y // 3 * 6 + x // 5 * 3 + y % 3, x % 5], dom(x=10, y=9))
    assert to_expr(result.indices[0]) == y // 3 * 6 + x // 5 * 3 + y % 3
    assert to_expr(result.indices[1]) == x % 5


def test_ranges_may_not_name_iterators() -> None:
    assert not is_bijective([i, j], {i: Range(IntImm(0), IntImm(4)), j: Range(IntImm(0), i + 1)})
