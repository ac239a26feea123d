"""Whether extents and indices stay inside their integer type: exact bounds, so that nothing wraps around unseen.

What depends on a symbolic size is not bounded here: a program promises that its own indices fit, for every size it is run with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autosched.ir.expr import COMPARISON, LOGICAL, BinOp, Cast, Expr, IntImm, Not, Var, int_value, is_int
from autosched.ir.stmt import Block, Range
from autosched.ir.value_bounds import Interval, dtype_bounds
from autosched.schedule.kit.state import State

_TYPES: dict[str, Interval] = {}
_PLAIN = (Var, IntImm)


class Overflow(Exception):
    """An integer that leaves its type; the text says which, and how far."""


def count(extents: Iterable[Expr | int], dtype: str, what: str) -> int:
    """The product of those extents that are constant.

    Args:
        extents: extents of loops or dimensions.
        dtype: type of the index that counts them all.
        what: what they are the extents of.

    Raises:
        Overflow: the product leaves the type.
    """
    total = 1
    highest = dtype_bounds(dtype)[1]
    for extent in extents:
        value = extent if isinstance(extent, int) else int_value(extent)
        if value is not None:
            total *= value
        if total > highest:
            raise Overflow(f"{what} would have {_number(total)} iterations or more; its type {dtype} ends at {highest}")
    return total


def whole_tiles(extent: int, factor: int, dtype: str, what: str) -> int:
    """The least multiple of ``factor`` that is no less than ``extent``.

    Raises:
        Overflow: it leaves the type.
    """
    tiles = -(-extent // factor)
    count((tiles, factor), dtype, what)
    return tiles * factor


def bounds(expr: Expr, dom: Mapping[Var, Range]) -> Interval | None:
    """The lowest and the highest value of an index, or of more than it takes; None where it depends on a symbolic size.

    Args:
        expr: the index.
        dom: ranges of its variables.

    Raises:
        Overflow: the index, or a part of it, may leave its type.
    """
    kind = type(expr)
    if kind is IntImm:
        found: Interval | None = (expr.value, expr.value)  # type: ignore[attr-defined]
    elif kind is Var:
        r = dom.get(expr)  # type: ignore[call-overload]
        if r is None or type(r.min) is not IntImm or type(r.extent) is not IntImm:
            return None
        low = r.min.value
        found = low, low + max(r.extent.value, 1) - 1
    elif isinstance(expr, BinOp):
        found = _combined(expr.op, bounds(expr.a, dom), bounds(expr.b, dom))
    else:
        inner = expr.value if isinstance(expr, Cast) else expr.a if isinstance(expr, Not) else None
        found = None if inner is None else bounds(inner, dom)
    if found is None:
        return None
    limits = _TYPES.get(expr.dtype)
    if limits is None:
        if not is_int(expr.dtype):
            return found
        limits = _TYPES[expr.dtype] = dtype_bounds(expr.dtype)
    if limits[0] <= found[0] and found[1] <= limits[1]:
        return found
    from autosched.ir.printer import expr_text

    over = found[1] > limits[1]
    raise Overflow(f"{expr_text(expr)} reaches {_number(found[over])}; its type {expr.dtype} ends at {limits[over]}")


def _combined(op: str, a: Interval | None, b: Interval | None) -> Interval | None:
    """The bounds of an operation on operands of known bounds."""
    if op == "%" and b is not None and b[0] == b[1] > 0:
        one = a is not None and a[0] // b[0] == a[1] // b[0]
        return (a[0] % b[0], a[1] % b[0]) if a is not None and one else (0, b[0] - 1)
    if a is None or b is None:
        return None
    if op == "+":
        return a[0] + b[0], a[1] + b[1]
    if op == "*":
        if a[0] >= 0 and b[0] >= 0:
            return a[0] * b[0], a[1] * b[1]
        ends = [x * y for x in a for y in b]
        return min(ends), max(ends)
    if op == "//" and b[0] > 0:
        ends = [x // y for x in a for y in b]
        return min(ends), max(ends)
    if op == "-":
        return a[0] - b[1], a[1] - b[0]
    if op == "min":
        return min(a[0], b[0]), min(a[1], b[1])
    if op == "max":
        return max(a[0], b[0]), max(a[1], b[1])
    if op in COMPARISON or op in LOGICAL:
        return 0, 1
    return None


def check_indices(old: State, new: State) -> None:
    """Checks all that a rewrite changed: extents of loops, values of iterators, predicates, regions and shapes.

    Args:
        old: the program before; what it holds already is not checked again.
        new: the program after.

    Raises:
        Overflow: an index may leave its type, or a constant extent is outside it.
    """
    loops = old.loops
    for var, loop in new.loops.items():
        known = loops.get(var)
        if known is not loop and (known is None or known.extent is not loop.extent):
            extent = int_value(loop.extent)
            if extent is not None and not 0 <= extent <= dtype_bounds(loop.extent.dtype)[1]:
                raise Overflow(f"loop {var.name} would have {_number(extent)} iterations")
    realizes = old.realizes
    for ident, realize in new.realizes.items():
        before = realizes.get(ident)
        if before is realize:
            continue
        values: list[Expr] = []
        if before is None or before.iter_values is not realize.iter_values or before.predicate is not realize.predicate:
            checked = set() if before is None else {id(before.predicate), *map(id, before.iter_values)}
            values = [e for e in (*realize.iter_values, realize.predicate) if type(e) not in _PLAIN and id(e) not in checked]
        if values:
            dom = new.ranges_at(realize)
            for value in values:
                bounds(value, dom)
        if before is None or before.block is not realize.block:
            _check_block(realize.block, None if before is None else before.block)


def _check_block(block: Block, before: Block | None) -> None:
    if before is not None and block.reads is before.reads and block.writes is before.writes:
        return
    checked = set() if before is None else {
        id(r) for region in (*before.reads, *before.writes) for r in region.region
    }
    fresh = [
        e for region in (*block.reads, *block.writes) for r in region.region if id(r) not in checked
        for e in (r.min, r.extent) if type(e) not in _PLAIN
    ]
    if fresh:
        dom = {iv.var: iv.dom for iv in block.iter_vars}
        for e in fresh:
            bounds(e, dom)


def _number(value: int) -> str:
    return str(value) if value.bit_length() <= 128 else f"an integer of {value.bit_length()} bits"
