"""Tensor expressions: programs by definition, without loops.

    A = te.placeholder((64, 64), "int8", name="A")
    B = te.placeholder((64, 64), "int8", name="B")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((64, 64), lambda i, j: te.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k), name="C")
    func = te.create_prim_func([A, B, C])

A definition says what, never how: scheduling is done on the resulting program, with ``autosched.Schedule``.
"""

from importlib import import_module
from typing import Any

from autosched.errors import NotSupportedError, suggest
from autosched.te import reduction, tensor
from autosched.te.create import create_prim_func
from autosched.te.reduction import (
    Select,
    abs,
    acos,
    all,
    any,
    asin,
    atan,
    cast,
    ceil,
    clip,
    const,
    cos,
    cosh,
    div,
    equal,
    erf,
    exp,
    exp2,
    floor,
    if_then_else,
    indexdiv,
    indexmod,
    log,
    log1p,
    log2,
    log10,
    max,
    min,
    power,
    round,
    rsqrt,
    shift_left,
    shift_right,
    sigmoid,
    sin,
    sinh,
    sqrt,
    sum,
    tan,
    tanh,
    trunc,
    truncdiv,
    truncmod,
)
from autosched.te.tensor import Tensor, compute, placeholder, reduce_axis, var

size_var = var

__all__ = [
    "Select",
    "Tensor",
    "abs",
    "acos",
    "all",
    "any",
    "asin",
    "atan",
    "cast",
    "ceil",
    "clip",
    "compute",
    "const",
    "cos",
    "cosh",
    "create_prim_func",
    "div",
    "equal",
    "erf",
    "exp",
    "exp2",
    "floor",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "min",
    "placeholder",
    "power",
    "reduce_axis",
    "reduction",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sin",
    "sinh",
    "size_var",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "tensor",
    "trunc",
    "truncdiv",
    "truncmod",
    "var",
]


def __getattr__(name: str) -> Any:
    if name == "AXIS_SEPARATOR":
        return import_module("autosched.ir.index_map").AXIS_SEPARATOR
    if name in ("create_schedule", "thread_axis", "schedule"):
        raise NotSupportedError(
            f"te.{name}: definitions are not scheduled; make a program with te.create_prim_func([...]) and schedule "
            "that with autosched.Schedule"
        )
    raise AttributeError(f"module 'autosched.te' has no attribute {name!r}{suggest(name, __all__)}")
