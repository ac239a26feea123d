"""Axes that one block has whole and another one takes apart, as heads of attention put side by side: two axes everywhere.

A stage that reads ``o[c // 16, i, c % 16]``, or stores at ``h * 16 + d``, moves nothing if what it makes has an index for each
digit, as what it reads has: no element changes its place. So all that has the axis gets two: tensors in between and blocks, sums
over them as well. Of parameters the host lays out what products then read at two digits. What only puts axes in another order is
read where it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BinOp, BufferLoad, Var, int_value
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise import initial, loops, moving
from space.normalise.axes import Axes, Place, accesses
from space.normalise.blocks import device_block, device_blocks, extents, loads_of, store_of
from space.normalise.groups import divided, two_digits


def apart(begun: Schedule, target: Target) -> Schedule | None:
    """A schedule in which axes that tensors in between are read or stored along by digits are two axes each.

    Args:
        begun: of a program of plain blocks; stays as it is.
        target: the machine.

    Returns:
        It, or None where there are none, an axis is taken apart in several ways, or a primitive refuses.
    """
    sch = begun.copy()
    with suppress(ScheduleError):  # a block in loops that are not its own is none yet that can be split
        for rule in (loops.apart, initial.apply, loops.apply, initial.overwritten):
            rule(sch, target)
    axes = Axes(device_blocks(sch.func))
    sizes: dict[Place, int] = {}
    for place, size in _taken_apart(sch.func):
        axis = axes.of(place)
        if sizes.setdefault(axis, size) != size:
            return None
    if not sizes:
        return None
    try:
        divided(sch, axes, sizes)
        _straight(sch)
        moving.laid_out(sch)
    except ScheduleError:
        return None  # what is in the way of a schedule, analysis says
    return sch


def _taken_apart(func: PrimFunc) -> Iterator[tuple[Place, int]]:
    """Where a block takes apart, or puts together, an index of a tensor in between, and the extent of the inner digit."""
    for block in device_blocks(func):
        between = [(buffer, indices) for buffer, indices in accesses(block) if buffer not in func.buffers]
        for buffer, indices in between:
            for d, size in two_digits(buffer, indices, extents(block)):
                yield (buffer, d), size
        for var, size in _digits(block) if between else ():
            yield (block.ident, var), size


def _digits(block: Block) -> list[tuple[Var, int]]:
    """The iterators of which a block reads both digits, each with the extent of the inner one."""
    size = extents(block)
    found: dict[str, dict[tuple[Var, int], None]] = {"//": {}, "%": {}}
    for index in (i for x in loads_of(block) for i in x.indices):
        each = int_value(index.b) if isinstance(index, BinOp) and index.op in found else None
        if isinstance(index, BinOp) and isinstance(index.a, Var) and each and size.get(index.a, 0) % each == 0:
            found[index.op][index.a, each] = None
    return [one for one in found["//"] if one in found["%"]]


def _straight(sch: Schedule) -> None:
    """Lets what another block only puts in another order be read where that comes from."""
    for name in [b.name for b in device_blocks(sch.func)]:
        block = device_block(sch, name)
        store = store_of(block)
        value = store.value
        if store.buffer in sch.func.buffers or block.init is not None or not isinstance(value, BufferLoad):
            continue
        plain = all(isinstance(i, Var) for i in value.indices) and len({*value.indices}) == len(value.indices)
        if plain and {*value.indices} == {*store.indices} and value.buffer not in sch.func.buffers:
            sch.compute_inline(sch.get_sblock(name))
