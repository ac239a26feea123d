"""Which sums over windows have boxes of places as lanes, beside channels: each channel by itself, or few of them together.

A sum that goes by channels, as a depthwise convolution's does, has weights of which each lane of the data reaches one lane of
the result: of 256 products of a micro-op 16 are the program's. Of 16 lanes let 4 be channels, each with a square of 2 x 2 places,
of the data as of the result: four results of a 5x5 window are sums over 6 x 6 elements, which are 9 squares, where they are 25
taps each. The host lays squares side by side (``banding``) and makes the weights, a filter moved on for every place; several
channels become one element as groups of few channels do (``merging``). What lies in squares lies there once: spans of elements
that overlap, as bands along rows have them, are loaded as often as they do, but fewer of them are read by a result. So each
window is gone through box by box, or has its span as lanes. Boxes of padding alone are none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product as iter_product
from math import ceil, inf, prod

from autosched.ir.expr import Var
from autosched.schedule.primitives.reductions.toeplitz import Window
from autosched.target import Target
from space.normalise.bands import Sum, Tile, plainly, time_of

ENOUGH = 19 / 20  # of what whole elements of channels take: less has to be left by a tile
WAITS = 1 / 8  # of what the one that is busy less does, computing or loading, the other one waits for
MOST_ELEMENTS = 3  # of the data that a tile reads of a box: of more, smaller boxes take no more

Boxes = Mapping[Var, int]  # by what moves along a window, elements of a box; of those that have spans nothing


def best(
    found: Sum, target: Target, work: int, places: Mapping[Var, int] | None = None, bands: Tile | None = None
) -> Tile | None:
    """The boxes with which a sum is computed soonest; None where none is sooner than whole elements of channels, or than bands.

    Args:
        found: the sum.
        target: the machine.
        work: operations of the ALU for a vector of results.
        places: of the tile, where these are given.
        bands: the tile of another form, if there is one.
    """
    if not _groups(found):
        return None
    limit, chosen = (inf, inf), None
    if places is None:
        others = [plainly(found, target, work, alone=False), _time(found, _filters(found), {}, target, work)[0]]
        if bands is not None:
            longest, both, _ = time_of(found, bands, target, work)
            others.append(longest + WAITS * (both - longest))
        limit = min(others) * ENOUGH, 0.0
    for along in _places(found, target) if places is None else [places]:
        # What every vector of results takes may be too much already.
        if prod(ceil(n / along.get(v, 1)) for v, n in found.size.items() if v not in found.terms) * (work + 1) < (
                limit[0] * max(1, target.config.block_out // prod(along.values()))):
            for boxes in _boxes(found, along, target):
                if (time := _time(found, along, boxes, target, work)) < limit:
                    limit, chosen = time, _tile(found, along, boxes)
    return chosen


def _tile(found: Sum, places: Mapping[Var, int], boxes: Boxes) -> Tile:
    # A box of one element is a step that is none of a lane's.
    depth = (*found.channels, *[t for v, (t, _) in found.windows.items() if v in places and boxes.get(t) != 1])
    return Tile(places, depth, True, {t: n for t, n in boxes.items() if n > 1})


def _groups(found: Sum) -> list[Var]:
    """The iterators of the result that both factors are read along: channels that are computed each by itself."""
    both = [v for v in found.weight.indices if isinstance(v, Var) and v in found.data.indices and v not in found.terms]
    return [v for v in both if found.size[v] > 1]


def _filters(found: Sum) -> Mapping[Var, int]:
    """All filters of a channel as lanes."""
    return {v: found.size[v] for v in found.filters}


def _places(found: Sum, target: Target) -> Iterator[Mapping[Var, int]]:
    """Squares, and other boxes, with all filters of a channel, of as many lanes as an element has at most."""
    size, lanes, filters = found.size, target.config.block_out, _filters(found)
    if len(filters) > 1 or prod(filters.values()) > lanes:
        return
    lengths = [range(1, min(lanes, size[v]) + 1) for v in found.windows]
    for chosen in iter_product(*lengths):
        along = {**filters, **{v: n for v, n in zip(found.windows, chosen) if n > 1}}
        if max(chosen) > 1 and prod(along.values()) <= lanes:
            yield along


def _boxes(found: Sum, places: Mapping[Var, int], target: Target) -> Iterator[Boxes]:
    """Boxes of the data that tiles of some places may go through: along each window a span, or parts that a tile's step has."""
    ways: list[list[int]] = []
    taps = [t for v, (t, _) in found.windows.items() if v in places]
    for v, (_, w) in found.windows.items():
        if v in places:
            step = places[v] * w.step
            ways.append([0, *[n for n in range(1, step + 1) if step % n == 0]])
    for chosen in iter_product(*ways):
        boxes = {t: n for t, n in zip(taps, chosen) if n}
        depth = _tile(found, places, boxes).depth
        lanes = prod(_lengths(found, places, boxes)[t] for t in depth if t in taps) * prod(found.size[c] for c in found.channels)
        if depth and lanes <= MOST_ELEMENTS * target.config.block_in:
            yield boxes


def _lengths(found: Sum, places: Mapping[Var, int], boxes: Boxes) -> dict[Var, int]:
    """How many elements along a window are lanes."""
    return {t: boxes.get(t) or w.span(places[v], found.size[t]) for v, (t, w) in found.windows.items() if v in places}


def _time(found: Sum, places: Mapping[Var, int], boxes: Boxes, target: Target, work: int) -> tuple[float, float]:
    """What boxes take: what is computed, or what is loaded where that takes longer, and waits; then what is loaded."""
    size, config = found.size, target.config
    group = max(_groups(found), key=lambda v: size[v])
    lengths = _lengths(found, places, boxes)
    lanes = prod(places.values()), prod(lengths.values()) * prod(size[c] for c in found.channels)
    each = min(size[group], max(1, config.block_out // lanes[0]))
    columns, deep = ceil(lanes[0] * each / config.block_out), ceil(lanes[1] * each / config.block_in)
    groups = ceil(size[group] / each)
    along = [_along(found, v, places, boxes) for v in found.windows]
    taps = {t for t, _ in found.windows.values()}
    others = prod(size[t] for t in found.terms if t not in taps and t not in found.channels)
    apart = [v for v in size if v not in found.terms and v is not group]
    rest = prod(ceil(size[v] / places.get(v, 1)) for v in apart if v not in found.windows)
    vectors = groups * columns * rest * prod(a.tiles for a in along)
    products = groups * columns * deep * rest * others * prod(a.products for a in along)
    weights = groups * columns * deep * others * prod(a.steps for a in along)
    weights *= prod(size[v] for v in apart if v in _groups(found))
    read = groups * deep * prod(size[v] for v in apart if v not in found.windows and v not in found.filters)
    loads = (read * prod(a.read for a in along) + weights * config.block_out) * config.block_in / config.bus_bytes
    computed = products + vectors * work
    return max(computed, loads) + WAITS * min(computed, loads), loads


class _Along:
    """What is done along a window.

    Args:
        results: how many places of the result's there are.
        places: of which so many are lanes.
        window: how the data is read.
        taps: of the window.
        box: elements of the data that are lanes, of which a tile goes through several; 0: all that it reads is one's.
        used: from where to where the data is no padding.

    Attributes:
        tiles: of places.
        products: pairs of a tile and a box of which that reads something.
        steps: boxes that a tile goes through.
        read: boxes of the data with something in them.
    """

    def __init__(self, results: int, places: int, window: Window, taps: int, box: int, used: tuple[int, int]) -> None:
        self.tiles, step = ceil(results / places), places * window.step
        span = window.span(places, taps)
        firsts = range(window.start, window.start + self.tiles * step, step)
        if not box:
            self.products, self.steps, self.read = self.tiles, 1, self.tiles
            return
        between = window.stride if places == 1 else box  # taps of a single place are boxes of one element each
        offsets = range(0, span, between)
        there = [first + k for first in firsts for k in offsets if first + k < used[1] and first + k + box > used[0]]
        self.products, self.steps, self.read = len(there), len(offsets), len(set(there))


def _along(found: Sum, v: Var, places: Mapping[Var, int], boxes: Boxes) -> _Along:
    """What is done along the window that slides with an iterator of the result."""
    t, window = found.windows[v]
    box = boxes.get(t, 0) if v in places else 1
    return _Along(found.size[v], places.get(v, 1), window, found.size[t], box, found.used(window.dim))
