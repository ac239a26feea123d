"""Dividing iteration maps: every index as ``outer * inner_extent + inner`` for two groups of iterators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autosched.ir.expr import BinOp, Expr, Var, logical_and
from autosched.ir.functor import walk_expr
from autosched.ir.iter_rewrite import Rewriter
from autosched.ir.iter_terms import Factor, IterMark, IterSplit, IterSum, Unresolved, to_expr
from autosched.ir.itermap import detect_iter_map, references
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import TRUE, Range


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
    divider = _Divider(ana, rw, references(result.indices), set(inner_vars))
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
