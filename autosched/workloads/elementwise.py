"""Programs of the vector unit alone."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.ir.expr import cast
from autosched.ir.stmt import PrimFunc, make_root, seq
from autosched.workloads.layout import Layout
from autosched.workloads.stage import stage, tensor
from autosched.workloads.workload import Array


@dataclass(frozen=True)
class VectorAdd:
    """``C = cast(A + B)``: int32 in, the low 8 bits out.

    Args:
        m: rows.
        n: columns.
    """

    m: int = 1
    n: int = 1024

    macs = 0

    def layouts(self, batch: int, block: int) -> tuple[Layout, ...]:
        """Layouts of A, B and C."""
        return (Layout("MN", "MNmn", (self.m, self.n), (("M", batch), ("N", block))),) * 3

    def func(self, batch: int, block: int) -> PrimFunc:
        """The program: blocks ``add`` and ``out``."""
        shape = self.layouts(batch, block)[0].packed_shape
        a, b = tensor("A", shape, "int32"), tensor("B", shape, "int32")
        total, out = tensor("add", shape, "int32"), tensor("out", shape, "int8")
        axes = list(zip(("m", "n", "mb", "nb"), shape))
        body = seq(
            stage(total, axes, lambda *at: a[at] + b[at]),
            stage(out, axes, lambda *at: cast("int8", total[at])),
        )
        return PrimFunc((a, b, out), make_root(body, (total,)), value_ranges=(None, None, None))

    def compute(self, batch: int, block: int, a: Array, b: Array) -> Array:
        """The same on NumPy, packed in and out."""
        return (a + b).astype("int8")
