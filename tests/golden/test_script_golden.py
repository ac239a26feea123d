"""Prints that must not change: each text below reads back to itself, character by character.

The ``tvm`` texts are also what TVM 0.26 prints for the same programs.
"""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from autosched.ir.excerpt import excerpt
from autosched.ir.functor import walk
from autosched.ir.printer import expr_text, stmt_text
from autosched.ir.stmt import Block, BufferStore, For
from autosched.script import parse

GEMM = '''\
# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def gemm(A: T.Buffer((1, 16, 1, 16), "int8"), B: T.Buffer((16, 16, 16, 16), "int8"), D: T.Buffer((1, 16, 1, 16), "int8")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C = T.sblock_alloc_buffer((1, 16, 1, 16), "int32")
        A_local_inp_buffer = T.sblock_alloc_buffer((1, 16, 1, 16), "int8", scope="local.inp_buffer")
        C_local_acc_buffer = T.sblock_alloc_buffer((1, 16, 1, 16), "int32", scope="local.acc_buffer")
        for I_1, J_0 in T.grid(1, 4):
            for J_1_init, i_init in T.grid(4, 1):
                for j_init in T.vectorized(16):
                    with T.sblock("C_init"):
                        v_I = T.axis.spatial(1, I_1)
                        v_J = T.axis.spatial(16, J_0 * 4 + J_1_init)
                        v_i, v_j = T.axis.remap("SS", [i_init, j_init])
                        T.reads()
                        T.writes(C_local_acc_buffer[v_I, v_J, v_i, v_j])
                        C_local_acc_buffer[v_I, v_J, v_i, v_j] = 0
            for K in T.serial(16, annotations={"pragma_x": 1}):
                for ax0 in T.unroll(16):
                    with T.sblock("A_local.inp_buffer"):
                        v0 = T.axis.spatial(1, 0)
                        v1 = T.axis.spatial(16, K)
                        v2 = T.axis.spatial(1, 0)
                        v3 = T.axis.spatial(16, ax0)
                        T.reads(A[v0, v1, v2, v3])
                        T.writes(A_local_inp_buffer[v0, v1, v2, v3])
                        A_local_inp_buffer[v0, v1, v2, v3] = A[v0, v1, v2, v3]
                for J_1, i, j, k in T.grid(4, 1, 16, 16):
                    with T.sblock("C_update"):
                        v_I = T.axis.spatial(1, I_1)
                        v_J = T.axis.spatial(16, J_0 * 4 + J_1)
                        v_i, v_j, v_K, v_k = T.axis.remap("SSRR", [i, j, K, k])
                        T.where(J_0 * 4 + J_1 < 15 or not k == 3)
                        T.reads(C_local_acc_buffer[v_I, v_J, v_i, v_j], A_local_inp_buffer[v_I, v_K, v_i, v_k], B[v_J, v_K, v_j, v_k])
                        T.writes(C_local_acc_buffer[v_I, v_J, v_i, v_j])
                        T.sblock_attr({"hint": {"a": [1, 2]}})
                        C_local_acc_buffer[v_I, v_J, v_i, v_j] = C_local_acc_buffer[v_I, v_J, v_i, v_j] + T.Cast("int32", A_local_inp_buffer[v_I, v_K, v_i, v_k]) * T.Cast("int32", B[v_J, v_K, v_j, v_k])
        for I_1, J, i, j in T.grid(1, 16, 1, 16):
            with T.sblock("D"):
                v_I, v_J, v_i, v_j = T.axis.remap("SSSS", [I_1, J, i, j])
                T.reads(C[v_I, v_J, v_i, v_j])
                T.writes(D[v_I, v_J, v_i, v_j])
                D[v_I, v_J, v_i, v_j] = T.Cast("int8", C[v_I, v_J, v_i, v_j])
'''

TENSORIZED = '''\
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def main(A: T.Buffer(("n", 16), "int8"), B: T.Buffer((n, 16), "int32"), C: T.Buffer((n + 1, 16), "float32"), m: T.int32):
    n = T.int32()
    with T.sblock("root"):
        T.reads()
        T.writes()
        T.sblock_attr({"pragma": True})
        for i in range(n):
            for j_0 in T.thread_binding(4, thread="vthread"):
                with T.sblock("gemm_o"):
                    vi, vj_o = T.axis.remap("SS", [i, j_0])
                    T.reads(A[vi, 0:16])
                    T.writes(B[vi, vj_o * 4:vj_o * 4 + 4])
                    inp = T.match_buffer(A[vi, 0:16], (16,), "int8", strides=("s0",), offset_factor=1)
                    out = T.match_buffer(B[vi, vj_o * 4:vj_o * 4 + 4], (4,), "int32")
                    T.call_extern("int32", "vta.gemm", out.data, inp.data, inp.strides[0], inp.elem_offset)
            for j in range(2, 6):
                with T.sblock("relu"):
                    vi = T.axis.spatial(n, i)
                    vj = T.axis.spatial((1, 5), j - 1)
                    T.reads(C[vi, vj], B[vi, vj])
                    T.writes(C[vi, vj])
                    with T.init():
                        C[vi, vj] = T.float32(0.0)
                    C[vi, vj] = T.max(C[vi, vj], T.Cast("float32", T.shift_right(B[vi, vj], 8))) * T.float32(-1.0)
            if i < m:
                C[i, 0] = T.if_then_else(i % 2 == 0, T.exp(C[i, 1]), T.float32("inf"))
            else:
                x: T.let[T.int32] = i - (m - 1)
                C[i, 1] = T.Select(x >= 0 and x < 4, T.float32(1.0), T.Cast("float32", x // 2))
'''

OLD = '''\
# from tvm.script import tir as T

@T.prim_func
def main(var_A: T.handle, var_B: T.handle, D: T.Buffer((16,), "float32")):
    n = T.int32()
    A = T.match_buffer(var_A, (n, 16), "int8")
    B = T.match_buffer(var_B, (n, 16), "int8")
    T.func_attr({"tir.noalias": True, "autosched.value_ranges": {"A": [-5, 5]}})
    # with T.block("root"):
    C = T.alloc_buffer((2, 2048), axis_separators=[1])
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            T.reads(A[vi, 0])
            T.writes(B[vi, 0])
            T.block_attr({"double_buffer_scope": 0})
            B[vi, 0] = A[vi, 0]
    for i in T.parallel(16):
        with T.LetStmt(i * 2) as x:
            C[0, x] = D[i]
        D[i] = C[0, i]
'''


@pytest.mark.parametrize(("text", "dialect"), [(GEMM, "tvm"), (TENSORIZED, "tvm"), (OLD, "block")])
def test_golden_texts_print_as_they_read(text: str, dialect: str) -> None:
    program = parse(text)
    assert program.script(dialect) == text
    other = "block" if dialect == "tvm" else "tvm"
    assert parse(program.script(other)) == program


def test_excerpts_mark_the_culprits() -> None:
    func = parse(GEMM)["gemm"]
    update = next(s for s in walk(func.body) if isinstance(s, Block) and s.name == "C_update")
    K = next(s for s in walk(func.body) if isinstance(s, For) and s.var.name == "K")
    assert excerpt(func, [update.ident, K.var], context=1) == """\
              C_local_acc_buffer[v_I, v_J, v_i, v_j] = 0
> for K in T.serial(16, annotations={"pragma_x": 1}):
      for ax0 in T.unroll(16):
  ...
      for J_1, i, j, k in T.grid(4, 1, 16, 16):
>         with T.sblock("C_update"):
              v_I = T.axis.spatial(1, I_1)"""
    acc = func.body.block.alloc_buffers[2]
    assert excerpt(func, [acc], context=0) == (
        '> C_local_acc_buffer = T.sblock_alloc_buffer((1, 16, 1, 16), "int32", scope="local.acc_buffer")')
    stores = [s for s in walk(func.body) if isinstance(s, BufferStore)]
    many = excerpt(func, stores, context=9, max_lines=5).splitlines()
    assert len(many) == 5
    assert sum(line.startswith("> ") for line in many) == 2
    assert many[-1] == "  and 2 more: C_local_acc_buffer[...] = ..., D[...] = ..."
    assert excerpt(func, [update.body, object()], context=0).startswith("> C_local_acc_buffer[v_I")  # type: ignore[list-item]
    assert excerpt(func, [object()]) == ""  # type: ignore[list-item]


def test_fragments_print_without_their_program() -> None:
    func = parse(GEMM)["gemm"]
    store = [s for s in walk(func.body) if isinstance(s, BufferStore)][-1]
    assert stmt_text(store) == 'D[v_I, v_J, v_i, v_j] = T.Cast("int8", C[v_I, v_J, v_i, v_j])'
    assert expr_text(store.value) == 'T.Cast("int8", C[v_I, v_J, v_i, v_j])'


def test_unknown_dialects_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown dialect 'relay'; known: tvm, block"):
        parse(OLD).script("relay")
