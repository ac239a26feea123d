"""Patterns that values are looked through for: stores that update their element, operands of one operation, choices, widening."""

from __future__ import annotations

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, Select, int_value
from autosched.ir.functor import stmt_exprs, walk, walk_expr
from autosched.ir.stmt import Block, Buffer, BufferStore, Stmt

UPDATES = ("+", "min", "max")  # operations by which a reduction takes in its terms


def has_loads(*values: Expr) -> bool:
    """Whether any of some values depends on what a buffer holds."""
    return any(isinstance(e, BufferLoad) for value in values for e in walk_expr(value))


def loads_in(value: Expr) -> list[BufferLoad]:
    """What a value loads, those inside of indices included."""
    return [e for e in walk_expr(value) if isinstance(e, BufferLoad)]


def loaded(stmt: Stmt) -> set[Buffer]:
    """The buffers that a statement, and what is inside it, loads from."""
    return {e.buffer for s in walk(stmt) for x in stmt_exprs(s) for e in loads_in(x)}


def loads_from(value: Expr, buffer: Buffer) -> bool:
    """Whether a value loads from a buffer."""
    return any(isinstance(e, BufferLoad) and e.buffer is buffer for e in walk_expr(value))


def update_of(store: BufferStore) -> tuple[str, Expr] | None:
    """(operation, term) of ``C[i] = C[i] op term`` with +, min or max and a term that does not load from C; else None."""
    value = store.value
    if not (isinstance(value, BinOp) and value.op in UPDATES):
        return None
    for own, term in ((value.a, value.b), (value.b, value.a)):
        mine = isinstance(own, BufferLoad) and own.buffer is store.buffer and own.indices == store.indices
        if mine and not loads_from(term, store.buffer):
            return value.op, term
    return None


def summed(block: Block) -> Expr | None:
    """What a reduction with + takes in at each step; None of any other block."""
    update = update_of(block.body) if isinstance(block.body, BufferStore) and block.init is not None else None
    return update[1] if update is not None and update[0] == "+" else None


def operands(value: Expr, op: str) -> list[Expr]:
    """What a nest of one operation is made of, from the left; of any other value itself."""
    if isinstance(value, BinOp) and value.op == op:
        return [*operands(value.a, op), *operands(value.b, op)]
    return [value]


def choice_of(value: Expr) -> tuple[Expr, Expr, Expr] | None:
    """(condition, value where it holds, value elsewhere) of a choice, or None."""
    if isinstance(value, Select):
        return value.condition, value.true_value, value.false_value
    if isinstance(value, Call) and value.op == "if_then_else":
        condition, yes, no = value.args
        return condition, yes, no
    return None


def is_widened(value: Expr) -> bool:
    """Whether a value is ``cast(int32, x[..])`` of an int8 tensor."""
    load = value.value if isinstance(value, Cast) and value.dtype == "int32" else None
    return isinstance(load, BufferLoad) and load.dtype == "int8"


def is_shifted(value: Expr, op: str = "shift_right") -> bool:
    """Whether a value is another one shifted right by a constant, or to the left where that is asked for."""
    amount = int_value(value.args[1]) if isinstance(value, Call) and value.op == op else None
    return amount is not None and 0 <= amount < 32
