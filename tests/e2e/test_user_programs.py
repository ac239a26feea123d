"""Programs that are no named workloads: unpacked operands, and a transposed convolution, down to the machine."""

from __future__ import annotations

import numpy as np

from autosched.ir import PrimFunc
from autosched.ir.interp import run
from autosched.lower import lower_table
from autosched.schedule import Schedule
from autosched.script import T
from autosched.target import get_target
from sim.machine import run as execute

INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"


@T.prim_func
def matmul(A: T.Buffer((8, 64), "int8"), W: T.Buffer((32, 64), "int8"), out: T.Buffer((8, 32), "int8")):
    C = T.sblock_alloc_buffer((8, 32), "int32")
    for m, n, k in T.grid(8, 32, 64):
        with T.sblock("C"):
            vm, vn, vk = T.axis.remap("SSR", [m, n, k])
            with T.init():
                C[vm, vn] = 0
            C[vm, vn] = C[vm, vn] + T.Cast("int32", A[vm, vk]) * T.Cast("int32", W[vn, vk])
    for m, n in T.grid(8, 32):
        with T.sblock("out"):
            vm, vn = T.axis.remap("SS", [m, n])
            out[vm, vn] = T.Cast("int8", C[vm, vn])


@T.prim_func
def upsampled(
    data: T.Buffer((2, 6, 1, 16), "int8"), kernel: T.Buffer((2, 4, 16, 16), "int8"), out: T.Buffer((12, 1, 16), "int8")
):
    gaps = T.sblock_alloc_buffer((2, 15, 1, 16), "int8")
    C = T.sblock_alloc_buffer((12, 1, 16), "int32")
    for c, y, b, i in T.grid(2, 15, 1, 16):
        with T.sblock("gaps"):
            vc, vy, vb, vi = T.axis.remap("SSSS", [c, y, b, i])
            gaps[vc, vy, vb, vi] = T.if_then_else(
                vy >= 2 and vy < 14 and vy % 2 == 0, data[vc, (vy - 2) // 2, vb, vi], T.int8(0)
            )
    for y, b, o, c, k, i in T.grid(12, 1, 16, 2, 4, 16):
        with T.sblock("C"):
            vy, vb, vo, vc, vk, vi = T.axis.remap("SSSRRR", [y, b, o, c, k, i])
            with T.init():
                C[vy, vb, vo] = 0
            C[vy, vb, vo] = C[vy, vb, vo] + T.Cast("int32", gaps[vc, vy + vk, vb, vi]) * T.Cast(
                "int32", kernel[vc, vk, vo, vi]
            )
    for y, b, o in T.grid(12, 1, 16):
        with T.sblock("out"):
            vy, vb, vo = T.axis.remap("SSS", [y, b, o])
            out[vy, vb, vo] = T.Cast("int8", C[vy, vb, vo])


def random_int8(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-128, 128, shape).astype("int8")


def on_the_machine(func: PrimFunc, inputs: dict[str, np.ndarray], wanted: np.ndarray) -> dict[str, int]:
    """Runs a scheduled program by the interpreter and on the simulated machine; returns what the machine counted."""
    arrays = [inputs[b.name].copy() if b.name in inputs else np.zeros_like(wanted) for b in func.buffers]
    assert np.array_equal(run(func, *arrays)["out"], wanted)
    lowered = lower_table(func, get_target("vta-de10"))
    ran = execute(lowered.program(inputs), "chisel", check=True)
    assert not ran.races and not ran.diagnostics
    assert np.array_equal(np.frombuffer(ran.outputs["out"], "int8").reshape(wanted.shape), wanted)
    from autosched.measure.measure import statistics

    return statistics(lowered)


def test_unpacked_operands_are_packed_by_the_schedule() -> None:
    get_target("vta-de10")
    sch = Schedule(matmul)
    sch.transform_layout("C", "A", lambda m, k: (m, k // 16, 0, k % 16))
    sch.transform_layout("C", "W", lambda n, k: (n // 16, k // 16, n % 16, k % 16))
    sch.transform_layout("out", "out", lambda m, n: (m, n // 16, 0, n % 16))
    sch.transform_layout("out", "C", lambda m, n: (m, n // 16, 0, n % 16))
    sch.transform_block_layout("out", lambda m, n: (m, n // 16, n % 16))
    block = sch.get_block("C")
    inp, wgt = sch.cache_read(block, 0, INP), sch.cache_read(block, 1, WGT)
    sch.set_scope(block, 0, ACC)
    m, n, k = sch.get_loops(block)
    n0, n1 = sch.split(n, [None, 16])
    k0, k1 = sch.split(k, [None, 16])
    sch.reorder(k0, m, n0, n1, k1)
    sch.compute_at(inp, k0)
    sch.compute_at(wgt, k0)
    sch.decompose_reduction(block, k0)
    sch.tensorize(n1, "vta.gemm.1x16x16")
    a, w = random_int8(8, 64), random_int8(32, 64)
    packed = {"A": a.reshape(8, 4, 1, 16), "W": np.ascontiguousarray(w.reshape(2, 16, 4, 16).transpose(0, 2, 1, 3))}
    wanted = (a.astype("int32") @ w.T.astype("int32")).astype("int8").reshape(8, 2, 1, 16)
    assert on_the_machine(sch.func, packed, wanted)["gemm_counter"] == 8 * 2 * 4


def test_a_transposed_convolution_multiplies_no_gaps() -> None:
    get_target("vta-de10")
    data, kernel = random_int8(2, 6, 1, 16), random_int8(2, 4, 16, 16)
    wanted = run(upsampled, data.copy(), kernel.copy(), np.zeros((12, 1, 16), "int8"))["out"]
    sch = Schedule(upsampled)
    block = sch.get_block("C")
    sch.set_scope(block, 0, ACC)
    y, b, o, c, k, i = sch.get_loops(block)
    sch.reorder(c, k, y, b, o, i)
    sch.decompose_reduction(block, c)
    sch.compute_inline("gaps")
    sch.drop_zero_terms(block)
    for index, scope in ((1, INP), (2, WGT)):
        sch.compute_at(sch.cache_read(block, index, scope), c)
    sch.tensorize(o, "vta.gemm.1x16x16")
    counted = on_the_machine(sch.func, {"data": data, "kernel": kernel}, wanted)
    # Two of four taps meet a gap, and the first and the last row lose one more to the border; two channel blocks.
    assert counted["gemm_counter"] == 2 * (12 * 2 - 2)
