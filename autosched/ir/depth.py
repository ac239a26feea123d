"""How deeply expressions may be nested: everything that walks them recurses, and Python's stack is finite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autosched.errors import ProgramError
from autosched.ir.expr import Expr
from autosched.ir.functor import expr_children, stmt_exprs, walk
from autosched.ir.stmt import Stmt

# A walk takes up to three Python frames per level, and the stack holds 1000 with those of the caller.
DEEPEST = 256
TOO_DEEP = (
    f"an expression is nested more than {DEEPEST} levels deep, which is the limit (each further term of a sum is a level); "
    "sum in a loop, or in several statements"
)


def too_deep(expr: Expr) -> bool:
    """Whether an expression is beyond the limit; shared parts are looked at once per level."""
    level = expr_children(expr)
    for _ in range(DEEPEST):
        if not level:
            return False
        level = tuple({id(c): c for e in level for c in expr_children(e)}.values())
    return True


def check_depth(stmt: Stmt, done: type[Stmt]) -> None:
    """Refuses a program with an expression beyond the limit.

    Args:
        stmt: the program.
        done: a kind of statement that is known to be within it.

    Raises:
        ProgramError: with the limit.
    """
    for node in walk(stmt):
        for expr in () if isinstance(node, done) else stmt_exprs(node):
            # What has no operands with operands is not deep; most extents and bindings are so.
            if any(map(expr_children, expr_children(expr))) and too_deep(expr):
                raise ProgramError(TOO_DEEP)


@contextmanager
def shallow() -> Iterator[None]:
    """Says what a ``RecursionError`` inside means.

    Raises:
        ProgramError: in its place.
    """
    try:
        yield
    except RecursionError:
        raise ProgramError(TOO_DEEP) from None
