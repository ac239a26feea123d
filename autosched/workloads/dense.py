"""Fully connected layers: ``out[m, n] = tail(sum over k of data[m, k] * weight[n, k])``."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autosched.ir.expr import Expr, IntImm, cast, maximum, minimum
from autosched.ir.stmt import Buffer, PrimFunc, Stmt, make_root, seq
from autosched.workloads.layout import Layout, whole
from autosched.workloads.stage import Axes, stage, tensor
from autosched.workloads.workload import Array, finish, wrap32

BIAS_RANGE = (-(1 << 14), 1 << 14)


@dataclass(frozen=True)
class Dense:
    """Parameters of a dense layer.

    Args:
        m: rows of data.
        k: columns of data.
        n: output columns.
        bias: whether an int32 bias per output column is added.
        tail: ``requant`` or ``cast``.
    """

    m: int
    k: int
    n: int
    bias: int = 0
    tail: str = "requant"

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.m * self.k * self.n

    def layouts(self, batch: int, block: int) -> tuple[Layout, ...]:
        """Layouts of data, weight, bias if there is one, and out."""
        b, o, i = ("M", batch), ("N", block), ("K", block)
        bias = (Layout("N", "1Nmn", (self.n,), (b, o)),) if self.bias else ()
        return (
            Layout("MK", "MKmk", (self.m, self.k), (b, i)),
            Layout("NK", "NKnk", (self.n, self.k), (o, i)),
            *bias,
            Layout("MN", "MNmn", (self.m, self.n), (b, o)),
        )

    def func(self, batch: int, block: int) -> PrimFunc:
        """The program: blocks ``dense``, ``requant`` (or ``bias_add``) and ``out``."""
        shapes = [layout.packed_shape for layout in self.layouts(batch, block)]
        data, weight = tensor("data", shapes[0], "int8"), tensor("weight", shapes[1], "int8")
        bias = tensor("bias", shapes[2], "int32") if self.bias else None
        out = tensor("out", shapes[-1], "int8")
        acc = tensor("dense", shapes[-1], "int32")
        axes = list(zip(("m", "n", "mb", "nb"), shapes[-1]))

        def product(m: Expr, n: Expr, mb: Expr, nb: Expr, k: Expr, kb: Expr) -> Expr:
            return cast("int32", data[m, k, mb, kb]) * cast("int32", weight[n, k, nb, kb])

        main = stage(acc, axes, product, [("k", shapes[0][1]), ("kb", block)], IntImm(0))
        stmts, allocs = tail_stages(self.tail, acc, bias, out, axes, lambda m, n, mb, nb: (IntImm(0), n, mb, nb))
        params = (data, weight, bias, out) if bias is not None else (data, weight, out)
        return PrimFunc(params, make_root(seq(main, *stmts), (acc, *allocs)), value_ranges=bias_ranges(params, bias))

    def compute(self, batch: int, block: int, data: Array, weight: Array, bias: Array | None = None) -> Array:
        """The same on NumPy, packed in and out: a matrix product between unpacking and packing.

        Lanes past the plain extents count, as they do on the machine.
        """
        m, k, n = whole(self.m, batch), whole(self.k, block), whole(self.n, block)
        layouts = replace(self, m=m, k=k, n=n).layouts(batch, block)
        x, w = (layout.unpack(a).astype(np.float64) for layout, a in zip(layouts, (data, weight)))
        return finish(layouts[-1].pack(wrap32(x @ w.T)), bias, self.tail)


def tail_stages(
    tail: str,
    acc: Buffer,
    bias: Buffer | None,
    out: Buffer,
    axes: Axes,
    bias_at: object,
) -> tuple[tuple[Stmt, ...], tuple[Buffer, ...]]:
    """The stages after a reduction, and the buffers that they need.

    Args:
        tail: ``requant``: one stage ``min(max((acc >> 8) + bias, 0), 127)``; ``cast``: at most the bias.
        acc: int32 sums.
        bias: int32, or None.
        out: int8 result.
        axes: names and extents of the dimensions of ``acc``.
        bias_at: maps the iterators to the indices of ``bias``.
    """
    assert callable(bias_at)
    shape = [e for _, e in axes]

    def added(value: Expr, at: tuple[Expr, ...]) -> Expr:
        return value if bias is None else value + bias[bias_at(*at)]

    stmts: list[Stmt] = []
    allocs: list[Buffer] = []
    last = acc
    if tail == "requant":
        last = tensor("requant", shape, "int32")
        stmts.append(stage(last, axes, lambda *at: minimum(maximum(added(acc[at] >> 8, at), 0), 127)))
        allocs.append(last)
    elif bias is not None:
        last = tensor("bias_add", shape, "int32")
        stmts.append(stage(last, axes, lambda *at: added(acc[at], at)))
        allocs.append(last)
    stmts.append(stage(out, axes, lambda *at: cast("int8", last[at])))
    return tuple(stmts), tuple(allocs)


def bias_ranges(params: tuple[Buffer, ...], bias: Buffer | None) -> tuple[tuple[int, int] | None, ...]:
    """The declared ranges: the bias within +-2^14, everything else its dtype's."""
    return tuple(BIAS_RANGE if p is bias else None for p in params)
