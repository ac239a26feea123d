"""Loops of its own for a block: one for each iterator, as long as its domain; and whether a block has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from autosched.ir.expr import Expr, IntImm, Var, int_value
from autosched.ir.region import with_access
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferStore, For, IterVar, Range, Stmt, nested


def loop_of(iterator: Var) -> Var:
    """A new loop variable, named after the iterator that it moves: ``i`` for ``vi`` and for ``v_i``."""
    return Var(iterator.name.removeprefix("v_").removeprefix("v") or iterator.name, iterator.dtype)


def own_nest(block: Block, prefix: str | None = None) -> Stmt:
    """A block in serial loops over its whole domain.

    Args:
        block: any.
        prefix: of the loops' names, which are then numbered; named after the iterators when not given.
    """
    iters = block.iter_vars
    loops = [loop_of(iv.var) if prefix is None else Var(f"{prefix}{k}", iv.var.dtype) for k, iv in enumerate(iters)]
    return nested(zip(loops, [iv.dom for iv in iters]), BlockRealize(tuple(loops), TRUE, block))


def iterators_over(shape: Iterable[Expr]) -> tuple[IterVar, ...]:
    """Spatial iterators ``v0``, ``v1``, .. over all elements of a shape."""
    return tuple([IterVar(Var(f"v{d}", e.dtype), Range(IntImm(0, e.dtype), e)) for d, e in enumerate(shape)])


def filling(name: str, buffer: Buffer, value: Callable[[tuple[Var, ...]], Expr]) -> Block:
    """A block that makes every element of a buffer.

    Args:
        name: of the block.
        buffer: what it stores.
        value: of the element at some iterators, one for each dimension.
    """
    iters = iterators_over(buffer.shape)
    at = tuple([iv.var for iv in iters])
    return with_access(Block(name, iters, (), (), BufferStore(buffer, at, value(at))))


def runs_whole(realize: BlockRealize, loops: Iterable[For]) -> bool:
    """Whether every iterator of a block is a loop of its own, over its whole domain from 0, and nothing is left out.

    Args:
        realize: the block where it stands.
        loops: around it, or more of the program's.
    """
    around = {loop.var: int_value(loop.extent) for loop in loops if int_value(loop.min) == 0}
    values, iters = realize.iter_values, realize.block.iter_vars
    if len({id(v) for v in values}) < len(values) or realize.predicate != TRUE:
        return False
    return all(isinstance(v, Var) and int_value(iv.dom.min) == 0 and around.get(v) == int_value(iv.dom.extent) is not None
               for iv, v in zip(iters, values))
