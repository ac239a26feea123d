"""Accesses that leave their buffers for certain: what a program reads or writes there has no value, whatever runs it.

Only what is always executed is judged, and only indices that are affine in loops of constant extents: their lowest and highest
values are then taken by some iteration, so that nothing is refused that could be meant. The rest is the interpreter's to find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autosched.errors import ProgramError
from autosched.ir.expr import LOGICAL, BinOp, BufferLoad, Expr, IntImm, Var, int_value
from autosched.ir.functor import expr_children, stmt_children, stmt_exprs
from autosched.ir.linear import Lin, add_forms
from autosched.ir.patterns import choice_of
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, For, IfThenElse, PrimFunc, Stmt, While

_Values = Mapping[Var, Lin]  # of iterators and loops, in terms of loops
_Box = Mapping[Expr, tuple[int, int]]  # first and last value of every loop


def require_inside(func: PrimFunc) -> None:
    """Refuses a program that certainly reads or writes outside a buffer.

    Args:
        func: the program.

    Raises:
        ProgramError: it does; the message names block, buffer, dimension and index.
    """
    for said in _stmt(func.body, "", {}, {}):
        raise ProgramError(f"{func.name}: {said}")


def _stmt(stmt: Stmt, block: str, values: _Values, box: _Box) -> Iterator[str]:
    if isinstance(stmt, IfThenElse | While):
        return
    if isinstance(stmt, For):
        low, extent = int_value(stmt.min), int_value(stmt.extent)
        if extent is None or extent <= 0:
            return  # it may never run
        if low is not None:
            values, box = {**values, stmt.var: ({stmt.var: 1}, 0)}, {**box, stmt.var: (low, low + extent - 1)}
    elif isinstance(stmt, BlockRealize):
        if int_value(stmt.predicate) != 1:
            return
        bound = ((iv.var, _linear(value, values)) for iv, value in zip(stmt.block.iter_vars, stmt.iter_values))
        yield from _stmt(stmt.block.body, stmt.block.name, {**values, **{var: form for var, form in bound if form}}, box)
        return
    elif isinstance(stmt, BufferStore):
        yield from _access(stmt.buffer, stmt.indices, block, values, box)
    for expr in () if isinstance(stmt, For | Block) else stmt_exprs(stmt):
        yield from _expr(expr, block, values, box)
    for child in stmt_children(stmt):
        yield from _stmt(child, block, values, box)


def _expr(expr: Expr, block: str, values: _Values, box: _Box) -> Iterator[str]:
    if choice_of(expr) is not None:
        return  # which side counts, the iteration decides
    if isinstance(expr, BinOp) and expr.op in LOGICAL:
        return
    if isinstance(expr, BufferLoad):
        yield from _access(expr.buffer, expr.indices, block, values, box)
    for child in expr_children(expr):
        yield from _expr(child, block, values, box)


def _access(buffer: Buffer, indices: tuple[Expr, ...], block: str, values: _Values, box: _Box) -> Iterator[str]:
    for k, (index, size) in enumerate(zip(indices, map(int_value, buffer.shape))):
        form = _linear(index, values)
        if form is None or size is None:
            continue
        terms, constant = form
        low = constant + sum(min(c * end for end in box[loop]) for loop, c in terms.items())
        high = constant + sum(max(c * end for end in box[loop]) for loop, c in terms.items())
        if low < 0 or high >= size:
            yield f"block {block}: index {k} of {buffer.name} is {low if low < 0 else high}, outside 0..{size - 1}"


def _linear(expr: Expr, values: _Values) -> Lin | None:
    if isinstance(expr, IntImm):
        return {}, expr.value
    if isinstance(expr, Var):
        return values.get(expr)
    if not isinstance(expr, BinOp) or expr.op not in ("+", "-", "*"):
        return None
    a, b = _linear(expr.a, values), _linear(expr.b, values)
    if a is None or b is None:
        return None
    if expr.op == "*":
        a, b = (b, a) if b[0] else (a, b)
        return None if b[0] else add_forms(({}, 0), a, b[1])
    return add_forms(a, b, 1 if expr.op == "+" else -1)
