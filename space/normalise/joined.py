"""Tensors in between that are made in parts, by several blocks or in several ways: each part is a tensor, read by itself.

A concatenation between two products is so no tensor at all: the later product sums over one part after the other, and the sums
go on from each other. Stages in between are cut where the parts meet, the last stages first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from itertools import pairwise

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, Expr, Var, int_value
from autosched.ir.functor import substitute, walk_expr
from autosched.ir.patterns import choice_of, loads_from
from autosched.ir.simplify import Analyzer, linear_form
from autosched.ir.stmt import Block, Buffer, BufferStore, PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise import initial, moves
from space.normalise.blocks import (
    device_block,
    device_blocks,
    extents,
    given,
    is_placed,
    loads_of,
    named,
    readers_of,
    store_of,
    turning_point,
    unfit,
    written,
)

MOST = 16  # tensors in parts, and ways in which one is made

Joint = tuple[Buffer, int, list[int]]  # a tensor, the dimension along which it is put together, and where its parts meet


def applies(func: PrimFunc) -> bool:
    """Whether a tensor in between is made in parts.

    Args:
        func: the program.
    """
    return _joint(func, set()) is not None


def apply(sch: Schedule, target: Target) -> None:
    """Gives the parts of every such tensor tensors of their own."""
    _apart(sch, _joint)


def with_given(begun: Schedule, target: Target) -> Schedule | None:
    """A schedule in which what is joined of parameters and of what is computed is read part by part, and what is moved is, once.

    Args:
        begun: of a program of plain blocks; stays as it is.
        target: the machine.

    Returns:
        It, or None where the program moves nothing that it reads itself.
    """
    if not any(b.init is None and is_placed(store_of(b).value) and store_of(b).buffer not in begun.func.buffers
               for b in device_blocks(begun.func)):
        return None
    sch = begun.copy()
    with suppress(ScheduleError):  # a block in loops that are not its own is none yet that can be cut
        initial.plainly(sch, target)
    _apart(sch, _joint_with_given)
    moves.merged(sch)
    return sch


def elsewhere(func: PrimFunc) -> bool:
    """Whether a stage of a program in form reads sums, or lanes of an element, at other places than it stores.

    The accumulator is addressed by whole elements, in the order in which a stage stores: no such program has a schedule.

    Args:
        func: the program, in form.
    """
    blocks = device_blocks(func)
    made = {store_of(b).buffer: b for b in blocks if store_of(b).buffer.dtype == "int32"}
    for block in blocks:
        store = store_of(block)
        if isinstance(block.init, BufferStore):
            # What a sum goes on from is another sum, of the same elements.
            sums = [x.buffer for x in walk_expr(block.init.value) if isinstance(x, BufferLoad) and x.buffer in made]
            if any(made[b].init is not None and b.shape != store.buffer.shape for b in sums):
                return True
            continue
        for load in loads_of(block):
            if load.buffer not in made:
                if load.indices[-1] != store.indices[-1]:
                    return True
            elif load.indices != store.indices or load.buffer.shape != store.buffer.shape:
                return True
    return False


def read(sch: Schedule, target: Target) -> None:
    """Gives parts of a sum that stages read each by itself tensors of their own."""
    _apart(sch, _read_apart)


def _apart(sch: Schedule, joint: Callable[[PrimFunc, set[str]], Joint | None]) -> None:
    """Cuts one tensor after the other; one that cannot be cut stays."""
    kept: set[str] = set()
    for _ in range(MOST):
        found = joint(sch.func, kept)
        if found is None:
            return
        buffer, dim, points = found
        try:
            with sch.all_or_none():
                cut(sch, buffer.name, dim, points)
        except ScheduleError:
            kept.add(buffer.name)  # what is in the way of a schedule, analysis says
        else:
            kept.clear()  # of what stays a reader may have been cut


def _read_apart(func: PrimFunc, kept: set[str]) -> Joint | None:
    """The last tensor of int32 in between of which every reader reads one of several parts."""
    for block in reversed(device_blocks(func)):
        buffer = store_of(block).buffer
        if buffer in func.buffers or buffer.name in kept or buffer.dtype != "int32":
            continue
        loads = [(b, x) for b in readers_of(func, buffer) for x in loads_of(b) if x.buffer is buffer]
        found = _end_to_end(buffer, {tuple([span(b, i) for i in x.indices]) for b, x in loads})
        if found is not None:
            return buffer, *found
    return None


def _joint_with_given(func: PrimFunc, kept: set[str]) -> Joint | None:
    """As ``_joint``, of parameters as well."""
    return _joint(func, kept, {*given(func)})


def _joint(func: PrimFunc, kept: set[str], also: Set[Buffer] = frozenset()) -> Joint | None:
    """The first tensor in between that is made in parts, of what the program makes and of ``also``."""
    blocks, made = device_blocks(func), written(func) | also
    for block in blocks:
        buffer = store_of(block).buffer
        if buffer in func.buffers or buffer.name in kept:
            continue
        writers = [b for b in blocks if store_of(b).buffer is buffer]
        found = _put_together(buffer, writers) if len(writers) > 1 else _in_ways(block, made)
        if found is not None and readers_of(func, buffer):
            return buffer, *found
    return None


def _put_together(buffer: Buffer, writers: Sequence[Block]) -> tuple[int, list[int]] | None:
    """(dimension, where parts meet) of a tensor of which several blocks each write a part, and together all."""
    if any(b.init is None and loads_from(store_of(b).value, buffer) for b in writers):
        return None
    boxes = [tuple([span(b, i) for i in store_of(b).indices]) for b in writers]
    return _end_to_end(buffer, set(boxes)) if len(set(boxes)) == len(boxes) else None


def _end_to_end(buffer: Buffer, boxes: Set[tuple[tuple[int, int], ...]]) -> tuple[int, list[int]] | None:
    """(dimension, where they meet) of boxes that lie one after the other along one dimension of a tensor, and fill it."""
    differ = [d for d in range(buffer.ndim) if len({box[d] for box in boxes}) > 1]
    if len(differ) != 1:
        return None
    spans = sorted(box[differ[0]] for box in boxes)
    ends = [0, *[end for _, end in spans]]
    if any(begin != end for (begin, _), end in zip(spans, ends)) or ends[-1] != int_value(buffer.shape[differ[0]]):
        return None
    return differ[0], ends[1:-1]


def span(block: Block, index: Expr) -> tuple[int, int]:
    """From where and up to where an index of a block goes; (-1, -1) where that is not known.

    Args:
        block: it.
        index: of what it stores or loads.
    """
    low, high = Analyzer({iv.var: iv.dom for iv in block.iter_vars}).int_bounds(index)
    return (low, high + 1) if low is not None and high is not None else (-1, -1)


def _in_ways(block: Block, made: set[Buffer]) -> tuple[int, list[int]] | None:
    """(dimension, where parts meet) of a tensor that one block makes of others in several ways, by an index of it."""
    store = store_of(block)
    size = extents(block)
    points: dict[Var, set[int]] = {}
    for e in walk_expr(store.value):
        choice = choice_of(e)
        if choice is None or not all(choice_of(x) is not None or any(loads_from(x, b) for b in made) for x in choice[1:]):
            continue
        found = turning_point(choice[0])
        if found is not None and 0 < found[1] < size.get(found[0], 0):
            points.setdefault(found[0], set()).add(found[1])
    if block.init is not None or len(points) != 1:
        return None
    (var, at), = points.items()
    return (store.indices.index(var), sorted(at)) if var in store.indices else None


def cut(sch: Schedule, name: str, dim: int, points: Sequence[int]) -> list[str]:
    """Makes several tensors of one, and cuts what reads more than one of them.

    Args:
        sch: of the program.
        name: of the tensor.
        dim: the dimension along which it is cut.
        points: where its parts meet.

    Returns:
        The names of the blocks that make the parts, as far as any still does.

    Raises:
        ScheduleError: a block reads it otherwise than along one of its iterators.
    """
    buffer = _buffer(sch, name)
    for reader in [b.name for b in readers_of(sch.func, buffer)]:
        if any(b.name == reader for b in device_blocks(sch.func)):  # else it was cut with what another reader makes of this
            _cut_reader(sch, reader, buffer, dim, points)
    writers = [b.name for b in device_blocks(sch.func) if store_of(b).buffer is buffer]
    size = int_value(buffer.shape[dim]) or 0
    made = sch.partition_buffer(sch.get_sblock(writers[0]), dim, [b - a for a, b in pairwise([0, *points, size])])
    names = [named(sch, part) for part in made]
    for part in names:
        _more_plainly(sch, part)
    return names


def _buffer(sch: Schedule, name: str) -> Buffer:
    return next(store_of(b).buffer for b in device_blocks(sch.func) if store_of(b).buffer.name == name)


def _more_plainly(sch: Schedule, name: str) -> None:
    """A part of what is made in several ways is made in one; what only moves elements on is read where they come from."""
    for step in (sch.simplify_value, sch.renest):
        try:
            step(sch.get_sblock(name))
        except ScheduleError:
            continue  # it is plain
    value = store_of(device_block(sch, name)).value
    if isinstance(value, BufferLoad) and value.dtype == "int8":
        try:
            sch.compute_inline(sch.get_sblock(name))
        except ScheduleError:
            return  # it stays


def _cut_reader(sch: Schedule, name: str, buffer: Buffer, dim: int, points: Sequence[int]) -> None:
    """Cuts a block where the parts of a tensor meet that it reads."""
    block = device_block(sch, name)
    for load in loads_of(block):
        if load.buffer is not buffer:
            continue
        begin, end = span(block, load.indices[dim])
        inside = [p for p in points if begin < p < end]
        if not inside:
            continue
        var, further = _moved_by(block, load.indices[dim])
        if var is None:
            raise unfit(f"block {name} reads {buffer.name} across parts of it")
        _cut_block(sch, name, var, [p - further for p in inside])
        return


def _moved_by(block: Block, index: Expr) -> tuple[Var | None, int]:
    """The iterator of more than one step that an index is, and what it is more than that."""
    form = linear_form(substitute(index, {iv.var: iv.dom.min for iv in block.iter_vars if int_value(iv.dom.extent) == 1}))
    at = None if form is None else int_value(form[1])
    if form is None or at is None or list(form[0].values()) != [1]:
        return None, 0
    return next(iter(form[0])), at


def _cut_block(sch: Schedule, name: str, var: Var, points: Sequence[int]) -> None:
    """Cuts a block along one of its iterators, with what it makes."""
    block = device_block(sch, name)
    store = store_of(block)
    realize = sch.state.realizes[block.ident]
    k = next(k for k, iv in enumerate(block.iter_vars) if iv.var is var)
    lengths = [b - a for a, b in pairwise([0, *points, extents(block)[var]])]
    loops = [loop.var for loop in sch.state.loops_of(block)]
    value = realize.iter_values[k]
    if value not in loops:
        raise unfit(f"block {name} has no loop for each of its iterators")
    loop = sch.get_loops(sch.get_sblock(name))[loops.index(value)]
    if block.iter_vars[k].kind == "reduce":
        sch.partition_reduction(loop, lengths)
        return
    at = next((d for d, i in enumerate(store.indices) if _moved_by(block, i)[0] is var), None)
    if at is None:
        raise unfit(f"block {name} does not store along {var.name}")
    if store.buffer not in sch.func.buffers:
        further = _moved_by(block, store.indices[at])[1]
        cut(sch, store.buffer.name, at, [p + further for p in points])
        return
    for part in sch.partition_block(loop, [*lengths[:-1], None]):
        made = sch.get(part)
        assert isinstance(made, Block)
        _more_plainly(sch, made.name)
