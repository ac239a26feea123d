"""Which sums over windows have banded weights, and how their lanes are filled best.

A product fills as many lanes as its filters and channels are. What it lacks of them neighbouring results may be, of which the
weight holds the filter once each, moved on: a band of a matrix. Of a tile of results the lanes are its filters times its places
along rows and columns; the lanes of the data are what the tile reads along one or more of these, with channels or without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from itertools import product as iter_product
from math import ceil, inf, prod

from autosched.ir.expr import BinOp, BufferLoad, Expr, Var, int_value
from autosched.ir.functor import free_vars
from autosched.ir.stmt import Buffer, PrimFunc
from autosched.schedule.primitives.reductions.toeplitz import Window, window_of
from autosched.target import Target
from space.normalise.blocks import Product, device_blocks, extents, loads_of, product_of, store_of
from space.normalise.estimate import alu_cycles

MOST_INDICES = 5  # of what a sum goes over that may be lanes
ADDED = 2  # cycles of the ALU for a vector to which it adds another one
ENOUGH = 7 / 8  # of what a plain form takes: less has to be left by a tile


@dataclass(frozen=True)
class Sum:
    """A sum over windows.

    Args:
        product: the block and its factors.
        data: the factor in which windows slide.
        weight: the other one.
        windows: by iterator of the result along which they do, the one that moves along the window, and how.
        filters: iterators of the result that only the weight has.
        channels: what else it sums over, plain indices of both factors.
        free: iterators of the result that may be lanes although only the data moves with them, as all weights are ones.
        inner: by dimension of the data, from where to where it is no padding, where it has some.
    """

    product: Product
    data: BufferLoad
    weight: BufferLoad
    windows: Mapping[Var, tuple[Var, Window]]
    filters: tuple[Var, ...]
    channels: tuple[Var, ...]
    free: tuple[Var, ...] = ()
    inner: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def terms(self) -> list[Var]:
        """The iterators that it sums over."""
        return [iv.var for iv in self.product.block.iter_vars if iv.kind == "reduce"]

    @property
    def size(self) -> dict[Var, int]:
        """Extents of the block's iterators."""
        return extents(self.product.block)

    def used(self, dim: int) -> tuple[int, int]:
        """From where to where the data is no padding along a dimension."""
        return self.inner.get(dim, (0, int_value(self.data.buffer.shape[dim]) or 0))


@dataclass(frozen=True)
class Tile:
    """How a sum's lanes are filled.

    Args:
        places: how many values of iterators of the result are lanes of it, each.
        depth: what of what it goes over are lanes of the data, in order.
        squares: whether there are channels beside them, of which each is computed by itself (``squares``).
        boxes: by what of a window is lanes of the data, how many elements are, where a tile goes through several such boxes; else
            all that its windows read is.
    """

    places: Mapping[Var, int]
    depth: tuple[Var, ...]
    squares: bool = False
    boxes: Mapping[Var, int] = field(default_factory=dict)


def sum_of(product: Product) -> Sum | None:
    """A product as a sum over windows; None where its factors are read otherwise.

    Args:
        product: any.
    """
    block = product.block
    size, stored = extents(block), store_of(block).indices
    taps = [iv.var for iv in block.iter_vars if iv.kind == "reduce"]
    for data, weight in (product.factors, product.factors[::-1]):
        if data.buffer is weight.buffer or not all(isinstance(i, Var) or int_value(i) is not None for i in weight.indices):
            continue
        around = {v for i in data.indices for v in free_vars(i)}
        windows: dict[Var, tuple[Var, Window]] = {}
        for var in [v for v in size if v not in taps and v in stored and v not in weight.indices and size[v] > 1]:
            found = [(t, w) for t in taps if t in weight.indices and size[t] > 1 and (w := window_of(data, var, t)) is not None]
            if found:
                windows[var] = found[0]
        if not windows or len({t for t, _ in windows.values()}) < len(windows):
            continue
        filters = [v for v in weight.indices if isinstance(v, Var) and v not in taps and v not in around and v in stored]
        channels = [v for v in data.indices if isinstance(v, Var) and v in taps and v in weight.indices and size[v] > 1]
        return Sum(product, data, weight, windows, tuple([v for v in filters if size[v] > 1]), tuple(channels))
    return None


def best(found: Sum, target: Target, work: int, places: Mapping[Var, int] | None = None) -> Tile | None:
    """The tile that is computed soonest; None where none is sooner than whole elements of channels and filters.

    Args:
        found: the sum.
        target: the machine.
        work: operations of the ALU for a vector of results.
        places: of the tile, where these are given.
    """
    plain = plainly(found, target, work)
    # No product has more in its lanes than all of them: spans hold what their windows do not sum up, never less.
    vectors = prod(n for v, n in found.size.items() if v not in found.terms) / target.config.block_out
    full = vectors * prod(found.size[v] for v in found.terms) / target.config.block_in
    if places is None and full + work * vectors >= plain * ENOUGH:
        return None
    limit, chosen = (inf if places is not None else plain * ENOUGH, inf, 0), None
    for along in _places(found, target) if places is None else [places]:
        # What every vector of results takes may be too much already.
        if prod(ceil(n / along.get(v, 1)) for v, n in found.size.items() if v not in found.terms) * (work + 1) < limit[0]:
            for tile in [Tile(along, depth) for depth in _depths(found)]:
                if (time := time_of(found, tile, target, work)) < limit:
                    limit, chosen = time, tile
    return chosen


def plainly(found: Sum, target: Target, work: int, alone: bool = True) -> float:
    """What the products of a sum, and what follows, take at least with lanes of filters and of channels, or of windows.

    Args:
        found: the sum.
        target: the machine.
        work: operations of the ALU for a vector of results.
        alone: whether also with channels that are computed each by itself.
    """
    size, sums = found.size, found.terms
    total, terms = prod(size.values()), prod(size[v] for v in sums)
    rows, lanes = target.config.block_out, target.config.block_in
    both = [v for v in found.weight.indices if isinstance(v, Var) and v in found.data.indices and v not in sums]
    ways = [(total // size[f] * ceil(size[f] / rows) // n * ceil(n / lanes), total // terms // size[f] * ceil(size[f] / rows))
            for f in found.filters for n in (terms, *[size[c] for c in found.channels])]
    ways += [(total // size[v] * ceil(size[v] / rows), total // terms // size[v] * ceil(size[v] / rows))
             for v in (*both, *found.free) if alone]
    return min((products + work * vectors for products, vectors in ways), default=total if alone else inf)


def _depths(found: Sum) -> list[tuple[Var, ...]]:
    """What of a sum's terms may be lanes of the data: each, and several."""
    taps = [*found.channels, *[t for t, _ in found.windows.values()]][:MOST_INDICES]
    return [d for n in range(1, len(taps) + 1) for d in combinations(taps, n)]


def _places(found: Sum, target: Target) -> Iterator[Mapping[Var, int]]:
    """Places of all tiles that a sum may have, with one filter's axis at most."""
    size, rows = found.size, target.config.block_out
    lengths = {v: sorted({ceil(size[v] / n) for n in range(1, size[v] + 1) if ceil(size[v] / n) <= rows})
               for v in (*found.filters, *found.windows)}
    for filters in [(), *[(f,) for f in found.filters]]:
        axes = [*filters, *found.windows]
        for chosen in iter_product(*[lengths[v] for v in axes]):
            along = {v: n for v, n in zip(axes, chosen) if n > 1}
            if prod(chosen) <= rows and any(v in found.windows for v in along):
                yield along


def time_of(found: Sum, tile: Tile, target: Target, work: int) -> tuple[float, float, int]:
    """What a tile takes: by what takes longest, all together, and vectors of results.

    Args:
        found: the sum.
        tile: of it, with spans alone.
        target: the machine.
        work: operations of the ALU for a vector of results.
    """
    size, lanes = found.size, target.config.block_in
    spans = {t: w.span(tile.places[v], size[t]) if v in tile.places else size[t] for v, (t, w) in found.windows.items()}
    blocks = {v: ceil(n / tile.places.get(v, 1)) for v, n in size.items()}
    sums = found.terms
    vectors = prod(n for v, n in blocks.items() if v not in sums)
    around = prod(spans.get(v, size[v]) for v in sums if v not in tile.depth)
    deep = ceil(prod(spans.get(v, size[v]) for v in tile.depth) / lanes)
    window = {w.dim: (v, t, w) for v, (t, w) in found.windows.items()}
    read = deep
    for d, index in enumerate(found.data.indices):
        if d in window:
            v, t, w = window[d]
            read *= blocks[v] if t in tile.depth else (size[v] - 1) * w.step + w.span(1, size[t])
        else:
            read *= prod(size[v] for v in free_vars(index) if v not in tile.depth)
    weights = deep * prod(blocks[v] if v not in sums else spans.get(v, size[v]) for v in found.weight.indices
                          if isinstance(v, Var) and v not in tile.depth)
    loads = (read * lanes + weights * lanes * target.config.block_out) / target.config.bus_bytes
    computed = vectors * around * deep + work * vectors
    return max(computed, loads), computed + loads, vectors


def work_of(func: PrimFunc, first: Buffer, target: Target | None = None) -> int | None:
    """Cycles of the ALU for a vector of what a sum makes: its initial value, and stages behind it. None where others sum that up.

    Args:
        func: the program.
        first: what the sum makes.
        target: a machine on which what is added to the sum at once is its initial value, which takes less; None: it is a stage.
    """
    made, count = {first}, 1
    for block in device_blocks(func):
        if not {x.buffer for x in loads_of(block)} & made:
            continue
        product = product_of(block)
        if block.init is not None and (product is None or {f.buffer for f in product.factors} & made):
            return None
        value = store_of(block).value
        if target is not None and _begins(value, first):
            count -= ADDED - (target.semantics != "chisel")
        made.add(store_of(block).buffer)
        count += alu_cycles(value) if block.init is None else 0
    return count


def _begins(value: Expr, first: Buffer) -> bool:
    """Whether a stage only adds a tensor of int32 to a sum."""
    sides = (value.a, value.b) if isinstance(value, BinOp) and value.op == "+" else ()
    loads = [x for x in sides if isinstance(x, BufferLoad) and x.dtype == "int32"]
    return len(loads) == len(sides) == 2 and [x.buffer for x in loads].count(first) == 1
