"""A small program for every primitive that rewrites one, and what is called on it: what their docstrings show."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

HEAD = "@T.prim_func\ndef main({params}):\n"


@dataclass(frozen=True)
class Example:
    """A primitive's example.

    Args:
        program: parameters, ``|``, then the body, as script.
        call: what is called on ``sch``.
        setup: what was called before.
    """

    program: str
    call: str
    setup: str = ""


def stage(out: str, value: str, axes: str = "i", extent: int = 16) -> str:
    """A block that writes ``out[v...]``."""
    names = axes.split()
    loops = f"for {', '.join(names)} in T.grid({', '.join([str(extent)] * len(names))}):" if len(names) > 1 else (
        f"for {names[0]} in range({extent}):")
    remap = f"v{', v'.join(names)} = T.axis.remap(\"{'S' * len(names)}\", [{', '.join(names)}])"
    return f"{loops}\n    with T.sblock(\"{out.split('[')[0]}\"):\n        {remap}\n        {out} = {value}\n"


A = 'A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")'
AA = 'A: T.Buffer((16, 16), "int32"), C: T.Buffer((16, 16), "int32")'
MID = 'B = T.sblock_alloc_buffer((16,), "int32")\n'
MID2 = 'B = T.sblock_alloc_buffer((16, 16), "int32")\n'
ONE = (A, stage("C[vi]", "A[vi] * 2"))
WIDE = ('A: T.Buffer((128,), "int32"), C: T.Buffer((128,), "int32")', stage("C[vi]", "A[vi] * 2", extent=128))
TWO = (A, MID + stage("B[vi]", "A[vi] * 2") + stage("C[vi]", "B[vi] + 1"))
GRID = (AA, stage("C[vi, vj]", "A[vi, vj] * 2", "i j"))
GRIDS = (AA, MID2 + stage("B[vi, vj]", "A[vi, vj] * 2", "i j") + stage("C[vi, vj]", "B[vi, vj] + 1", "i j"))
SUM = ('A: T.Buffer((16, 16), "int32"), C: T.Buffer((16,), "int32")', """for i, k in T.grid(16, 16):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = 0
        C[vi] = C[vi] + A[vi, vk]
""")
BIASED = ('A: T.Buffer((16, 16), "int32"), bias: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")',
          MID + SUM[1].replace("C", "B") + stage("C[vi]", "B[vi] + bias[vi]"))
PRODUCT = (
    'A: T.Buffer((1, 16), "int8", scope="local.inp_buffer"), W: T.Buffer((16, 16), "int8", scope="local.wgt_buffer"), '
    'C: T.Buffer((1, 16), "int32", scope="local.acc_buffer")', """\
for i, j, k in T.grid(1, 16, 16):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
""")
PADDED = ('A: T.Buffer((16,), "int32"), C: T.Buffer((20,), "int32")',
          stage("C[vi]", "T.if_then_else(2 <= vi and vi < 18, A[vi - 2], 0)", extent=20))
TAPS = ('A: T.Buffer((16,), "int32"), W: T.Buffer((3,), "int32"), C: T.Buffer((16,), "int32")', """\
for i, k in T.grid(16, 3):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = 0
        C[vi] = C[vi] + T.if_then_else(1 <= vi + vk and vi + vk < 17, A[vi + vk - 1], 0) * W[vk]
""")
SCALED = ('A: T.Buffer((16,), "int8"), W: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int32")',
          stage("C[vi]", 'T.Cast("int32", A[vi]) * T.Cast("int32", W[vi])'))

EPILOGUE = (
    'A: T.Buffer((16, 16), "int8"), W: T.Buffer((16,), "int8"), b: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int8")',
    'T.func_attr({"autosched.value_ranges": {"b": [-16384, 16384]}})\n' + MID.replace("B", "C") + MID.replace("B", "R")
    + SUM[1].replace("A[vi, vk]", 'T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vk])')
    + stage("R[vi]", "T.min(T.max((C[vi] >> 8) + b[vi], 0), 127)") + stage("D[vi]", 'T.Cast("int8", R[vi])'))

POOL = ('X: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")', 'P = T.sblock_alloc_buffer((18,), "int32")\n'
        + stage("P[vi]", "T.if_then_else(1 <= vi and vi < 17, X[vi - 1], -128)", extent=18) + """for i, k in T.grid(16, 3):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = -128
        C[vi] = T.max(C[vi], P[vi + vk])
""")

EXAMPLES: dict[str, Example] = {
    "split": Example("|".join(WIDE), 'sch.split("i", factors=[None, 32])'),
    "fuse": Example("|".join(GRID), 'sch.fuse("i", "j")'),
    "reorder": Example("|".join(GRID), 'sch.reorder("j", "i")'),
    "add_unit_loop": Example("|".join(ONE), 'sch.add_unit_loop("C")'),
    "loop_partition": Example("|".join(WIDE), 'sch.loop_partition("i", factors=[2, None])'),
    "merge": Example("|".join(('A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")',
                               stage("B[vi]", "A[vi] * 2") + stage("C[vj]", "A[vj] + 1", "j"))), 'sch.merge("i", "j")'),
    "partition_block": Example("|".join(WIDE), 'sch.partition_block("i", factors=[96, None])'),
    "parallel": Example("|".join(ONE), 'sch.parallel("i")'),
    "vectorize": Example("|".join(ONE), 'sch.vectorize("i")'),
    "bind": Example("|".join(ONE), 'sch.bind("i", "vthread")'),
    "unroll": Example("|".join(ONE), 'sch.unroll("i")'),
    "annotate": Example("|".join(ONE), 'sch.annotate(sch.get_axis("i"), "vta.loop", "unroll")'),
    "unannotate": Example("|".join(ONE), 'sch.unannotate(sch.get_axis("i"), "vta.loop")',
                          'sch.annotate(sch.get_axis("i"), "vta.loop", "unroll")'),
    "compute_at": Example("|".join(GRIDS), 'sch.compute_at("B", sch.get_loops("C")[0])'),
    "reverse_compute_at": Example("|".join(GRIDS), 'sch.reverse_compute_at("C", sch.get_loops("B")[0])'),
    "compute_inline": Example("|".join(TWO), 'sch.compute_inline("B")'),
    "reverse_compute_inline": Example("|".join(TWO), 'sch.reverse_compute_inline("C")'),
    "recompute_at_consumers": Example("|".join((
        'A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")',
        MID + stage("B[vi]", "A[vi] * 2") + stage("C[vi]", "B[vi] + 1") + stage("D[vi]", "B[vi] + 2"))),
        'sch.recompute_at_consumers("B")'),
    "cache_read": Example("|".join(ONE), 'sch.cache_read("C", 0, "local.inp_buffer")'),
    "cache_write": Example("|".join(ONE), 'sch.cache_write("C", 0, "local.acc_buffer")'),
    "cache_inplace": Example("|".join(('C: T.Buffer((16,), "int32")', stage("C[vi]", "C[vi] * 2"))),
                             'sch.cache_inplace("C", 0, "local")'),
    "cache_index": Example("|".join((
        AA, stage("C[vi, vj]", "A[vi // 4 + vj // 4, vj // 2]", "i j"))), 'sch.cache_index("C", "global")'),
    "reindex": Example("|".join((AA, stage("C[vi, vj]", "A[vj, vi] * 2", "i j"))), 'sch.reindex("C", ("read", 0))'),
    "reindex_cache_read": Example("|".join(GRID), 'sch.reindex_cache_read("C", 0, "shared", lambda i, j: (j, i))'),
    "reindex_cache_write": Example("|".join(GRID), 'sch.reindex_cache_write("C", 0, "shared", lambda i, j: (j, i))'),
    "read_at": Example("|".join(GRID), 'sch.read_at(sch.get_loops("C")[0], "C", 0, "shared")'),
    "write_at": Example("|".join(GRID), 'sch.write_at(sch.get_loops("C")[0], "C", 0, "local")'),
    "set_scope": Example("|".join(TWO), 'sch.set_scope("B", 0, "local.acc_buffer")'),
    "unsafe_set_dtype": Example("|".join(TWO), 'sch.unsafe_set_dtype("B", 0, "int8")'),
    "storage_align": Example("|".join(GRIDS), 'sch.storage_align("B", 0, axis=0, factor=32, offset=1)'),
    "double_buffer": Example("|".join(GRIDS), 'sch.double_buffer("B")', 'sch.compute_at("B", sch.get_loops("C")[0])'),
    "set_axis_separator": Example("|".join(GRIDS), 'sch.set_axis_separator("B", ("write", 0), [1])'),
    "transform_layout": Example("|".join(TWO), 'sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4))'),
    "transform_block_layout": Example("|".join(GRID), 'sch.transform_block_layout("C", lambda i, j: (i * 16 + j,))'),
    "annotate_buffer_access": Example("|".join(ONE), 'sch.annotate_buffer_access("C", 0, "read", lambda i: ((0, i + 1),))'),
    "unsafe_hide_buffer_access": Example("|".join(ONE), 'sch.unsafe_hide_buffer_access("C", "read", [0])'),
    "host_stage": Example("|".join(TWO), 'sch.host_stage("B")'),
    "decompose_padding": Example("|".join(PADDED), 'sch.decompose_padding("C", sch.get_loops("C")[0])'),
    "rolling_buffer": Example("|".join((
        'A: T.Buffer((10,), "int32"), C: T.Buffer((8,), "int32")', 'B = T.sblock_alloc_buffer((10,), "int32")\n'
        + stage("B[vi]", "A[vi] * 2", extent=10) + """for i, k in T.grid(8, 3):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = 0
        C[vi] = C[vi] + B[vi + vk]
""")), 'sch.rolling_buffer("B", 0)', 'o, _ = sch.split(sch.get_loops("C")[0], factors=[2, 4])\nsch.compute_at("B", o)'),
    "decompose_reduction": Example("|".join(SUM), 'sch.decompose_reduction("C", "k")'),
    "fuse_reduction_epilogue": Example("|".join(BIASED), 'sch.fuse_reduction_epilogue("B", "C")'),
    "rfactor": Example("|".join(SUM), 'sch.rfactor(ki, 1)', '_, ki = sch.split("k", factors=[None, 4])'),
    "pad_einsum": Example("|".join((
        'A: T.Buffer((16, 10), "int32"), C: T.Buffer((16,), "int32")', SUM[1].replace("T.grid(16, 16)", "T.grid(16, 10)"))),
        'sch.pad_einsum("C", [1, 16])'),
    "pad_block": Example("|".join((
        'A: T.Buffer((10,), "int32"), C: T.Buffer((10,), "int32")', 'B = T.sblock_alloc_buffer((10,), "int32")\n'
        + stage("B[vi]", "A[vi] * 2", extent=10) + stage("C[vi]", "B[vi] + 1", extent=10))), 'sch.pad_block("B", [16])'),
    "drop_zero_terms": Example("|".join(TAPS), 'sch.drop_zero_terms("C_update")', 'sch.decompose_reduction("C", "k")'),
    "decompose_value": Example("|".join((A, stage("C[vi]", "T.max(A[vi] + 1, 0)"))), 'sch.decompose_value("C", [0])'),
    "reorder_addends": Example("|".join((
        'A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")',
        stage("C[vi]", "A[vi] + (B[vi] + 1)"))), 'sch.reorder_addends("C", [1, 0, 2])'),
    "diagonalize": Example("|".join(SCALED), 'sch.diagonalize("C", 0, 1)'),
    "toeplitz": Example("|".join((
        'A: T.Buffer((16,), "int8"), W: T.Buffer((3,), "int8"), C: T.Buffer((14,), "int32")', """for i, k in T.grid(14, 3):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = 0
        C[vi] = C[vi] + T.Cast("int32", A[vi + vk]) * T.Cast("int32", W[vk])
""")), 'sch.toeplitz("C", 0, 1, 7)'),
    "multiply_by_ones": Example("|".join((
        'A: T.Buffer((16,), "int8"), C: T.Buffer((14,), "int32")', """for i, k in T.grid(14, 3):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = 0
        C[vi] = C[vi] + T.Cast("int32", A[vi + vk])
""")), 'sch.multiply_by_ones("C")'),
    "repeat_read": Example("|".join((
        'A: T.Buffer((18,), "int32"), C: T.Buffer((16, 3), "int32")', """for i, j in T.grid(16, 3):
    with T.sblock("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi + vj] * 2
""")), 'sch.repeat_read("C", 0, lambda i, j: (i // 4, i % 4 + j), lambda a, b: (a * 4 + b,))'),
    "separate_padding": Example("|".join((
        'A: T.Buffer((18,), "int32"), B: T.Buffer((6, 4), "int32")', 'B_all = T.sblock_alloc_buffer((6, 4), "int32")\n'
        """for i, j in T.grid(6, 4):
    with T.sblock("B_all"):
        vi, vj = T.axis.remap("SS", [i, j])
        B_all[vi, vj] = T.if_then_else(5 <= vi * 4 + vj and vi * 4 + vj < 20, A[vi * 4 + vj - 5], 0)
for i, j in T.grid(6, 4):
    with T.sblock("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = B_all[vi, vj] + 1
""")), 'sch.separate_padding("B_all")'),
    "diagonal_by_gemm": Example("|".join((
        'A: T.Buffer((16,), "int8"), D: T.Buffer((16, 16), "int8")', """for i, k in T.grid(16, 16):
    with T.sblock("D"):
        vi, vk = T.axis.remap("SS", [i, k])
        D[vi, vk] = T.if_then_else(vi == vk, A[vi], T.int8(0))
""")), 'sch.diagonal_by_gemm("D")'),
    "fold_epilogue": Example("|".join(EPILOGUE), 'sch.fold_epilogue("R")'),
    "advance_constant": Example("|".join((
        'A: T.Buffer((16,), "int8"), b: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int32")',
        'T.func_attr({"autosched.value_ranges": {"b": [-16384, 16384]}})\n' + MID.replace("B", "R")
        + stage("R[vi]", 'T.min(T.max(T.shift_right(T.Cast("int32", A[vi]) * 64 + b[vi], 8), 0), 127)')
        + stage("C[vi]", 'T.shift_right(R[vi] + T.Cast("int32", D[vi]) + 1, 1)'))), 'sch.advance_constant("C")'),
    "advance_shift": Example("|".join((
        'A: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int32")',
        'T.func_attr({"autosched.value_ranges": {"A": [-16384, 16384]}})\n' + MID.replace("B", "R")
        + stage("R[vi]", "T.min(T.max(T.shift_right(A[vi], 8), 0), 127)")
        + stage("C[vi]", 'T.shift_right(R[vi] + T.Cast("int32", D[vi]) * 2 + 1, 1)'))), 'sch.advance_shift("C")'),
    "delay_shift": Example("|".join((
        'A: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int32")',
        stage("C[vi]", 'T.max(T.shift_right(T.Cast("int32", A[vi]) * 13, 7) - T.Cast("int32", A[vi]), 0)'))),
        'sch.delay_shift("C")'),
    "drop_clip": Example("|".join((
        'A: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")',
        'T.func_attr({"autosched.value_ranges": {"A": [-16384, 16384], "D": [0, 127]}})\n' + MID.replace("B", "R")
        + stage("R[vi]", "T.min(T.max(A[vi], 0), 127)") + stage("C[vi]", "T.min(R[vi] + D[vi], 127)"))),
        'sch.drop_clip("R")'),
    "reuse_clip": Example("|".join((
        'A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")',
        stage("C[vi]", "T.min(T.max(T.shift_right(A[vi], 8), -128), 127)")
        + stage("D[vi]", "T.min(T.max(T.shift_right(A[vi], 8), 0), 127)"))), 'sch.reuse_clip("D", "C")'),
    "raise_epilogue": Example("|".join(EPILOGUE), 'sch.raise_epilogue("R")', 'sch.fold_epilogue("R")'),
    "offset_epilogue": Example("|".join(EPILOGUE).replace(", b: T.Buffer((16,), \"int32\")", "").replace(
        'T.func_attr({"autosched.value_ranges": {"b": [-16384, 16384]}})\n', "").replace(
        "T.min(T.max((C[vi] >> 8) + b[vi], 0), 127)", "T.min(T.max((C[vi] + 64) >> 7, -128), 127)"),
        'sch.offset_epilogue("R")', 'sch.fold_epilogue("R")'),
    "cast_by_gemm": Example("|".join((
        'R: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")',
        stage("D[vi]", 'C[vi] + T.Cast("int32", R[vi]) * 4'))), 'sch.cast_by_gemm("D", 0, 1)'),
    "add_by_gemm": Example("|".join((
        'C: T.Buffer((16,), "int32"), b: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")',
        'T.func_attr({"autosched.value_ranges": {"b": [-16384, 16384]}})\n' + stage("D[vi]", "C[vi] + b[vi]"))),
        'sch.add_by_gemm("D", 0, "b")'),
    "cache_cast": Example("|".join((
        'A: T.Buffer((16, 4), "int8"), C: T.Buffer((16,), "int32")', """for i, k in T.grid(16, 4):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = -128
        C[vi] = T.max(C[vi], T.Cast("int32", A[vi, vk]))
""")), 'sch.cache_cast("C", 0)'),
    "expand_reduction": Example("|".join((
        'A: T.Buffer((18,), "int32"), C: T.Buffer((16,), "int32")', """for i, k in T.grid(16, 3):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = 0
        C[vi] = C[vi] + A[vi + vk]
""")), 'sch.expand_reduction("C")'),
    "share_value": Example("|".join((
        'A: T.Buffer((18,), "int32"), B: T.Buffer((18,), "int32"), C: T.Buffer((16,), "int32")',
        stage("C[vi]", "T.max(A[vi] + B[vi], A[vi + 2] + B[vi + 2])"))), 'sch.share_value("C", [[0], [1]])'),
    "share_reduction": Example("|".join((
        'A: T.Buffer((19,), "int32"), C: T.Buffer((16,), "int32")', """for i, k in T.grid(16, 4):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = 0
        C[vi] = C[vi] + A[vi + vk]
""")), 'sch.share_reduction("C", 1, 2)'),
    "overlap_extrema": Example("|".join((
        'A: T.Buffer((18,), "int32"), C: T.Buffer((16,), "int32")',
        stage("C[vi]", "T.max(T.max(A[vi], A[vi + 1]), A[vi + 2])"))), 'sch.overlap_extrema("C", [[0, 0], [0, 1], [1]])'),
    "hoist_extremum": Example("|".join((
        'A: T.Buffer((16, 2), "int32"), C: T.Buffer((16,), "int32")',
        stage("C[vi]", "T.max(T.max(T.shift_right(A[vi, 0], 8), 0), T.max(T.shift_right(A[vi, 1], 8), 0))"))),
        'sch.hoist_extremum("C")'),
    "extrema_by_difference": Example("|".join((
        'R: T.Buffer((16,), "int8"), S: T.Buffer((16,), "int8"), D: T.Buffer((16,), "int32")',
        stage("D[vi]", 'T.max(T.Cast("int32", R[vi]), T.Cast("int32", S[vi]))'))), 'sch.extrema_by_difference("D")'),
    "simplify_value": Example("|".join((
        'A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int8")',
        stage("C[vi]", 'T.Cast("int8", T.Select(A[vi] < 0, 0, T.shift_right(A[vi], 4)))'))), 'sch.simplify_value("C")'),
    "expand_choice": Example("|".join((
        'A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((16,), "int32")',
        stage("C[vi]", "T.if_then_else(vi < 8, A[vi], B[vi - 8])"))), 'sch.expand_choice("C")'),
    "split_offset": Example("|".join((
        'A: T.Buffer((8, 4), "int8"), W: T.Buffer((16, 4), "int8"), C: T.Buffer((8, 16), "int32")',
        """for i, j, k in T.grid(8, 16, 4):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = 0
        C[vi, vj] = C[vi, vj] + (T.Cast("int32", A[vi, vk]) - 3) * T.Cast("int32", W[vj, vk])
""")), 'sch.split_offset("C")'),
    "complement_factor": Example("|".join((
        'A: T.Buffer((8, 4), "int8"), W: T.Buffer((16, 4), "int8"), z: T.Buffer((16,), "int32"), C: T.Buffer((8, 16), "int32")',
        """for i, j, k in T.grid(8, 16, 4):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = 0
        C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * (z[vj] - T.Cast("int32", W[vj, vk]))
""")), 'sch.complement_factor("C", "W")'),
    "join_init_behind": Example("|".join((
        'A: T.Buffer((16, 16), "int8"), W: T.Buffer((16,), "int8"), b: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int32")',
        """for i, k in T.grid(16, 16):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = T.Cast("int32", b[vi])
        C[vi] = C[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vk])
""")), 'sch.join_init_behind("C")'),
    "recompute_at_reads": Example("|".join((A, MID + stage("B[vi]", "A[vi] * 2") + stage(
        "C[vi]", "T.max(B[vi * 2], B[vi * 2 + 1])", extent=8).replace("C = ", ""))).replace(
        'C: T.Buffer((16,)', 'C: T.Buffer((8,)'), 'sch.recompute_at_reads("B")'),
    "add_negative": Example("|".join((
        'A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")',
        stage("C[vi]", "A[vi] * 2 - B[vi]"))), 'sch.add_negative("C", "B")'),
    "negate_sum": Example("|".join((
        'A: T.Buffer((4,), "int8"), W: T.Buffer((16, 4), "int8"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")',
        """T.func_attr({"autosched.value_ranges": {"W": [-127, 127]}})
S = T.sblock_alloc_buffer((16,), "int32")
for i, k in T.grid(16, 4):
    with T.sblock("S"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            S[vi] = 0
        S[vi] = S[vi] + T.Cast("int32", A[vk]) * T.Cast("int32", W[vi, vk])
""" + stage("C[vi]", "B[vi] - S[vi]"))), 'sch.negate_sum("S", "W")'),
    "scale_terms": Example("|".join((
        'A: T.Buffer((16, 9), "int8"), C: T.Buffer((16,), "int32")',
        """S = T.sblock_alloc_buffer((16,), "int32")
for i, k in T.grid(16, 9):
    with T.sblock("S"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            S[vi] = 0
        S[vi] = S[vi] + T.Cast("int32", A[vi, vk])
""" + stage("C[vi]", "T.shift_right(S[vi] * 57, 9)"))), 'sch.scale_terms("S")'),
    "reuse_block": Example("|".join((
        'A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")',
        """B = T.sblock_alloc_buffer((16,), "int32")
E = T.sblock_alloc_buffer((16,), "int32")
""" + stage("B[vi]", "A[vi] * 2") + stage("E[vi]", "A[vi] * 2") + stage("C[vi]", "B[vi] + 1") + stage("D[vi]", "E[vi] + 2"))),
        'sch.reuse_block("E", "B")'),
    "negate_factor": Example("|".join((
        'A: T.Buffer((16,), "int8"), W: T.Buffer((16,), "int8"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")',
        stage("C[vi]", 'B[vi] - T.Cast("int32", A[vi]) * T.Cast("int32", W[vi])'))), 'sch.negate_factor("C", "W")'),
    "push_negation": Example("|".join((
        'A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")',
        """T.func_attr({"autosched.value_ranges": {"B": [-32768, 32767]}})
""" + stage("C[vi]", "A[vi] - T.max(T.shift_right(B[vi], 4), 0)"))), 'sch.push_negation("C")'),
    "negate_by_doubling": Example("|".join((A, MID + stage("B[vi]", "T.min(T.max(A[vi], -7), 7)") + stage(
        "C[vi]", "A[vi] - B[vi]"))), 'sch.negate_by_doubling("B")'),
    "multiply_by_doubling": Example("|".join((A, stage("C[vi]", "T.shift_right(A[vi] * 77, 9)"))),
                                    'sch.multiply_by_doubling("C", [0])'),
    "mask_by_shifts": Example("|".join((A, stage("C[vi]", "T.bitwise_and(A[vi], 7)"))), 'sch.mask_by_shifts("C")'),
    "choose_by_clip": Example("|".join((A, stage("C[vi]", "T.Select(A[vi] < 5, -1, 2)"))), 'sch.choose_by_clip("C")'),
    "choose_by_switches": Example("|".join((
        A.replace("C: T.Buffer", 'B: T.Buffer((16,), "int32"), C: T.Buffer', 1),
        stage("C[vi]", "T.Select(B[vi] < 5, T.max(A[vi], 0), 0)"))), 'sch.choose_by_switches("C")'),
    "slide_reduction": Example("|".join((
        'A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")', """for i, k in T.grid(16, 16):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = -128
        C[vi] = T.max(C[vi], T.if_then_else(vk <= vi, A[vk], -128))
""")), 'sch.slide_reduction("C")'),
    "add_unit_iterator": Example("|".join((
        'A: T.Buffer((1, 16), "int32"), C: T.Buffer((1, 16), "int32")',
        stage("C[vi]", "A[0, vi] * 2").replace("C[vi]", "C[0, vi]"))),
        'sch.add_unit_iterator("C", ["C"])'),
    "partition_buffer": Example("|".join((
        A.replace("C: T.Buffer((16,)", "C: T.Buffer((8,)"),
        MID + stage("B[vi]", "A[vi] * 2") + stage("C[vi]", "B[vi] + B[vi + 8]", extent=8))),
        'sch.partition_buffer("B", 0, [8, None])'),
    "choose_by_limits": Example("|".join((AA, stage(
        "C[vi, vj]", "T.if_then_else(vj <= vi, T.max(A[vi, vj], -100), -100)", "i j"))), 'sch.choose_by_limits("C")'),
    "split_padding": Example(
        'A: T.Buffer((16,), "int8"), W: T.Buffer((3,), "int8"), C: T.Buffer((16,), "int32")|for i, k in T.grid(16, 3):\n'
        '    with T.sblock("C"):\n        vi, vk = T.axis.remap("SR", [i, k])\n        with T.init():\n            C[vi] = 0\n'
        '        C[vi] = C[vi] + T.Cast("int32", T.if_then_else(vi + vk < 16, A[vi + vk], T.int8(7))) * T.Cast("int32", W[vk])\n',
        'sch.split_padding("C")'),
    "split_bytes": Example("|".join((A, stage("C[vi]", "T.shift_right(A[vi], 16)"))), 'sch.split_bytes("C")'),
    "narrow_value": Example("|".join((
        'A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int32")',
        stage("C[vi]", 'T.Cast("int32", B[vi]) * T.min(T.max(A[vi], 0), 96)'))), 'sch.narrow_value("C", [1])'),
    "narrow_block": Example("|".join((
        'A: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int32")',
        MID + stage("B[vi]", 'T.if_then_else(vi < 8, T.Cast("int32", A[vi]), 0)') + stage("C[vi]", "B[vi] + 1"))),
        'sch.narrow_block("B")'),
    "split_terms": Example("|".join((
        'A: T.Buffer((16, 16), "int8"), B: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int32")',
        """for i, k in T.grid(16, 16):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = 0
        C[vi] = C[vi] + (T.Cast("int32", A[vi, vk]) - T.Cast("int32", B[vk])) * T.Cast("int32", B[vk])
""")), 'sch.split_terms("C")'),
    "cross_rows": Example('A: T.Buffer((16, 8), "int8"), B: T.Buffer((16, 8), "int8"), C: T.Buffer((16,), "int32")' +
                          """|for i, k in T.grid(16, 8):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = 0
        C[vi] = C[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vi, vk])
""", 'sch.cross_rows("C", 0, 16)'),
    "sum_by_matrix": Example('A: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int32")' + """|for i, k in T.grid(16, 4):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = 0
        C[vi] = C[vi] + T.Cast("int32", A[vi // 4 * 4 + vk])
""", 'sch.sum_by_matrix("C", 0, 0)'),
    "split_factor": Example("|".join((
        'A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")',
        stage("C[vi]", "A[vi] * B[vi]"))), 'sch.split_factor("C", [0])'),
    "blockize_stores": Example(SUM[0] + """|for i in range(16):
    C[i] = 0
    for k in range(16):
        C[i] = C[i] + A[i, k]
""", 'sch.blockize_stores("root")'),
    "expand_buffer": Example(A + """|t = T.sblock_alloc_buffer((1,), "int32")
for i in range(16):
    t[0] = A[i] * 2
    C[i] = t[0] + 1
""", 'sch.expand_buffer("root", 0)'),
    "compose_overwrite": Example('A: T.Buffer((16,), "int32"), P: T.Buffer((18,), "int32")|' + stage("P[vi]", "0", extent=18)
                                 + """for i in range(16):
    with T.sblock("inside"):
        vi = T.axis.spatial(16, i)
        P[vi + 1] = A[vi]
""", 'sch.compose_overwrite("P", "inside")'),
    "single_store": Example("|".join((SUM[0], """for i, k in T.grid(16, 16):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        if vk == 0:
            C[vi] = 0
        if vk <= vi:
            C[vi] = C[vi] + A[vi, vk]
""")), 'sch.single_store("C")'),
    "guard_factors": Example("|".join((
        'A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")',
        """for i, k in T.grid(16, 16):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = 0
        C[vi] = C[vi] + T.if_then_else(vi >= vk, A[vi - vk] * B[vk], 0)
""")), 'sch.guard_factors("C", [1])'),
    "separate_update": Example("|".join((A, stage("B[vi]", "A[vi] * 2").replace("B[vi] =", "C[vi] =") + stage(
        "D[vi]", "T.max(C[vi], 0)").replace("D[vi] =", "C[vi] ="))), 'sch.separate_update("D")'),
    "partition_reduction": Example("|".join(SUM), 'sch.partition_reduction("k", [10, None])'),
    "spread_operand": Example("|".join((
        'A: T.Buffer((16, 16), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16, 16), "int32")',
        stage("C[vi, vj]", "A[vi, vj] + B[vj]", "i j"))), 'sch.spread_operand("C", "B", 0)'),
    "loop_fission": Example("|".join((
        'A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")', """B = T.sblock_alloc_buffer((16,), "int32")
for i in range(16):
    with T.sblock("B"):
        vi = T.axis.spatial(16, i)
        B[vi] = A[vi] + 1
    with T.sblock("C"):
        vi = T.axis.spatial(16, i)
        C[vi] = B[vi] * 2
""")), 'sch.loop_fission("i")'),
    "widen_block": Example("|".join((
        'A: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int8")', stage("C[vi]", "T.max(A[vi], T.int8(0))"))),
        'sch.widen_block("C")'),
    "renest": Example("|".join(('A: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32")', """for f in range(48):
    with T.sblock("C"):
        vi = T.axis.spatial(6, f // 8)
        vj = T.axis.spatial(8, f % 8)
        C[vi, vj] = A[vi, vj] + 1
""")), 'sch.renest("C")'),
    "compose_reduction": Example("|".join((
        'A: T.Buffer((16, 4), "int32"), C: T.Buffer((16,), "int32")', """for i in range(16):
    with T.sblock("begin"):
        vi = T.axis.spatial(16, i)
        C[vi] = 1
for i, k in T.grid(16, 4):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        C[vi] = C[vi] + A[vi, vk]
""")), 'sch.compose_reduction("begin", "C")'),
    "add_padding": Example("|".join((
        'X: T.Buffer((16, 16), "int8"), C: T.Buffer((18, 16), "int32")', 'P = T.sblock_alloc_buffer((18, 16), "int8")\n'
        """for i, j in T.grid(18, 16):
    with T.sblock("P"):
        vi, vj = T.axis.remap("SS", [i, j])
        P[vi, vj] = T.if_then_else(1 <= vi and vi < 17, X[vi - 1, vj], T.int8(-128))
for i, j in T.grid(18, 16):
    with T.sblock("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = T.Cast("int32", P[vi, vj])
""")), 'sch.add_padding("P")'),
    "zero_padding": Example("|".join(POOL), 'sch.zero_padding("P")'),
    "trim_reduction": Example("|".join((
        TAPS[0].replace("16", "1"), TAPS[1].replace("T.grid(16", "T.grid(1").replace("17", "2"))), 'sch.trim_reduction("C")'),
    "drop_neutral_terms": Example("|".join(POOL), 'sch.drop_neutral_terms("C_update")',
                                  'sch.decompose_reduction("C", "k")\nsch.zero_padding("P")'),
    "tensorize": Example("|".join(PRODUCT), 'sch.tensorize(sch.get_axis("i"), "vta.gemm.1x16x16")'),
    "blockize": Example("|".join(WIDE), 'sch.blockize(i1)', '_, i1 = sch.split("i", factors=[8, 16])'),
    "reorder_block_iter_var": Example("|".join(GRID), 'sch.reorder_block_iter_var("C", [1, 0])'),
}


def shown(sch: Any) -> str:
    """The lines of a program that differ from one to the other: without its head, and without regions."""
    lines = sch.script().split("\n")
    heads = ('# with T.sblock("root"):', "def main(")  # a root that is more than a frame is part of the program
    start = next(n for head in heads for n, line in enumerate(lines) if line.strip().startswith(head)) + 1
    body = [line for line in lines[start:] if line.strip()]
    return textwrap.dedent("\n".join(body))


def without_regions(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.strip().startswith(("T.reads(", "T.writes(")))


def before_and_after(example: Example) -> tuple[str, str]:
    """What a docstring shows; regions only where they are what changes."""
    from autosched.schedule import Schedule
    from autosched.script import parse

    params, _, body = example.program.partition("|")
    head = "from tvm.script import tirx as T\n\n" + HEAD.format(params=params)
    sch = Schedule(parse(head + textwrap.indent(body, "    ")))
    names: dict[str, Any] = {"sch": sch}
    exec(example.setup, names)
    before = shown(sch)
    exec(example.call, names)
    after = shown(sch)
    if without_regions(before) != without_regions(after):
        before, after = without_regions(before), without_regions(after)
    return before, after


def paragraph(example: Example) -> str:
    """The part of a docstring, without its indentation."""
    before, after = before_and_after(example)
    indent = " " * 4
    shown_before, shown_after = textwrap.indent(before, indent), textwrap.indent(after, indent)
    return f"Before::\n\n{shown_before}\n\nAfter ``{example.call}``::\n\n{shown_after}"
