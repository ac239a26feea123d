"""Which sums over windows have squares of places as lanes, beside channels: each channel by itself, or few of them together.

A sum that goes by channels, as a depthwise convolution's does, has weights of which each lane of the data reaches one lane of
the result: of 256 products of a micro-op 16 are the program's. Of 16 lanes let 4 be channels, each with a square of 2 x 2 places,
of the data as of the result: four results of a 5x5 window are sums over 6 x 6 elements, which are 9 squares, where they are 25
taps each. The host lays squares side by side (``banding``) and makes the weights, a filter moved on for every place; several
channels become one element as groups of few channels do (``merging``). What lies in squares lies there once: spans of elements
that overlap, as bands along rows have them, would be loaded as often as they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product as iter_product
from math import ceil, prod

from autosched.ir.expr import Var
from autosched.target import Target
from space.normalise.bands import ENOUGH, Sum, Tile, plainly


def best(found: Sum, target: Target, work: int, places: Mapping[Var, int] | None = None) -> Tile | None:
    """The squares with which a sum is computed soonest; None where none is sooner than whole elements of channels.

    Args:
        found: the sum.
        target: the machine.
        work: operations of the ALU for a vector of results.
        places: of the tile, where these are given.
    """
    if not _groups(found):
        return None
    if places is not None:
        return Tile(places, _depth(found, places), True)
    limit, chosen = (plainly(found, target, work) * ENOUGH, 0.0), None
    for along in _places(found, target):
        if (time := _time(found, along, target, work)) < limit:
            limit, chosen = time, Tile(along, _depth(found, along), True)
    return chosen


def _groups(found: Sum) -> list[Var]:
    """The iterators of the result that both factors are read along: channels that are computed each by itself."""
    both = [v for v in found.weight.indices if isinstance(v, Var) and v in found.data.indices and v not in found.terms]
    return [v for v in both if found.size[v] > 1]


def _depth(found: Sum, places: Mapping[Var, int]) -> tuple[Var, ...]:
    """What of what it sums over are lanes: channels, and steps along the squares."""
    return (*found.channels, *[t for v, (t, _) in found.windows.items() if v in places])


def _places(found: Sum, target: Target) -> Iterator[Mapping[Var, int]]:
    """Squares, and other boxes, with all filters of a channel, of as many lanes as an element has at most."""
    size, lanes = found.size, target.config.block_out
    filters = {v: size[v] for v in found.filters}
    if len(filters) > 1 or prod(filters.values()) > lanes:
        return
    lengths = [range(1, min(lanes, size[v]) + 1) for v in found.windows]
    for chosen in iter_product(*lengths):
        along = {**filters, **{v: n for v, n in zip(found.windows, chosen) if n > 1}}
        if max(chosen) > 1 and prod(along.values()) <= lanes:
            yield along


def _time(found: Sum, places: Mapping[Var, int], target: Target, work: int) -> tuple[float, float]:
    """What squares take: what is computed, or what is loaded where that takes longer; then what is loaded."""
    size, config = found.size, target.config
    group = max(_groups(found), key=lambda v: size[v])
    steps = {t: places[v] * w.step for v, (t, w) in found.windows.items() if v in places}
    spans = {t: w.span(places[v], size[t]) for v, (t, w) in found.windows.items() if v in places}
    lanes = prod(places.values()), prod(steps.values()) * prod(size[c] for c in found.channels)
    each = min(size[group], max(1, config.block_out // lanes[0]))
    columns, deep = ceil(lanes[0] * each / config.block_out), ceil(lanes[1] * each / config.block_in)
    taps = prod(ceil(spans[t] / steps[t]) if t in steps else size[t] for t in found.terms if t not in found.channels)
    groups = ceil(size[group] / each)
    apart = [v for v in size if v not in found.terms and v is not group]
    vectors = groups * columns * prod(ceil(size[v] / places.get(v, 1)) for v in apart)
    others = prod(size[v] for v in apart if v in _groups(found))
    weights = groups * columns * deep * taps * others
    read = groups * deep * prod(size[v] for v in apart if v not in found.windows and v not in found.filters)
    for v, (t, w) in found.windows.items():
        squares = ceil(size[v] / places.get(v, 1)) + ceil(spans.get(t, 0) / steps.get(t, 1)) - 1
        read *= squares if t in steps else (size[v] - 1) * w.step + w.span(1, size[t])
    loads = (read + weights * config.block_out) * config.block_in / config.bus_bytes
    return max(vectors * (deep * taps + work), loads), loads
