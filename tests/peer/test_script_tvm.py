"""Our text in TVM: it reads what we print, and means the same; its print of that reads back here."""

from __future__ import annotations

import pytest

from autosched import te
from autosched.ir import PrimFunc
from autosched.script import parse

pytestmark = pytest.mark.oracle


def _gemm() -> PrimFunc:
    A, B = (te.placeholder((4, 2, 1, 16), dtype="int8", name=n) for n in "AB")
    K, k = te.reduce_axis((0, 2), name="K"), te.reduce_axis((0, 16), name="k")
    C = te.compute((4, 1, 4), lambda a, b, c: te.sum(
        A[a, K, b, k].astype("int32") * B[c, K, b, k].astype("int32"), axis=[K, k]), name="C")
    D = te.compute((4, 1, 4), lambda *i: te.max(te.shift_right(C(*i), 8), 0).astype("int8"), name="D")
    return te.create_prim_func([A, B, D])


def _pad() -> PrimFunc:
    A = te.placeholder((8, 8), name="A")
    P = te.compute((10, 10), lambda h, w: te.if_then_else(te.all(h >= 1, h < 9, w >= 1, w < 9), A[h - 1, w - 1], 0.0),
                   name="pad")
    k = te.reduce_axis((0, 3), name="k")
    B = te.compute((8, 8), lambda h, w: te.sum(P[h + k, w + k], axis=k), name="B")
    return te.create_prim_func([A, B])


TEXTS = [
    "for i, j in T.grid(16, 16):\n    with T.sblock('B'):\n        vi, vj = T.axis.remap('SS', [j, i])\n"
    "        B[vi, vj] = -A[vi, vj] + T.Select(vi < 3 and not vj == 2, 1, A[vi, 0]) // 3 % 5",
    "for i in T.serial(4, annotations={'a': [1, {'b': 'c'}]}):\n    for j in T.vectorized(4):\n"
    "        with T.sblock('B'):\n            vi = T.axis.spatial(16, i * 4 + j)\n            T.where(i * 4 + j < 13)\n"
    "            T.sblock_attr({'k': 1})\n            B[vi, 0] = T.max(A[vi, 0], 3) << 2",
    "for i in range(2, 7):\n    with T.sblock('B'):\n        vi = T.axis.reduce((2, 7), i)\n        T.reads(A[vi, 0:16])\n"
    "        T.writes(B[vi, 0:16])\n        a = T.match_buffer(A[vi, 0:16], (16,), 'int32', offset_factor=1)\n"
    "        T.call_extern('int32', 'go', a.data, a.elem_offset, B.data)",
    "C = T.sblock_alloc_buffer((16,), 'int32', scope='local')\nx: T.let[T.int32] = 3\nif A[0, 0] < x:\n    C[x] = 1\n"
    "else:\n    C[x - 1] = T.cast(T.float32(2.5), 'int32')",
]


def programs() -> list[PrimFunc]:
    head = "@T.prim_func\ndef main(A: T.Buffer((16, 16), 'int32'), B: T.Buffer((16, 16), 'int32')):\n"
    texts = [parse(head + "".join(f"    {line}\n" for line in t.splitlines())) for t in TEXTS]
    return [_gemm(), _pad(), *(t for t in texts if isinstance(t, PrimFunc))]


@pytest.mark.parametrize("func", programs(), ids=lambda f: str(hash(f) % 10000))
def test_text_means_the_same_in_tvm(func: PrimFunc) -> None:
    tvm = pytest.importorskip("tvm")
    ffi = pytest.importorskip("tvm_ffi")
    there = tvm.script.from_source(func.script(), check_well_formed=False)
    printed = there.script()
    back = parse(printed)
    assert back == func
    assert ffi.structural_equal(there, tvm.script.from_source(back.script(), check_well_formed=False))
