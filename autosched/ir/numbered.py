"""Expressions with variables told by number: what is found for some loops is known for all others like them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autosched.ir.expr import BinOp, Expr, IntImm, Not, Var

Numbered = Any
"""Nested tuples; equal where the expressions are the same but for which variables have the numbers."""


class Numbers(dict[Var, int]):
    """Numbers of variables in the order in which they are asked for."""

    def __missing__(self, var: Var) -> int:
        number = self[var] = len(self)
        return number


def numbered(expr: Expr, numbers: Mapping[Var, int]) -> Numbered:
    """An expression of integers and variables, as it is written.

    Args:
        expr: arithmetic, comparisons and their conjunctions.
        numbers: of its variables.

    Raises:
        KeyError: a variable without a number, or another kind of expression.
    """
    kind = type(expr)
    if kind is Var:
        return numbers[expr]  # type: ignore[index]
    if kind is IntImm:
        return expr.value, expr.dtype  # type: ignore[attr-defined]
    if isinstance(expr, BinOp):
        return expr.op, numbered(expr.a, numbers), numbered(expr.b, numbers), expr.dtype
    if isinstance(expr, Not):
        return ("not", numbered(expr.a, numbers), expr.dtype)
    raise KeyError(kind)


def unnumbered(code: Numbered, variables: Sequence[Var]) -> Expr:
    """The expression behind ``numbered``, written the same way.

    Args:
        code: what ``numbered`` gave.
        variables: by number.
    """
    if type(code) is int:
        return variables[code]
    if len(code) == 2:
        return IntImm(*code)
    if len(code) == 3:
        return Not(unnumbered(code[1], variables), code[2])
    return BinOp(code[0], unnumbered(code[1], variables), unnumbered(code[2], variables), code[3])
