"""The expression functions of the language: arithmetic, intrinsics and calls of external code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from autosched.errors import suggest
from autosched.ir import limits
from autosched.ir.expr import (
    ARITHMETIC,
    BinOp,
    BufferData,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Not,
    Ramp,
    Select,
    StringImm,
    Var,
    as_expr,
    as_int,
    binary,
    cast,
    if_then_else,
    intrin,
    is_float,
    logical_and,
    logical_not,
    select,
    vector,
)
from autosched.ir.intrinsics import CALLS, DTYPE_FIRST, ELEMENTWISE, ROUNDING, TWO, implied_dtype
from autosched.ir.print_expr import RAW_NAMES
from autosched.ir.stmt import Buffer, BufferRegion
from autosched.script.forms import DType, describe

TYPE_NAME = re.compile(
    r"^(u?int(1|2|4|8|16|32|64)|float(16|32|64|[468]_\w+)|bfloat16|bool|handle|void)(x[1-9]\d*)?$"
)
COMMON_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
                "float64", "bool", "handle")


def operand(value: Any) -> Expr:
    """A value as the operand of an operation.

    Raises:
        TypeError: it is not a scalar, with what it is.
    """
    if isinstance(value, Expr | int | float):
        return as_expr(value)
    if isinstance(value, Buffer | BufferRegion):
        name = value.name if isinstance(value, Buffer) else value.buffer.name
        raise TypeError(f"{describe(value)} is not a value; index it with one index per dimension, as in {name}[...]")
    if hasattr(value, "__index__"):
        return as_expr(value)
    if hasattr(value, "__float__"):
        return as_expr(float(value))
    raise TypeError(f"expected an expression or a number, got {describe(value)}")


def argument(value: Any) -> Expr:
    """A value as the argument of a call: also strings, and buffers as their addresses."""
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, Buffer):
        return BufferData(value)
    return operand(value)


def arith(op: str, a: Any, b: Any) -> Any:
    """``a op b``: folded in Python when both are numbers, else an expression.

    Raises:
        TypeError: ``/`` on integers, or an operand that is no scalar.
    """
    x, y = operand(a), operand(b)
    if op in ("//", "%", "truncdiv", "truncmod") and isinstance(y, IntImm) and y.value == 0:
        raise ZeroDivisionError(f"the divisor of '{op}' is zero")
    return binary(op, *numbers(a, b, x, y))


def numbers(a: Any, b: Any, x: Expr, y: Expr) -> tuple[Any, Any]:
    """Both operands; a Python number stays one, so that it takes the type of the other."""
    return (a if isinstance(a, int | float) and isinstance(b, Expr) else x,
            b if isinstance(b, int | float) and isinstance(a, Expr) else y)


def raw(op: str) -> Callable[[Any, Any], Expr]:
    """``T.Add`` and its like: the node as it stands, nothing folded."""

    def make(a: Any, b: Any) -> Expr:
        x, y = operand(a), operand(b)
        actual = op
        if op in ("/", "truncdiv"):
            actual = "/" if op == "/" and is_float(x.dtype) else "truncdiv"
        return BinOp(actual, x, y, x.dtype if actual in ARITHMETIC else "bool")

    return make


def dtype_name(value: Any) -> str:
    """A type given as ``"int8"`` or ``T.int8``.

    Raises:
        TypeError: it names no type.
    """
    name = value.name if isinstance(value, DType) else value
    if name == "":
        return "void"  # TVM's spelling of "no value".
    if not isinstance(name, str) or not TYPE_NAME.match(name):
        near = suggest(name, COMMON_TYPES) if isinstance(name, str) else ""
        raise TypeError(f'expected a type such as "int8", got {describe(value)}{near}')
    return name


def call(name: str) -> Callable[..., Expr]:
    """A call of intrinsic ``name``; ``dtype=`` overrides the type its operands imply."""

    def make(*args: Any, dtype: Any = None) -> Expr:
        values = list(args)
        if name in DTYPE_FIRST and dtype is None:
            if not values:
                raise TypeError(f'T.{name} needs a result type first, for example "int32"')
            dtype = values.pop(0)
        exprs = tuple(argument(v) for v in values)
        return Call(name, exprs, dtype_name(dtype) if dtype is not None else implied_dtype(name, exprs))

    make.__name__ = name
    return make


def _elementwise(name: str) -> Callable[..., Expr]:
    def make(x: Any, dtype: Any = None) -> Expr:
        e = operand(x)
        if name in ROUNDING and not is_float(e.dtype):
            return e
        return Call(name, (e,), dtype_name(dtype) if dtype is not None else e.dtype)

    make.__name__ = name
    return make


def _two(name: str) -> Callable[..., Expr]:
    op = "pow" if name == "power" else name

    def make(a: Any, b: Any, dtype: Any = None) -> Expr:
        return intrin(op, *numbers(a, b, operand(a), operand(b)), dtype=None if dtype is None else dtype_name(dtype))

    make.__name__ = name
    return make


def _binary(op: str) -> Callable[[Any, Any], Expr]:
    def make(a: Any, b: Any, span: Any = None) -> Expr:
        result = arith(op, a, b)
        assert isinstance(result, Expr)
        return result

    return make


def minimum(*args: Any) -> Any:
    """The least of several values; a plain number when all are."""
    return _extreme("min", args)


def maximum(*args: Any) -> Any:
    """The greatest of several values; a plain number when all are."""
    return _extreme("max", args)


def _extreme(op: str, args: tuple[Any, ...]) -> Any:
    values = tuple(args[0]) if len(args) == 1 and not isinstance(args[0], Expr) else args
    if all(isinstance(v, int | float) for v in values):
        return min(values) if op == "min" else max(values)
    result = values[0]
    for v in values[1:]:
        result = arith(op, result, v)
    return result


def bin_max(a: Any, b: Any) -> Expr:
    """``T.max``."""
    return binary("max", *numbers(a, b, operand(a), operand(b)))


def bin_min(a: Any, b: Any) -> Expr:
    """``T.min``."""
    return binary("min", *numbers(a, b, operand(a), operand(b)))


def clip(a: Any, a_min: Any, a_max: Any) -> Expr:
    """``T.clip``, by the names that TVM's operators give it: what is not below one value and not above another."""
    return bin_max(bin_min(a, a_max), a_min)


def ceildiv(a: Any, b: Any) -> Any:
    """``a / b`` rounded up."""
    return arith("//", arith("-", arith("+", a, b), 1), b)


def cast_value(value: Any, dtype: Any) -> Expr:
    """``T.cast(value, "int32")``: folds."""
    if isinstance(value, str) and not isinstance(dtype, str):
        value, dtype = dtype, value
    return cast(dtype_name(dtype), operand(value))


def cast_node(dtype: Any, value: Any) -> Expr:
    """``T.Cast("int32", value)``: the node as it stands."""
    return Cast(dtype_name(dtype), operand(value))


def choose(condition: Any, a: Any, b: Any, dtype: Any = None) -> Expr:
    """``T.if_then_else``: only the chosen side is evaluated."""
    x, y = numbers(a, b, operand(a), operand(b))
    return if_then_else(operand(condition), x, y)


def select_node(condition: Any, a: Any, b: Any) -> Expr:
    """``T.Select``: both sides are evaluated."""
    x, y = operand(a), operand(b)
    if x.dtype == y.dtype:
        return Select(operand(condition), x, y, x.dtype)
    return select(operand(condition), *numbers(a, b, x, y))


def min_value(dtype: Any) -> Expr:
    """The least finite value of a type."""
    return limits.min_value(dtype_name(dtype))


def max_value(dtype: Any) -> Expr:
    """The greatest finite value of a type."""
    return limits.max_value(dtype_name(dtype))


def infinity(dtype: Any) -> Expr:
    """Positive infinity of a float type."""
    return FloatImm(float("inf"), dtype_name(dtype))


def ramp(base: Any, stride: Any, lanes: Any) -> Expr:
    """The vector base, base + stride, ..."""
    b = operand(base)
    n = _lanes(lanes, "T.Ramp")
    return Ramp(b, cast(b.dtype, operand(stride)) if isinstance(stride, int) else operand(stride), n, vector(b.dtype, n))


def broadcast(value: Any, lanes: Any, dtype: Any = None) -> Expr:
    """A vector of one value; ``dtype``, if given, is its type."""
    v = operand(value)
    n = _lanes(lanes, "T.Broadcast")
    made = vector(v.dtype, n)
    if dtype is not None and dtype_name(dtype) != made:
        raise TypeError(f"{n} lanes of {v.dtype} are {made}, not {dtype_name(dtype)}")
    return Call("broadcast", (v, IntImm(n)), made)


def _lanes(value: Any, what: str) -> int:
    n = as_int(operand(value), f"the number of lanes of {what}")
    if n < 1:
        raise ValueError(f"the number of lanes of {what} is at least 1, got {n}")
    return n


def let(body: Any, where: Mapping[Any, Any]) -> Expr:
    """``T.Let(body, where={x: value})``."""
    result = operand(body)
    for var, value in reversed(list(where.items())):
        if not isinstance(var, Var):
            raise TypeError(f"T.Let binds variables, got {describe(var)}")
        result = Let(var, operand(value), result, result.dtype)
    return result


def raw_call(op: str, args: Any, *, dtype: Any = None, ret_ty: Any = None, attrs: Any = None) -> Expr:
    """``T.Call("tirx.name", [args], ret_ty="int32")``: a call as it stands."""
    exprs = tuple(argument(a) for a in args)
    given = dtype if dtype is not None else ret_ty
    name = op.removeprefix("tirx.").removeprefix("tir.")
    return Call(name, exprs, dtype_name(given) if given is not None else implied_dtype(name, exprs))


def call_intrin(*args: Any, dtype: Any = None) -> Expr:
    """``T.call_intrin("float32", "tir.exp", x)``: an intrinsic by name."""
    values = list(args)
    result = dtype if dtype is not None else values.pop(0)
    if not values or not isinstance(values[0], str):
        raise TypeError('T.call_intrin takes a type and the name of an intrinsic, for example "float32", "tir.exp"')
    return raw_call(values[0], values[1:], dtype=result)


def negate(x: Any) -> Expr:
    """``-x``, in the form that TVM gives it."""
    e = operand(x)
    return binary("*", e, -1.0 if is_float(e.dtype) else -1)


def all_of(*args: Any) -> Expr:
    """The conjunction of conditions."""
    return logical_and(*[operand(a) for a in args])


def any_of(*args: Any) -> Expr:
    """The disjunction of conditions."""
    result: Expr = IntImm(0, "bool")
    for a in args:
        result = binary("or", result, operand(a))
    return result


def negation(x: Any) -> Expr:
    """``not x``."""
    return logical_not(operand(x))


def _identity(value: Any) -> Any:
    return value


OPS: dict[str, Any] = {
    **{name: call(name) for name in CALLS},
    **{name: _elementwise(name) for name in ELEMENTWISE},
    **{name: _two(name) for name in TWO},
    **{RAW_NAMES[op]: raw(op) for op in RAW_NAMES if op != "truncdiv"},
    "TruncDiv": raw("truncdiv"),
    "max": bin_max, "min": bin_min, "clip": clip, "floordiv": _binary("//"), "floormod": _binary("%"),
    "truncdiv": _binary("truncdiv"), "truncmod": _binary("truncmod"), "indexdiv": _binary("//"),
    "indexmod": _binary("%"), "div": _binary("/"),
    "ceildiv": ceildiv, "cast": cast_value, "Cast": cast_node, "if_then_else": choose, "Select": select_node,
    "min_value": min_value, "max_value": max_value, "infinity": infinity, "Ramp": ramp, "ramp": ramp,
    "Broadcast": broadcast, "broadcast": broadcast, "Let": let, "Not": lambda a: Not(operand(a)),
    "logical_and": all_of, "all": all_of,
    "logical_or": any_of, "any": any_of, "logical_not": negation, "Call": raw_call, "call_intrin": call_intrin,
    "call_pure_intrin": call_intrin, "meta_var": _identity, "StringImm": StringImm, "IntImm": lambda d, v: IntImm(v, d),
    "FloatImm": lambda d, v: FloatImm(float(v), d), "Var": lambda name, dtype="int32": Var(name, dtype_name(dtype)),
    "var": lambda dtype, name="v": Var(name, dtype_name(dtype)),
}
