"""Iteration maps: index expressions as sums of digits of iterators, and when such a map is one-to-one or onto.

Iterators and their digits are in ``iter_terms``. Sums are fused: ``i * 4 + j`` with ``j < 4`` is a new iterator, whose
digits later divisions take. Whether a map is bijective is then a question about digits: do they cover each iterator once?

The theory (names, check levels, predicates as bounds of fused iterators, padding) is that of TVM's iteration maps;
here a constant factor is a Python int, and a division that needs padding is only ever accepted in an exact form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import lcm

from autosched.ir.expr import BinOp, Expr, IntImm, Var, binary, eq, logical_and
from autosched.ir.functor import walk_expr
from autosched.ir.iter_terms import (
    Constraint,
    Factor,
    Factors,
    Fused,
    IterMark,
    IterSplit,
    IterSum,
    Padding,
    Unresolved,
    to_expr,
)
from autosched.ir.linear import INDEX_TYPES
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Range


class Rewriter(Factors):
    """Rewrites indices into sums of digits.

    Args:
        dom: range of each iterator.
        level: ``bijective``, ``surjective`` or ``none``.
        analyzer: what is known about the other variables.
        simplify_trivial: whether an iterator of extent 1 is its minimum.
        dtype: type of new constants.
    """

    def __init__(
        self, dom: Mapping[Var, Range], level: str, analyzer: Analyzer, simplify_trivial: bool, dtype: str
    ) -> None:
        super().__init__(analyzer, dtype)
        self.level = level
        self.vars: dict[Var, IterSum] = {}
        self.inputs: list[IterMark] = []
        self.fused: dict[tuple[IterSplit, ...], Fused] = {}
        self.constrained: list[tuple[IterSplit, ...]] = []
        self.pads: dict[IterMark, Padding] = {}
        self.origin: dict[IterMark, IterMark] = {}
        self.first_pass = False
        self.requires_padding = False
        self.padding_predicate: Expr = IntImm(0, "bool")
        for var, r in dom.items():
            lo, extent = self.factor(r.min), self.factor(r.extent)
            if simplify_trivial and extent == 1:
                self.vars[var] = IterSum((), lo)
                continue
            mark = IterMark(var if lo == 0 else var - self.expr(lo), extent)
            self.inputs.append(mark)
            self.vars[var] = IterSum((IterSplit(mark, 1, extent, 1),), lo)

    # -- expressions -----------------------------------------------------------------------------------------------

    def rewrite(self, e: Expr) -> IterSum:
        """An index as a sum of at most one digit.

        Raises:
            Unresolved: it is not one.
        """
        s = self.visit(e)
        if not s.args:
            return s
        fused = self.fuse(s.args)
        return IterSum((fused[0],), self.add(s.base, fused[1]))

    def visit(self, e: Expr) -> IterSum:
        """An expression as a sum of digits, not fused."""
        if type(e) is IntImm:
            return IterSum((), e.value)
        if type(e) is Var:
            hit = self.vars.get(e)
            return IterSum((), self.factor(e)) if hit is None else hit
        if type(e) is BinOp and e.dtype in INDEX_TYPES and e.op in ("+", "-", "*", "//", "%"):
            a, b = self.visit(e.a), self.visit(e.b)
            if not a.args and not b.args:
                return IterSum((), self._op(e.op, a.base, b.base))
            if e.op == "+" or e.op == "-":
                return self._sum(a, b, e.op)
            if b.args and (a.args or e.op != "*"):
                kind = "a product of two iterators" if e.op == "*" else "a division by an iterator"
                raise Unresolved(f"{kind} is not an iteration map")
            if e.op == "*":
                many, k = (a, b.base) if a.args else (b, a.base)
                if k == 0:
                    return IterSum((), 0)
                args = tuple([replace(s, scale=self.mul(s.scale, k)) for s in many.args])
                return IterSum(args, self.mul(many.base, k))
            return self._divide(e.op, a, b.base)
        if any(type(v) is Var and v in self.vars for v in walk_expr(e)):
            raise Unresolved(f"{getattr(e, 'op', type(e).__name__)} of an iterator is not an iteration map")
        return IterSum((), self.factor(e))

    def _sum(self, a: IterSum, b: IterSum, op: str) -> IterSum:
        args = list(a.args)
        for s in b.args:
            scale = s.scale if op == "+" else self.sub(0, s.scale)
            for n, t in enumerate(args):
                if t.mark is s.mark and t.lower == s.lower and t.extent == s.extent:
                    total = self.add(t.scale, scale)
                    args[n:n + 1] = [] if total == 0 else [replace(t, scale=total)]
                    break
            else:
                args.append(replace(s, scale=scale))
        return IterSum(tuple(args), self.add(a.base, b.base) if op == "+" else self.sub(a.base, b.base))

    # -- fusing ----------------------------------------------------------------------------------------------------

    def _combine(self, args: tuple[IterSplit, ...]) -> tuple[IterSplit, ...]:
        """Joins neighbouring digits of one iterator: ``x // 4 % 2 * 4 + x % 4`` is ``x % 8``."""
        if len({s.mark for s in args}) == len(args):
            return args
        out = list(args)
        again = True
        while again:
            again = False
            for low in out:
                scale, lower = self.mul(low.scale, low.extent), self.mul(low.lower, low.extent)
                high = next((h for h in out if h.mark is low.mark and h is not low
                             and self.same(h.scale, scale) and self.same(h.lower, lower)), None)
                if high is not None:
                    out.remove(high)
                    out[out.index(low)] = replace(low, extent=self.mul(low.extent, high.extent))
                    again = True
                    break
        return tuple(out)

    def _base_index(self, args: Sequence[IterSplit]) -> int:
        best, low = -1, 0
        for n in range(len(args) - 1, -1, -1):
            scale = args[n].scale
            if isinstance(scale, int):
                if best < 0 or scale < low:
                    best, low = n, scale
                elif scale == low and args[n].extent == 1 and args[best].extent != 1:
                    best = n
        if best >= 0:
            return best
        sizes = [sum(1 for _ in walk_expr(self.expr(s.scale))) for s in args]
        return max(range(len(args)), key=lambda n: (-sizes[n], n))

    def fuse(self, args: tuple[IterSplit, ...], force: bool = False) -> tuple[IterSplit, Factor, Fused | None]:
        """Fuses a sum of digits into one digit of one iterator.

        Args:
            args: the digits.
            force: make a new iterator even of a single digit.

        Returns:
            (the digit, an extra base, the fused iterator or None).

        Raises:
            Unresolved: the digits do not count without gaps (or, for a bijection, overlap).
        """
        args = self._combine(args)
        if len(args) == 1 and not force and not self.constrained:
            return args[0], 0, None
        start = self._base_index(args)
        base_scale = args[start].scale
        left = list(args)
        flat: list[IterSplit] = []
        grouped: list[IterSplit] = []
        extra: Factor = 0
        tail: Factor = 0
        expected: Factor = base_scale
        while left:
            found, matched = self._next(left, expected, start if not flat else None, base_scale)
            bound = self._constraint(found)
            if matched != expected:
                tail = self.add(tail, self.sub(expected, matched))
            norm = self.div(matched, base_scale)
            if bound is None:
                left.remove(found)
                one = replace(found, scale=self.div(found.scale, base_scale))
                flat.append(one)
                grouped.append(one)
                expected = self.mul(found.extent, matched)
                continue
            for want in reversed(bound.flat):
                scale = self.mul(want.scale, matched)
                hit = next((s for s in left if _alike(s, want) and self.same(s.scale, scale)), None)
                if hit is None:
                    raise Unresolved("an index uses some of the iterators that a predicate binds together, not all")
                left.remove(hit)
                flat.append(replace(hit, scale=self.div(hit.scale, base_scale)))
            grouped.append(IterSplit(bound.mark, 1, bound.mark.extent, norm))
            extra = self.add(extra, self.mul(bound.offset, matched))
            expected = self.mul(bound.mark.extent, matched)
        key = tuple(reversed(flat))
        if len(args) == 1 and not force and grouped[0] == flat[0]:
            return args[0], 0, None
        old = self.fused.get(key)
        if old is not None:
            if not self.same(extra, self.mul(old.offset, base_scale)):
                raise Unresolved("one sum of iterators has two different lower bounds")
            return IterSplit(old.mark, 1, old.mark.extent, base_scale), extra, old
        extent = self.add(self.div(expected, base_scale), tail)
        mark = IterMark(IterSum(tuple(reversed(grouped)), 0), extent)
        new = self.fused[key] = Fused(mark, self.div(extra, base_scale), key)
        return IterSplit(mark, 1, extent, base_scale), extra, new

    def _next(
        self, left: list[IterSplit], expected: Factor, start: int | None, base_scale: Factor
    ) -> tuple[IterSplit, Factor]:
        """The digit that continues a sum whose digits so far count up to ``expected``."""
        if start is not None:
            return left[start], expected
        exact = [s for s in reversed(left) if self.same(s.scale, expected)]
        if exact:
            return next((s for s in exact if s.extent == 1), exact[0]), expected
        best: IterSplit | None = None
        if self.level != "bijective" and base_scale == 1:
            for s in reversed(left):
                if self.at_least(expected, s.scale) and self.at_least(s.scale, 0):
                    if best is None or (self.at_least(s.scale, best.scale) and not self.same(s.scale, best.scale)):
                        best = s
        if best is None:
            raise Unresolved("a sum of iterators leaves gaps or overlaps")
        return best, best.scale

    def _constraint(self, s: IterSplit) -> Fused | None:
        """The longest constrained sum whose innermost digit this is."""
        best: tuple[IterSplit, ...] | None = None
        for flat in self.constrained:
            if _alike(flat[-1], s) and (best is None or len(best) < len(flat)):
                best = flat
        return None if best is None else self.fused[best]

    def constrain(self, c: Constraint) -> None:
        """Takes a predicate into account: a bound on a fused iterator.

        Raises:
            Unresolved: the bounded expression is not one iterator.
        """
        s = self.visit(c.expr)
        if not s.args:
            return
        lower = None if c.lower is None else self.sub(c.lower, s.base)
        upper = None if c.upper is None else self.sub(c.upper, s.base)
        split, _, fused = self.fuse(s.args, force=True)
        if fused is None or split.scale != 1:
            raise Unresolved("a predicate bounds something that is not one iterator")
        lo = fused.offset
        hi = self.add(lo, fused.mark.extent)
        delta: Factor = 0
        if lower is not None:
            new = self._larger(lower, lo)
            delta, lo = self.sub(new, lo), new
        if upper is not None:
            if self.at_least(hi, upper):
                hi = upper
            elif not self.at_least(upper, hi):
                hi = self._op("min", upper, hi)
        source = fused.mark.source
        assert isinstance(source, IterSum)
        if delta != 0:
            source = IterSum(source.args, self.sub(source.base, delta))
        self.fused[fused.flat] = Fused(IterMark(source, self.sub(hi, lo)), lo, fused.flat)
        if fused.flat not in self.constrained:
            self.constrained.append(fused.flat)

    def _larger(self, a: Factor, b: Factor) -> Factor:
        return max(a, b) if isinstance(a, int) and isinstance(b, int) else self._op("max", a, b)

    def constraints_nest(self) -> bool:
        """Whether any two constrained sums are disjoint or one within the other."""
        for n, a in enumerate(self.constrained):
            for b in self.constrained[n + 1:]:
                inside = [any(x == y for y in b) for x in a]
                if any(inside) and not all(inside):
                    return False
        return True

    # -- dividing --------------------------------------------------------------------------------------------------

    def _divide(self, op: str, a: IterSum, d: Factor) -> IterSum:
        base = a.base
        if len(a.args) == 1:
            split = a.args[0]
        else:
            split, extra, _ = self.fuse(a.args)
            base = self.add(base, extra)
        if d == 1:
            return IterSum((split,), base) if op == "//" else IterSum((), 0)
        outer: Factor = 1
        if split.scale != 1:
            if self.divides(d, split.scale):
                if op == "%":
                    return IterSum((), self.mod(base, d))
                return IterSum((replace(split, scale=self.div(split.scale, d)),), self.div(base, d))
            if not self.divides(split.scale, d) or not self.at_least(split.scale, 1):
                raise Unresolved("a divisor and the stride of what it divides have no common factor to remove")
            # (x * s + b) // (s * d) is (x + b // s) // d.
            outer = split.scale
            low = self.mod(base, outer)
            d, base = self.div(d, outer), self.div(base, outer)
            split = replace(split, scale=1)
            if d == 1:
                return IterSum((split,), base) if op == "//" else IterSum((), low)
        else:
            low = 0
        split, base = self._pad(split, base, d)
        if op == "//":
            if self.divides(d, split.extent):
                new = IterSplit(split.mark, self.mul(split.lower, d), self.div(split.extent, d), 1)
            elif split.lower == 1 and self.same(split.extent, split.mark.extent):
                up = self.div(self.add(split.extent, self.sub(d, 1)), d)
                new = IterSplit(split.mark, d, up, 1)
            else:
                up = self.div(self.add(split.extent, self.sub(d, 1)), d)
                new = IterSplit(IterMark(IterSum((split,), 0), split.extent), d, up, 1)
            base = self.div(base, d)
            # A digit above the whole extent is always 0.
            return IterSum((), base) if new.extent == 1 and split.extent != 1 else IterSum((new,), base)
        if not self.divides(d, split.extent):
            raise Unresolved("a remainder is taken of an iterator whose extent its divisor does not divide")
        return IterSum((IterSplit(split.mark, split.lower, d, outer),), low)

    def _pad(self, split: IterSplit, base: Factor, d: Factor) -> tuple[IterSplit, Factor]:
        """The digit and base with a base divisible by ``d``, and an extent that is too unless a bijection is wanted."""
        fits = self.divides(d, base)
        if self.level == "bijective":
            if not fits:
                raise Unresolved("a division of an iterator with an offset is not a bijection")
            return split, base
        mark = split.mark
        top = self.mul(split.lower, split.extent)
        if not (self.same(top, mark.extent) or (self.first_pass and self.at_least(top, mark.extent))):
            # A digit that is not the topmost cannot grow: what is padded is the digit itself.
            if fits and self.divides(d, split.extent):
                return split, base
            key = (replace(split, scale=1),)
            hit = self.fused.get(key)
            if hit is None:
                hit = self.fused[key] = Fused(IterMark(IterSum(key, 0), split.extent), 0, key)
            elif hit.offset != 0 or not self.same(hit.mark.extent, split.extent):
                raise Unresolved("a division of an iterator that a predicate bounds")
            mark, split = hit.mark, IterSplit(hit.mark, 1, split.extent, 1)
        shift = self.mul(base, split.lower)
        step = self.mul(d, split.lower)
        info = self.pads.setdefault(mark, Padding()) if self.first_pass else self.pads.get(mark)
        if info is None or (info.offset is None and not self.first_pass):
            if not fits:
                raise Unresolved("two divisions of one iterator have offsets that no one padding serves")
            return split, base
        if self.first_pass:
            # The divisors of what this becomes are found on the provisional iterator, and are those of this one.
            info.factor = self._lcm(info.factor, step)
            if fits and self.divides(d, split.extent):
                return split, base
            self.requires_padding = True
            if info.offset is None or (not fits and self.same(self.mod(info.offset, step), 0)):
                info.offset = shift
            edge = self.add(self.mod(base, d), split.extent)
            extent = self.add(edge, self.mod(self.sub(0, edge), d))
            info.provisional = info.provisional or IterMark(mark.source, self.mul(extent, split.lower))
            root = info.provisional
            self.pads[root] = info
            # The whole offset moves into the iterator.
            return IterSplit(root, split.lower, extent, 1), 0
        return self._padded(mark, info, split, base, shift, step)

    def _padded(
        self, mark: IterMark, info: Padding, split: IterSplit, base: Factor, shift: Factor, step: Factor
    ) -> tuple[IterSplit, Factor]:
        assert info.offset is not None
        if info.padded is None:
            left = info.left = self.mod(info.offset, info.factor)
            edge = self.add(left, mark.extent)
            right: Factor = 0 if self.divides(info.factor, edge) else self.mod(self.sub(0, edge), info.factor)
            source = IterSum((IterSplit(mark, 1, mark.extent, 1),), left)
            info.padded = IterMark(source, self.add(edge, right))
            self.origin[info.padded] = mark
            self.pads[info.padded] = Padding()
            self._predicate(to_expr(source, self.ana, self.dtype), info, left, edge, right)
        if not self.divides(step, self.sub(info.left, shift)):
            raise Unresolved("two divisions of one iterator have offsets that no one padding serves")
        # left == shift modulo lower * d, so (mark + shift) // lower is the padded digit plus a multiple of d.
        new_base = self.div(self.sub(shift, info.left), split.lower)
        return IterSplit(info.padded, split.lower, self.div(info.padded.extent, split.lower), 1), new_base

    def _predicate(self, source: Expr, info: Padding, left: Factor, edge: Factor, right: Factor) -> None:
        factor = self.expr(info.factor)
        if left != 0:
            here = logical_and(eq(source // factor, 0), source % factor < self.expr(left))
            self.padding_predicate = binary("or", self.padding_predicate, here)
        if right != 0:
            here = logical_and(
                eq(source // factor, self.expr(self.div(edge, info.factor))),
                source % factor >= self.expr(self.mod(edge, info.factor)),
            )
            if not isinstance(right, int):
                here = logical_and(BinOp("!=", self.expr(right), IntImm(0, self.dtype), "bool"), here)
            self.padding_predicate = binary("or", self.padding_predicate, here)

    def _lcm(self, a: Factor, b: Factor) -> Factor:
        if isinstance(a, int) and isinstance(b, int):
            return lcm(a, b)
        if self.divides(a, b):
            return b
        return a if self.divides(b, a) else self.mul(a, b)


def _alike(a: IterSplit, b: IterSplit) -> bool:
    return a.mark is b.mark and a.lower == b.lower and a.extent == b.extent
