"""Questions about iteration maps: is a binding one-to-one, how does it divide into outer and inner, what undoes it.

``detect_iter_map`` rewrites indices into digits of iterators (``iter_rewrite``) and checks that the digits do not
depend on each other. Predicates of the form ``expr < bound`` narrow the iterators first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autosched.ir.expr import BinOp, Expr, IntImm, Var, binary, is_int, logical_and
from autosched.ir.functor import walk_expr
from autosched.ir.iter_rewrite import (
    Constraint,
    Factor,
    IterMark,
    IterSplit,
    IterSum,
    Rewriter,
    Unresolved,
    to_expr,
)
from autosched.ir.linear import build, conjuncts
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import TRUE, Range

__all__ = [
    "Division", "IterMapResult", "IterMark", "IterSplit", "IterSum", "SubspaceDivision", "detect_iter_map",
    "inverse_affine_map", "is_bijective", "iter_map_simplify", "subspace_divide", "to_expr",
]

_FALSE = IntImm(0, "bool")
LEVELS = ("bijective", "surjective", "none")


@dataclass(frozen=True, slots=True)
class IterMapResult:
    """What ``detect_iter_map`` found; false when the indices are not an iteration map.

    Args:
        indices: one sum per index (none when not a map).
        errors: why not.
        padding_predicate: over the iterators, true exactly at the values that padding added; false without padding.
    """

    indices: tuple[IterSum, ...]
    errors: tuple[str, ...] = ()
    padding_predicate: Expr = _FALSE

    def __bool__(self) -> bool:
        return not self.errors


def detect_iter_map(
    indices: Sequence[Expr],
    dom: Mapping[Var, Range],
    predicate: Expr = TRUE,
    check: str = "bijective",
    analyzer: Analyzer | None = None,
    simplify_trivial: bool = True,
) -> IterMapResult:
    """Whether indices are independent sums of digits of the iterators.

    Args:
        indices: index expressions.
        dom: range of each iterator; ranges must not name other iterators.
        predicate: conjunction of bounds ``expr < c`` (and ``<=``, ``>``, ``>=``) under which the map is used.
        check: ``bijective`` (every combination of index values is reached exactly once), ``surjective`` (at least once;
            iterators may be unused) or ``none`` (digits are independent after padding).
        analyzer: what is known about other variables.
        simplify_trivial: whether an iterator of extent 1 counts as its minimum.

    Returns:
        The sums, or the reasons why there are none. Accepted answers are proofs; a refusal is not.
    """
    if check not in LEVELS:
        raise ValueError(f"unknown check {check!r}; known: {', '.join(LEVELS)}")
    ana = analyzer or Analyzer()
    for r in dom.values():
        for end in (r.min, r.extent):
            if type(end) is not IntImm and any(v in dom for v in walk_expr(end) if type(v) is Var):
                return IterMapResult((), ("the range of an iterator names another iterator",))
    dtype = indices[0].dtype if indices else "int32"
    constraints: list[Constraint] = []
    try:
        if not (type(predicate) is IntImm and predicate.value):
            dom, constraints = _bounds(predicate, dom, ana)
        rewriter = Rewriter(dom, check, ana, simplify_trivial, dtype)
        for c in constraints:
            rewriter.constrain(c)
        if not rewriter.constraints_nest():
            raise Unresolved("predicates bind iterators across each other")
        sums: list[IterSum] | None = None
        if check != "bijective":
            rewriter.first_pass = True
            sums = [rewriter.rewrite(e) for e in indices]
            rewriter.first_pass = False
        if sums is None or rewriter.requires_padding:
            sums = [rewriter.rewrite(e) for e in indices]
        _check(rewriter, sums, check)
    except Unresolved as error:
        return IterMapResult((), (str(error),))
    return IterMapResult(tuple(sums), (), rewriter.padding_predicate)


def is_bijective(
    indices: Sequence[Expr], dom: Mapping[Var, Range], predicate: Expr = TRUE, analyzer: Analyzer | None = None
) -> bool:
    """Whether indices are known to map the iterators one-to-one onto a box."""
    return bool(detect_iter_map(indices, dom, predicate, "bijective", analyzer))


def iter_map_simplify(
    indices: Sequence[Expr],
    dom: Mapping[Var, Range],
    predicate: Expr = TRUE,
    check: str = "surjective",
    analyzer: Analyzer | None = None,
    simplify_trivial: bool = True,
) -> tuple[Expr, ...]:
    """Indices in the form their digits give; unchanged when they are not an iteration map."""
    ana = analyzer or Analyzer()
    result = detect_iter_map(indices, dom, predicate, check, ana, simplify_trivial)
    if not result and predicate is not TRUE and check != "bijective":
        result = detect_iter_map(indices, dom, TRUE, check, ana, simplify_trivial)
    if not result:
        return tuple(indices)
    return tuple([to_expr(s, ana, e.dtype) for s, e in zip(result.indices, indices)])


# -- predicates --------------------------------------------------------------------------------------------------------


def _bounds(
    predicate: Expr, dom: Mapping[Var, Range], ana: Analyzer
) -> tuple[Mapping[Var, Range], list[Constraint]]:
    """A predicate as narrowed ranges and bounds of expressions, the smaller expressions first."""
    narrowed = dict(dom)
    found: list[tuple[int, Constraint]] = []
    for part in conjuncts(predicate):
        if type(part) is not BinOp or part.op not in ("<", "<=", ">", ">=") or not is_int(part.a.dtype):
            if not any(v in dom for v in walk_expr(part) if type(v) is Var):
                continue
            raise Unresolved("a predicate is not a bound of an iterator")
        op, a, b = part.op, part.a, part.b
        if op in (">", ">="):
            op, a, b = ("<" if op == ">" else "<="), b, a
        if _moves(a, dom) and _moves(b, dom):
            terms, k = ana._lin2(a, b, -1)
            inside = {t: c for t, c in terms.items() if _moves(t, dom)}
            rest = {t: -c for t, c in terms.items() if t not in inside}
            if inside and all(c < 0 for c in inside.values()):
                inside = {t: -c for t, c in inside.items()}
                rest = {t: -c for t, c in rest.items()}
                a, b = build(rest, k, a.dtype), build(inside, 0, a.dtype)
            else:
                a, b = build(inside, 0, a.dtype), build(rest, -k, a.dtype)
        one = int(op == "<=")
        if _moves(a, dom):
            expr, lower, upper = a, None, b + one
        elif _moves(b, dom):
            expr, lower, upper = b, a + (1 - one), None
        else:
            continue
        if type(expr) is Var:
            r = narrowed[expr]
            lo, hi = r.min, r.min + r.extent
            if lower is not None:
                lo = ana.simplify(binary("max", lo, lower))
            if upper is not None:
                hi = ana.simplify(binary("min", hi, upper))
            narrowed[expr] = Range(lo, ana.simplify(hi - lo))
            continue
        size = sum(1 for _ in walk_expr(expr))
        found.append((size, Constraint(expr, _factor(lower, ana), _factor(upper, ana))))
    found.sort(key=lambda item: item[0])
    return narrowed, [c for _, c in found]


def _factor(e: Expr | None, ana: Analyzer) -> Factor | None:
    if e is None:
        return None
    value = ana.const_value(e)
    return ana.simplify(e) if value is None else value


def _moves(e: Expr, dom: Mapping[Var, Range]) -> bool:
    return any(v in dom for v in walk_expr(e) if type(v) is Var)


# -- independence ------------------------------------------------------------------------------------------------------


def _references(sums: Sequence[IterSum]) -> dict[IterMark, list[IterSplit]]:
    """The digits that are taken of each iterator, in the indices and inside the iterators that they use."""
    table: dict[IterMark, list[IterSplit]] = {}
    todo = list(sums)
    while todo:
        for split in todo.pop().args:
            if split.mark not in table:
                table[split.mark] = []
                if isinstance(split.mark.source, IterSum):
                    todo.append(split.mark.source)
            table[split.mark].append(split)
    return table


def _check(rw: Rewriter, sums: Sequence[IterSum], level: str) -> None:
    table = _references(sums)
    for mark, splits in table.items():
        _cover(rw, mark, splits, level)
    if level == "bijective":
        for mark in rw.inputs:
            if mark not in table and mark.extent != 1:
                raise Unresolved("an iterator is not used")
    for flat in rw.constrained:
        bound = rw.fused[flat].mark
        if bound in table:
            continue
        # The predicate binds these digits together, and the indices use some of them as if they were free.
        for digit in flat:
            for split in table.get(digit.mark, ()):
                if not _apart(rw, digit, split):
                    raise Unresolved("an index uses some of the iterators that a predicate binds together, not all")


def _apart(rw: Rewriter, a: IterSplit, b: IterSplit) -> bool:
    """Whether two digits of one iterator do not overlap."""
    return rw.at_least(a.lower, rw.mul(b.lower, b.extent)) or rw.at_least(b.lower, rw.mul(a.lower, a.extent))


def _cover(rw: Rewriter, mark: IterMark, splits: Sequence[IterSplit], level: str) -> None:
    """Checks that digits of one iterator do not overlap, and (for a bijection) leave nothing out."""
    left = list(splits)
    reach: Factor = 1
    while left:
        here = next((s for s in left if rw.same(s.lower, reach)), None)
        if here is None:
            if level == "bijective" or not all(rw.divides(reach, s.lower) for s in left):
                raise Unresolved("digits of an iterator overlap or leave gaps")
            here = left[0]
            for s in left[1:]:
                if rw.divides(s.lower, here.lower):
                    here = s
        left.remove(here)
        reach = rw.mul(here.lower, here.extent)
    whole = rw.same(reach, mark.extent)
    origin = rw.origin.get(mark)
    if level == "bijective":
        if not whole:
            raise Unresolved("digits do not cover an iterator's whole extent")
    elif origin is None:
        if not (whole or rw.divides(reach, mark.extent)):
            raise Unresolved("the digits' extent does not divide the iterator's")
    elif level == "surjective":
        # The iterator runs over a window of the padded one; a window reaches all residues of its own length.
        info = rw.pads[origin]
        if not whole:
            fine = rw.divides(reach, mark.extent) and rw.at_least(origin.extent, reach)
        else:
            only = splits[0]
            end = rw.add(info.left, origin.extent)
            fine = len(splits) == 1 and (
                rw.at_least(rw.sub(only.lower, 1), info.left)
                and rw.at_least(rw.sub(only.lower, 1), rw.sub(mark.extent, end))
            )
        if not fine:
            raise Unresolved("some values of a padded iterator are not reached")


# -- dividing into subspaces -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Division:
    """A binding as ``outer * inner_extent + inner``.

    Args:
        outer: part that the outer iterators move, in ``[0, outer_extent)``.
        outer_extent: its extent.
        inner: part that the inner iterators move; includes the binding's base.
        inner_extent: its extent.
    """

    outer: Expr
    outer_extent: Expr
    inner: Expr
    inner_extent: Expr


@dataclass(frozen=True, slots=True)
class SubspaceDivision:
    """All bindings divided, and the predicate divided between the two subspaces."""

    parts: tuple[Division, ...]
    outer_predicate: Expr
    inner_predicate: Expr

    def __iter__(self) -> Iterator[Division]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)


@dataclass(frozen=True, slots=True)
class _Part:
    """One side or both of a division; ``kind`` is ``inner``, ``outer`` or ``mixed``."""

    kind: str
    outer: IterSum | IterSplit
    outer_extent: Factor
    inner: IterSum | IterSplit
    inner_extent: Factor


_NOTHING = IterSum((), 0)


class _Divider:
    """Divides sums by message passing from the inputs up."""

    def __init__(self, ana: Analyzer, rw: Rewriter, table: dict[IterMark, list[IterSplit]], inner: set[Var]) -> None:
        self.ana = ana
        self.rw = rw
        self.table = table
        self.inner_vars = inner
        self.known: dict[IterSplit, _Part] = {}
        self.outer_pred: Expr = TRUE
        self.inner_pred: Expr = TRUE

    def sum(self, s: IterSum, extent: Factor) -> _Part:
        """Divides a sum that is the source of an iterator of ``extent`` (0: an index)."""
        if not s.args:
            return _Part("mixed", _NOTHING, 1, IterSum((), s.base), 1)
        if len(s.args) == 1:
            if s.args[0].scale != 1:
                raise Unresolved("a binding has a stride")
            part = self.split(s.args[0])
            if s.base == 0:
                return part
            inner = part.inner
            if isinstance(inner, IterSplit):
                return replace(part, inner=IterSum((inner,), s.base))
            return replace(part, inner=IterSum(inner.args, self.rw.add(inner.base, s.base)))
        outer: list[IterSplit] = []
        inner_args: list[IterSplit] = []
        total: Factor = 1
        natural: Factor = 1
        unit = False
        exact = True
        for arg in reversed(s.args):
            unit = unit or arg.scale == 1
            exact = exact and self.rw.same(arg.scale, total)
            part = self.split(arg)
            if part.kind == "inner":
                if outer:
                    raise Unresolved("an inner iterator stands outside an outer one")
                new = _as_split(part.inner, part.inner_extent)
                inner_args.append(new)
            elif part.kind == "outer":
                new = _as_split(part.outer, part.outer_extent)
                outer.append(new)
            else:
                raise Unresolved("a digit belongs to both subspaces")
            total = self.rw.mul(total, new.extent)
            natural = self.rw.add(natural, self.rw.mul(self.rw.sub(new.extent, 1), arg.scale))
        if not unit:
            raise Unresolved("a binding has a stride")
        if not exact:
            # Digits that overlap (y * 2 + r with r < 3) keep their strides, so all of them must lie on one side.
            if outer and inner_args:
                raise Unresolved("overlapping iterators belong to both subspaces")
            kept = IterSum(tuple(
                [replace(new, scale=arg.scale) for new, arg in zip(reversed(outer or inner_args), s.args)]), s.base)
            bound = TRUE if self.rw.same(natural, extent) and s.base == 0 else self._bound(kept, extent)
            if outer:
                self.outer_pred = logical_and(self.outer_pred, bound)
                return _Part("outer", kept, extent, _NOTHING, 1)
            self.inner_pred = logical_and(self.inner_pred, bound)
            return _Part("inner", _NOTHING, 1, kept, extent)
        outer_sum, outer_extent = self._stack(outer, 0)
        inner_sum, inner_extent = self._stack(inner_args, s.base)
        if not self.rw.same(total, extent):
            # Fewer values than the digits could count: a predicate bounds the sum, and it must lie on one side.
            if not inner_args:
                outer_sum = IterSum(outer_sum.args, s.base)
                self.outer_pred = logical_and(self.outer_pred, self._bound(outer_sum, extent))
                return _Part("outer", outer_sum, extent, _NOTHING, 1)
            if not outer:
                self.inner_pred = logical_and(self.inner_pred, self._bound(inner_sum, extent))
                return _Part("inner", _NOTHING, 1, inner_sum, extent)
            raise Unresolved("a predicate binds outer and inner iterators together")
        return _Part("mixed", outer_sum, outer_extent, inner_sum, inner_extent)

    def _bound(self, s: IterSum, extent: Factor) -> Expr:
        e = to_expr(s, self.ana, self.rw.dtype)
        below = e < self.rw.expr(extent)
        # A base inside an iterator comes from a lower bound.
        return below if s.base == 0 else logical_and(BinOp("<=", self.rw.expr(0), e, "bool"), below)

    def _stack(self, inner_first: Sequence[IterSplit], base: Factor) -> tuple[IterSum, Factor]:
        extent: Factor = 1
        args: list[IterSplit] = []
        for s in inner_first:
            args.append(replace(s, scale=extent))
            extent = self.rw.mul(extent, s.extent)
        return IterSum(tuple(reversed(args)), base), extent

    def split(self, s: IterSplit) -> _Part:
        """Divides one digit."""
        hit = self.known.get(s)
        if hit is not None:
            return hit
        splits = self.table[s.mark]
        source = s.mark.source
        if isinstance(source, Expr):
            inner = any(v in self.inner_vars for v in walk_expr(source) if type(v) is Var)
            for one in splits:
                if inner:
                    self.known[one] = _Part("inner", _NOTHING, 1, one, one.extent)
                else:
                    self.known[one] = _Part("outer", one, one.extent, _NOTHING, 1)
            return self.known[s]
        whole = self.sum(source, s.mark.extent)
        rw = self.rw
        if len(splits) == 1 and s.lower == 1 and rw.same(s.extent, s.mark.extent):
            self.known[s] = whole
            return whole
        if not isinstance(whole.outer, IterSum) or not isinstance(whole.inner, IterSum):
            raise Unresolved("a digit of a digit cannot be divided")
        outer_mark, inner_mark = IterMark(whole.outer, whole.outer_extent), IterMark(whole.inner, whole.inner_extent)
        crossed = whole.kind == "outer"
        reach: Factor = 1
        left = list(splits)
        first_lower: Factor | None = None
        while left:
            here = next((x for x in left if rw.same(x.lower, reach)), None)
            if here is None:
                raise Unresolved("digits of a divided iterator leave gaps")
            left.remove(here)
            if crossed:
                first_lower = here.lower if first_lower is None else first_lower
                new = replace(here, mark=outer_mark, lower=rw.div(here.lower, first_lower))
                self.known[here] = _Part("outer", new, here.extent, _NOTHING, 1)
            else:
                self.known[here] = _Part("inner", _NOTHING, 1, replace(here, mark=inner_mark), here.extent)
            reach = rw.mul(reach, here.extent)
            if rw.same(reach, whole.inner_extent):
                crossed = True
        if not crossed or not rw.same(reach, s.mark.extent):
            raise Unresolved("no digit ends where the inner subspace does")
        return self.known[s]


def _as_split(e: IterSum | IterSplit, extent: Factor) -> IterSplit:
    return e if isinstance(e, IterSplit) else IterSplit(IterMark(e, extent), 1, extent, 1)


def subspace_divide(
    bindings: Sequence[Expr],
    dom: Mapping[Var, Range],
    inner_vars: Sequence[Var],
    predicate: Expr = TRUE,
    check: str = "surjective",
    analyzer: Analyzer | None = None,
    simplify_trivial: bool = True,
) -> SubspaceDivision | None:
    """Writes every binding as ``outer * inner_extent + inner``.

    Args:
        bindings: index expressions of the iterators.
        dom: range of every iterator.
        inner_vars: the iterators of the inner subspace.
        predicate: conjunction of bounds; each must lie on one side.
        check: how strict the map itself is checked.
        analyzer: what is known about other variables.
        simplify_trivial: whether an iterator of extent 1 counts as its minimum.

    Returns:
        The division, or None where there is none.
    """
    ana = analyzer or Analyzer()
    result = detect_iter_map(bindings, dom, predicate, check, ana, simplify_trivial)
    if not result:
        return None
    dtype = bindings[0].dtype if bindings else "int32"
    rw = Rewriter({}, check, ana, simplify_trivial, dtype)
    divider = _Divider(ana, rw, _references(result.indices), set(inner_vars))
    parts: list[Division] = []
    try:
        for s in result.indices:
            p = divider.sum(s, 0)
            parts.append(Division(
                to_expr(p.outer, ana, dtype), rw.expr(p.outer_extent),
                to_expr(p.inner, ana, dtype), rw.expr(p.inner_extent),
            ))
    except Unresolved:
        return None
    return SubspaceDivision(tuple(parts), divider.outer_pred, divider.inner_pred)


# -- inverting ---------------------------------------------------------------------------------------------------------


def inverse_affine_map(sums: Sequence[IterSum], outputs: Sequence[Expr]) -> dict[Var, Expr]:
    """The iterators in terms of the values of the indices.

    Args:
        sums: the indices of a detected map.
        outputs: one expression per index: its value.

    Returns:
        One expression per iterator that the indices determine, not simplified.

    Raises:
        ValueError: a sum has a stride or overlaps, so that it cannot be inverted.
    """
    assert len(sums) == len(outputs)
    rw = Rewriter({}, "bijective", Analyzer(), False, outputs[0].dtype if outputs else "int32")
    order: list[IterSum | IterSplit] = []
    seen: set[int] = set()

    def visit(node: IterSum | IterSplit) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, IterSum):
            for child in node.args:
                visit(child)
        elif isinstance(node.mark.source, IterSum):
            visit(node.mark.source)
        order.append(node)

    for s in sums:
        visit(s)
    value: dict[int, Expr] = {}
    for s, out in zip(sums, outputs):
        value[id(s)] = value[id(s)] + out if id(s) in value else out
    inverse: dict[Var, Expr] = {}

    def send(node: IterSum | IterSplit, e: Expr) -> None:
        value[id(node)] = value[id(node)] + e if id(node) in value else e

    for node in reversed(order):
        got = value.get(id(node))
        if got is None:
            continue
        if isinstance(node, IterSplit):
            got = got * rw.expr(node.lower)
            source = node.mark.source
            if isinstance(source, IterSum):
                send(source, got)
                continue
            # The iterator is its variable less its minimum.
            assert isinstance(source, Var) or (isinstance(source, BinOp) and isinstance(source.a, Var))
            if isinstance(source, BinOp):
                var = source.a
                got = got if var in inverse else got + source.b
            else:
                var = source
            assert isinstance(var, Var)
            inverse[var] = inverse[var] + got if var in inverse else got
            continue
        got = got - rw.expr(node.base)
        if len(node.args) == 1:
            scale = node.args[0].scale
            if scale not in (1, -1):
                raise ValueError("an index with a stride has no inverse")
            send(node.args[0], got if scale == 1 else -got)
            continue
        expected = node.args[-1].scale if node.args else 1
        for n in range(len(node.args) - 1, -1, -1):
            digit = node.args[n]
            if not rw.same(digit.scale, expected):
                raise ValueError("a sum of overlapping iterators has no inverse")
            expected = rw.mul(expected, digit.extent)
            part = got // rw.expr(digit.scale)
            send(digit, part % rw.expr(digit.extent) if n else part)
    return inverse
