"""Stages that store in another order than they read: the tensor that they make is laid out as the one they read."""

from __future__ import annotations

from autosched.ir.expr import Expr, Var, int_value
from autosched.ir.stmt import Block, Buffer
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, extents, loads_of, store_of, written


def apply(sch: Schedule, target: Target) -> None:
    """Permutes what every stage stores, first stages first, so that a chain of stages goes over its tensors in one order."""
    params = set(sch.func.buffers)
    for name in [b.name for b in device_blocks(sch.func) if b.init is None]:
        block = device_block(sch, name)
        made = written(sch.func) - params
        order = _order(block, made)
        if order is None or store_of(block).buffer in params:
            continue

        def turned(*i: Expr, order: list[int | None] = order) -> tuple[Expr, ...]:
            return tuple([i[0] % 1 if d is None else i[d] for d in order])

        sch.transform_layout(sch.get_sblock(name), ("write", 0), turned)


def _order(block: Block, made: set[Buffer]) -> list[int | None] | None:
    """The dimensions of what a block stores in the order of a tensor that it reads (None: a new one of extent 1).

    None where they are in that order, and where it does not read one element of the tensor for each that it stores.
    """
    size = extents(block)
    stored = [i if isinstance(i, Var) and size.get(i, 1) > 1 else None for i in store_of(block).indices]
    for load in loads_of(block):
        read = [i if isinstance(i, Var) and size.get(i, 1) > 1 else None for i in load.indices]
        if load.buffer not in made or load.buffer is store_of(block).buffer or read == stored:
            continue
        single = [int_value(e) == 1 for e in load.buffer.shape]
        moving = [v for v in read if v is not None]
        if len(set(moving)) != len(moving) or set(moving) != {v for v in stored if v is not None}:
            continue
        if all(v is not None or one for v, one in zip(read, single)):
            return [None if v is None else stored.index(v) for v in read]
    return None
