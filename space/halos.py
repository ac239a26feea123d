"""Halos: what a stage reads at several places is made in the accumulator for every tile, a border included.

So neighbours in one tile share it, and what lies between two tiles is made for both. Windows that overlap are the case: the
largest elements of the rows that two windows have in common (``space/normalise/windows.py``). What makes a halo may read another
one at several places in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.errors import SpaceError
from autosched.ir.expr import BinOp, BufferLoad, Expr, Var, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import choice_of
from autosched.ir.simplify import Analyzer, linear_form
from autosched.ir.stmt import Buffer
from autosched.target import Target
from space.operands import dims_of, first_of, spatial_vars
from space.sites import LANES, Site, loads_of, reads_of, starts_of
from space.stages import Stage


@dataclass(frozen=True)
class Halo:
    """A chain of blocks that makes what a stage reads at several places: for every tile all that its elements read.

    Args:
        stages: the chain; it begins with a sum of products of its own, or with what it reads of the halo before it.
        dims: of what it makes, as an operand's.
        reach: per dimension, how far behind the first index an element reads.
        live: tensors of the chain that are in the accumulator at once; none where it stands in the place of the halo before it.
        within: how many of the first stages do.
    """

    stages: tuple[Stage, ...]
    dims: tuple[tuple[tuple[int, ...], int], ...]
    reach: tuple[int, ...]
    live: int
    within: int = 0

    @property
    def cycles(self) -> int:
        """What an element of it costs at least."""
        return sum(s.cycles for s in self.stages)

    @property
    def taken(self) -> int:
        """Cycles of an element with what is moved."""
        return sum(s.taken for s in self.stages)

    @property
    def operations(self) -> int:
        """Instructions that make a tile's part of it."""
        return sum(s.operations for s in self.stages)


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


def slides(site: Site, buffer: Buffer, target: Target) -> bool:
    """Whether a stage stands in the place of what it reads at several places: ``share_in_place`` of lowering lets it.

    It begins with two of them. One is where it stores itself, and the other further on; or no other of its elements reads the
    one, wherever that is among what it reads.

    Args:
        site: the stage.
        buffer: what it reads.
        target: the machine.
    """
    loads = [x for x in loads_of(site) if x.buffer is buffer]
    pairs = [(e.a, e.b) for e in walk_expr(site.store.value) if isinstance(e, BinOp) and isinstance(e.a, BufferLoad)
             and isinstance(e.b, BufferLoad)]
    if target.semantics != "chisel" or len(pairs) != 1 or any(x.buffer is not buffer for x in pairs[0]):
        return False
    return any(_stands(site, here, there, loads) for here, there in (pairs[0], pairs[0][::-1]))


def placed(site: Site, buffer: Buffer, target: Target) -> bool:
    """Whether a stage that ``slides`` stands where elements do not follow each other: nothing is stored from there.

    Args:
        site: the stage.
        buffer: what it reads.
        target: the machine.
    """
    here = any(x.buffer is buffer and x.indices == site.store.indices for x in loads_of(site))
    return not here and slides(site, buffer, target)


def _stands(site: Site, here: BufferLoad, second: BufferLoad, loads: Sequence[BufferLoad]) -> bool:
    """Whether a stage may stand where one of its operands was, whatever it reads of that tensor besides."""
    places = [_place(to, at) for to, at in zip(site.store.indices, here.indices)]
    if any(by < 1 for by, _ in places):
        return False
    for other in loads:
        steps = [int_value(Analyzer({}).simplify(b - a)) for a, b in zip(here.indices, other.indices)]
        apart = any(step is not None and step % by for step, (by, _) in zip(steps, places))
        ahead = other is second and all(step is not None and step >= 0 for step in steps) and any(steps)
        if other is not here and not apart and not ahead:
            return False
    return True


def _place(to: Expr, at: Expr) -> tuple[int, int]:
    """By how much one index is multiplied and moved on to be another one; by 0 where that is not so."""
    own = [to] if isinstance(to, Var) else []
    form = linear_form(at, own)
    by = form[0].get(to, 0) if form is not None and isinstance(to, Var) else 1
    moved = None if form is None else int_value(form[1])
    return (0, 0) if moved is None or not isinstance(by, int) else (by, moved)


def surroundings_of(
    reader: Site, near: Site, loads: Sequence[BufferLoad], made: Sequence[Site], stages: Sequence[Stage], live: int, within: int,
    by_output: Mapping[Buffer, Site], out: Site, axes: int,
) -> Surroundings:
    """The halo that a stage reads, itself or through another halo that the stage reads.

    Args:
        reader: the stage.
        near: the block that reads it, the stage or one that makes the other halo.
        loads: where that does, as the stage sees it.
        made: the chain of blocks that makes it.
        stages: what they cost.
        live: tensors of the chain that are in the accumulator at once.
        within: how many of its first stages stand in the place of another halo.
        by_output: the block that writes each buffer.
        out: the block that stores what the stage goes into.
        axes: how many axes the nest has.

    Raises:
        SpaceError: it is no sum of products with stages behind it, nor begins with another halo, several blocks read it, or one
            reads it in several orders; it chooses elements by their place.
    """
    where, buffer = f"block {near.block.name!r}", made[-1].store.buffer
    readers = [s for s in by_output.values() if s not in made and any(x.buffer is buffer for x in reads_of(s))]
    begins = stages[0].fresh and not any(x.buffer in by_output for x in starts_of(made[0]))
    if len(readers) > 1 or not (begins or elsewhere(made[0])) or any(s.fresh for s in stages[1:]):
        raise SpaceError(f"{where} reads {buffer.name} at another place than it writes, and that is no sum of products that it "
                         "alone reads", "index")
    if any(choice_of(e) is not None for s in made for e in walk_expr(s.store.value)):
        raise SpaceError(f"{where} reads {buffer.name}, with zeros around, from the accumulator; the ALU has no choice", "index")
    own = spatial_vars(reader, out, LANES, axes)
    every = {dims_of(x, LANES, own, where) for x in loads}
    if len(every) > 1:
        raise SpaceError(f"{where} reads {buffer.name} in several orders", "index")
    starts = [first_of(x, LANES, own) for x in loads]
    reach = tuple(max(at) - min(at) for at in zip(*starts))
    return Surroundings(Halo(tuple(stages), every.pop(), reach, live, within), tuple(made), reader, tuple(loads))

