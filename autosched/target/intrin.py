"""The tensor intrinsics of a VTA, built from its configuration."""

from __future__ import annotations

from functools import cache

from autosched.ir.expr import BufferData, Call, IntImm, StringImm, Var, cast
from autosched.ir.interp import register_call
from autosched.ir.scopes import ACC, INP, WGT
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    IterVar,
    PrimFunc,
    Range,
    full_region,
    make_root,
    point,
)
from autosched.schedule.primitives.tensorize.intrin import TensorIntrin
from sim.config import VTAConfig

GEMM = "vta.gemm"


def gemm_name(config: VTAConfig) -> str:
    """Name of the matrix product's intrinsic: ``vta.gemm.{BATCH}x{BLOCK_IN}x{BLOCK_OUT}``."""
    return f"{GEMM}.{config.batch}x{config.block_in}x{config.block_out}"


def _range(extent: int) -> Range:
    return Range(IntImm(0), IntImm(extent))


def _operands(batch: int, block_in: int, block_out: int) -> tuple[Buffer, Buffer, Buffer]:
    def matrix(name: str, rows: int, columns: int, dtype: str, scope: str) -> Buffer:
        # An operand starts on an element, whose lanes are contiguous.
        return Buffer(name, (IntImm(rows), IntImm(columns)), dtype, scope, offset_factor=rows * columns)

    return (
        matrix("out", batch, block_out, "int32", ACC),
        matrix("inp", batch, block_in, "int8", INP),
        matrix("wgt", block_out, block_in, "int8", WGT),
    )


def gemm_desc(batch: int, block_in: int, block_out: int) -> PrimFunc:
    """What one GEMM micro-op computes: ``out[b, o] += int32(inp[b, k]) * int32(wgt[o, k])`` over k."""
    out, inp, wgt = _operands(batch, block_in, block_out)
    b, o, k = Var("b"), Var("o"), Var("k")
    vb, vo, vk = Var("vb"), Var("vo"), Var("vk")
    product = cast("int32", inp[vb, vk]) * cast("int32", wgt[vo, vk])
    store = BufferStore(out, (vb, vo), out[vb, vo] + product)
    block = Block(
        "gemm",
        (IterVar(vb, _range(batch)), IterVar(vo, _range(block_out)), IterVar(vk, _range(block_in), "reduce")),
        (point(out, (vb, vo)), point(inp, (vb, vk)), point(wgt, (vo, vk))),
        (point(out, (vb, vo)),),
        store,
    )
    body: For | BlockRealize = BlockRealize((b, o, k), TRUE, block)
    for var, extent in ((k, block_in), (o, block_out), (b, batch)):
        body = For(var, IntImm(0), IntImm(extent), "serial", body)
    return PrimFunc((out, inp, wgt), make_root(body), "gemm_desc")


def gemm_impl(batch: int, block_in: int, block_out: int) -> PrimFunc:
    """The call of the instruction, as an opaque block."""
    out, inp, wgt = _operands(batch, block_in, block_out)
    call = Call("call_extern", (StringImm(GEMM), BufferData(out), BufferData(inp), BufferData(wgt)), "int32")
    block = Block(
        "gemm", (), (full_region(out), full_region(inp), full_region(wgt)), (full_region(out),), Evaluate(call)
    )
    return PrimFunc((out, inp, wgt), make_root(BlockRealize((), TRUE, block)), "gemm_impl")


@cache
def _meaning(batch: int, block_in: int, block_out: int) -> PrimFunc:
    return gemm_desc(batch, block_in, block_out)


def register(config: VTAConfig) -> None:
    """Registers the intrinsics of a machine; again is harmless.

    A flattened program passes bare pointers, whose shapes no longer tell the machines' products apart: there the call means the
    product of the machine that was asked for last.

    Args:
        config: the machine; its batch and block sizes name the intrinsics.
    """
    sizes = config.batch, config.block_in, config.block_out
    if gemm_name(config) not in TensorIntrin.names():
        TensorIntrin.register(gemm_name(config), _meaning(*sizes), gemm_impl(*sizes))
    register_call(GEMM, _meaning(*sizes))
