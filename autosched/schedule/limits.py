"""Whether extents and indices stay inside their integer type: exact bounds, so that nothing wraps around unseen.

What depends on a symbolic size is not bounded here: a program promises that its own indices fit, for every size it is run with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autosched.ir.expr import BinOp, Cast, Expr, IntImm, Var, int_value, is_int
from autosched.ir.stmt import Block, For, Range
from autosched.ir.value_bounds import Interval, dtype_bounds
from autosched.schedule.state import State


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
    found = _bounds(expr, dom)
    if found is None or not is_int(expr.dtype):
        return found
    low, high = dtype_bounds(expr.dtype)
    if found[0] < low or found[1] > high:
        from autosched.ir.printer import expr_text

        end = found[1] if found[1] > high else found[0]
        raise Overflow(f"{expr_text(expr)} reaches {_number(end)}; its type {expr.dtype} ends at {high if end > 0 else low}")
    return found


def check_indices(old: State, new: State) -> None:
    """Checks all that a rewrite changed: extents of loops, values of iterators, predicates, regions and shapes.

    Args:
        old: the program before; what it holds already is not checked again.
        new: the program after.

    Raises:
        Overflow: an index may leave its type, or a constant extent is outside it.
    """
    for var, loop in new.loops.items():
        extent = int_value(loop.extent)
        if extent is not None and not 0 <= extent <= dtype_bounds(loop.extent.dtype)[1] and old.loops.get(var) is not loop:
            raise Overflow(f"loop {var.name} would have {_number(extent)} iterations")
    for ident, realize in new.realizes.items():
        before = old.realizes.get(ident)
        if before is realize:
            continue
        known = () if before is None else (*before.iter_values, before.predicate)
        values = [e for e in (*realize.iter_values, realize.predicate) if not any(e is k for k in known)]
        if values:
            dom: dict[Var, Range] = {}
            for node in new.ancestors(realize):
                if isinstance(node, For):
                    dom[node.var] = Range(node.min, node.extent)
                elif isinstance(node, Block):
                    dom.update((iv.var, iv.dom) for iv in node.iter_vars)
            for value in values:
                bounds(value, dom)
        if before is None or before.block is not realize.block:
            _check_block(realize.block, None if before is None else before.block)


def _check_block(block: Block, before: Block | None) -> None:
    dom = {iv.var: iv.dom for iv in block.iter_vars}
    known = [] if before is None else [r for region in (*before.reads, *before.writes) for r in region.region]
    for region in (*block.reads, *block.writes):
        for r in region.region:
            if not any(r is k for k in known):
                bounds(r.min, dom)
                bounds(r.extent, dom)


def _bounds(expr: Expr, dom: Mapping[Var, Range]) -> Interval | None:
    if isinstance(expr, IntImm):
        return expr.value, expr.value
    if isinstance(expr, Var):
        r = dom.get(expr)
        lo, extent = (None, None) if r is None else (int_value(r.min), int_value(r.extent))
        return None if lo is None or extent is None else (lo, lo + max(extent, 1) - 1)
    if isinstance(expr, Cast):
        return bounds(expr.value, dom)
    if not isinstance(expr, BinOp):
        return None
    a, b = bounds(expr.a, dom), bounds(expr.b, dom)
    if expr.op == "%" and b is not None and b[0] == b[1] > 0:
        one = a is not None and a[0] // b[0] == a[1] // b[0]
        return (a[0] % b[0], a[1] % b[0]) if a is not None and one else (0, b[0] - 1)
    if a is None or b is None:
        return None
    match expr.op:
        case "+":
            return a[0] + b[0], a[1] + b[1]
        case "-":
            return a[0] - b[1], a[1] - b[0]
        case "*":
            ends = [x * y for x in a for y in b]
            return min(ends), max(ends)
        case "//" if b[0] > 0:
            ends = [x // y for x in a for y in b]
            return min(ends), max(ends)
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
    return None


def _number(value: int) -> str:
    return str(value) if value.bit_length() <= 128 else f"an integer of {value.bit_length()} bits"
