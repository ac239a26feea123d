"""Dot-product intrinsics under the names that TVM's tests import, described in our own language."""

from __future__ import annotations

from autosched.ir.stmt import PrimFunc
from autosched.schedule import TensorIntrin
from autosched.script import parse

_DOT = """
@T.prim_func
def {name}(
    A: T.Buffer(({k},), "{a}", offset_factor=1{scope_in}),
    B: T.Buffer(({shape}{k},), "{b}", offset_factor=1{scope_in}),
    C: T.Buffer(({n},), "{c}", offset_factor=1{scope_out}),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:{n}], A[0:{k}], B[{slice}0:{k}])
        T.writes(C[0:{n}])
        {body}
"""
_LOOPS = """for i in range({n}):
            for k in range({k}):
                with T.sblock("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.cast(A[vk], "{c}") * T.cast(B[vi, vk], "{c}")"""
_SINGLE = """for k in range({k}):
            with T.sblock("update"):
                vk = T.axis.remap("R", [k])
                C[0] = C[0] + T.cast(A[vk], "{c}") * T.cast(B[vk], "{c}")"""


def _dot(name: str, n: int, k: int, a: str, b: str, c: str, memory: tuple[str, str] | None = None) -> str:
    """Registers C[n] += A[k] . B[n, k]; with one result B has one dimension."""
    many = n > 1
    common = {
        "n": n, "k": k, "a": a, "b": b, "c": c, "shape": f"{n}, " if many else "", "slice": f"0:{n}, " if many else "",
        "scope_in": f', align=4, scope="{memory[0]}"' if memory else "",
        "scope_out": f', align=4, scope="{memory[1]}"' if memory else "",
    }
    loops = (_LOOPS if many else _SINGLE).format(**common)
    desc = parse(_DOT.format(name="desc", body=loops, **common))
    call = f'T.call_extern("int32", "{name}", C.data, A.data, B.data)'
    impl = parse(_DOT.format(name="impl", body=call, **common))
    assert isinstance(desc, PrimFunc)
    assert isinstance(impl, PrimFunc)
    DESCRIPTIONS[name] = desc
    TensorIntrin.register(name, desc, impl)
    return name


DESCRIPTIONS: dict[str, PrimFunc] = {}
_GPU = ("shared", "local")

X86 = {
    "VNNI_DOT_16x4_INTRIN": _dot("dot_16x4_vnni", 16, 4, "uint8", "int8", "int32"),
    "AVX512_DOT_16x4_INTRIN": _dot("dot_16x4_avx512", 16, 4, "uint8", "int8", "int32"),
}
X86_DESCRIPTIONS = {"dot_product_16x4_u8i8i32_desc": DESCRIPTIONS["dot_16x4_vnni"]}
ARM = {
    "ARM_DOT_4x4_i8_NEON_INTRIN": _dot("dot_4x4_i8i8s32_neon", 4, 4, "int8", "int8", "int32"),
    "ARM_DOT_4x4_i8_SDOT_INTRIN": _dot("dot_4x4_i8i8s32_sdot", 4, 4, "int8", "int8", "int32"),
    "DP4A_S8S8S32_INTRIN": _dot("dp4a_s8s8s32", 1, 4, "int8", "int8", "int32", _GPU),
    "DP4A_S8U8S32_INTRIN": _dot("dp4a_s8u8s32", 1, 4, "int8", "uint8", "int32", _GPU),
    "DP4A_U8S8S32_INTRIN": _dot("dp4a_u8s8s32", 1, 4, "uint8", "int8", "int32", _GPU),
    "DP4A_U8U8U32_INTRIN": _dot("dp4a_u8u8u32", 1, 4, "uint8", "uint8", "uint32", _GPU),
}
HEXAGON = {
    "VRMPY_u8u8i32_INTRIN": _dot("dot_32x4_u8u8i32_vrmpy", 32, 4, "uint8", "uint8", "int32"),
    "VDMPY_i16i16i32_INTRIN": _dot("dot_product_32x2_i16i16i32_vdmpy", 32, 2, "int16", "int16", "int32"),
}
ROCM = {"AMDGPU_SDOT4_INTRIN": _dot("sdot4", 1, 4, "int8", "int8", "int32", _GPU)}
