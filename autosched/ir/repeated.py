"""Terms of a sum that do not depend on what is summed over: a bias inside the sum is added in every step."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Set
from math import prod

from autosched.ir.expr import BinOp, BufferLoad, Cast, Expr, FloatImm, IntImm, Var, int_value, is_float, is_int
from autosched.ir.functor import free_vars, walk
from autosched.ir.printer import expr_text
from autosched.ir.stmt import Block, BufferStore, IterVar, PrimFunc


def repeated_terms(source: Expr, axes: Set[Var]) -> list[Expr]:
    """The addends of a sum's term that are the same in every step, where others are not.

    Args:
        source: what is summed. It is taken apart at ``+``, ``-``, conversions between integers or between floats, and factors
            that stand still; an addend is reported as it is written, without those factors. What is subtracted and stands still
            is a centre (a mean, a zero point), and meant.
        axes: what is summed over.
    """
    moving, still = False, list[Expr]()
    for term in addends(source, axes):
        if axes & free_vars(term).keys():
            moving = True
        elif not (isinstance(term, IntImm | FloatImm) and term.value == 0):
            still.append(term)
    return still if moving else []


def addends(expr: Expr, axes: Set[Var]) -> Iterator[Expr]:
    """What a sum adds, through everything that distributes over it."""
    if isinstance(expr, BinOp) and expr.op == "+":
        yield from addends(expr.a, axes)
        yield from addends(expr.b, axes)
    elif isinstance(expr, BinOp) and expr.op == "-":
        yield from addends(expr.a, axes)
        if axes & free_vars(expr.b).keys():
            yield from addends(expr.b, axes)
    elif isinstance(expr, Cast) and _linear(expr):
        yield from addends(expr.value, axes)
    elif isinstance(expr, BinOp) and expr.op == "*" and not axes & free_vars(expr.b).keys():
        yield from addends(expr.a, axes)
    elif isinstance(expr, BinOp) and expr.op == "*" and not axes & free_vars(expr.a).keys():
        yield from addends(expr.b, axes)
    else:
        yield expr


def warn_repeated(name: str, source: Expr, axes: Mapping[Var, str], extents: Collection[Expr], stacklevel: int = 3) -> None:
    """Warns of each repeated term.

    Args:
        name: of the sum.
        source: what is summed.
        axes: names of what is summed over.
        extents: how far each runs.
        stacklevel: of the warning.
    """
    known = [int_value(e) for e in extents]
    times = prod(n for n in known if n is not None) if None not in known else None
    if times == 1:
        return
    for term in repeated_terms(source, axes.keys()):
        warnings.warn(
            f"{name}: {expr_text(term)} is inside the sum and does not depend on {', '.join(axes.values())}: "
            f"it is added {'many' if times is None else times} times", stacklevel=stacklevel + 1,
        )


def warn_of_program(func: PrimFunc, stacklevel: int = 3) -> None:
    """Warns of the repeated terms of every block that sums."""
    for block in walk(func.body):
        if not isinstance(block, Block) or not isinstance(block.body, BufferStore):
            continue
        store = block.body
        summed: list[IterVar] = [iv for iv in block.iter_vars if iv.kind == "reduce"]
        own = BufferLoad(store.buffer, store.indices, store.buffer.dtype)
        rest = _without(store.value, own) if summed else None
        if rest is not None:
            names = {iv.var: iv.var.name for iv in summed}
            warn_repeated(block.name, rest, names, [iv.dom.extent for iv in summed], stacklevel + 1)


def _without(value: Expr, own: BufferLoad) -> Expr | None:
    """What is added to a running value; None where it is no plain sum."""
    if not isinstance(value, BinOp) or value.op not in ("+", "-"):
        return None
    if value.a == own:
        return value.b
    if value.b == own and value.op == "+":
        return value.a
    rest = _without(value.a, own)
    return None if rest is None else BinOp(value.op, rest, value.b, value.dtype)


def _linear(expr: Cast) -> bool:
    both = (expr.dtype, expr.value.dtype)
    return all(map(is_int, both)) or all(map(is_float, both))
