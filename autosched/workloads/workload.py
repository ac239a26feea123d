"""What a workload is: a program, an independent reference, and how its tensors look to people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.ir.interp import written
from autosched.ir.stmt import PrimFunc
from autosched.ir.structural import structural_hash
from autosched.workloads.inputs import telling_inputs, wide_inputs
from autosched.workloads.layout import Layout

Array = np.ndarray[Any, Any]
Reference = Callable[..., Array | tuple[Array, ...]]


@dataclass(frozen=True)
class Workload:
    """A program to be tuned.

    Args:
        name: as the user gave it.
        func: the program, in packed layout.
        reference: takes the inputs as ``func`` does and returns its output (a tuple of several), without the interpreter (a
            user's own program has no other reference than itself).
        macs: multiply-accumulates of the plain operator (0 for an ALU-only program).
        spec: the name in full, all parameters written out.
        layouts: per tensor parameter, its plain layout, or None where only the parameter's own shape is accepted.
        recipe: arguments of ``workload`` that give it again, or None; a workload with one is pickled as these (``lookup``).
    """

    name: str
    func: PrimFunc
    reference: Reference = field(compare=False)
    macs: int
    spec: str = ""
    layouts: tuple[Layout | None, ...] = ()
    recipe: tuple[str, int, int] | None = None

    @property
    def key(self) -> str:
        """SHA-256 of the program's canonical JSON: what records are filed under."""
        return structural_hash(self.func)

    @property
    def ops(self) -> int:
        """Operations as literature counts them: two per multiply-accumulate."""
        return 2 * self.macs

    def results(self, *inputs: Array) -> dict[str, Array]:
        """What the reference gives for inputs, by the names of the parameters that the program writes.

        Args:
            inputs: as the program takes them.
        """
        found = self.reference(*inputs)
        return dict(zip([b.name for b in written(self.func)], found if isinstance(found, tuple) else (found,), strict=True))

    def inputs(self, seed: int = 0, wide: bool = False) -> tuple[Array, ...]:
        """Random inputs within the declared value ranges, packed.

        Args:
            seed: of ``numpy.random.default_rng``.
            wide: over whole ranges; else such that most outputs lie inside the program's clips, with a few corner values.
        """
        return (wide_inputs if wide else telling_inputs)(self.func, seed)


@dataclass(frozen=True)
class Network:
    """Workloads with the number of times that each occurs.

    Args:
        name: as the user gave it.
        tasks: pairs of workload and multiplicity; the multiplicity is no part of any key.
    """

    name: str
    tasks: tuple[tuple[Workload, int], ...]


def wrap32(exact: Array) -> Array:
    """Exact sums (float64 or int64) as int32, wrapped around like the accumulator."""
    return exact.astype(np.int64).astype(np.int32)


def finish(acc: Array, bias: Array | None, tail: str) -> Array:
    """The tail of an operator on NumPy: ``requant`` (shift, bias, clip, narrow) or ``cast`` (keep the low 8 bits).

    Args:
        acc: int32 sums.
        bias: int32, broadcast against ``acc``, or None.
        tail: ``requant`` or ``cast``.
    """
    if tail == "requant":
        acc = acc >> np.int32(8)
    if bias is not None:
        acc = acc + bias
    if tail == "requant":
        acc = np.clip(acc, 0, 127)
    return acc.astype(np.int8)
