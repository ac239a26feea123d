"""Questions about iteration maps: is a binding one-to-one, what is it in plain terms, what undoes it.

``detect_iter_map`` rewrites indices into digits of iterators (``iter_rewrite``) and checks that the digits do not
depend on each other. Predicates of the form ``expr < bound`` narrow the iterators first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.ir.expr import BinOp, Expr, IntImm, Var, binary, int_value, is_int
from autosched.ir.functor import Substitute, walk_expr
from autosched.ir.iter_rewrite import Rewriter
from autosched.ir.iter_terms import Constraint, Factor, IterMark, IterSplit, IterSum, Unresolved, to_expr
from autosched.ir.linear import build, conjuncts
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import TRUE, Range

__all__ = [
    "IterMapResult", "IterMark", "IterSplit", "IterSum", "detect_iter_map", "inverse_affine_map", "is_bijective",
    "iter_map_simplify", "pinned", "references", "to_expr", "without",
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


def pinned(loops: Mapping[Var, Range], predicate: Expr) -> dict[Var, Expr]:
    """The loop variables that have a single value where a predicate holds, with that value: loops of one iteration,
    and loops that the predicate cuts down to one."""
    found: dict[Var, Expr] = {var: r.min for var, r in loops.items() if int_value(r.extent) == 1}
    analyzer = Analyzer(loops)
    analyzer.assume(without(found, [predicate])[0])
    for var in loops:
        if var not in found:
            low, high = analyzer.int_bounds(var)
            if low is not None and low == high:
                found[var] = IntImm(low, var.dtype)
    return found


def without(fixed: Mapping[Var, Expr], exprs: Sequence[Expr]) -> list[Expr]:
    """Expressions with some variables at their only value."""
    sub, analyzer = Substitute(fixed), Analyzer()
    return [analyzer.simplify(sub.visit_expr(e)) for e in exprs]


# -- independence ------------------------------------------------------------------------------------------------------


def references(sums: Sequence[IterSum]) -> dict[IterMark, list[IterSplit]]:
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
    table = references(sums)
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
