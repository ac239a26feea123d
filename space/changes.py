"""What is tried around a point to come nearer to a trace: one decision changed, or several that show only together.

A trace shows some decisions through others (a load in the loops of a reduction by how that is tiled), and tells some parts of
an output in two ways (a first part, or the main one in front of what is cut off). What goes together is said here, by names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, islice, product
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from space.distinct import fresh_of
from space.plan import Mask
from space.rule import Points
from space.rules.cuts import table, values
from space.rules.fall import kinds_of
from space.rules.tiling import divisors

if TYPE_CHECKING:
    from space.model import Model
    from space.space import Space

Point = npt.NDArray[np.int32]
FEW = 12  # choices of a column that is tried with any other
CHUNK = 256  # combinations that are looked at in one go; the first that leads further ends it
# What tiles make sense of, whichever they are:
UNSETTLED = ("fall", "order", "load_", "keep_", "late", "head_late", "init", "head_init", "head_rise", "rise_kind")


def changed(
    space: Space, sketch: int, row: Point, settle: bool | None, most: int, choices: Sequence[tuple[int, ...]] | None
) -> Iterator[Point]:
    """The row with one decision changed, then with several that go together.

    Args:
        space: the space.
        sketch: of it.
        row: what is changed.
        settle: settled, or with what makes no sense yet; None as it is, before the decisions that make sense of it.
        most: combinations of decisions that are tried together.
        choices: of each column; None for all, and fewer that go together.
    """
    changes = _changes(space, sketch, row, most, choices)
    while some := list(islice(changes, CHUNK)):
        yield from distinct_rows(space, row, some, settle)


def _changes(
    space: Space, sketch: int, row: Point, most: int, choices: Sequence[tuple[int, ...]] | None
) -> Iterator[dict[int, int]]:
    """What is tried, as values by column: one decision alone, then several that go together."""
    columns = list(zip(space.places(sketch).tolist(), space.sketches[sketch].columns))
    more = choices is not None
    choices = choices or [column.choices for _, column in columns]
    for (at, _), tried in zip(columns, choices):
        yield from ({at: value} for value in tried if value != row[at])
    yield from _behind_first(space, sketch, row)
    yield from _rest_first(space, sketch, row)
    yield from two_kinds(space, sketch, row)
    yield from two_cuts(space, sketch, row)
    for group in chain(_together(space, sketch), _also_together(space, sketch) if more else ()):
        own = [space.sketches[sketch].columns[n] for n in group]
        values = [choices[n] for n in group]
        if prod(map(len, values)) > most:
            # Tiles that divide their axis are what others write.
            values = [tuple(v for v in tried if not c.name.startswith("tile_") or c.default % v == 0)
                      for c, tried in zip(own, values)]
        while prod(map(len, values)) > most:
            # Of the longest list of choices every other one.
            longest = max(values, key=len)
            values = [v[::2] if v is longest else v for v in values]
        places = [columns[n][0] for n in group]
        pins = _pins(space, sketch, row, places)
        for v in product(*values):
            yield dict(zip(places, v))
            if pins:
                yield {**pins, **dict(zip(places, v))}


def _behind_first(space: Space, sketch: int, row: Point) -> Iterator[dict[int, int]]:
    """The first part as it is, whose tiles come first in a trace, and all others' longer along one axis."""
    own = space.sketches[sketch].split(np.ascontiguousarray(row[None, space.places(sketch)]))
    for (model, at), (_, rows) in zip(_nests(space, sketch), own):
        plan = model.plan(rows)
        if not plan.main or not plan.parts[0].on[0] or "head_tile" not in at:
            continue
        tiles = {a: int(plan.parts[0].tiles[0, a]) for a in model.nest.spatial if f"tile_{model.nest.axes[a].name}" in at}
        for a, tile in tiles.items():
            as_it_is = {at[f"tile_{model.nest.axes[b].name}"]: other for b, other in tiles.items()}
            as_it_is[at["head_tile"]] = values(model).get((a, tile), 0)
            column = f"tile_{model.nest.axes[a].name}"
            longer = (t for t in model.columns[model.index[column]].choices if t > tile)
            yield from ({**as_it_is, at[column]: t} for t in longer if as_it_is[at["head_tile"]])


def _rest_first(space: Space, sketch: int, row: Point) -> Iterator[dict[int, int]]:
    """What is left behind a first part as the last part, which is one by its slices or sums: a trace begins with the same cut."""
    for model, at in _nests(space, sketch):
        if not {"head", "cut", "tail_last", "tail_last_size"} <= set(at) or not row[at["head"]]:
            continue
        _, _, cut = _behind_head(model, row[at["head"]])
        slices = [model.columns[model.index[name]].choices for name in ("tail_last", "tail_last_size")]
        if cut is None:
            continue
        tiled = "head_tile" in at and row[at["head_tile"]]
        for swap in ({at["head"]: 0, at["cut"]: cut}, *([{at["head_tile"]: 0, at["head"]: 0, at["cut"]: cut}] if tiled else [])):
            yield from ({**swap, at["tail_last"]: a, at["tail_last_size"]: n} for a, n in product(*slices))
            for name, n in model.index.items():
                if name.startswith("last_"):
                    yield from ({**swap, at[name]: value} for value in model.columns[n].choices)


def two_kinds(space: Space, sketch: int, row: Point) -> Iterator[dict[int, int]]:
    """The first part as what a longer one begins with, which several decisions tell: a trace begins with the same cut."""
    for model, at in _nests(space, sketch):
        told = {"head", "head_tile", "head_rise", "rise_kind", "head_init"} <= set(at)
        if not told or not row[at["head"]] or row[at["head_rise"]]:
            continue
        axis, size = (int(x) for x in table(model)[row[at["head"]]])
        names = {a: at[name] for a in model.nest.spatial if (name := f"tile_{model.nest.axes[a].name}") in at}
        if axis not in names:
            continue
        init = max(model.columns[model.index["head_init"]].choices)
        beside = [{}, *({own: 1} for a, own in names.items() if a != axis and model.extents[a] > 1)]
        for (a, whole), value in values(model).items():
            for number in model.columns[model.index["head_rise"]].choices if a == axis and whole > size else ():
                if not number or size % number:
                    continue
                tile = size // number
                made = {at["head"]: value, at["head_tile"]: values(model).get((axis, tile), 0), at["head_rise"]: number,
                        at["head_init"]: init}
                longer = [{names[axis]: t} for t in divisors(whole - size) if t > tile]
                for kind in model.columns[model.index["rise_kind"]].choices:
                    for more in longer if kind else [{}]:
                        yield from ({**made, at["rise_kind"]: kind, **more, **less} for less in beside)


def two_cuts(space: Space, sketch: int, row: Point) -> Iterator[dict[int, int]]:
    """What is cut off twice along an axis as smaller tiles and one cut, which is cut again: a trace begins with the same cuts."""
    for model, at in _nests(space, sketch):
        if not {"cut", "cut_again", "fall"} <= set(at) or row[at["fall"]]:
            continue
        (axis, size), (again, end) = (table(model)[row[at[name]]].tolist() for name in ("cut", "cut_again"))
        for kind in kinds_of(size - end) if again == axis >= 0 else ():
            yield from ({at["fall"]: kind, at["cut"]: int(row[at["cut_again"]]), at["cut_again"]: more}
                        for more in model.columns[model.index["cut_again"]].choices)


def first_cut_off(space: Space, sketch: int, row: Point) -> Iterator[dict[int, int]]:
    """A first part and a last one behind the main as two that are cut off the end, one after the other."""
    for model, at in _nests(space, sketch):
        if not {"head", "cut", "cut_again"} <= set(at) or not row[at["head"]] or not row[at["cut"]] or row[at["cut_again"]]:
            continue
        axis, size, cut = _behind_head(model, row[at["head"]])
        if cut is None:
            continue
        swap = {at["head"]: 0, at["cut"]: cut, at["cut_again"]: int(row[at["cut"]])}
        tile = at.get(f"tile_{model.nest.axes[axis].name}")
        for more in ({}, *([{at["head_tile"]: 0}] if "head_tile" in at else [])):
            yield {**swap, **more}
            if tile is not None:
                yield {**swap, **more, tile: size}


def first_falling(space: Space, sketch: int, row: Point) -> Iterator[dict[int, int]]:
    """A first part as the main one, the tiles behind it as smaller ones in front of the last parts."""
    for model, at in _nests(space, sketch):
        if not {"head", "head_tile", "cut", "fall"} <= set(at) or not row[at["head"]] or row[at["fall"]]:
            continue
        (axis, size), (beside, last) = (table(model)[row[at[name]]].tolist() for name in ("head", "cut"))
        if axis != beside or (tile := at.get(f"tile_{model.nest.axes[axis].name}")) is None:
            continue
        left = int(model.extents[axis]) - size - last
        yield from ({at["head"]: 0, at["head_tile"]: 0, at["fall"]: kind, tile: size} for kind in kinds_of(left))


def _behind_head(model: Model, head: int) -> tuple[int, int, int | None]:
    """Along which axis a first part is cut off, its size, and the cut of all that it leaves, if there is one."""
    axis, size = (int(x) for x in table(model)[head])
    return axis, size, values(model).get((axis, int(model.extents[axis]) - size))


def _nests(space: Space, sketch: int) -> Iterator[tuple[Model, dict[str, int]]]:
    """Of every nest of a sketch its model, and where its columns stand in a point, by name."""
    places = iter(space.places(sketch).tolist())
    for model in space.sketches[sketch].models:
        yield model, dict(zip(model.index, places))


def _positions(space: Space, sketch: int) -> Iterator[tuple[Model, dict[str, int]]]:
    """Of every nest of a sketch its model, and where its columns stand among those of the sketch, by name."""
    own = space.sketches[sketch]
    for start, model in zip(own.starts, own.models):
        yield model, {name: start + n for name, n in model.index.items()}


def _pins(space: Space, sketch: int, row: Point, tiled: Sequence[int]) -> dict[int, int]:
    """What leaves the first and the last part's reductions as they are where those of all parts are tiled anew."""
    found = {}
    for model, at in _nests(space, sketch):
        for name, column in zip(model.index, model.columns):
            end, _, axis = name.partition("_")
            tile = at.get(f"tile_{axis}", -1)
            if end in ("head", "last") and tile in tiled and row[at[name]] == column.default and row[tile] in column.choices:
                found[at[name]] = int(row[tile])
    return found


def _together(space: Space, sketch: int) -> Iterator[list[int]]:
    """Columns that show in a trace only together, by their positions in the sketch.

    Such are a load inside a reduction's loops and how that is tiled, and the order of loops that there are.
    """
    for model, at in _positions(space, sketch):
        reduce = [model.nest.axes[a].name for a in model.nest.reduce if model.nest.axes[a].extent > 1]
        tiles = [f"tile_{model.nest.axes[a].name}" for a in model.nest.spatial if model.nest.axes[a].extent > 1]
        sums = [[name for name in at if name.endswith(f"_{r}")] for r in reduce]
        for tile in tiles:
            for more in ((), ("tail", "tail_size"), ("tail", "tail_last"), ("tail_last", "tail_last_size")):
                yield [at[n] for n in (tile, "order", *more) if n in at]
            # What stages take several tiles of shows where these are loaded one by one.
            if "late" in at:
                yield from ([at[n] for n in (tile, f"load_{o.label}", "late")] for o in model.nest.operands)
            if "head_late" in at:
                yield from ([at[n] for n in (tile, "head_tile", "head_late", own)] for own in ("order", "late"))
        for operand in model.nest.operands:
            own = [f"load_{operand.label}", f"keep_{operand.label}"]
            yield [at[n] for n in own if n in at]
            for r in range(len(reduce)):
                yield [at[n] for n in (*own, *sums[r]) if n in at]
            yield [at[n] for n in (*own, *(f"tile_{r}" for r in reduce)) if n in at]
            yield [at[n] for n in (own[0], *(n for one in sums for n in one if not n.startswith("tile_"))) if n in at]
        if model.cut is not None:
            # Strips show where their data are loaded inside of all loops of several tiles.
            own = [f"load_{model.nest.operands[model.cut.operand].label}", "strip"]
            yield from ([at[n] for n in (*own, *more) if n in at] for more in ((), ("order",), *((tile,) for tile in tiles)))
        yield from ([one, other] for one, other in combinations([n for name, n in at.items() if len(
            model.columns[model.index[name]].choices) <= FEW], 2))
        yield [at[n] for n in (*tiles, "order") if n in at]
        yield [at[n] for n in ("cut", "cut_again") if n in at]
        yield from ([at[n] for n in (own, f"{own}_size") if n in at] for own in ("tail", "tail_last"))
        # A part as large as a tile is one by what it does otherwise.
        yield [at[n] for n in ("cut", "tail_last", "tail_last_size") if n in at]
        yield from ([at[n] for n in (own, f"last_{r}") if n in at] for own in ("cut", "cut_again") for r in reduce)
        yield from ([at[n] for n in ("head", f"head_{r}") if n in at] for r in reduce)
        yield from ([at[n] for n in (*more, "head_tile") if n in at] for more in (("order",), *((t, "order") for t in tiles)))


def _also_together(space: Space, sketch: int) -> Iterator[list[int]]:
    """Further such columns, by their positions in the sketch: tiles with the parts and loops that are decided with them."""
    for model, at in _positions(space, sketch):
        for a in model.nest.spatial:
            for more in (
                ("tail", "tail_size"), ("tail", "tail_last"), ("tail_last", "tail_last_size"),
                ("cut",), ("cut_again",), ("head",), ("cut", "cut_again"), ("head_late", "order"), ("late", "order"),
            ):
                yield [at[n] for n in (f"tile_{model.nest.axes[a].name}", *more) if n in at]


def distinct_rows(space: Space, row: Point, changes: Sequence[Mapping[int, int]], settle: bool | None) -> Iterator[Point]:
    """A row with each of some changes, of which a trace can be written: none twice, and none as it was.

    Args:
        space: the space.
        row: what is changed.
        changes: values by column.
        settle: as for `changed`.
    """
    rows = np.repeat(row[None], len(changes), axis=0)
    for n, change in enumerate(changes):
        for at, value in change.items():
            rows[n, at] = value
    if settle:
        raw = _loose(space, int(row[0]))
        tidy = space.repair(rows)[0]
        tidy[:, raw] = rows[:, raw]
        rows = tidy
    else:
        k = int(row[0])
        split = space.sketches[k].split(np.ascontiguousarray(rows[:, space.places(k)]))
        tidy = np.concatenate([model.repair(own, settle=False) for model, own in split], axis=1)
        if settle is None:
            raw = [n for n, column in enumerate(space.sketches[k].columns) if column.name.startswith(UNSETTLED)]
            tidy[:, raw] = rows[:, space.places(k)][:, raw]
        rows[:, space.places(k)] = tidy
    yield from fresh_of(rows[_buildable(space, rows)], set(), {row.tobytes()})


def _loose(space: Space, sketch: int) -> list[int]:
    """Columns that only another one makes sense of, and that are set before it: how reductions are tiled for their loads."""
    found = []
    for model, at in _nests(space, sketch):
        ends = tuple(f"_{model.nest.axes[a].name}" for a in model.nest.reduce)
        found += [place for name, place in at.items() if name.endswith(ends)]
    return found


def _buildable(space: Space, rows: Points) -> Mask:
    """Rows that rules allow, whether they fit the memories or not: a trace can be written of those."""
    ok = np.ones(len(rows), dtype=np.bool_)
    sketch = int(rows[0, 0])
    for model, own in space.sketches[sketch].split(np.ascontiguousarray(rows[:, space.places(sketch)])):
        plan = model.plan(own)
        for rule in model.rules:
            ok &= rule.allows(model, own, plan)
    return ok
