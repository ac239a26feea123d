"""Transposed convolutions in NCHW, without a product with an inserted zero.

A stride ``s`` cuts rows and columns of the result into ``s`` classes each (four parity classes for stride 2), and a kernel's taps
with them: row ``s*q + r`` of the result uses the taps ``ky`` with ``ky % s == (r + pad) % s`` alone. Result and kernel are laid
out by class, ``(q, r)`` and ``(t, r)``; a result laid out so is the plain packed one, byte for byte. A kernel that is no multiple
of the stride is filled up with zero taps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autosched.errors import NotSupportedError, ProgramError
from autosched.ir.expr import Expr, IntImm, cast
from autosched.ir.stmt import Buffer, PrimFunc, Stmt, make_root, seq
from autosched.workloads.conv2d import padded
from autosched.workloads.dense import bias_ranges, tail_stages
from autosched.workloads.layout import Layout, whole
from autosched.workloads.stage import stage, tensor
from autosched.workloads.workload import Array, finish, wrap32


@dataclass(frozen=True)
class Conv2dTranspose:
    """Parameters of a transposed convolution; heights and widths in elements, square kernels laid out IOHW.

    Args:
        h: input height.
        w: input width.
        ci: input channels.
        co: output channels.
        k: kernel height and width.
        n: batch.
        stride: of both directions.
        pad: rows and columns cut off on each side of the full result.
        opad: rows and columns added behind.
        bias: whether an int32 bias per output channel is added.
        tail: ``requant`` or ``cast``.

    Raises:
        NotSupportedError: a stride above 2 whose classes do not start together (``pad`` is no multiple of it).
        ProgramError: no result is left.
    """

    h: int
    w: int
    ci: int
    co: int
    k: int
    n: int = 1
    stride: int = 1
    pad: int = 0
    opad: int = 0
    bias: int = 0
    tail: str = "requant"

    def __post_init__(self) -> None:
        if min(self.oh, self.ow) < 1:
            raise ProgramError(f"conv2d_transpose: pad={self.pad} leaves nothing of {self.h}x{self.w} with k={self.k}")
        if self.opad >= max(self.stride, 2):
            raise ProgramError(f"conv2d_transpose: opad={self.opad} is not below stride={self.stride}")
        if self.stride > 2 and self.pad % self.stride:
            raise NotSupportedError(
                f"conv2d_transpose: stride={self.stride} with pad={self.pad}; above stride 2, pad must be a multiple of it"
            )

    @property
    def oh(self) -> int:
        """Output height."""
        return (self.h - 1) * self.stride - 2 * self.pad + self.k + self.opad

    @property
    def ow(self) -> int:
        """Output width."""
        return (self.w - 1) * self.stride - 2 * self.pad + self.k + self.opad

    @property
    def taps(self) -> int:
        """Taps of one class in one direction."""
        return -(-self.k // self.stride)

    @property
    def macs(self) -> int:
        """Multiply-accumulates, those with padding and filled-up taps included."""
        return self.n * self.oh * self.ow * self.co * self.ci * self.taps * self.taps

    def layouts(self, batch: int, block: int) -> tuple[Layout, ...]:
        """Layouts of data, kernel, bias if there is one, and out."""
        lanes, s = (("N", batch), ("C", block)), self.stride
        bias = (Layout("C", "1C1111nc", (self.co,), lanes),) if self.bias else ()
        # Taps run backwards while rows go on; with an odd pad, the first class of rows uses the second of the taps.
        flips = "TU" + ("PQ" if self._crossed else "")
        return (
            Layout("NCHW", "NCHWnc", (self.n, self.ci, self.h, self.w), lanes),
            Layout("IOHW", "OITPUQoi", (self.ci, self.co, self.k, self.k), (("O", block), ("I", block)),
                   (("H", "TP", s), ("W", "UQ", s)), flips),
            *bias,
            Layout("NCHW", "NCYRXSnc", (self.n, self.co, self.oh, self.ow), lanes, (("H", "YR", s), ("W", "XS", s))),
        )

    @property
    def _crossed(self) -> bool:
        return self.stride == 2 and self.pad % 2 == 1

    def func(self, batch: int, block: int) -> PrimFunc:
        """The program: blocks ``pad`` (where rows outside are read), ``conv``, ``requant`` (or ``bias_add``) and ``out``."""
        shapes = [layout.packed_shape for layout in self.layouts(batch, block)]
        data, kernel = tensor("data", shapes[0], "int8"), tensor("kernel", shapes[1], "int8")
        bias = tensor("bias", shapes[2], "int32") if self.bias else None
        out = tensor("out", shapes[-1], "int8")
        acc = tensor("conv", shapes[-1], "int32")
        # Row q*s + r reads input rows q + (r + pad) // s - t for t below taps, last first.
        first = self.pad // self.stride - (self.taps - 1)
        before = max(0, -first)
        last = [q - 1 + (self.stride - 1 + self.pad) // self.stride for q in (shapes[-1][2], shapes[-1][4])]
        after = max(0, last[0] - (self.h - 1), last[1] - (self.w - 1))
        stmts: list[Stmt] = []
        allocs: list[Buffer] = []
        source = data
        if before or after:
            source, padding = padded(data, before, after, self.h, self.w)
            stmts.append(padding)
            allocs.append(source)
        axes = list(zip(("n", "co", "y", "r", "x", "s", "nb", "cb"), shapes[-1]))
        reduces = [("ci", shapes[0][1]), ("ky", self.taps), ("kx", self.taps), ("ib", block)]
        move, crossed = first + before, self._crossed

        def product(n: Expr, co: Expr, y: Expr, r: Expr, x: Expr, s: Expr, nb: Expr, cb: Expr,
                    ci: Expr, ky: Expr, kx: Expr, ib: Expr) -> Expr:
            rows, columns = (y + r, x + s) if crossed else (y, x)
            sample = source[n, ci, rows + ky + move, columns + kx + move, nb, ib]
            return cast("int32", sample) * cast("int32", kernel[co, ci, ky, r, kx, s, cb, ib])

        stmts.append(stage(acc, axes, product, reduces, IntImm(0)))
        zero = IntImm(0)
        tail, more = tail_stages(
            self.tail, acc, bias, out, axes, lambda n, co, y, r, x, s, nb, cb: (zero, co, zero, zero, zero, zero, nb, cb)
        )
        params = (data, kernel, bias, out) if bias is not None else (data, kernel, out)
        return PrimFunc(
            params, make_root(seq(*stmts, *tail), (*allocs, acc, *more)), value_ranges=bias_ranges(params, bias)
        )

    def compute(self, batch: int, block: int, data: Array, kernel: Array, bias: Array | None = None) -> Array:
        """The same on NumPy, packed in and out: every input element adds its kernel to the result, exact in float64.

        Lanes past the plain extents count, as they do on the machine; so do filled-up taps and rows of a class past the last row.
        """
        ci, co, n = whole(self.ci, block), whole(self.co, block), whole(self.n, batch)
        full = replace(self, n=n, ci=ci, co=co)
        layouts = full.layouts(batch, block)
        s, k = self.stride, self.taps * self.stride
        x = layouts[0].unpack(data).astype(np.float64)
        w = replace(layouts[1], shape=(ci, co, k, k)).unpack(kernel).astype(np.float64)
        rows, columns = (whole(e, s) for e in (self.oh, self.ow))
        room = np.zeros((n, co, (self.h + self.taps) * s + rows, (self.w + self.taps) * s + columns))
        for ky, kx in np.ndindex(k, k):
            part = np.einsum("nchw,co->nohw", x, w[:, :, ky, kx])
            room[:, :, ky : ky + self.h * s : s, kx : kx + self.w * s : s] += part
        sums = room[:, :, self.pad : self.pad + rows, self.pad : self.pad + columns]
        packed = layouts[-1].packed_shape
        parts = wrap32(sums).reshape(n // batch, batch, co // block, block, packed[2], s, packed[4], s)
        return finish(np.ascontiguousarray(parts.transpose(0, 2, 4, 5, 6, 7, 1, 3)), bias, self.tail)
