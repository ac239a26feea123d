"""Results that are computed in one way up to some index and in another one from there on: a block for each of the parts.

So a concatenation is written in one expression, ``T.if_then_else(o < 16, A[o], B[o - 16])``. Each block stores its part of the
result then; that they are one tensor is for the host.
"""

from __future__ import annotations

from autosched.ir.expr import BufferLoad, Var
from autosched.ir.functor import walk_expr
from autosched.ir.host import is_move
from autosched.ir.patterns import choice_of, has_loads
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, extents, moved, named, readers_of, store_of, turning_point

MOST = 16  # parts of one result


def applies(func: PrimFunc) -> bool:
    """Whether some result is computed in several ways, by the value of an index."""
    return any(_cut(func, block) is not None for block in device_blocks(func))


def apply(sch: Schedule, target: Target) -> None:
    """Gives every such part of a result a block of its own."""
    names = [b.name for b in device_blocks(sch.func)]
    for _ in range(MOST):
        found = next(((name, cut) for name in names if (cut := _cut(sch.func, device_block(sch, name))) is not None), None)
        if found is None:
            return
        name, (var, end) = found
        block = device_block(sch, name)
        binding = dict(zip([iv.var for iv in block.iter_vars], sch.state.realizes[block.ident].iter_values))
        at = [loop.var for loop in sch.state.loops_of(block)].index(binding[var])  # type: ignore[arg-type]
        made = sch.partition_block(sch.get_loops(sch.get_sblock(name))[at], [end, None])
        for part in made:
            sch.simplify_value(part)
            sch.renest(part)
        names.remove(name)
        names += [named(sch, part) for part in made]


def _cut(func: PrimFunc, block: Block) -> tuple[Var, int] | None:
    """(iterator, its first value of the second part) of a result that is computed in several ways."""
    store = store_of(block)
    if block.init is not None or store.buffer not in func.buffers or readers_of(func, store.buffer):
        return None
    size, outside = extents(block), moved(func)
    for e in walk_expr(store.value):
        choice = choice_of(e)
        if choice is None or not all(has_loads(branch) for branch in choice[1:]):
            continue
        if is_move(e) and all(x.buffer in outside for x in walk_expr(e) if isinstance(x, BufferLoad)):
            continue  # of elements from outside a move as a whole is a value that is computed
        found = turning_point(choice[0])
        if found is not None and 0 < found[1] < size.get(found[0], 0):
            return found
    return None
