"""Index maps: how a layout's indices are computed from another's, forwards and backwards.

``IndexMap.from_func(lambda n, c: (n, c // 16, c % 16))`` packs channels; its inverse over a shape unpacks them. A map
that does not fill its image (14 elements in rows of 4) has a non-surjective inverse, with a predicate that is true at
the padding.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.errors import ProgramError
from autosched.ir.expr import BinOp, Cast, Expr, ExprLike, FloatImm, IntImm, Var, all_of, as_expr, binary, cast
from autosched.ir.functor import Mutator, substitute
from autosched.ir.itermap import detect_iter_map, inverse_affine_map
from autosched.ir.region import int_set_bounds
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import Range
from autosched.ir.value_bounds import dtype_bounds


class _AxisSeparator:
    """A mark between indices: dimensions on its two sides are never merged.

    A trace's text has ``"axis_separator"`` for it, which TVM has called so too: a string needs no name in scope.
    """

    text = "axis_separator"

    def __repr__(self) -> str:
        return "AXIS_SEPARATOR"

    def __reduce__(self) -> str:
        return "AXIS_SEPARATOR"


AXIS_SEPARATOR = _AxisSeparator()


@dataclass(frozen=True, eq=False)
class IndexMap:
    """A function from indices to indices.

    Args:
        initial: its parameters.
        final: its results, expressions of the parameters.
        axis_separators: positions in ``final`` before which flattening must not merge.
        known_inverse: an inverse given by the user, or None.
    """

    initial: tuple[Var, ...]
    final: tuple[Expr, ...]
    axis_separators: tuple[int, ...] = ()
    known_inverse: IndexMap | None = None

    @staticmethod
    def from_func(
        func: Callable[..., Any] | IndexMap,
        ndim: int | None = None,
        inverse: Callable[..., Any] | IndexMap | None = None,
    ) -> IndexMap:
        """The map of a Python function.

        Args:
            func: takes indices, returns an index or a sequence of indices and ``AXIS_SEPARATOR``s; names after
                ``*indices`` (``lambda *i, k``) are the last indices.
            ndim: number of indices; needed for ``lambda *i``.
            inverse: the inverse function, where it cannot be derived.

        Raises:
            ProgramError: the function does not take ``ndim`` indices, or returns something else than indices.
        """
        if isinstance(func, IndexMap):
            return func
        names: list[str] = []
        last: list[str] = []
        variadic: str | None = None
        for p in inspect.signature(func).parameters.values():
            if p.kind is p.VAR_POSITIONAL:
                variadic = p.name
            elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                names.append(p.name)
            elif p.kind is p.KEYWORD_ONLY and p.default is p.empty and variadic is not None:
                last.append(p.name)
            elif p.kind is p.VAR_KEYWORD or p.default is p.empty:
                raise ProgramError(f"an index map takes positional indices only, not {p.name!r}")
        if variadic is not None:
            if ndim is None:
                raise ProgramError("an index map over *indices needs ndim")
            names += [f"{variadic}{n}" for n in range(ndim - len(names) - len(last))] + last
        if ndim is not None and len(names) != ndim:
            raise ProgramError(f"the index map takes {len(names)} indices, the buffer has {ndim} dimensions")
        initial = tuple([Var(n) for n in names])
        split = len(initial) - len(last)
        got = func(*initial[:split], **dict(zip(last, initial[split:])))
        final: list[Expr] = []
        separators: list[int] = []
        for item in got if isinstance(got, list | tuple) else [got]:
            if item is AXIS_SEPARATOR or (isinstance(item, str) and item == AXIS_SEPARATOR.text):
                separators.append(len(final))
                continue
            try:
                final.append(as_expr(item))
            except TypeError as error:
                raise ProgramError(f"an index map returns indices, got {type(item).__name__}") from error
        back = None if inverse is None else IndexMap.from_func(inverse, len(final))
        return IndexMap(initial, tuple(final), tuple(separators), back)

    def __len__(self) -> int:
        return len(self.final)

    # -- forwards --------------------------------------------------------------------------------------------------

    def map_indices(self, indices: Sequence[ExprLike], analyzer: Analyzer | None = None) -> tuple[Expr, ...]:
        """The new indices of an access, simplified.

        Args:
            indices: one per parameter.
            analyzer: what is known about their variables.
        """
        self._arity(len(indices))
        vmap = {v: as_expr(i) for v, i in zip(self.initial, indices)}
        ana = analyzer or Analyzer()
        return tuple([ana.simplify(substitute(e, vmap)) for e in self.final])

    def map_ranges(self, ranges: Sequence[Range], analyzer: Analyzer | None = None) -> tuple[Range, ...]:
        """The box of new indices that a box of old ones needs, padding included."""
        self._arity(len(ranges))
        ana = analyzer or Analyzer()
        dom = dict(zip(self.initial, ranges))
        result = detect_iter_map(self.final, dom, check="none", analyzer=ana, simplify_trivial=False)
        out: list[Range] = []
        if result:
            for s, e in zip(result.indices, self.final):
                size: Expr = IntImm(1, e.dtype)
                low = as_expr(s.base, e.dtype)
                for d in s.args:
                    scale, extent = as_expr(d.scale, e.dtype), as_expr(d.extent, e.dtype)
                    if isinstance(scale, IntImm) and scale.value < 0:  # it counts down: the last value is the first
                        low, scale = ana.simplify(low + scale * (extent - 1)), IntImm(-scale.value, e.dtype)
                    size = _product(extent, scale)
                out.append(Range(low, ana.simplify(size)))
            return tuple(out)
        for e in self.final:
            lo, hi = int_set_bounds(e, dom, Analyzer())
            if lo is None or hi is None:
                raise ProgramError("an index map's result has no bounds over the shape")
            out.append(Range(lo, ana.simplify(hi - lo + 1)))
        return tuple(out)

    def map_shape(self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None) -> tuple[Expr, ...]:
        """The new shape of a buffer, padding included: 14 elements in rows of 4 become ``(4, 4)``.

        Raises:
            ProgramError: an index does not start at 0.
        """
        mapped = self.map_ranges([Range(IntImm(0), as_expr(s)) for s in shape], analyzer)
        for r in mapped:
            if r.min != IntImm(0, r.min.dtype):
                raise ProgramError("an index map's result must start at 0")
        return tuple([r.extent for r in mapped])

    def map_ndarray(self, array: NDArray[Any], fill: Any = 0) -> NDArray[Any]:
        """An array in the new layout; padding holds ``fill``. TVM's name."""
        shape = self.map_shape(array.shape)
        sizes = [s.value for s in shape if isinstance(s, IntImm)]
        out = np.full(sizes, fill, dtype=array.dtype)
        grid: dict[Var, NDArray[Any]] = dict(zip(self.initial, np.indices(array.shape, sparse=True)))
        index = [np.broadcast_to(_evaluate(e, grid), array.shape) for e in self.final]
        out[tuple(index)] = array
        return out

    def collision(self, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Two indices that the map sends to the same place, or None: the map is one to one over the shape.

        Args:
            shape: constant extents; all their points are tried.
        """
        grid: dict[Var, NDArray[Any]] = dict(zip(self.initial, np.indices(shape, sparse=True)))
        places = np.stack([np.broadcast_to(_evaluate(e, grid), shape).ravel() for e in self.final], axis=1)
        _, first, where = np.unique(places, axis=0, return_index=True, return_inverse=True)
        back = first[where.ravel()]
        double = np.flatnonzero(back != np.arange(len(places)))
        if not len(double):
            return None
        pair = (int(back[double[0]]), int(double[0]))
        one, two = (tuple(int(i) for i in np.unravel_index(k, shape)) for k in pair)
        return one, two

    # -- backwards -------------------------------------------------------------------------------------------------

    def inverse(self, shape: Sequence[ExprLike | Range], analyzer: Analyzer | None = None) -> IndexMap:
        """The map from new indices to old ones.

        Args:
            shape: old shape (extents or ranges).
            analyzer: what is known about symbolic extents.

        Raises:
            ProgramError: the map is not one-to-one onto a box over this shape.
        """
        return self._invert(shape, "bijective", analyzer)[0]

    def non_surjective_inverse(
        self, shape: Sequence[ExprLike | Range], analyzer: Analyzer | None = None
    ) -> tuple[IndexMap, Expr]:
        """The inverse of a map that may leave some of its image unused.

        Returns:
            (inverse, predicate): the predicate, over the inverse's parameters, is true exactly where the inverse leaves
            the old shape, that is at the padding; the constant false when there is none.

        Raises:
            ProgramError: the map is not one-to-one over this shape, or not affine.
        """
        return self._invert(shape, "none", analyzer)

    def _invert(
        self, shape: Sequence[ExprLike | Range], check: str, analyzer: Analyzer | None
    ) -> tuple[IndexMap, Expr]:
        self._arity(len(shape))
        if self.known_inverse is not None:
            return self.known_inverse, IntImm(0, "bool")
        ana = analyzer or Analyzer()
        ranges = [s if isinstance(s, Range) else Range(IntImm(0), as_expr(s)) for s in shape]
        outs = tuple([
            Var(e.name if isinstance(e, Var) else f"axis{n}", e.dtype) for n, e in enumerate(self.final)
        ])
        result = detect_iter_map(self.final, dict(zip(self.initial, ranges)), check=check, analyzer=ana,
                                 simplify_trivial=False)
        if not result:
            raise ProgramError(f"the index map has no inverse over this shape: {result.errors[0]}")
        try:
            back = inverse_affine_map(result.indices, outs)
        except ValueError as error:
            raise ProgramError(f"the index map has no inverse over this shape: {error}") from error
        known = Analyzer()
        for var, r in zip(outs, self.map_ranges(ranges, ana)):
            known.bind(var, r)
        exprs: list[Expr] = []
        for var, r in zip(self.initial, ranges):
            if var in back:
                exprs.append(known.simplify(back[var]))
            elif r.extent == IntImm(1, r.extent.dtype):
                exprs.append(r.min)
            else:
                raise ProgramError(f"the index map has no inverse over this shape: {var.name} is not used")
        vmap = dict(zip(self.initial, exprs))
        predicate = _tight(known.simplify(substitute(result.padding_predicate, vmap)), known)
        if check == "none" and not (self._undone(vmap, outs, known) and self._restored(exprs, outs, ranges, ana)):
            raise ProgramError("the index map has no inverse over this shape: it is not one-to-one")
        return IndexMap(outs, tuple(exprs)), predicate

    def _undone(self, vmap: dict[Var, Expr], outs: Sequence[Var], known: Analyzer) -> bool:
        """Whether mapping the inverse gives back its parameters (without it, the digits did not determine them)."""
        return all(known.can_prove_equal(substitute(e, vmap), o) for e, o in zip(self.final, outs))

    def _restored(self, back: Sequence[Expr], outs: Sequence[Var], ranges: Sequence[Range], ana: Analyzer) -> bool:
        """Whether the inverse of what the map gives is what it was given (digits may have been dropped)."""
        names = [Var(v.name, v.dtype) for v in self.initial]
        there = dict(zip(outs, [substitute(e, dict(zip(self.initial, names))) for e in self.final]))
        for var, r in zip(names, ranges):
            ana.bind(var, r)
        again = [substitute(e, there) for e in back]
        return all(ana.can_prove_equal(e, v) or ana.can_prove_equal(_Quotients().visit_expr(e), v) for e, v in zip(again, names))

    def _arity(self, n: int) -> None:
        if n != len(self.initial):
            raise ProgramError(f"the index map takes {len(self.initial)} indices, {n} given")

    # -- comparing and storing -------------------------------------------------------------------------------------

    def is_equivalent_to(self, other: IndexMap) -> bool:
        """Whether two maps compute the same indices, whatever their parameters are called."""
        if len(self.initial) != len(other.initial) or len(self.final) != len(other.final):
            return False
        ana = Analyzer()
        mine = self.map_indices(other.initial)
        return self.axis_separators == other.axis_separators and all(
            ana.can_prove_equal(a, b) for a, b in zip(mine, other.final)
        )

    def to_data(self) -> list[Any]:
        """Plain data for a trace: names of parameters, results as nested lists, separators."""
        index = {v: n for n, v in enumerate(self.initial)}
        final: list[Any] = [_encode(e, index) for e in self.final]
        data: list[Any] = [[v.name for v in self.initial], final, list(self.axis_separators)]
        if self.known_inverse is not None:
            data.append(self.known_inverse.to_data())
        return data

    @staticmethod
    def from_data(data: Sequence[Any]) -> IndexMap:
        """The map that ``to_data`` stored."""
        initial = tuple([Var(str(n)) for n in data[0]])
        final = tuple([_decode(e, initial) for e in data[1]])
        back = IndexMap.from_data(data[3]) if len(data) > 3 else None
        return IndexMap(initial, final, tuple(int(n) for n in data[2]), back)

    def __str__(self) -> str:
        from autosched.ir.printer import expr_text

        items: list[str] = []
        for n, e in enumerate(self.final):
            items += [f'"{AXIS_SEPARATOR.text}"'] * self.axis_separators.count(n) + [expr_text(e)]
        names = ", ".join(v.name for v in self.initial)
        comma = "," if len(items) == 1 else ""
        return f"lambda {names}: ({', '.join(items)}{comma})"


def _product(extent: Expr, scale: Expr) -> Expr:
    """The number of indices that a digit and all below it take."""
    if isinstance(extent, IntImm) and isinstance(scale, IntImm):
        size, highest = extent.value * scale.value, dtype_bounds(extent.dtype)[1]
        if size > highest:
            raise ProgramError(f"an index map's result takes {size} values; its type {extent.dtype} ends at {highest}")
    return binary("*", extent, scale)


class _Quotients(Mutator):
    """Remainders of divisions by what is no constant, in terms of the quotients."""

    def visit_expr(self, expr: Expr) -> Expr:
        e = super().visit_expr(expr)
        if isinstance(e, BinOp) and e.op == "%" and not isinstance(e.b, IntImm):
            return e.a - e.b * (e.a // e.b)
        return e


def _tight(predicate: Expr, known: Analyzer) -> Expr:
    """A conjunction in which ``c <= i`` is ``i == c`` where c is the highest value of i, as TVM writes it."""
    parts: list[Expr] = []
    for part in conjuncts(predicate):
        if isinstance(part, BinOp) and part.op == "<=" and isinstance(part.a, IntImm):
            high = known.int_bounds(part.b)[1]
            part = binary("==", part.b, part.a) if high == part.a.value else part
        parts.append(part)
    return all_of(parts)


def _encode(e: Expr, index: dict[Var, int]) -> Any:
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, FloatImm):
        return {"float": e.value, "dtype": e.dtype}
    if isinstance(e, Cast):
        return {"cast": e.dtype, "value": _encode(e.value, index)}
    if isinstance(e, Var):
        if e not in index:
            raise ProgramError(f"an index map that uses {e.name!r} from outside cannot be stored")
        return [index[e]]
    if isinstance(e, BinOp):
        return [e.op, _encode(e.a, index), _encode(e.b, index)]
    raise ProgramError(f"an index map with {type(e).__name__} cannot be stored")


def _decode(data: Any, initial: tuple[Var, ...]) -> Expr:
    if isinstance(data, int):
        return IntImm(int(data))
    if isinstance(data, Mapping):
        if "cast" in data:
            return cast(str(data["cast"]), _decode(data["value"], initial))
        return FloatImm(float(data["float"]), str(data["dtype"]))
    if len(data) == 1:
        return initial[int(data[0])]
    op, a, b = data
    return binary(op, _decode(a, initial), _decode(b, initial))


def _evaluate(e: Expr, env: dict[Var, NDArray[Any]]) -> Any:
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, Var):
        return env[e]
    if isinstance(e, BinOp):
        a, b = _evaluate(e.a, env), _evaluate(e.b, env)
        match e.op:
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b
            case "//":
                return a // b
            case "%":
                return a % b
            case "min":
                return np.minimum(a, b)
            case "max":
                return np.maximum(a, b)
    raise ProgramError("an index map is made of + - * // % min max of its indices")
