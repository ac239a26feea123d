"""Two-dimensional convolution in NCHW."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autosched.errors import NotSupportedError, ProgramError
from autosched.ir.expr import Expr, IntImm, all_of, binary, cast, if_then_else
from autosched.ir.stmt import Buffer, PrimFunc, Stmt, make_root, seq
from autosched.workloads.dense import bias_ranges, tail_stages
from autosched.workloads.layout import Layout, whole
from autosched.workloads.stage import stage, tensor
from autosched.workloads.workload import Array, finish, wrap32


@dataclass(frozen=True)
class Conv2d:
    """Parameters of a convolution; heights and widths in elements, square kernels.

    Args:
        h: input height.
        w: input width.
        ci: input channels.
        co: output channels.
        k: kernel height and width.
        n: batch.
        stride: of both directions.
        pad: zeros on each side of both directions.
        groups: groups of channels; only 1.
        bias: whether an int32 bias per output channel is added.
        tail: ``requant`` or ``cast``.

    Raises:
        NotSupportedError: more than one group.
        ProgramError: the kernel is larger than the padded input.
    """

    h: int
    w: int
    ci: int
    co: int
    k: int
    n: int = 1
    stride: int = 1
    pad: int = 0
    groups: int = 1
    bias: int = 1
    tail: str = "requant"

    def __post_init__(self) -> None:
        if self.groups != 1:
            raise NotSupportedError(f"conv2d: groups={self.groups} is not supported, only groups=1")
        if min(self.h, self.w) + 2 * self.pad < self.k:
            raise ProgramError(
                f"conv2d: k={self.k} is larger than the padded input {self.h}x{self.w} with pad={self.pad}"
            )

    @property
    def oh(self) -> int:
        """Output height."""
        return (self.h + 2 * self.pad - self.k) // self.stride + 1

    @property
    def ow(self) -> int:
        """Output width."""
        return (self.w + 2 * self.pad - self.k) // self.stride + 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates, those with padding included."""
        return self.n * self.oh * self.ow * self.co * self.ci * self.k * self.k

    def layouts(self, batch: int, block: int) -> tuple[Layout, ...]:
        """Layouts of data, kernel, bias if there is one, and out."""
        lanes = (("N", batch), ("C", block))
        bias = (Layout("C", "1C11nc", (self.co,), lanes),) if self.bias else ()
        return (
            Layout("NCHW", "NCHWnc", (self.n, self.ci, self.h, self.w), lanes),
            Layout("OIHW", "OIHWoi", (self.co, self.ci, self.k, self.k), (("O", block), ("I", block))),
            *bias,
            Layout("NCHW", "NCHWnc", (self.n, self.co, self.oh, self.ow), lanes),
        )

    def func(self, batch: int, block: int) -> PrimFunc:
        """The program: blocks ``pad`` (where there is padding), ``conv``, ``requant`` (or ``bias_add``) and ``out``."""
        shapes = [layout.packed_shape for layout in self.layouts(batch, block)]
        data, kernel = tensor("data", shapes[0], "int8"), tensor("kernel", shapes[1], "int8")
        bias = tensor("bias", shapes[2], "int32") if self.bias else None
        out = tensor("out", shapes[-1], "int8")
        acc = tensor("conv", shapes[-1], "int32")
        stmts: list[Stmt] = []
        allocs: list[Buffer] = []
        source = data
        if self.pad:
            source, padding = self._padded(data)
            stmts.append(padding)
            allocs.append(source)
        axes = list(zip(("n", "co", "y", "x", "nb", "cb"), shapes[-1]))
        reduces = [("ci", shapes[0][1]), ("ky", self.k), ("kx", self.k), ("ib", block)]

        def product(
            n: Expr,
            co: Expr,
            y: Expr,
            x: Expr,
            nb: Expr,
            cb: Expr,
            ci: Expr,
            ky: Expr,
            kx: Expr,
            ib: Expr,
        ) -> Expr:
            sample = source[n, ci, y * self.stride + ky, x * self.stride + kx, nb, ib]
            return cast("int32", sample) * cast("int32", kernel[co, ci, ky, kx, cb, ib])

        stmts.append(stage(acc, axes, product, reduces, IntImm(0)))
        tail, more = tail_stages(
            self.tail,
            acc,
            bias,
            out,
            axes,
            lambda n, co, y, x, nb, cb: (IntImm(0), co, IntImm(0), IntImm(0), nb, cb),
        )
        params = (data, kernel, bias, out) if bias is not None else (data, kernel, out)
        return PrimFunc(
            params,
            make_root(seq(*stmts, *tail), (*allocs, acc, *more)),
            value_ranges=bias_ranges(params, bias),
        )

    def _padded(self, data: Buffer) -> tuple[Buffer, Stmt]:
        pad, h, w = self.pad, self.h, self.w
        shape = [e.value for e in data.shape if isinstance(e, IntImm)]
        shape[2], shape[3] = h + 2 * pad, w + 2 * pad
        padded = tensor("pad", shape, "int8")

        def value(n: Expr, c: Expr, y: Expr, x: Expr, nb: Expr, cb: Expr) -> Expr:
            inside = all_of(
                [
                    binary("<=", pad, y),
                    binary("<", y, h + pad),
                    binary("<=", pad, x),
                    binary("<", x, w + pad),
                ]
            )
            return if_then_else(inside, data[n, c, y - pad, x - pad, nb, cb], IntImm(0, "int8"))

        return padded, stage(padded, list(zip(("n", "c", "y", "x", "nb", "cb"), shape)), value)

    def compute(self, batch: int, block: int, data: Array, kernel: Array, bias: Array | None = None) -> Array:
        """The same on NumPy, packed in and out: a matrix product over sliding windows, exact in float64.

        Lanes past the plain extents count, as they do on the machine.
        """
        n, ci, co = whole(self.n, batch), whole(self.ci, block), whole(self.co, block)
        layouts = replace(self, n=n, ci=ci, co=co).layouts(batch, block)
        x, w = layouts[0].unpack(data), layouts[1].unpack(kernel)
        x = np.pad(x, [(0, 0), (0, 0), (self.pad, self.pad), (self.pad, self.pad)])
        windows = np.lib.stride_tricks.sliding_window_view(x, (self.k, self.k), axis=(2, 3))
        windows = windows[:, :, :: self.stride, :: self.stride].astype(np.float64)
        sums = np.tensordot(windows, w.astype(np.float64), axes=([1, 4, 5], [1, 2, 3])).transpose(0, 3, 1, 2)
        return finish(layouts[-1].pack(wrap32(sums)), bias, self.tail)
