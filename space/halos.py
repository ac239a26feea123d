"""Halos: what a stage reads at several places is made in the accumulator for every tile, a border included.

So neighbours in one tile share it, and what lies between two tiles is made for both. Windows that overlap are the case: the
largest elements of the rows that two windows have in common (``space/normalise/windows.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.errors import SpaceError
from autosched.ir.expr import BufferLoad
from autosched.ir.stmt import Buffer
from space.operands import dims_of, first_of, spatial_vars
from space.sites import LANES, Site, loads_of, reads_of, starts_of
from space.stages import Stage


@dataclass(frozen=True)
class Halo:
    """A chain of blocks that makes what a stage reads at several places: for every tile all that its elements read.

    Args:
        stages: the chain; it begins with a sum of products of its own.
        dims: of what it makes, as an operand's.
        reach: per dimension, how far behind the first index an element reads.
        live: tensors of the chain that are in the accumulator at once.
    """

    stages: tuple[Stage, ...]
    dims: tuple[tuple[tuple[int, ...], int], ...]
    reach: tuple[int, ...]
    live: int

    @property
    def cycles(self) -> int:
        """What an element of it costs."""
        return sum(s.imm_ops + 2 * s.tensor_ops + s.products for s in self.stages)

    @property
    def operations(self) -> int:
        """Instructions that make a tile's part of it."""
        return sum(s.imm_ops + s.tensor_ops + s.products for s in self.stages)


@dataclass(frozen=True)
class Surroundings:
    """A halo with the program's parts that it stands for.

    Args:
        halo: it.
        made: the blocks that make it, in program order.
        reader: the only block that reads it.
        loads: where that does.
    """

    halo: Halo
    made: tuple[Site, ...]
    reader: Site
    loads: tuple[BufferLoad, ...]


def elsewhere(site: Site) -> set[Buffer]:
    """What a stage reads at another place than it writes.

    Args:
        site: the stage.
    """
    return set() if site.block.init is not None else {x.buffer for x in loads_of(site) if x.indices != site.store.indices}


def surroundings_of(
    reader: Site, buffer: Buffer, made: Sequence[Site], stages: Sequence[Stage], live: int, by_output: Mapping[Buffer, Site],
    out: Site, axes: int,
) -> Surroundings:
    """The halo that a stage reads.

    Args:
        reader: the stage.
        buffer: what it reads at several places.
        made: the chain of blocks that makes it.
        stages: what they cost.
        live: tensors of the chain that are in the accumulator at once.
        by_output: the block that writes each buffer.
        out: the block that stores what the stage goes into.
        axes: how many axes the nest has.

    Raises:
        SpaceError: it is no sum of products with stages behind it, several blocks read it, or one reads it in several orders.
    """
    where = f"block {reader.block.name!r}"
    readers = [s for s in by_output.values() if s not in made and any(x.buffer is buffer for x in reads_of(s))]
    if len(readers) > 1 or not stages[0].fresh or any(s.fresh for s in stages[1:]) or starts_of(made[0]):
        raise SpaceError(f"{where} reads {buffer.name} at another place than it writes, and that is no sum of products that it "
                         "alone reads", "index")
    loads = tuple(x for x in loads_of(reader) if x.buffer is buffer)
    own = spatial_vars(reader, out, LANES, axes)
    every = {dims_of(x, LANES, own, where) for x in loads}
    if len(every) > 1:
        raise SpaceError(f"{where} reads {buffer.name} in several orders", "index")
    starts = [first_of(x, LANES, own) for x in loads]
    reach = tuple(max(at) - min(at) for at in zip(*starts))
    return Surroundings(Halo(tuple(stages), every.pop(), reach, live), tuple(made), reader, loads)
