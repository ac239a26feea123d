"""Lanes along rows: where products fill few lanes, neighbouring results fill them, with banded weights that the host makes.

One filter over one plane has one lane of sixteen; fourteen results of a row side by side are the lanes of one product of sixteen
elements of a row with a band of the filter's taps. The host makes the band, and of the data the spans that overlap; it trims what
is computed behind the end of a row. That is work of the host, so it is a form of its own, which the search holds against others.
Another one has squares of places as lanes, of the data and of the result, and goes over all squares that a band reaches
(``squares.py``); there what is padding alone is laid out by nobody: a stage pads, as around any other image.
Sums and means of windows are filters of ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod

from autosched.errors import ScheduleError
from autosched.ir.constant import values
from autosched.ir.expr import BufferLoad, Expr, Var, int_value
from autosched.ir.functor import free_vars, substitute
from autosched.ir.stmt import Block, Buffer, BufferStore, PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.primitives.reductions.around import inner_of
from autosched.schedule.primitives.reductions.matrices import weighed_of
from autosched.target import Target
from space.normalise import bands, copies, gathering, groups, guards, squares
from space.normalise.axes import Axes, Place, together
from space.normalise.bands import Sum, Tile, sum_of, work_of
from space.normalise.blocks import (
    device_block,
    device_blocks,
    extents,
    filled,
    given,
    has_digits,
    is_copy,
    loads_of,
    named,
    pack_blocks,
    product_of,
    store_of,
    unfit,
)
from space.normalise.gathers import reindexed

Indices = Callable[..., tuple[Expr, ...]]


def applies(func: PrimFunc, target: Target, squared: bool = False, ones: bool = False) -> bool:
    """Whether some sum over windows of a program is computed sooner with banded weights, as far as its products tell.

    Args:
        func: the program.
        target: the machine.
        squared: whether with squares of places as lanes.
        ones: whether a sum of elements, which are products with ones then.
    """
    sch = Schedule(func, seed=0)
    try:
        guards.apply(sch, target)
        if ones:
            return _by_ones(sch, target)
        # Bands have lanes along windows, whatever the channels; beside squares there are channels, which have to be told first.
        if _reads_by_groups(sch) if squared else _tiles(sch, target, False) and _by_groups(sch, target):
            copies.apply(sch, target)  # what is given cannot be split
            groups.shared(sch, target)
    except ScheduleError:
        return False
    return bool(_tiles(sch, target, squared))


def _by_ones(sch: Schedule, target: Target) -> bool:
    """Multiplies what sums over windows take in by ones, where bands of these take less: a mean is a filter, too."""
    done = False
    for name in [b.name for b in device_blocks(sch.func) if weighed_of(b) is not None]:
        trial = sch.copy()
        handle = trial.get_sblock(name)
        trial.multiply_by_ones(handle)
        copies.constant(trial, handle)
        if _tile(trial, device_block(trial, name), target, False) is not None:
            sch.adopt(trial)
            done = True
    return done


def _ones(sch: Schedule, buffer: Buffer) -> bool:
    """Whether the host fills a tensor with one number."""
    arrays = {c.buffer: values(c) for c in sch.func.constants}
    made = [store_of(b).value for b in pack_blocks(sch) if store_of(b).buffer is buffer]
    return len(made) == 1 and isinstance(x := made[0], BufferLoad) and x.buffer in arrays and (
        bool((arrays[x.buffer] == arrays[x.buffer].flat[0]).all()))


def _tiles(sch: Schedule, target: Target, squared: bool) -> list[Block]:
    """The blocks of sums that have a tile."""
    return [b for b in device_blocks(sch.func) if _tile(sch, b, target, squared) is not None]


def _by_groups(sch: Schedule, target: Target) -> bool:
    """Whether such sums read by groups of flat channels, of one channel, too."""
    return any(has_digits(*[i for x in loads_of(b) for i in x.indices]) for b in _tiles(sch, target, False))


def _reads_by_groups(sch: Schedule) -> bool:
    """Whether products read by groups of flat channels."""
    products = [p for b in device_blocks(sch.func) if (p := product_of(b)) is not None]
    return any(has_digits(*[i for f in p.factors for i in f.indices]) for p in products)


def _tile(sch: Schedule, block: Block, target: Target, squared: bool) -> tuple[Sum, Tile] | None:
    product = product_of(block)
    found = None if product is None else sum_of(product)
    if found is None or groups.whole(block, target) or not {found.data.buffer, found.weight.buffer} <= _movable(sch):
        return None
    if _ones(sch, found.weight.buffer):
        found = replace(found, free=tuple([v for v in found.data.indices if isinstance(v, Var) and v not in found.terms]))
    work = work_of(sch.func, store_of(block).buffer)
    tile = None if work is None else bands.best(found, target, work)
    if squared and work is not None:
        least = work_of(sch.func, store_of(block).buffer, target) or 0
        tile = squares.best(replace(found, inner=_inner(sch, found.data.buffer)), target, least, bands=tile)
    return None if tile is None else (found, tile)


def _inner(sch: Schedule, buffer: Buffer) -> dict[int, tuple[int, int]]:
    """From where to where a tensor is no padding, by dimension, where it has some."""
    made = [r for r in sch.state.realizes.values() if isinstance(b := r.block.body, BufferStore) and b.buffer is buffer]
    if len(made) != 1:
        return {}
    try:
        inner = inner_of(sch.state, made[0])
    except Refusal:
        return {}
    places = {d: inner[i] for d, i in enumerate(store_of(made[0].block).indices) if isinstance(i, Var)}
    begins = {d: int_value(r.min) or 0 for d, r in places.items()}
    return {d: (begins[d], begins[d] + (int_value(r.extent) or 0)) for d, r in places.items()}


def _movable(sch: Schedule) -> set[Buffer]:
    """What the host may lay out: what it has, or makes, and what the program copies of that."""
    found = {*given(sch.func), *filled(sch)}
    for block in device_blocks(sch.func):
        if is_copy(block, found):
            found.add(store_of(block).buffer)
    return found


@dataclass(frozen=True)
class _Lanes:
    """What becomes lanes of the result.

    Args:
        axes: of the program.
        places: by axis, how many of its values are lanes, the slowest axis first.
    """

    axes: Axes
    places: Mapping[Place, int]

    def of(self, owner: object, parts: Sequence[object]) -> list[Place | None]:
        """The axis of each dimension of a buffer, or iterator of a block, of which values are lanes."""
        found = [self.axes.of((owner, p)) if (owner, p) in self.axes.parent else None for p in parts]
        return [a if a in self.places else None for a in found]

    def whole(self, parts: Sequence[Place | None]) -> bool:
        """Whether all axes are there, by index, as ``of`` has it.

        Raises:
            ScheduleError: one is there twice.
        """
        mine = [a for a in parts if a is not None]
        if len(set(mine)) < len(mine):
            raise unfit("an axis of the result is there twice")
        return len(mine) == len(self.places)

    def cut(self, parts: Sequence[Place | None], last: Sequence[int] = ()) -> Indices:
        """The index map that takes the lanes of a tile together, behind all others but some.

        Args:
            parts: by index, as ``of`` has it.
            last: positions of indices that come behind the lanes, in order.
        """
        def mapped(*i: Expr) -> tuple[Expr, ...]:
            lane = together((i[list(parts).index(axis)] % n, n) for axis, n in self.places.items())
            outer = [i[k] if a is None else i[k] // self.places[a] for k, a in enumerate(parts) if k not in last]
            return (*outer, lane, *[i[k] for k in last])

        return mapped


def apply(sch: Schedule, target: Target, squared: bool = False, ones: bool = False) -> bool:
    """Gives such sums lanes along rows or columns; whether there are any.

    Args:
        sch: of the program, which reads what the host has filled.
        target: the machine.
        squared: whether squares of places are lanes; what channels leave empty of elements, whoever packs them fills up.
        ones: whether sums of elements over windows are products with ones, where there are some of which bands take less.

    Raises:
        ScheduleError: what is read or stored is of no form that primitives know.
    """
    if ones and not _by_ones(sch, target):
        return False
    if _reads_by_groups(sch) if squared else _by_groups(sch, target):
        groups.shared(sch, target)
    done: set[str] = set()
    for name in [b.name for b in device_blocks(sch.func)]:
        if name in done or not any(b.name == name for b in device_blocks(sch.func)):
            continue
        chosen = _tile(sch, device_block(sch, name), target, squared)
        if chosen is None or not gathering.hosts(sch, chosen[0].data):
            continue
        done |= _together(sch, name, chosen[1], target)
    return bool(done)


def _together(sch: Schedule, name: str, tile: Tile, target: Target) -> set[str]:
    """Gives a sum its tile, and with it all sums and stages along the same axes; the names of the sums."""
    blocks = device_blocks(sch.func)
    axes, first = Axes(blocks), device_block(sch, name)
    places = {axes.of((first.ident, v)): n for v, n in tile.places.items()}
    sums: dict[str, tuple[Sum, Tile]] = {}
    for block in blocks:
        mine = {v: places[a] for v in extents(block) if (a := axes.of((block.ident, v))) in places}
        product = product_of(block)
        if not mine or product is None:
            continue
        found = sum_of(product)
        fits = found is not None and len(mine) == len(places) and set(mine) <= {*found.windows, *found.filters}
        if found is None or not fits or not gathering.hosts(sch, found.data) or found.weight.buffer not in filled(sch):
            raise unfit(f"block {block.name} sums up along the same axes in another way")
        own = tile if block is first else (squares if tile.squares else bands).best(found, target, 0, mine)
        if own is None:
            raise unfit(f"block {block.name} sums up along the same axes in another way")
        sums[block.name] = found, own
    for each, (found, own) in sums.items():
        _banded(sch, each, found, own)
    axes = Axes(device_blocks(sch.func))
    at = device_block(sch, name).ident
    lanes = _Lanes(axes, {axes.of((at, v)): n for v, n in tile.places.items()})
    at_lane = _laid_out(sch, lanes, sums)
    if not tile.squares:
        _enlarged(sch, {each: at_lane[each] for each in sums}, target)
    return set(sums)


def _banded(sch: Schedule, name: str, found: Sum, tile: Tile) -> None:
    """Makes the weight of a sum banded along the windows of a tile; the data gets as long as its spans reach."""
    size, slots = found.size, [iv.var for iv in found.product.block.iter_vars]
    along = [(v, *found.windows[v], n) for v, n in tile.places.items() if v in found.windows]
    reach = {w.dim: w.start + (size[v] - 1) // n * n * w.step + _summed(found, tile, t) for v, t, w, n in along}
    for pack in [b for b in pack_blocks(sch) if store_of(b).buffer.name == found.data.buffer.name]:
        dims = {i: d for d, i in enumerate(store_of(pack).indices)}
        longer = [max(1, reach.get(dims.get(iv.var, -1), 1)) for iv in pack.iter_vars]
        sizes = [int_value(iv.dom.extent) or 1 for iv in pack.iter_vars]
        sch.pad_block(sch.get_sblock(pack.name), [n if n > m else 1 for n, m in zip(longer, sizes)])
    for v, t, _, n in along:
        band = sch.toeplitz(sch.get_sblock(name), slots.index(v), slots.index(t), n)
        sch.host_stage(band)
        if t in tile.boxes:
            made = store_of(next(b for b in pack_blocks(sch) if b.name == named(sch, band)))
            own = next(f.indices for f in _factors(sch, name) if f.buffer is made.buffer)
            at, tap = device_block(sch, name), slots.index(t)
            rows = own.index(at.iter_vars[tap].var)
            each = tile.boxes[t]
            sch.pad_block(sch.get_sblock(made.buffer.name), [each if d == rows else 1 for d in range(made.buffer.ndim)], True)
            sch.pad_block(sch.get_sblock(name), [each if k == tap else 1 for k in range(len(slots))])


def _factors(sch: Schedule, name: str) -> tuple[BufferLoad, ...]:
    product = product_of(device_block(sch, name))
    return () if product is None else product.factors


def _summed(found: Sum, tile: Tile, tap: Var) -> int:
    """How much of the data a tile's sum goes over along a window: its span, or whole boxes."""
    n, window = next((tile.places.get(v, 1), w) for v, (t, w) in found.windows.items() if t is tap)
    span, each = window.span(n, found.size[tap]), tile.boxes.get(tap, 1)
    return -(-span // each) * each


def _laid_out(sch: Schedule, lanes: _Lanes, sums: Mapping[str, tuple[Sum, Tile]]) -> dict[str, int]:
    """Takes the lanes of tiles together, in all that has them; what has none is read by lanes.

    Returns:
        By block, the position of the iterator that moves along the lanes.
    """
    packs, blocks = pack_blocks(sch), device_blocks(sch.func)
    # What products read lies by their iterators, whatever of the axes it has.
    factors = {f.buffer for b in blocks if b.name in sums and (p := product_of(b)) is not None for f in p.factors}
    whole: set[Buffer] = set()
    layouts: list[tuple[str, Indices]] = []
    domains: list[tuple[str, Indices]] = []
    pads: list[tuple[str, list[int]]] = []
    at_lane: dict[str, int] = {}
    # All of it is worked out before anything moves: primitives replace what it is about, but keep names.
    for block in (*packs, *blocks):
        store, own = store_of(block), [iv.var for iv in block.iter_vars]
        parts = lanes.of(store.buffer, range(store.buffer.ndim))
        at = dict(zip(store.indices, parts))
        mine = [at.get(v) for v in own] if block in packs else lanes.of(block.ident, own)
        pads.append((block.name, [1 if a is None else lanes.places[a] for a in mine]))
        if store.buffer not in factors and lanes.whole(parts):
            whole.add(store.buffer)
            layouts.append((block.name, lanes.cut(parts)))
        elif block in packs:
            continue
        elif any(parts):
            raise unfit(f"{store.buffer.name} has some of the axes of the lanes only")
        if not any(mine):
            continue
        if not lanes.whole(mine):
            raise unfit(f"block {block.name} has some of the axes of the lanes only")
        last = [k for k, iv in enumerate(block.iter_vars) if iv.kind == "reduce"]
        cut = lanes.cut(mine, last)
        if block not in packs:
            at_lane[block.name] = len(own) - len(last)
        domains.append((block.name, _deep(cut, last, *sums[block.name]) if block.name in sums else cut))
    for block in blocks:
        for load in loads_of(block):
            told = zip(lanes.of(load.buffer, range(load.buffer.ndim)), load.indices) if load.buffer in whole else ()
            if any(a is not None and lanes.of(block.ident, [i]) != [a] for a, i in told):
                raise unfit(f"block {block.name} reads {load.buffer.name} further on along the lanes")
    apart = {b.name for b in filled(sch) if b not in whole}
    for name, padding in pads:
        sch.pad_block(sch.get_sblock(name), padding)
    for name, mapping in layouts:
        sch.transform_layout(sch.get_sblock(name), ("write", 0), mapping)
    for name, mapping in domains:
        sch.transform_block_layout(sch.get_sblock(name), mapping)
    for name, lane in at_lane.items():
        if name in sums:
            _operands(sch, name, *sums[name])
        _by_lanes(sch, name, lane, apart)
    return at_lane


def _enlarged(sch: Schedule, sums: Mapping[str, int], target: Target) -> None:
    """Makes lanes whole elements, so that nothing else of what products have fills them better."""
    blocks = device_blocks(sch.func)
    axes = Axes(blocks)
    factors: dict[Place, int] = {}
    for block in [b for b in blocks if b.name in sums]:
        factors[axes.of((block.ident, block.iter_vars[sums[block.name]].var))] = target.config.block_out
        factors[axes.of((block.ident, block.iter_vars[-1].var))] = target.config.block_in
    pads = []
    for block in (*pack_blocks(sch), *blocks):
        store = store_of(block)
        at = {i: (store.buffer, d) for d, i in enumerate(store.indices)}
        places = [at.get(iv.var) or (block.ident, iv.var) for iv in block.iter_vars]
        pads.append((block.name, [factors.get(axes.of(p), 1) if p in axes.parent else 1 for p in places]))
    for name, padding in pads:
        sch.pad_block(sch.get_sblock(name), padding)


def _radix(found: Sum, tile: Tile) -> list[tuple[Var, int]]:
    """What a tile sums over in the lanes of the data, and how long each is, the slowest first."""
    placed = [t for v, (t, _) in found.windows.items() if v in tile.places]
    lengths = {t: tile.boxes.get(t) or _summed(found, tile, t) for t in placed}
    return [(v, lengths.get(v, found.size[v])) for v in tile.depth]


def _deep(cut: Indices, last: Sequence[int], found: Sum, tile: Tile) -> Indices:
    """As a tile's map of iterators, with what its products sum over in lanes as the last one."""
    slots = [iv.var for iv in found.product.block.iter_vars]
    radix = [(slots.index(v), n) for v, n in _radix(found, tile)]
    inner = dict(radix)
    over = {slots.index(t): n for t, n in tile.boxes.items()}

    def mapped(*i: Expr) -> tuple[Expr, ...]:
        outer = cut(*i)
        front, behind = outer[: len(outer) - len(last)], outer[len(outer) - len(last) :]
        outside = [e // over[k] if k in over else e for k, e in zip(last, behind) if k in over or k not in inner]
        return (*front, *outside, together((i[k] % n if k in over else i[k], n) for k, n in radix))

    return mapped


def _operands(sch: Schedule, name: str, found: Sum, tile: Tile) -> None:
    """Lets the host lay out what a sum with a tile multiplies: spans of the data, and the weight by the sum's iterators."""
    block = device_block(sch, name)
    own = [iv.var for iv in block.iter_vars]
    product = product_of(block)
    assert product is not None
    data = next(f for f in product.factors if f.buffer.name == found.data.buffer.name)
    weight = next(f for f in product.factors if f is not data)
    outer = [iv.var for iv in found.product.block.iter_vars if iv.kind != "reduce"]
    radix = _radix(found, tile)
    steps = {v: prod(n for _, n in radix[k + 1 :]) for k, (v, _) in enumerate(radix)}
    window = {w.dim: (v, t, w) for v, (t, w) in found.windows.items() if t in tile.depth}
    around = [t for t in found.terms if t in tile.boxes or t not in tile.depth]
    copied: list[Expr] = []
    origins: list[Callable[[Sequence[Expr]], Expr]] = []

    def digit(p: Sequence[Expr], v: Var) -> Expr:
        index: Expr = p[-1] // steps[v] if steps[v] > 1 else p[-1]
        return index if v is tile.depth[0] else index % dict(radix)[v]

    for d, index in enumerate(data.indices):
        if d in window:
            v, t, w = window[d]
            n = tile.places.get(v, 1)
            at, stride = len(copied), 1 if v in tile.places else w.stride
            each = tile.boxes.get(t, n * w.step)  # from a box to the next one, or from a tile
            first: Expr = own[outer.index(v)]
            if t in tile.boxes:
                first = first * (n * w.step // each) + own[len(outer) + 1 + around.index(t)]
            copied.append(first)
            origins.append(lambda p, at=at, each=each, t=t, w=w, stride=stride:  # type: ignore[misc]
                           p[at] * each + digit(p, t) * stride + w.start)
        elif (c := found.data.indices[d]) in tile.depth and isinstance(c, Var):
            origins.append(lambda p, c=c: digit(p, c))  # type: ignore[misc]
        elif int_value(index) is not None:
            origins.append(lambda p, index=index: index)  # type: ignore[misc]
        else:
            at = len(copied)
            copied.append(index)
            origins.append(lambda p, at=at: p[at])  # type: ignore[misc]
    copied.append(own[-1])
    laid_out = sch.repeat_read(
        sch.get_sblock(name), data.buffer.name,
        lambda *i: tuple([substitute(e, dict(zip(own, i))) for e in copied]), lambda *p: tuple([f(p) for f in origins]),
    )
    sch.host_stage(laid_out)
    if tile.squares:
        with suppress(ScheduleError):  # no box is padding alone
            sch.separate_padding(laid_out)
    reindexed(sch, name, weight.buffer.name)


def _by_lanes(sch: Schedule, name: str, at: int, apart: set[str]) -> None:
    """Of what a stage reads of the host at no lane's place of its own, the host makes rows of lanes."""
    for load in loads_of(device_block(sch, name)):
        if load.buffer.name not in apart:  # what has just been made for a product is another one
            continue
        block = device_block(sch, name)
        own = [iv.var for iv in block.iter_vars]
        lane = own[at]
        used = {v for i in load.indices for v in free_vars(i)}
        kept = [v for v in own if v in used and v is not lane] + [lane]
        sch.host_stage(sch.repeat_read(
            sch.get_sblock(name), load.buffer.name, lambda *i, own=own, kept=kept: tuple([i[own.index(v)] for v in kept]),
            lambda *p, kept=kept, load=load: tuple([substitute(e, dict(zip(kept, p))) for e in load.indices]),
        ))
