"""The intrinsics that program text spells as ``T.name(...)``; any other is written ``T.Call("name", [...])``."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.ir.expr import Expr, IntImm, StringImm, vector

# Calls whose first printed argument is their type.
DTYPE_FIRST = frozenset({
    "call_extern", "call_pure_extern", "call_intrin", "call_pure_intrin", "reinterpret", "type_annotation",
    "call_llvm_intrin", "call_llvm_pure_intrin", "ptx_ldmatrix", "ptx_mma", "ptx_mma_sp", "tvm_mfma",
    "tvm_mfma_store", "mma_store", "mma_fill",
})
_FIXED_DTYPE = {
    "tvm_access_ptr": "handle", "address_of": "handle", "likely": "bool", "isnan": "bool", "isinf": "bool",
    "isfinite": "bool", "assume": "bool", "ret": "int32", "tvm_storage_sync": "int32", "vscale": "int32",
    "tvm_load_matrix_sync": "handle", "tvm_store_matrix_sync": "handle", "tvm_mma_sync": "handle",
    "tvm_fill_fragment": "handle", "undef": "int32", "prefetch": "void",
}
ROUNDING = ("floor", "ceil", "round", "trunc", "nearbyint")
ELEMENTWISE = (
    *ROUNDING, "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh",
    "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sigmoid", "erf", "abs", "fabs", "popcount",
    "clz", "bitwise_not",
)
TWO = ("pow", "power", "atan2", "fmod", "hypot", "copysign", "ldexp", "nextafter", "shift_left", "shift_right",
        "bitwise_and", "bitwise_or", "bitwise_xor")
# Calls that are carried through unchanged: hardware intrinsics of other machines, and the runtime's own.
CALLS = (
    *sorted(DTYPE_FIRST - {"call_intrin", "call_pure_intrin"}), "address_of", "likely", "isnan", "isinf", "isfinite",
    "isnullptr", "assume", "undef", "ret",
    "fma", "q_multiply_shift", "q_multiply_shift_per_axis", "tvm_access_ptr", "tvm_storage_sync", "tvm_stack_alloca",
    "tvm_load_matrix_sync", "tvm_store_matrix_sync", "tvm_mma_sync", "tvm_bmma_sync", "tvm_fill_fragment",
    "tvm_thread_allreduce", "tvm_warp_shuffle", "tvm_struct_get", "tvm_struct_set", "tvm_tuple", "vectorlow",
    "vectorhigh", "vectorcombine", "dp4a", "vscale", "prefetch", "call_packed", "call_cpacked",
    "ptx_cp_async", "ptx_commit_group", "ptx_wait_group", "ptx_fill_zero", "get_active_lane_mask",
    "ignore_loop_partition", "start_profile_intrinsic", "end_profile_intrinsic", "thread_return",
)


def implied_dtype(op: str, args: Sequence[Expr]) -> str:
    """The result type that a call has when its text names none.

    Args:
        op: name of the intrinsic.
        args: operands.

    Returns:
        A type name; elementwise intrinsics follow their first operand.
    """
    if op in _FIXED_DTYPE:
        return _FIXED_DTYPE[op]
    if op == "if_then_else" and len(args) == 3:
        return args[1].dtype
    if op == "broadcast" and len(args) == 2 and isinstance(args[1], IntImm):
        return vector(args[0].dtype, args[1].value)
    return args[0].dtype if args and not isinstance(args[0], StringImm) else "handle"
