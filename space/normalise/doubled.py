"""Sums over windows of int8 that overlap, by doubling: what windows share is added up once.

The sum of n elements in a row is that of the first half and, so much further on, of the second: every place has one, and a place
takes two cycles, an addition of two tensors in the place of the one (``space/halos.py``), whatever n is. An element that is left
over comes in by a product, as all of them do where nothing is shared: a cycle. So a window of 8x8 takes 13 cycles in place of 65.
"""

from __future__ import annotations

from functools import cache
from math import prod

from autosched.ir.expr import BinOp, Expr, int_value
from autosched.ir.patterns import is_widened, loads_in, update_of
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.primitives.reductions.sharing import along_of
from autosched.target import Target
from space.normalise.blocks import device_block, device_blocks, extents, named, product_of, store_of

MOST = 1024  # elements of a window
RESET, PRODUCT = 1, 1  # cycles of a vector

Halving = tuple[int, int]  # which of what is summed over, and how many of its steps are left over


def applies(func: PrimFunc, target: Target) -> bool:
    """Whether some sum over windows takes less so.

    Args:
        func: the program, in form or not.
        target: the machine.
    """
    return any(_halvings(block, target) for block in device_blocks(func))


def apply(sch: Schedule, target: Target) -> bool:
    """Lets windows share what they add up; whether any do.

    Args:
        sch: the program, with packed tensors.
        target: the machine.
    """
    done = False
    for name in [b.name for b in device_blocks(sch.func)]:
        for at, left in _halvings(device_block(sch, name), target):
            position, count = _position(device_block(sch, name), at)
            if left:
                loop = sch.get_loops(sch.get_sblock(name))[position]
                name = named(sch, sch.partition_reduction(loop, [count - left, None])[0])
            made = sch.share_reduction(sch.get_sblock(name), position, (count - left) // 2)
            sch.expand_reduction(sch.get_sblock(name))
            name, done = named(sch, made), True
    return done


def _position(block: Block, at: int) -> tuple[int, int]:
    """Which iterator of a block is the one at some number of those that it sums over, and how long."""
    over = [n for n, iv in enumerate(block.iter_vars) if iv.kind == "reduce"]
    return over[at], extents(block)[block.iter_vars[over[at]].var]


def _halvings(block: Block, target: Target) -> list[Halving]:
    """How a sum over windows of int8 is halved, from the whole on; nothing where products take no longer."""
    update = update_of(store_of(block)) if block.init is not None else None
    if update is None or update[0] != "+" or not _of_bytes(update[1]):
        return []
    size = extents(block)
    over = [iv.var for iv in block.iter_vars if iv.kind == "reduce"]
    axes = [along_of(block, update[1], v) for v in over]
    # What is summed up in the lanes of a product takes no further one.
    lanes = {x.indices[-1] for x in loads_in(update[1])} if product_of(block) is not None else set()
    counts = tuple([1 if v in lanes else size[v] for v in over])
    if not any(axes) or prod(counts) > MOST:
        return []
    windows = [size[axis.var] if axis is not None else 1 for axis in axes]
    # Where the ALU does not read elsewhere than it writes, an element is moved first: a reset and another addition.
    pair = 2 if target.semantics == "chisel" else 5

    @cache
    def least(left: tuple[int, ...], wider: tuple[int, ...]) -> tuple[float, tuple[Halving, ...]]:
        """(cycles for a window, halvings) of sums of so many steps, made for so many windows more along each axis."""
        made = prod([1 + more / n for more, n in zip(wider, windows)])
        best: tuple[float, tuple[Halving, ...]] = (RESET + prod(left) * PRODUCT) * made, ()
        for at, (count, axis) in enumerate(zip(left, axes)):
            for rest in range(count % 2, count - 1, 2) if axis is not None else ():
                half = (count - rest) // 2
                if axis is None or half % axis.steps:
                    continue
                further = half // axis.steps * axis.windows
                cost, steps = least((*left[:at], half, *left[at + 1 :]), (*wider[:at], wider[at] + further, *wider[at + 1 :]))
                cost += (pair + rest * (prod(left) // count) * PRODUCT) * made
                if cost < best[0]:
                    best = cost, ((at, rest), *steps)
        return best

    return list(least(counts, (0,) * len(counts))[1])


def _of_bytes(term: Expr) -> bool:
    """Whether products form a term: an int8 that is widened, times a constant or another one if anything."""
    sides = (term.a, term.b) if isinstance(term, BinOp) and term.op == "*" else (term,)
    return all(is_widened(e) or int_value(e) is not None for e in sides)
