"""Whether products can agree on the lanes of what a program makes, asked before anything of it moves.

What one product makes in lanes the next one reads in lanes: of a tensor in between one index is the lanes, for all that store and
read it. Which factor of a product is the weight decides that, block after block of a network; a choice that leaves some tensor
with two such indices leads to no layout, whatever is done to parameters, of which the host makes copies as anyone likes them.

Only what surely stays as it is counts: tensors that the program computes, at plain indices everywhere, and products at plain
indices alone. Of a program of which more may change nothing is said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from autosched.ir.expr import BufferLoad, Expr, Var
from autosched.ir.functor import free_vars
from autosched.ir.stmt import Block, Buffer
from space.normalise.axes import Axes, Place, accesses, settled
from space.normalise.blocks import Product, extents, has_digits, is_copy, loads_of, product_of, store_of
from space.normalise.layouts import Way, roles_of, sides_of

MOST_LOOKED = 400  # parts of a choice of weights, at most
Weights = Mapping[str, int | None]  # by product that reads what the program makes, the factor that is a copy


class _Made(NamedTuple):
    """What a program makes that stays as it is.

    Args:
        blocks: the accelerator's.
        tensors: those that they compute.
        apart: dimensions of these at which some of them store or read otherwise than at a plain index.
        products: those that have the lanes that they have at plain indices.
        known: whether all of that stays: axes that are read by digits may be taken apart, and groups become fewer where the host
            lays out other weights.
    """

    blocks: Sequence[Block]
    tensors: frozenset[Buffer]
    apart: frozenset[Place]
    products: Sequence[Product]
    known: bool


def agree(blocks: Sequence[Block], way: Way, chosen: Weights) -> bool:
    """Whether there may be a layout; only where it is sure that there is none, there is none.

    Args:
        blocks: the accelerator's.
        way: how they are to be packed.
        chosen: of which factors copies are still to be made. A product that is not said anything of may be anything.
    """
    return _agree(_made(blocks, way), way, chosen)


def choices(blocks: Sequence[Block], way: Way, factors: Mapping[str, Sequence[int | None]]) -> Iterator[dict[str, int | None]]:
    """The choices of weights of which a layout may come, in order.

    Args:
        blocks: the accelerator's.
        way: how they are to be packed.
        factors: by product, those that may be its weight.
    """
    made, looked = _made(blocks, way), 0

    def ahead(chosen: dict[str, int | None], left: Sequence[str]) -> Iterator[dict[str, int | None]]:
        nonlocal looked
        if not left:
            yield chosen
            return
        for k in factors[left[0]]:
            looked += 1
            further = {**chosen, left[0]: k}
            if looked < MOST_LOOKED and _agree(made, way, further, frozenset(left[1:])):
                yield from ahead(further, left[1:])

    yield from ahead({}, [*factors])


def _made(blocks: Sequence[Block], way: Way) -> _Made:
    stored = {store_of(b).buffer for b in blocks}
    given = {x.buffer for b in blocks for x in loads_of(b)} - stored
    for block in blocks:
        if is_copy(block, given):
            given.add(store_of(block).buffer)  # the host may make it
    tensors = frozenset(stored - given)
    apart = frozenset((buffer, d) for b in blocks for buffer, indices in accesses(b) for d in _otherwise(b, indices))
    products = [p for b in blocks if (p := product_of(b)) is not None and _settled(p)]
    digits = any(
        has_digits(i) or (buffer in tensors and len({*free_vars(i)}) > 1)
        for b in blocks for buffer, indices in accesses(b) for i in indices)
    known = way.target.config.batch == 1 and not digits and not any(_mergeable(p, given) for p in products)
    return _Made(blocks, tensors, apart, products, known)


def _otherwise(block: Block, indices: Sequence[Expr]) -> list[int]:
    """Where an index is neither an iterator of a block, which is none besides, nor a constant."""
    own = extents(block)
    return [d for d, i in enumerate(indices) if free_vars(i) and (i not in own or [*indices].count(i) > 1)]


def _settled(product: Product) -> bool:
    """Whether no index of a product that is not plain may become one that tells lanes: what both factors move along does not."""
    store = store_of(product.block)
    read = [{v for i in f.indices for v in free_vars(i)} for f in product.factors]
    odd = [(f, d) for f in (store, *product.factors) for d in _otherwise(product.block, f.indices)]
    sums = {iv.var for iv in product.block.iter_vars if iv.kind == "reduce"}
    return all({*free_vars(f.indices[d])} <= (read[0] & read[1]) - sums for f, d in odd)


def _mergeable(product: Product, given: set[Buffer]) -> bool:
    """Whether a product is one over groups whose weight the host lays out: of their axes others may become."""
    stored = store_of(product.block).indices
    return any(
        weight.buffer in given and any(isinstance(i, Var) and i in weight.indices and i in stored for i in data.indices)
        for data, weight, _, _ in sides_of(product)
    )


def _agree(made: _Made, way: Way, chosen: Weights, left: frozenset[str] = frozenset()) -> bool:
    """As ``agree``; of some products that are left nothing is decided yet."""
    if not made.known:
        return True
    axes = Axes(())
    copies: dict[str, Buffer] = {}  # by product, what stands for the copy of a factor
    for buffer in made.tensors:
        for d in range(buffer.ndim):
            axes.add((buffer, d))
    for block in made.blocks:
        for var, n in extents(block).items():
            axes.extent[axes.add((block.ident, var))] = n
        store, product, k = store_of(block), product_of(block), chosen.get(block.name)
        apart = None if product is None or k is None else product.factors[k]
        read = [] if block.name in left else [x for x in loads_of(block) if x is not apart]
        if block.name in way.copies:
            read = []
            _turn(axes, store.buffer, store.indices, loads_of(block)[0])
        elif apart is not None and apart.buffer in made.tensors:
            copies[block.name] = Buffer(apart.buffer.name, apart.buffer.shape, apart.dtype)
            _turn(axes, copies[block.name], apart.indices, apart)
            _join(axes, block, copies[block.name], apart.indices, frozenset((copies[block.name], d) for d in _otherwise(
                block, apart.indices)))
        for buffer, indices in ((store.buffer, store.indices), *[(x.buffer, x.indices) for x in read]):
            if buffer in made.tensors:
                _join(axes, block, buffer, indices, made.apart)
    roles = []
    for product in made.products:
        copy = copies.get(product.block.name) or next((f.buffer for f in product.factors if f.buffer in axes.turned), None)
        own = None if copy is None else product.factors[chosen.get(product.block.name) or 0].buffer
        vectors = {b for b in made.tensors if b is not own and b not in axes.turned}
        found = [] if product.block.name in left else roles_of(product, axes, way.target, vectors)
        if found:
            # A copy that is no weight has its lanes where what it copies has them.
            roles.append(found if copy is None else [role._replace(weight=copy) for role in found])
    counted = [b for b in made.tensors if b not in axes.turned]
    return next(settled(roles, axes, counted, way.target.config.block_out), None) is not None


def _turn(axes: Axes, copy: Buffer, stored: tuple[Expr, ...], load: BufferLoad) -> None:
    """Makes a tensor a copy of what a load reads."""
    axes.turned[copy] = load
    axes.stored[copy] = stored
    for d in range(load.buffer.ndim):
        axes.add((load.buffer, d))


def _join(axes: Axes, block: Block, buffer: Buffer, indices: Sequence[Expr], apart: Collection[Place]) -> None:
    """Makes the dimensions of a tensor one with the iterators that are its indices, but for some."""
    for d, index in enumerate(indices):
        axes.add((buffer, d))
        if free_vars(index) and (buffer, d) not in apart:
            axes.join((buffer, d), axes.add((block.ident, index)))
