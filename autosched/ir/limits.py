"""The least and greatest values of scalar types."""

from __future__ import annotations

from autosched.errors import NotSupportedError
from autosched.ir.expr import Expr, FloatImm, IntImm, bits, is_float

_LARGEST = {
    "float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


def min_value(dtype: str) -> Expr:
    """The least finite value of a type, as a constant.

    Raises:
        NotSupportedError: the limits of the type are not known.
    """
    if is_float(dtype):
        return FloatImm(-_largest(dtype), dtype)
    return IntImm(0 if _unsigned(dtype) else -(1 << (bits(dtype) - 1)), dtype)


def max_value(dtype: str) -> Expr:
    """The greatest finite value of a type, as a constant.

    Raises:
        NotSupportedError: the limits of the type are not known.
    """
    if is_float(dtype):
        return FloatImm(_largest(dtype), dtype)
    return IntImm((1 << (bits(dtype) - (0 if _unsigned(dtype) else 1))) - 1, dtype)


def _unsigned(dtype: str) -> bool:
    return dtype.startswith("uint") or dtype == "bool"


def _largest(dtype: str) -> float:
    if dtype not in _LARGEST:
        raise NotSupportedError(f"the limits of {dtype} are not known")
    return _LARGEST[dtype]
