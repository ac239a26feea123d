"""Linear forms: integer coefficients over atoms and a constant, and the expression that one prints as.

The printed order is TVM's: terms by falling coefficient, then by falling divisor, then as first met;
a positive constant after the positive terms, a negative one last.
"""

from __future__ import annotations

from math import gcd, inf
from typing import Any

from autosched.ir.expr import BinOp, Expr, IntImm, Var, bits, is_int, wrap
from autosched.ir.print_expr import expr_text

Terms = dict[Expr, int]
Lin = tuple[Terms, int]
# Bounds use float infinities for "unknown": sums and comparisons need no special case.
Bound = float
Interval = tuple[Bound, Bound]

EVERYTHING: Interval = (-inf, inf)
INDEX_TYPES = frozenset({"int32", "int64", "uint32", "uint64"})
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}  # with the sides exchanged; others are as they were
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def floor_bound(x: Bound, d: Bound) -> Bound:
    return x if x in (inf, -inf) else int(x) // int(d)


def dtype_interval(dtype: str) -> Interval:
    # 32 and 64 bits count as unbounded: index arithmetic does not wrap.
    if dtype == "bool":
        return 0, 1
    width = bits(dtype)
    if not is_int(dtype) or width > 16:
        return (0, inf) if dtype.startswith("uint") else EVERYTHING
    return (0, (1 << width) - 1) if dtype.startswith("uint") else (-(1 << (width - 1)), (1 << (width - 1)) - 1)


def put(out: Terms, t: Expr, c: int) -> None:
    c += out.get(t, 0)
    if c:
        out[t] = c
    else:
        out.pop(t, None)


def add_forms(a: Lin, b: Lin, scale: int) -> Lin:
    """``a + scale * b`` without merging quotients."""
    out = dict(a[0])
    for t, c in b[0].items():
        put(out, t, c * scale)
    return out, a[1] + scale * b[1]


def common_factor(terms: Terms) -> int:
    g = 0
    for c in terms.values():
        g = gcd(g, c)
        if g == 1:
            break
    return g


def factors_of(t: Expr) -> list[Expr]:
    if type(t) is BinOp and t.op == "*" and type(t.b) is not IntImm:
        return [*factors_of(t.a), *factors_of(t.b)]
    return [t]


def monomial(factors: list[Expr]) -> Expr:
    """The product of atoms, in one order whatever order they came in."""
    factors.sort(key=_order)
    result = factors[0]
    for f in factors[1:]:
        result = BinOp("*", result, f, f.dtype)
    return result


def _order(f: Expr) -> tuple[int, str]:
    # By text, never by hash or address: the same program must print the same in every process.
    return (0, f.name) if type(f) is Var else (1, expr_text(f))


def atom_order(item: tuple[Expr, int]) -> tuple[int, str]:
    """A key that puts the terms of a form into one order."""
    return _order(item[0])


def digit(t: BinOp) -> tuple[Expr, int, int | None]:
    """``x % upper // lower`` taken apart; upper is None for a plain quotient."""
    assert isinstance(t.b, IntImm)
    if t.op == "%":
        return t.a, 1, t.b.value
    inner = t.a
    if type(inner) is BinOp and inner.op == "%" and type(inner.b) is IntImm and inner.b.value % t.b.value == 0:
        return inner.a, t.b.value, inner.b.value
    return inner, t.b.value, None


def _rank(item: tuple[Expr, int]) -> tuple[int, int]:
    t, c = item
    if type(t) is BinOp and t.op == "//" and type(t.b) is IntImm:
        return -c, -t.b.value
    return -c, -1


def _is_lowest(value: int, dtype: str) -> bool:
    """Whether a constant has no negative of its type: it is added, where others are taken away."""
    return value <= -128 and is_int(dtype) and value == -(1 << (bits(dtype) - 1))


def build(terms: Terms, k: int, dtype: str) -> Expr:
    """The expression of a linear form."""
    if not terms:
        return IntImm(k, dtype)
    if is_int(dtype):
        k = wrap(k, dtype)
    result: Expr | None = None
    items: Any = terms.items()
    if len(terms) > 1:
        items = sorted(items, key=_rank)
    negative = None
    for t, c in items:
        if c == 1:
            term = t
        elif c > 0 or _is_lowest(c, dtype):
            term = BinOp("*", t, IntImm(c, dtype), dtype)
        else:
            negative = negative or []
            negative.append((t, -c))
            continue
        result = term if result is None else BinOp("+", result, term, dtype)
    added = k > 0 or _is_lowest(k, dtype)
    if added:
        result = IntImm(k, dtype) if result is None else BinOp("+", result, IntImm(k, dtype), dtype)
    if negative:
        if result is None and len(negative) == 1 and not k and negative[0][1] != 1:
            t, c = negative[0]
            return BinOp("*", t, IntImm(-c, dtype), dtype)
        for t, c in reversed(negative):
            term = t if c == 1 else BinOp("*", t, IntImm(c, dtype), dtype)
            result = BinOp("-", IntImm(0, dtype) if result is None else result, term, dtype)
    if k < 0 and not added:
        assert result is not None
        result = BinOp("-", result, IntImm(-k, dtype), dtype)
    assert result is not None
    return result


def conjuncts(cond: Expr) -> list[Expr]:
    """The parts of a conjunction, left to right; constants that are true vanish."""
    if type(cond) is BinOp and cond.op == "and":
        return [*conjuncts(cond.a), *conjuncts(cond.b)]
    if type(cond) is IntImm and cond.value:
        return []
    return [cond]


def relation(op: str, terms: Terms, k: int, left: Lin, right: Lin, dtype: str) -> Expr:
    """Lays ``0 op terms + k`` out on two sides, in the way the two sides were written."""
    pos = {t: c for t, c in terms.items() if c > 0}
    neg = {t: -c for t, c in terms.items() if c < 0}
    if not left[0] or not right[0]:
        # One side was a constant: it stays one.
        on_right = not left[0]
        if len(terms) == 1:
            on_right = bool(pos)
        if op in ("==", "!="):
            body = terms if (pos and on_right) or not neg else {t: -c for t, c in terms.items()}
            sign = -1 if body is terms else 1
            return BinOp(op, build(body, 0, dtype), IntImm(sign * k, dtype), "bool")
        if on_right:
            return BinOp(op, IntImm(-k, dtype), build(terms, 0, dtype), "bool")
        return BinOp(op, build({t: -c for t, c in terms.items()}, 0, dtype), IntImm(k, dtype), "bool")
    lo, hi = (neg, pos) if neg else ({}, pos)
    if not pos:
        return BinOp(op, build(neg, 0, dtype), IntImm(k, dtype), "bool")
    if not neg:
        if op in ("==", "!="):
            return BinOp(op, build(pos, 0, dtype), IntImm(-k, dtype), "bool")
        return BinOp(op, IntImm(-k, dtype), build(pos, 0, dtype), "bool")
    return BinOp(op, build(lo, -k if k < 0 else 0, dtype), build(hi, k if k > 0 else 0, dtype), "bool")
