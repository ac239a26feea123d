"""A buffer's place in SRAM: what it holds, how many copies there are, and which of them a pass uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from autosched.ir.scopes import INP, WGT
from autosched.ir.stmt import Buffer
from autosched.lower.affine import Ints, Lin, Loop
from autosched.lower.tree import Access
from sim.config import VTAConfig


@dataclass(eq=False, slots=True)
class Storage:
    """A buffer's place in SRAM.

    Args:
        buffer: the buffer.
        path: the loops around its scope; one pass of the innermost is one life.
        lows: first index held, per dimension.
        extents: indices held, per dimension.
        lanes: scalars of one element.
        size: elements of one copy.
        banks: copies used in turn by successive passes.
        threads: virtual threads around the scope, each iteration with copies of its own.
        life: the first and the last site, by order, of the statements that run while it is alive.
        address: first element.
        turned: the copy that the first pass uses.
    """

    buffer: Buffer
    path: tuple[Loop, ...]
    lows: tuple[Lin, ...]
    extents: tuple[int, ...]
    lanes: int
    size: int
    banks: int
    threads: tuple[Loop, ...]
    life: tuple[int, int]
    address: int = 0
    turned: int = 0
    _steps: tuple[Mapping[Loop, int], Mapping[Loop, int]] | None = field(default=None, init=False, repr=False)

    @property
    def total(self) -> int:
        """Elements of all copies."""
        return self.size * self.banks * prod(t.extent for t in self.threads)

    @property
    def last(self) -> int:
        """Which copy the last pass uses."""
        return (prod(loop.extent for loop in self.path if not loop.thread) - 1 + self.turned) % self.banks

    def flat(self, access: Access) -> Lin:
        """Offset in scalars of an access from the start of a copy."""
        parts, stride = list[tuple[Lin, int]](), 1
        for index, low, extent in zip(reversed(access.indices), reversed(self.lows), reversed(self.extents)):
            parts.append((index, stride))
            if low.terms or low.const:
                parts.append((low, -stride))
            stride *= extent
        return Lin.total(parts)

    def copy_steps(self) -> tuple[Mapping[Loop, int], Mapping[Loop, int]]:
        """By loop, by how many copies an iteration turns to another bank, and how many elements a thread's copies are apart."""
        if self._steps is not None:
            return self._steps
        turns, passes = dict[Loop, int](), 1
        if self.banks > 1:
            for loop in reversed(self.path):
                if not loop.thread:
                    if loop.extent > 1 and passes % self.banks:
                        turns[loop] = passes % self.banks
                    passes *= loop.extent
        apart, stride = dict[Loop, int](), self.size * self.banks
        for loop in reversed(self.threads):
            apart[loop] = stride
            stride *= loop.extent
        self._steps = turns, apart
        return turns, apart

    def copy_offset(self, values: Mapping[Loop, Ints]) -> int | Ints:
        """First element of the copy that each of some instances uses, from the loops' values."""
        turns, apart = self.copy_steps()
        offset: int | Ints = self.address
        for loop, step in apart.items():
            offset = offset + values[loop] * step
        if self.banks > 1:
            turn: int | Ints = self.turned
            for loop, step in turns.items():
                turn = turn + values[loop] * step
            offset = offset + turn % self.banks * self.size
        return offset


def lanes_of(scope: str, config: VTAConfig) -> int:
    """Scalars of one element of a memory."""
    if scope == WGT:
        return config.block_out * config.block_in
    return config.batch * (config.block_in if scope == INP else config.block_out)
