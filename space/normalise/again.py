"""What is done first to a sum, and alike wherever stages read it (a bias), is done once; so is what the host lays out alike."""

from __future__ import annotations

from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import BufferLoad, Expr, Var, int_value
from autosched.ir.functor import substitute, walk_expr
from autosched.ir.stmt import Block
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.stages import part_at
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, given, pack_blocks, product_of, readers_of, store_of
from space.normalise.copies import paths_to
from space.sites import alu_ops

_AT = tuple([Var(f"v{n}", "int32") for n in range(16)])  # iterators of values that are compared


def apply(sch: Schedule, target: Target) -> None:
    """Gives what every read of a sum begins with a stage, which is read instead; of several stages where a tensor is added there.

    The sum itself is then read by that stage alone, which works in its place.
    """
    for name in [b.name for b in device_blocks(sch.func) if product_of(b) is not None]:
        paths = _alike(sch, device_block(sch, name))
        try:
            made = [sch.decompose_value(sch.get_sblock(reader), path) for reader, path in paths]
            for other in made[1:]:
                sch.reuse_block(other, made[0])
        except ScheduleError:
            continue  # each does it for itself


def given_once(sch: Schedule) -> None:
    """Lets the host lay out once what it would lay out alike for several readers: one load may bring it for all of them.

    Args:
        sch: of a program in whole elements.
    """
    made: dict[object, str] = {}
    for name in [b.name for b in pack_blocks(sch)]:
        block = next((b for b in pack_blocks(sch) if b.name == name), None)
        if block is None or block.init is not None:
            continue
        store = store_of(block)
        if not all(isinstance(i, Var) or int_value(i) == 0 for i in store.indices) or len(store.indices) > len(_AT):
            continue
        key = tuple(map(int_value, store.buffer.shape)), store.buffer.dtype, _written(block, [])
        first = made.setdefault(key, name)
        if first != name:
            with suppress(ScheduleError):  # another domain, or a parameter's own
                sch.reuse_block(sch.get_sblock(name), sch.get_sblock(first))


def _alike(sch: Schedule, total: Block) -> list[tuple[str, list[int]]]:
    """Where a sum is read, each time with the part of that value that all have in common; none where there is no such part."""
    buffer = store_of(total).buffer
    readers = readers_of(sch.func, buffer)
    params = set(given(sch.func))
    chains = []
    for block in readers:
        store = store_of(block)
        paths = paths_to(store.value, {buffer})
        loads = [part_at(block, store.value, path) for path in paths]
        if block.init is not None or any(x.indices != store.indices for x in loads if isinstance(x, BufferLoad)):
            return []
        chains += [(block.name, path, [_written(block, path[:n]) for n in range(len(path) - 1, 0, -1)]) for path in paths]
    common = 0
    for parts in zip(*(values for _, _, values in chains)):
        same = all(p == parts[0] and p.dtype == "int32" for p in parts)
        if not same or any(x.buffer not in params | {buffer} for x in walk_expr(parts[0]) if isinstance(x, BufferLoad)):
            break
        common += 1
    # What one stage does several times to a sum it does to copies of it.
    if len(chains) < 2 or not common or not (len(readers) == 1 or alu_ops(chains[0][2][common - 1])[1]):
        return []
    return [(name, path[: len(path) - common]) for name, path, _ in chains]


def _written(block: Block, path: list[int]) -> Expr:
    """A part of what a block stores, with the same iterators for every block of that shape."""
    store = store_of(block)
    return substitute(part_at(block, store.value, path), {i: _AT[n] for n, i in enumerate(store.indices) if isinstance(i, Var)})
