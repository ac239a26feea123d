"""Reductions of tensor definitions, and the scalar functions they are written with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched.errors import ProgramError
from autosched.ir.expr import (
    Expr,
    ExprLike,
    IntImm,
    Reduce,
    as_expr,
    binary,
    cast,
    const,
    eq,
    intrin,
    is_float,
    logical_and,
    maximum,
    minimum,
    select,
)
from autosched.ir.expr import if_then_else as chosen
from autosched.ir.limits import max_value, min_value
from autosched.ir.stmt import IterVar
from autosched.te.tensor import Axis

COMBINE = {"sum": "+", "max": "max", "min": "min"}


def identity(op: str, dtype: str) -> Expr:
    """What a reduction starts from: 0, or the least or greatest value of the type.

    Raises:
        NotSupportedError: the limits of the type are not known.
    """
    if op == "sum":
        return const(0, dtype)
    return min_value(dtype) if op == "max" else max_value(dtype)


def _axes(axis: Any, op: str) -> tuple[IterVar, ...]:
    axes = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
    for a in axes:
        if not isinstance(a, Axis) or a.kind != "reduce":
            raise ProgramError(f"te.{op}: axis must be made by te.reduce_axis, got {type(a).__name__} {a!r}")
    if len(set(axes)) != len(axes):
        raise ProgramError(f"te.{op}: an axis is given twice")
    return tuple(a.iter_var() for a in axes)


def _reduce(op: str, source: ExprLike, axis: Any, where: ExprLike | None) -> Expr:
    value = as_expr(source)
    condition = None if where is None else _condition(where)
    return Reduce(op, value, _axes(axis, op), condition, value.dtype)


def sum(source: ExprLike, axis: Axis | Sequence[Axis], where: ExprLike | None = None) -> Expr:
    """The sum over reduction axes.

    Args:
        source: value of one term.
        axis: one axis or several, outermost first.
        where: only terms where it holds count.
    """
    return _reduce("sum", source, axis, where)


def max(source: ExprLike, axis: Any = None, where: ExprLike | None = None) -> Expr:
    """The greatest value over reduction axes; of two values, ``max(a, b)`` is the greater."""
    if isinstance(axis, Axis | list | tuple):
        return _reduce("max", source, axis, where)
    return maximum(source, axis)


def min(source: ExprLike, axis: Any = None, where: ExprLike | None = None) -> Expr:
    """The least value over reduction axes; of two values, ``min(a, b)`` is the lesser."""
    if isinstance(axis, Axis | list | tuple):
        return _reduce("min", source, axis, where)
    return minimum(source, axis)


def _condition(c: ExprLike) -> Expr:
    """A condition; a Python truth value is what ``==`` makes of two expressions, which it compares as objects.

    Raises:
        ProgramError: it is one.
    """
    if isinstance(c, bool):
        raise ProgramError(f"a condition is Python's {c}: == and != compare expressions as objects; write te.equal(a, b), or "
                           "te.const(1, 'bool') for what always holds")
    return as_expr(c)


def if_then_else(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> Expr:
    """One value where a condition holds, and another one elsewhere; only what is chosen is read.

    Raises:
        ProgramError: the condition is a Python truth value.
    """
    return chosen(_condition(condition), true_value, false_value)


def Select(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> Expr:
    """One value where a condition holds, and another one elsewhere; both are read.

    Raises:
        ProgramError: the condition is a Python truth value.
    """
    return select(_condition(condition), true_value, false_value)


def clip(x: ExprLike, a_min: ExprLike, a_max: ExprLike) -> Expr:
    """A value that is not below one value, and not above another."""
    return maximum(minimum(x, a_max), a_min)


def all(*conditions: ExprLike) -> Expr:
    """Whether all conditions hold.

    Raises:
        ProgramError: a condition is a Python truth value.
    """
    return logical_and(*map(_condition, conditions))


def any(*conditions: ExprLike) -> Expr:
    """Whether some condition holds.

    Raises:
        ProgramError: a condition is a Python truth value.
    """
    result: Expr = IntImm(0, "bool")
    for c in conditions:
        result = binary("or", result, _condition(c))
    return result


def div(a: ExprLike, b: ExprLike) -> Expr:
    """The quotient: of floats, or of integers rounded to zero."""
    x = as_expr(a)
    return binary("/" if is_float(x.dtype) else "truncdiv", a, b)


def indexdiv(a: ExprLike, b: ExprLike) -> Expr:
    """The quotient of indices, rounded down."""
    return binary("//", a, b)


def indexmod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder of indices, with the sign of the divisor."""
    return binary("%", a, b)


def truncdiv(a: ExprLike, b: ExprLike) -> Expr:
    """The quotient of integers, rounded to zero."""
    return binary("truncdiv", a, b)


def truncmod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder that goes with ``truncdiv``."""
    return binary("truncmod", a, b)


def _unary(name: str) -> Any:
    def function(x: ExprLike) -> Expr:
        value = as_expr(x)
        if name in ("floor", "ceil", "trunc", "round", "nearbyint") and not is_float(value.dtype):
            return value
        return intrin(name, value)

    function.__name__ = name
    function.__doc__ = f"``{name}`` of a value, elementwise."
    return function


exp, exp2, log, log2, log10, log1p = (_unary(n) for n in ("exp", "exp2", "log", "log2", "log10", "log1p"))
sqrt, rsqrt, sigmoid, tanh, erf = (_unary(n) for n in ("sqrt", "rsqrt", "sigmoid", "tanh", "erf"))
sin, cos, tan, sinh, cosh, asin = (_unary(n) for n in ("sin", "cos", "tan", "sinh", "cosh", "asin"))
acos, atan = _unary("acos"), _unary("atan")
floor, ceil, trunc, round = (_unary(n) for n in ("floor", "ceil", "trunc", "round"))
abs = _unary("abs")


def power(a: ExprLike, b: ExprLike) -> Expr:
    """``a`` to the power of ``b``."""
    return intrin("pow", a, b)


def shift_right(a: ExprLike, b: ExprLike) -> Expr:
    """``a >> b``, arithmetic for signed types."""
    return intrin("shift_right", a, b)


def shift_left(a: ExprLike, b: ExprLike) -> Expr:
    """``a << b``."""
    return intrin("shift_left", a, b)


equal = eq
__all__ = [
    "COMBINE",
    "Select",
    "abs",
    "acos",
    "all",
    "any",
    "asin",
    "atan",
    "cast",
    "ceil",
    "clip",
    "const",
    "cos",
    "cosh",
    "div",
    "equal",
    "erf",
    "exp",
    "exp2",
    "floor",
    "identity",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "min",
    "power",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "trunc",
    "truncdiv",
    "truncmod",
]
