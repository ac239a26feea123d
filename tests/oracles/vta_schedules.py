"""Random schedules of named workloads for VTA, drawn by any ``choose(options)``; the check that lowering keeps their meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched.ir import interp
from autosched.ir.stmt import PrimFunc
from autosched.lower import Lowered, lower_table
from autosched.schedule import Schedule
from autosched.target import get_target
from autosched.workloads import workload
from sim import isa

Choose = Callable[[Sequence[Any]], Any]
INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"


def factors(extent: int) -> list[int]:
    """Tile sizes to try: divisors, and one that does not divide."""
    found = [d for d in range(1, extent + 1) if extent % d == 0]
    return [*found, extent // 2 + 1] if extent > 3 else found


def shuffled(choose: Choose, items: Sequence[Any]) -> list[Any]:
    """A random order."""
    rest, out = list(items), []
    while rest:
        item = choose(rest)
        rest.remove(item)
        out.append(item)
    return out


def conv2d(choose: Choose, name: str, batch: int = 1, block: int = 16) -> Schedule:
    """A random schedule of a named convolution."""
    get_target("vta-de10")
    load = workload(name, batch=batch, block=block)
    sch = Schedule(load.func)
    names = {b.name for b in load.func.buffers}
    conv, out = sch.get_block("conv"), sch.get_block("out")
    requant = _maybe(sch, "requant")
    padded = _maybe(sch, "pad")
    if padded is not None:
        sch.set_scope(padded, 0, INP)
        inp = padded
    else:
        inp = sch.cache_read(conv, 0, INP)
    wgt = sch.cache_read(conv, 1, WGT)
    biased = requant is not None and "bias" in names
    form = choose(["added", "folded", "raised"]) if biased else "added"
    folded = form != "added"
    if folded:
        sch.fold_epilogue(requant)
    if form == "raised":
        raised = sch.raise_epilogue(requant)
        sch.set_scope(raised, 0, ACC)
        sch.cache_read(raised, "bias", ACC)
    bias = sch.cache_read(requant, 1, ACC) if biased and not folded else None
    sch.set_scope(conv, 0, ACC)
    if requant is not None:
        sch.set_scope(requant, 0, ACC)
    outer, inner = [], []
    for loop in sch.get_loops(out)[1:4]:
        extent = sch.get(loop).extent.value
        a, b = sch.split(loop, [None, choose(factors(extent))])
        outer.append(a)
        inner.append(b)
    sch.reorder(*shuffled(choose, outer), *shuffled(choose, inner))
    loops = sch.get_loops(out)
    at = choose(loops[1:4])
    if choose([False, False, True]):
        thread = choose([x for x in loops[1:4] if loops.index(x) <= loops.index(at)])
        if sch.get(thread).extent.value in (2, 3):
            sch.bind(thread, choose(["vthread", "cthread"]))
    if requant is not None:
        sch.compute_at(requant, at)
    sch.compute_at(conv, at, preserve_unit_loops=True)
    if bias is not None:
        sch.compute_at(bias, choose(loops[: loops.index(at) + 1]))
    co, y, x, nb, cb, ci, ky, kx, ib = sch.get_loops(conv)[-9:]
    ci0, ci1 = sch.split(ci, [None, choose(factors(sch.get(ci).extent.value))])
    nest = [ci0, *shuffled(choose, [co, y, x, ci1, ky, kx])]
    if choose([False, True]):
        nest = shuffled(choose, nest)
    sch.reorder(*nest, nb, cb, ib)
    reductions = [x for x in nest if x in (ci0, ci1, ky, kx)]
    first = nest.index(reductions[0])
    load_at = nest[: choose([first + 1, first + 1, first + 2, first])]
    for read in (inp, wgt):
        sch.compute_at(read, load_at[-1] if load_at and choose([True, True, False]) else at)
    init = sch.decompose_reduction(conv, choose(nest[: first + 1]))
    if form == "folded":
        bias = sch.cache_read(init, 0, ACC)
        sch.compute_at(bias, choose(sch.get_loops(out)[:1] + sch.get_loops(init)[:1]))
    sch.tensorize(nb, f"vta.gemm.{batch}x{block}x{block}")
    _decorate(choose, sch, [b for b in (inp, wgt, bias, requant) if b is not None])
    return sch


def dense(choose: Choose, name: str) -> Schedule:
    """A random schedule of a named matrix product."""
    get_target("vta-de10")
    sch = Schedule(workload(name).func)
    gemm, out = sch.get_block("dense"), sch.get_block("out")
    requant = _maybe(sch, "requant")
    inp, wgt = sch.cache_read(gemm, 0, INP), sch.cache_read(gemm, 1, WGT)
    bias = None
    if requant is not None and len(sch.get(requant).reads) > 1:
        bias = sch.cache_read(requant, 1, ACC)
    for block in (gemm, requant):
        if block is not None:
            sch.set_scope(block, 0, ACC)
    m, n = sch.get_loops(out)[:2]
    m0, m1 = sch.split(m, [None, choose(factors(sch.get(m).extent.value))])
    n0, n1 = sch.split(n, [None, choose(factors(sch.get(n).extent.value))])
    pair = shuffled(choose, [m0, n0])
    sch.reorder(*pair, *shuffled(choose, [m1, n1]))
    at = choose(pair)
    if requant is not None:
        sch.compute_at(requant, at)
    sch.compute_at(gemm, at, preserve_unit_loops=True)
    if bias is not None:
        sch.compute_at(bias, at)
    loops = sch.get_loops(gemm)[-6:]
    gm, gn, nb, cb, k, ib = loops
    k0, k1 = sch.split(k, [None, choose(factors(sch.get(k).extent.value))])
    nest = [k0, *shuffled(choose, [gm, gn, k1])]
    sch.reorder(*nest, nb, cb, ib)
    for block in (inp, wgt):
        sch.compute_at(block, choose([k0, k0, at]))
    sch.decompose_reduction(gemm, k0)
    sch.tensorize(nb, "vta.gemm.1x16x16")
    _decorate(choose, sch, [b for b in (inp, wgt, bias, requant) if b is not None])
    return sch


def _maybe(sch: Schedule, name: str) -> Any:
    from autosched.errors import AutoschedError

    try:
        return sch.get_block(name)
    except AutoschedError:
        return None


def _decorate(choose: Choose, sch: Schedule, blocks: Sequence[Any]) -> None:
    """Random banks, DMA shapes and loop mappings."""
    for block in blocks:
        if choose([False, True]):
            sch.annotate(block, "double_buffer_scope", 0)
        if choose([False, False, True]):
            sch.annotate(block, "vta.dma", choose(["merge", "rows", "strided"]))
        for loop in sch.get_loops(block)[-3:]:
            if choose([False] * 6 + [True]) and "vta.loop" not in sch.get(loop).annotations:
                sch.annotate(loop, "vta.loop", choose(["uop", "unroll"]))


def arrays_of(func: PrimFunc, outputs: set[str], seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Random contents of the parameters, inside their declared ranges; outputs start at zero."""
    rng = np.random.default_rng(seed)
    found = {}
    declared = dict(zip(func.params, func.value_ranges))
    for b in func.buffers:
        shape = tuple(s.value for s in b.shape)
        low, high = (-128, 128) if b.dtype == "int8" else (-20000, 20000)
        bounds = declared.get(b)
        if bounds is not None:
            low, high = bounds[0], bounds[1] + 1
        found[b.name] = rng.integers(low, high, shape).astype(b.dtype) * (b.name not in outputs)
        found[b.name] = found[b.name].astype(b.dtype)
    return found


def verify(func: PrimFunc, target: str, seed: int = 0) -> Lowered:
    """Lowers, runs and compares with the interpreter, bit for bit; no race, nothing that the target's semantics forbid."""
    from sim.machine import run

    low = lower_table(func, target)
    names = {b.name for b in low.written}
    inputs = arrays_of(func, names, seed)
    # The schedule is executed too: what it means must not depend on which stage the program is at.
    wanted = interp.run(func, *[inputs[b.name].copy() for b in func.buffers])
    program = low.program(inputs, {n: wanted[n] for n in names})
    result = run(program, semantics=low.target.semantics, check=True)
    assert result.outputs_match, "the program writes other bytes than the interpreter"
    assert not result.diagnostics, [str(d) for d in result.diagnostics[:3]]
    assert not result.races, result.races[:3]
    _is_plain(low.table)
    return low


def _is_plain(table: isa.Table) -> None:
    """What an instruction does not use says nothing, so that equal instructions are equal rows."""
    kernels = np.isin(table[:, isa.OPCODE], (isa.OP_GEMM, isa.OP_ALU))
    outer, inner = (isa.DST_OUT, isa.SRC_OUT, isa.WGT_OUT), (isa.DST_IN, isa.SRC_IN, isa.WGT_IN)
    for trips, strides in ((isa.ITER_OUT, outer), (isa.ITER_IN, inner)):
        assert not table[kernels & (table[:, trips] == 1)][:, strides].any(), "the stride of a loop that runs once"
    single = (table[:, isa.OPCODE] == isa.OP_STORE) & (table[:, isa.Y_SIZE] == 1)
    assert (table[single, isa.X_STRIDE] == table[single, isa.X_SIZE]).all(), "the stride of a single row"
