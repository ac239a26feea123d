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
        groups: groups of channels; each is a whole number of blocks in the packed layout. As many as there are channels, with one
            result each, is a depthwise convolution.
        bias: whether an int32 bias per output channel is added.
        tail: ``requant`` or ``cast``.

    Raises:
        NotSupportedError: groups of one channel with several results each.
        ProgramError: the kernel is larger than the padded input, or the groups do not divide the channels.
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
        if self.ci % self.groups or self.co % self.groups:
            raise ProgramError(f"conv2d: groups={self.groups} does not divide ci={self.ci} and co={self.co}")
        if self.groups > 1 and self.ci == self.groups and self.co != self.ci:
            raise NotSupportedError(f"conv2d: groups={self.groups} of one channel with {self.co // self.groups} results each")
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
        return self.n * self.oh * self.ow * self.co * (self.ci // self.groups) * self.k * self.k

    @property
    def depthwise(self) -> bool:
        """Whether every channel has a filter of its own."""
        return self.groups > 1 and self.groups == self.ci

    def layouts(self, batch: int, block: int) -> tuple[Layout, ...]:
        """Layouts of data, kernel, bias if there is one, and out."""
        lanes = (("N", batch), ("C", block))
        cut = self.groups > 1 and not self.depthwise
        per_ci, per_co = self.ci // self.groups, self.co // self.groups
        g = "G" if cut else ""

        def groups(d: str, channels: int) -> tuple[tuple[str, str, int], ...]:
            return ((d, "G" + d, channels),) if cut else ()

        bias = (Layout("C", f"1{g}C11nc", (self.co,), lanes, groups("C", per_co)),) if self.bias else ()
        if self.depthwise:
            kernel = Layout("CHW", "CHWc", (self.co, self.k, self.k), (("C", block),))
        else:
            kernel = Layout("OIHW", f"{g}OIHWoi", (self.co, per_ci, self.k, self.k), (("O", block), ("I", block)),
                            groups("O", per_co))
        return (
            Layout("NCHW", f"N{g}CHWnc", (self.n, self.ci, self.h, self.w), lanes, groups("C", per_ci)),
            kernel,
            *bias,
            Layout("NCHW", f"N{g}CHWnc", (self.n, self.co, self.oh, self.ow), lanes, groups("C", per_co)),
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
            source, padding = padded(data, self.pad, self.pad, self.h, self.w)
            stmts.append(padding)
            allocs.append(source)
        groups = ("g",) if len(shapes[-1]) == 7 else ()
        axes = list(zip(("n", *groups, "co", "y", "x", "nb", "cb"), shapes[-1]))
        taps = [("ky", self.k), ("kx", self.k)]
        stride, depthwise = self.stride, self.depthwise

        def product(n: Expr, *at: Expr) -> Expr:
            g, (co, y, x, nb, cb) = at[: len(groups)], at[len(groups) : len(groups) + 5]
            if depthwise:
                ky, kx = at[-2:]
                sample, weight = source[n, co, y * stride + ky, x * stride + kx, nb, cb], kernel[co, ky, kx, cb]
            else:
                ci, ky, kx, ib = at[-4:]
                sample = source[(n, *g, ci, y * stride + ky, x * stride + kx, nb, ib)]
                weight = kernel[(*g, co, ci, ky, kx, cb, ib)]
            return cast("int32", sample) * cast("int32", weight)

        reduces = taps if depthwise else [("ci", shapes[0][1 + len(groups)]), *taps, ("ib", block)]
        stmts.append(stage(acc, axes, product, reduces, IntImm(0)))
        zero = IntImm(0)
        tail, more = tail_stages(
            self.tail,
            acc,
            bias,
            out,
            axes,
            lambda n, *at: (zero, *at[: len(groups) + 1], zero, zero, *at[-2:]),
        )
        params = (data, kernel, bias, out) if bias is not None else (data, kernel, out)
        return PrimFunc(
            params,
            make_root(seq(*stmts, *tail), (*allocs, acc, *more)),
            value_ranges=bias_ranges(params, bias),
        )

    def compute(self, batch: int, block: int, data: Array, kernel: Array, bias: Array | None = None) -> Array:
        """The same on NumPy, packed in and out: a matrix product for every tap, exact in float64.

        Lanes past the plain extents count, as they do on the machine.
        """
        full = self._filled(batch, block)
        layouts = full.layouts(batch, block)
        x, w = layouts[0].unpack(data), layouts[1].unpack(kernel)
        if self.depthwise:
            w = w[:, None]
        n, groups, rows, columns = full.n, full.groups, self.oh, self.ow
        x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (self.pad, self.pad), (self.pad, self.pad)])
        x = x.reshape(n, groups, full.ci // groups, *x.shape[2:])
        w = w.astype(np.float64).reshape(groups, full.co // groups, full.ci // groups, self.k, self.k)
        # One tap after the other: all windows at once are larger than the image by the taps.
        sums = np.zeros((n, groups, full.co // groups, rows * columns))
        for ky, kx in np.ndindex(self.k, self.k):
            seen = x[..., ky :: self.stride, kx :: self.stride][..., :rows, :columns]
            sums += w[..., ky, kx] @ seen.reshape(n, groups, full.ci // groups, rows * columns)
        sums = sums.reshape(n, full.co, rows, columns)
        return finish(layouts[-1].pack(wrap32(sums)), bias, self.tail)

    def _filled(self, batch: int, block: int) -> Conv2d:
        """The operator with whole blocks everywhere."""
        if self.depthwise:
            channels = whole(self.ci, block)
            return replace(self, n=whole(self.n, batch), ci=channels, co=channels, groups=channels)
        ci, co = (whole(c // self.groups, block) * self.groups for c in (self.ci, self.co))
        return replace(self, n=whole(self.n, batch), ci=ci, co=co)


def padded(data: Buffer, before: int, after: int, h: int, w: int) -> tuple[Buffer, Stmt]:
    """A packed tensor with zeros around every image, and the stage that fills it.

    Args:
        data: of shape (..., h, w, batch lanes, channel lanes).
        before: zeros before the first row and column.
        after: zeros after the last row and column.
        h: rows.
        w: columns.
    """
    shape = [e.value for e in data.shape if isinstance(e, IntImm)]
    shape[-4], shape[-3] = h + before + after, w + before + after
    out = tensor("pad", shape, "int8")

    def value(*at: Expr) -> Expr:
        y, x = at[-4:-2]
        inside = all_of([
            binary("<=", before, y), binary("<", y, h + before), binary("<=", before, x), binary("<", x, w + before),
        ])
        return if_then_else(inside, data[(*at[:-4], y - before, x - before, *at[-2:])], IntImm(0, "int8"))

    names = ("n", "g", "c", "y", "x", "nb", "cb") if len(shape) == 7 else ("n", "c", "y", "x", "nb", "cb")
    return out, stage(out, list(zip(names, shape)), value)
