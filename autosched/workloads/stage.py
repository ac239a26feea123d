"""One block per stage of an operator: the loops, iterators and regions around a formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched.ir.expr import BufferLoad, Expr, IntImm, Var
from autosched.ir.functor import walk_expr
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    IterVar,
    Range,
    Stmt,
    point,
)

Axes = Sequence[tuple[str, int]]


def tensor(name: str, shape: Sequence[int], dtype: str) -> Buffer:
    """A buffer in DRAM of constant shape."""
    return Buffer(name, tuple(IntImm(e) for e in shape), dtype)


def stage(
    out: Buffer,
    axes: Axes,
    value: Callable[..., Expr],
    reduce_axes: Axes = (),
    init: Expr | None = None,
    name: str | None = None,
) -> Stmt:
    """A block that stores ``value`` at every point of ``axes``, which are the dimensions of ``out`` in order.

    Args:
        out: buffer that is written; the block takes its name.
        axes: name and extent of each spatial axis.
        value: gets the spatial iterators, then the reduction iterators; with a reduction, what is added to ``out``.
        reduce_axes: name and extent of each reduction axis.
        init: initial value of the reduction.
        name: name of the block when it is not that of ``out``.
    """
    return reduction(out, axes, value, reduce_axes, init, lambda old, term: old + term, name)


def reduction(
    out: Buffer,
    axes: Axes,
    value: Callable[..., Expr],
    reduce_axes: Axes,
    init: Expr | None,
    step: Callable[[Expr, Expr], Expr],
    name: str | None = None,
) -> Stmt:
    """As ``stage``, with any way to take the next term in.

    Args:
        out: as for ``stage``.
        axes: as for ``stage``.
        value: as for ``stage``.
        reduce_axes: as for ``stage``.
        init: as for ``stage``.
        step: of what is stored so far and the next term.
        name: as for ``stage``.
    """
    spatial = [(Var(n), Var("v_" + n), e, "spatial") for n, e in axes]
    reduces = [(Var(n), Var("v_" + n), e, "reduce") for n, e in reduce_axes]
    at: tuple[Expr, ...] = tuple(v for _, v, _, _ in spatial)
    term = value(*[v for _, v, _, _ in spatial + reduces])
    body: Stmt = BufferStore(out, at, term if init is None else step(BufferLoad(out, at, out.dtype), term))
    zero = None if init is None else BufferStore(out, at, init)
    reads: list[BufferRegion] = []
    for e in walk_expr(term):
        if isinstance(e, BufferLoad):
            region = BufferRegion(e.buffer, tuple(Range(i, IntImm(1)) for i in e.indices))
            if region not in reads:
                reads.append(region)
    iters = tuple(IterVar(v, Range(IntImm(0), IntImm(e)), kind) for _, v, e, kind in spatial + reduces)
    block = Block(name or out.name, iters, tuple(reads), (point(out, at),), body, zero)
    body = BlockRealize(tuple(loop for loop, _, _, _ in spatial + reduces), TRUE, block)
    for loop, _, extent, _ in reversed(spatial + reduces):
        body = For(loop, IntImm(0), IntImm(extent), "serial", body)
    return body
