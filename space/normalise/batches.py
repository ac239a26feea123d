"""Rows of an element: on a machine whose vectors have several (LOG_BATCH), the index that becomes them.

One that data and results have and weights do not: images of a batch, rows of a matrix, pixels that no window goes over. All
tensors that have it are split by it, and what is read without it is repeated in the rows by the host. Where there is none,
tensors get one of extent 1, and all rows but the first stay empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, product

from autosched.errors import ScheduleError
from autosched.ir.expr import Expr, Var, int_value
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.axes import Axes, Names, Place, accesses, parts_of
from space.normalise.blocks import (
    device_block,
    device_blocks,
    filled,
    loads_of,
    pack_blocks,
    product_of,
    store_of,
    unfit,
)
from space.normalise.estimate import Estimate, estimate
from space.normalise.layouts import sides_of
from space.normalise.units import iterate, unit_first

MOST_TRIED = 12  # choices of rows, for all parts of a program together

Choice = tuple[tuple[str, int | None], ...]  # by part, a block and the dimension of its result that has the rows; None: a new one


def apply(sch: Schedule, target: Target, pack: Callable[[Schedule, Names], None]) -> None:
    """Packs a program; where the machine's elements have several rows, with those that take least time.

    Args:
        sch: of a program whose tensors are not packed.
        target: the machine.
        pack: packs it, told the names of blocks whose results have the rows of an element last.

    Raises:
        ScheduleError: of the first choice, where none can be packed.
    """
    if target.config.batch == 1:
        pack(sch, frozenset())
        return
    best: tuple[Estimate, Schedule] | None = None
    refused: list[ScheduleError] = []
    for choice in islice(_choices(sch, target), MOST_TRIED):
        trial = sch.copy()
        try:
            pack(trial, _split(trial, target, choice))
        except ScheduleError as error:
            refused.append(error)
            continue
        cost = estimate(trial.func, target)
        if best is None or cost < best[0]:
            best = cost, trial
    if best is None:
        raise refused[0]
    sch.adopt(best[1])


def _choices(sch: Schedule, target: Target) -> Iterator[Choice]:
    blocks = device_blocks(sch.func)
    found: list[list[tuple[str, int | None]]] = []
    for part in parts_of(blocks, Axes(blocks, target.config.block_out)):
        last = store_of(part[-1])
        dims = [d for d, index in enumerate(last.indices) if isinstance(index, Var)]
        found.append([(part[-1].name, d) for d in (*dims, None)])
    yield from product(*found)


def _split(sch: Schedule, target: Target, choice: Choice) -> Names:
    """Splits all tensors by their rows, filled up with zeros; the names of the blocks that store such."""
    rows = [(name, _with_unit(sch, target, name) if d is None else d) for name, d in choice]
    blocks = device_blocks(sch.func)
    axes = Axes(blocks, target.config.block_out)
    marked = {axes.of((store_of(device_block(sch, name)).buffer, d)) for name, d in rows}
    touched = {buffer for block in blocks for buffer, _ in accesses(block)}
    packs = [b for b in pack_blocks(sch) if store_of(b).buffer in touched]
    tensors = {store_of(b).buffer: b.name for b in (*packs, *blocks)}
    split = {buffer: _dimension(buffer, axes, marked) for buffer in tensors}
    lacking = [store_of(b).buffer.name for b in blocks if split[store_of(b).buffer] is None]
    if lacking:
        raise unfit(f"{lacking[0]} has no index that can be the rows of an element")
    batch = target.config.batch
    whole = {**dict.fromkeys(_single(blocks, axes), target.config.block_in), **dict.fromkeys(marked, batch)}
    for block in (*packs, *blocks):
        store = store_of(block)
        dims = [(store.buffer, d) for d in range(store.buffer.ndim)]
        by_index = {i: whole.get(axes.of(p), 1) for p, i in zip(dims, store.indices) if p in axes.parent}
        own = [(block.ident, iv.var) for iv in block.iter_vars]
        factors = [whole.get(axes.of(p), 1) if p in axes.parent else by_index.get(p[1], 1) for p in own]
        if any((int_value(iv.dom.extent) or 1) % f for iv, f in zip(block.iter_vars, factors)):
            sch.pad_block(sch.get_sblock(block.name), factors)
    domains = [(b.name, [iv.var for iv in b.iter_vars].index(_row_of(b, split[store_of(b).buffer]))) for b in blocks]
    for buffer, d in split.items():
        if d is not None:
            sch.transform_layout(sch.get_sblock(tensors[buffer]), ("write", 0), partial(_last, d, batch))
    for name, k in domains:
        sch.transform_block_layout(sch.get_sblock(name), partial(_last, k, batch))
    for name, _ in domains:
        _repeat(sch, name)
    return frozenset(name for name, _ in domains)


def _single(blocks: Sequence[Block], axes: Axes) -> set[Place]:
    """The axes of sums of one product: of other extents, or a block with other iterators is no sum any more."""
    found = set()
    for block in blocks:
        sums = [iv for iv in block.iter_vars if iv.kind == "reduce"]
        if sums and (made := product_of(block)) is not None and all(int_value(iv.dom.extent) == 1 for iv in sums):
            found |= {axes.of((block.ident, depths[0])) for _, _, columns, depths in sides_of(made) if columns and depths}
    return found


def _dimension(buffer: Buffer, axes: Axes, marked: set[Place]) -> int | None:
    """The dimension of a tensor that has the rows, if any."""
    found = [d for d in range(buffer.ndim) if (buffer, d) in axes.parent and axes.of((buffer, d)) in marked]
    return found[0] if found else None  # of two, packing says that they are too many


def _row_of(block: Block, dimension: int | None) -> Var:
    """The iterator of a block that is the rows of what it stores."""
    index = None if dimension is None else store_of(block).indices[dimension]
    if not isinstance(index, Var):
        raise unfit(f"block {block.name} stores no rows of an element at a plain iterator")
    return index


def _last(at: int, batch: int, *i: Expr) -> tuple[Expr, ...]:
    """All indices, of one that splits off the rows, which come last."""
    return (*[index // batch if k == at else index for k, index in enumerate(i)], i[at] % batch)


def _repeat(sch: Schedule, name: str) -> None:
    """Of what a block reads without rows the host makes a copy that has the same in each."""
    block = device_block(sch, name)
    row = block.iter_vars[-1].var
    weight = _weight(block)
    for load in {x.buffer: x for x in loads_of(block)}.values():
        if load.buffer is not weight and not any(i is row for i in load.indices):
            if load.buffer not in filled(sch):
                raise unfit(f"{load.buffer.name} has no index that can be the rows of an element")
            sch.host_stage(sch.spread_operand(sch.get_sblock(name), load.buffer.name, len(block.iter_vars) - 1))


def _weight(block: Block) -> Buffer | None:
    """The factor of a product that is the weight: one that is not of the rows."""
    made = product_of(block)
    if made is None:
        return None
    row = block.iter_vars[-1].var
    without = [f for f in made.factors if not any(i is row for i in f.indices)]
    if len(without) == 1:
        return without[0].buffer
    sides = [weight for _, weight, columns, depths in sides_of(made) if columns and depths and weight in without]
    if not sides:
        raise unfit(f"both factors of block {block.name} would have the rows of an element")
    return sides[0].buffer


def _with_unit(sch: Schedule, target: Target, last: str) -> int:
    """Gives what the blocks of a part store a first index, of extent 1; its dimension."""
    blocks = device_blocks(sch.func)
    part = next(p for p in parts_of(blocks, Axes(blocks, target.config.block_out)) if last in [b.name for b in p])
    names = [b.name for b in part]
    for name in names:
        sch.transform_layout(sch.get_sblock(name), ("write", 0), unit_first)
    iterate(sch, names, {})
    return 0
