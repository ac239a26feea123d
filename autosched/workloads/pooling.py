"""Pooling in NCHW on int8: the largest or the mean of a window."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autosched.errors import ProgramError
from autosched.ir.expr import Expr, IntImm, cast, maximum, minimum
from autosched.ir.stmt import PrimFunc, Stmt, make_root, seq
from autosched.workloads.conv2d import padded
from autosched.workloads.layout import Layout, whole
from autosched.workloads.stage import reduction, stage, tensor
from autosched.workloads.workload import Array, wrap32

LOWEST = -128


@dataclass(frozen=True)
class _Pool2d:
    """Parameters of a pooling; heights and widths in elements, square windows.

    Args:
        h: input height.
        w: input width.
        c: channels.
        k: window height and width.
        n: batch.
        stride: of both directions.
        pad: zeros on each side of both directions; they count as 0.

    Raises:
        ProgramError: the window is larger than the padded input.
    """

    h: int
    w: int
    c: int
    k: int
    n: int = 1
    stride: int = 1
    pad: int = 0

    macs = 0

    def __post_init__(self) -> None:
        if min(self.h, self.w) + 2 * self.pad < self.k:
            raise ProgramError(f"pooling: k={self.k} is larger than the padded input {self.h}x{self.w} with pad={self.pad}")
        if self.pad >= self.k:
            raise ProgramError(f"pooling: pad={self.pad} is not below k={self.k}")

    @property
    def oh(self) -> int:
        """Output height."""
        return (self.h + 2 * self.pad - self.k) // self.stride + 1

    @property
    def ow(self) -> int:
        """Output width."""
        return (self.w + 2 * self.pad - self.k) // self.stride + 1

    def layouts(self, batch: int, block: int) -> tuple[Layout, ...]:
        """Layouts of data and out."""
        lanes = (("N", batch), ("C", block))
        return (
            Layout("NCHW", "NCHWnc", (self.n, self.c, self.h, self.w), lanes),
            Layout("NCHW", "NCHWnc", (self.n, self.c, self.oh, self.ow), lanes),
        )

    def _windows(self, batch: int, block: int, data: Array) -> Array:
        """All windows of the plain data, lanes filled up, as (n, c, y, x, k, k)."""
        full = replace(self, n=whole(self.n, batch), c=whole(self.c, block))
        x = full.layouts(batch, block)[0].unpack(data).astype(np.int64)
        x = np.pad(x, [(0, 0), (0, 0), (self.pad, self.pad), (self.pad, self.pad)])
        found = np.lib.stride_tricks.sliding_window_view(x, (self.k, self.k), axis=(2, 3))
        return found[:, :, :: self.stride, :: self.stride]

    def _program(self, batch: int, block: int, init: int, largest: bool, shift: int, factor: int = 1) -> PrimFunc:
        shapes = [layout.packed_shape for layout in self.layouts(batch, block)]
        data, out = tensor("data", shapes[0], "int8"), tensor("out", shapes[1], "int8")
        acc = tensor("pool", shapes[1], "int32")
        stmts: list[Stmt] = []
        allocs = [acc]
        source = data
        if self.pad:
            source, padding = padded(data, self.pad, self.pad, self.h, self.w)
            stmts.append(padding)
            allocs.insert(0, source)
        axes = list(zip(("n", "c", "y", "x", "nb", "cb"), shapes[1]))
        s = self.stride

        def sample(n: Expr, c: Expr, y: Expr, x: Expr, nb: Expr, cb: Expr, ky: Expr, kx: Expr) -> Expr:
            load = cast("int32", source[n, c, y * s + ky, x * s + kx, nb, cb])
            return load if factor == 1 else load * factor

        def step(old: Expr, term: Expr) -> Expr:
            return maximum(old, term) if largest else old + term

        stmts.append(reduction(acc, axes, sample, [("ky", self.k), ("kx", self.k)], IntImm(init), step))
        last = acc
        if shift:
            last = tensor("mean", shapes[1], "int32")
            allocs.append(last)
            half = 1 << (shift - 1)
            stmts.append(stage(last, axes, lambda *at: (acc[at] + half) >> shift))
        stmts.append(stage(out, axes, lambda *at: cast("int8", last[at])))
        return PrimFunc((data, out), make_root(seq(*stmts), tuple(allocs)), value_ranges=(None, None))


@dataclass(frozen=True)
class MaxPool2d(_Pool2d):
    """The largest element of each window; padding counts as 0 (give a kernel data that is not below, as after a relu)."""

    def func(self, batch: int, block: int) -> PrimFunc:
        """The program: blocks ``pad`` (where there is padding), ``pool`` and ``out``."""
        return self._program(batch, block, LOWEST, True, 0)

    def compute(self, batch: int, block: int, data: Array) -> Array:
        """The same on NumPy, packed in and out."""
        full = replace(self, n=whole(self.n, batch), c=whole(self.c, block))
        return full.layouts(batch, block)[1].pack(self._windows(batch, block, data).max(axis=(4, 5)).astype(np.int8))


@dataclass(frozen=True)
class AvgPool2d(_Pool2d):
    """The mean of each window, rounded half up; padding counts as 0.

    Over n elements, a power of two, the sum is shifted; else every element is multiplied by ``m = round(2^s / n)`` first, with
    the largest shift s for which m is at most 127.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k * self.k > 127 << 8:
            raise ProgramError(f"avg_pool2d: k={self.k}: a window of more than {127 << 8} elements is not known")

    def _scale(self) -> tuple[int, int]:
        """(factor of every element, shift of the sum)."""
        n = self.k * self.k
        if n & (n - 1) == 0:
            return 1, n.bit_length() - 1
        shift = max(s for s in range(32) if (2 << s) // n + 1 >> 1 <= 127)
        return (2 << shift) // n + 1 >> 1, shift

    def func(self, batch: int, block: int) -> PrimFunc:
        """The program: blocks ``pad`` (where there is padding), ``pool``, ``mean`` and ``out``."""
        factor, shift = self._scale()
        return self._program(batch, block, 0, False, shift, factor)

    def compute(self, batch: int, block: int, data: Array) -> Array:
        """The same on NumPy, packed in and out."""
        full = replace(self, n=whole(self.n, batch), c=whole(self.c, block))
        factor, shift = self._scale()
        sums = wrap32(factor * self._windows(batch, block, data).sum(axis=(4, 5)))
        mean = (sums + (1 << (shift - 1)) >> shift) if shift else sums
        return full.layouts(batch, block)[1].pack(mean.astype(np.int8))


@dataclass(frozen=True)
class Residual:
    """``out = clip(a + b)`` of two int8 tensors, as at the end of a residual block.

    Args:
        h: height.
        w: width.
        c: channels.
        n: batch.
        relu: 1: negative sums become 0, 0: they are clipped at -128.
    """

    h: int
    w: int
    c: int
    n: int = 1
    relu: int = 1

    macs = 0

    def layouts(self, batch: int, block: int) -> tuple[Layout, ...]:
        """Layouts of a, b and out."""
        lanes = (("N", batch), ("C", block))
        return (Layout("NCHW", "NCHWnc", (self.n, self.c, self.h, self.w), lanes),) * 3

    def func(self, batch: int, block: int) -> PrimFunc:
        """The program: blocks ``left`` (a, widened), ``add``, ``clip`` and ``out``."""
        shape = self.layouts(batch, block)[0].packed_shape
        a, b, out = (tensor(name, shape, "int8") for name in ("a", "b", "out"))
        left, total, clip = (tensor(name, shape, "int32") for name in ("left", "add", "clip"))
        axes = list(zip(("n", "c", "y", "x", "nb", "cb"), shape))
        low = 0 if self.relu else LOWEST
        body = seq(
            stage(left, axes, lambda *at: cast("int32", a[at])),
            stage(total, axes, lambda *at: left[at] + cast("int32", b[at])),
            stage(clip, axes, lambda *at: minimum(maximum(total[at], low), 127)),
            stage(out, axes, lambda *at: cast("int8", clip[at])),
        )
        return PrimFunc((a, b, out), make_root(body, (left, total, clip)), value_ranges=(None, None, None))

    def compute(self, batch: int, block: int, a: Array, b: Array) -> Array:
        """The same on NumPy, packed in and out."""
        return np.clip(a.astype(np.int32) + b, 0 if self.relu else LOWEST, 127).astype(np.int8)
