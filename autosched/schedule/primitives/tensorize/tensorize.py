"""Replacing a loop nest, or a block, by a tensor intrinsic that computes the same.

The comparison is of what is computed, not of how it is written: unit loops and unit iterators count for nothing on
either side, loops of one nest match in any order, and the operands of ``+``, ``*``, ``min`` and ``max`` of integers
in either order. Each tensor of the intrinsic stands for a part of one buffer, found by solving the indices.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from autosched.ir.expr import Expr, IntImm, Var, int_value
from autosched.ir.functor import Substitute, free_vars
from autosched.ir.stmt import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    For,
    Ident,
    MatchBuffer,
    PrimFunc,
    Range,
    Stmt,
)
from autosched.schedule.kit.base import BlockRV, LoopRV, ScheduleBase
from autosched.schedule.kit.once import afresh, once
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refresh import refresh
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.tensorize.intrin import TensorIntrin, intrin_stamp
from autosched.schedule.primitives.tensorize.outer_block import Below, decided, divided, outer_block
from autosched.schedule.primitives.tensorize.pattern import Match, Mismatch, Pattern, match_block, pattern_of
from autosched.schedule.primitives.tensorize.site import find_loop, why_not


class Tensorizing(ScheduleBase):
    """The primitive that puts an intrinsic into a program."""

    @primitive(stamp=intrin_stamp, local="handles")
    def tensorize(
        self, block_or_loop: BlockRV | LoopRV, tensor_intrin: str, preserve_unit_iters: bool = True
    ) -> None:
        """Replaces what a loop or a block computes by a call of a registered tensor intrinsic.

        Args:
            block_or_loop: a loop above a single block, which is blockized first; or a block. A block that is one
                scalar instance stands for the smallest loop nest right around it that the intrinsic covers.
            tensor_intrin: name under which the intrinsic was registered with ``TensorIntrin.register``.
            preserve_unit_iters: keep iterators of extent 1 in the block that is made of a loop.

        Handles of the block afterwards mean the one around the intrinsic.

        Before::

            for i, j, k in T.grid(1, 16, 16):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])

        After ``sch.tensorize(sch.get_axis("i"), "vta.gemm.1x16x16")``::

            with T.sblock("C_o"):
                vi_o = T.axis.spatial(1, 0)
                vj_o = T.axis.spatial(1, 0)
                vk_o = T.axis.reduce(1, 0)
                out = T.match_buffer(C[vi_o, 0:16], (1, 16), "int32", scope="local.acc_buffer")
                inp = T.match_buffer(A[vi_o, 0:16], (1, 16), "int8", scope="local.inp_buffer")
                wgt = T.match_buffer(W[0:16, 0:16], (16, 16), "int8", scope="local.wgt_buffer")
                with T.sblock("gemm"):
                    T.call_extern("int32", "vta.gemm", out.data, inp.data, wgt.data)

        Raises:
            ScheduleError: the program computes something else there, or loops and blocks stand between the loops
                that the intrinsic covers; they are named, with the lines to add.
            UnknownNameError: no such intrinsic.
        """
        intrin = TensorIntrin.get(tensor_intrin)
        pattern = pattern_of(intrin.desc)
        try:
            if isinstance(block_or_loop, BlockRV):
                state, realize = self.block_at(block_or_loop)
                table = _block(state, realize, pattern, intrin.impl, preserve_unit_iters, tensor_intrin)
            else:
                state, loop = self.loop_at(block_or_loop)
                try:
                    table = _loop(state, loop, pattern, intrin.impl, preserve_unit_iters)
                except (Refusal, Mismatch) as first:
                    raise why_not(state, loop, pattern, tensor_intrin, str(first.args[0])) from None
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit_nodes(state, table)


def _block(
    state: State, realize: BlockRealize, pattern: Pattern, impl: PrimFunc, preserve: bool, name: str
) -> dict[int, Stmt | None]:
    if realize.block.match_buffers:
        raise Refusal(f"block {realize.block.name} is an intrinsic already", [realize.block.ident],
                      hint="nothing is left to do here; its loops outside can still be scheduled", code="intrinsic")
    try:
        return {id(realize): _replaced(realize, match_block(realize, pattern), impl)}
    except Mismatch as first:
        if state.children_of(realize.block):
            raise Refusal(
                f"block {realize.block.name} does not match intrinsic {name}: {first}", [realize.block.ident], code="intrinsic",
            ) from None
    loop = find_loop(state, realize, pattern, name)
    try:
        return _loop(state, loop, pattern, impl, preserve)
    except (Refusal, Mismatch) as first:
        raise why_not(state, loop, pattern, name, str(first.args[0])) from None


def _loop(state: State, loop: For, pattern: Pattern, impl: PrimFunc, preserve: bool) -> dict[int, Stmt | None]:
    found = divided(state, loop, preserve)
    rest = decided(found) if state.trusted else None
    again = afresh if rest is None else once
    about = found.realize.block, pattern.desc.body, impl.body, *pattern.desc.buffers, *impl.buffers, rest
    return {id(loop): found.site(again(partial(_called, state, found, pattern, impl), "tensorized", *about))}


def _called(state: State, found: Below, pattern: Pattern, impl: PrimFunc) -> Block:
    """The block that calls an intrinsic, in place of a loop and all below it."""
    outer = found.site(outer_block(state, found))
    new = _replaced(outer, match_block(outer, pattern), impl)
    # The block that computed this is gone; its handles go over to the block that computes it now.
    return replace(new.block, ident=found.realize.block.ident)


def _replaced(realize: BlockRealize, match: Match, impl: PrimFunc) -> BlockRealize:
    """The block with its body replaced by a fresh copy of an intrinsic's body, on views of the matched buffers."""
    block = realize.block
    assert isinstance(impl.body, BlockRealize)
    body = impl.body.block
    vmap: dict[Var, Expr] = {}
    bmap: dict[Buffer, Buffer] = {}
    views: list[MatchBuffer] = []
    for param, (buffer, base) in zip(impl.buffers, match.operands):
        for expr in (*param.strides, *((param.elem_offset,) if param.elem_offset is not None else ())):
            for var in free_vars(expr):
                vmap.setdefault(var, Var(var.name, var.dtype))
        sub = Substitute(vmap)
        offset = None if param.elem_offset is None else sub.visit_expr(param.elem_offset)
        strides = tuple(sub.visit_expr(s) for s in param.strides)
        view = replace(param, strides=strides, elem_offset=offset, ident=Ident())
        bmap[param] = view
        lead = len(base) - len(param.shape)
        region = [Range(lo, IntImm(1, lo.dtype)) for lo in base[:lead]]
        for lo, size in zip(base[lead:], param.shape):
            extent = int_value(size)
            region.append(Range(lo, size if extent is None else IntImm(extent, lo.dtype)))
        views.append(MatchBuffer(view, BufferRegion(buffer, tuple(region))))
    inside = refresh(Substitute(vmap, bmap).visit_stmt(body.body))
    local = tuple(bmap.get(b, b) for b in body.alloc_buffers)
    notes = {**body.annotations, **block.annotations}
    new = replace(
        block, body=inside, match_buffers=tuple(views), alloc_buffers=local, annotations=notes,
    )
    return BlockRealize(realize.iter_values, realize.predicate, new)
