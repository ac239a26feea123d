"""From a schedule back to the point that makes it.

A trace says what was decided, step by step, but not by which columns. So points are changed one decision at a time, or two, for
as long as their traces agree with the given one further; what is found has that very trace.

Who writes a schedule by hand takes the same steps in another order, or others that come to the same. So where no point has the
trace, points are compared by which steps they take, in whatever order, and the nearest one may still have the same program.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, combinations, islice, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autosched.errors import AutoschedError, ProgramError
from autosched.kernel import program_hash, replay
from autosched.lower import lower_table
from autosched.schedule.kit.trace import Trace
from space.distinct import fresh_of
from space.plan import Mask
from space.rule import Points
from space.rules.cuts import table, values
from space.rules.fall import kinds_of
from space.rules.tiling import divisors
from space.sites import sites_of

if TYPE_CHECKING:
    from space.model import Model
    from space.space import Space

Point = npt.NDArray[np.int32]
Steps = Sequence[Mapping[str, Any]]
FEW = 12  # choices of a column that is tried with any other
SOME, MOST = 512, 4096  # combinations of decisions that are tried together: at first, and where that finds nothing
CHUNK = 256  # combinations that are looked at in one go; the first that leads further ends it
LOOSE = 64  # of them, where the order of steps does not count and one decision alone shows
NEAREST = 3  # forms that are compared by which steps they take
SEVERAL_WAYS = frozenset({"consumer_blocks", "preserve_unit_loops", "preserve_unit_iters", "disable_predication", "index"})
LOOKUPS = ("get_sblock", "get_block", "get_loops")
# What tiles make sense of, whichever they are:
UNSETTLED = ("fall", "order", "load_", "keep_", "late", "head_late", "init", "head_init", "head_rise", "rise_kind")
SAID = 3  # steps that are named


def point_of(space: Space, trace: Trace, anyhow: bool = False) -> Point:
    """The point of a space with a trace, or with the program of its schedule.

    Args:
        space: of the program that the trace is of.
        trace: of a schedule.
        anyhow: only the steps behind those that bring the program into a form need be the point's; whether the two programs
            are the same is then for the caller to see.

    Raises:
        ProgramError: no point was found with the trace or the program: the first step in the way, the nearest point, and which
            steps that one has not.
    """
    given = _steps(trace)
    forms: list[tuple[int, int, Steps]] = []  # how much a form is the trace's, its number, the steps that are wanted of it
    for k, sketch in enumerate(space.sketches):
        own = _steps(sketch.prefix)
        if anyhow and (found := _behind(own, _steps(space.trace(_default(space, k))), given)) is not None:
            forms.append((-found[0], k, found[1]))
        elif not anyhow and _agree(own, given) == len(own):
            forms.append((len(own), k, given))
    nearest: Point | None = None
    if not forms:
        nearest, same = _by_program(space, trace, given)
        if same:
            return nearest
        why = _missing(space, nearest, given)
        raise ProgramError(f"{space.func.name} is brought into another form than any of the space's: {why}")
    best: tuple[int, Point, Steps] | None = None
    # Where one way of climbing ends below the top, another may go on.
    for most, hinted in product((SOME, MOST), (False, True)):
        for _, k, wanted in sorted(forms, key=lambda form: form[:2], reverse=True):
            far, row = _climb(space, k, _further(wanted), len(wanted) + 1, most, _choices(space, k, wanted) if hinted else None)
            if far > len(wanted):
                # Columns that change nothing may still hold what other points need, and parts have two ways to be written.
                changes = [*_first_cut_off(space, k, row), *_first_falling(space, k, row)]
                others = _distinct(space, row, changes, True) if changes else iter(())
                tidy, inside = space.repair(np.stack([row, *others]))
                twins = (own for own in tidy[inside] if _steps(space.trace(own)) == wanted)
                return np.asarray(next(twins, row), dtype=np.int32)
            best = (far, row, wanted) if best is None or far > best[0] else best
        if nearest is None:
            nearest, same = _by_program(space, trace, given)
            if same:
                return nearest
    assert best is not None and nearest is not None
    reached, point, wanted = best
    why = _missing(space, nearest, given)
    raise ProgramError(
        f"no point of the space is known to have step {reached} of {len(wanted)}: {_step(wanted, reached)}; nearest is "
        f"{space.explain(point)}; {why}"
    )


def _behind(own: Steps, made: Steps, given: Steps) -> tuple[int, Steps] | None:
    """The steps of a form, and behind them those of a trace that had another form; None where these are not to be told apart.

    Args:
        own: the steps of the form.
        made: of a point of it.
        given: of the trace.

    Returns:
        In how many primitives the two forms differ, and the steps.
    """
    at = next((n for n, step in enumerate(given) if all(step[k] == made[len(own)][k] for k in ("op", "in", "args"))), None)
    if at is None:
        return None
    number = sum(len(step["out"]) for step in own)
    names: dict[str, str] = {}
    steps = list(own)
    for step in given[at:]:
        operands = {k: _renamed(v, names) for k, v in step["in"].items()}
        for name in step["out"]:
            names[name], number = f"{name[0]}{number}", number + 1
        steps.append({**step, "in": operands, "out": [names[n] for n in step["out"]]})
    ops = Counter(step["op"] for step in own)
    theirs = Counter(step["op"] for step in given[:at])
    return sum(((ops - theirs) + (theirs - ops)).values()), steps


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """What a step takes, with other names for some handles."""
    if isinstance(value, list):
        return [_renamed(v, names) for v in value]
    return names.get(value, value) if isinstance(value, str) else value


def _further(wanted: Steps) -> Callable[[Steps], int]:
    """How many steps a trace has in common with the wanted one from the beginning; one more where nothing else follows."""

    def reach(made: Steps) -> int:
        agreed = _agree(made, wanted)
        return agreed + (agreed == len(wanted) == len(made))

    return reach


def _alike(space: Space, wanted: Steps) -> Callable[[Steps], int]:
    """How many steps a trace has in common with the wanted one in whatever order, less those that are its own."""
    reads = _reads(space)
    count = Counter(_keys(wanted, reads))

    def reach(made: Steps) -> int:
        common = (Counter(_keys(made, reads)) & count).total()
        return 2 * common - len(made)

    return reach


def _reads(space: Space) -> dict[str, tuple[str, ...]]:
    """What every block of every form reads, in its own order."""
    funcs = (model.nest.func for sketch in space.sketches for model in sketch.models)
    return {s.block.name: tuple(r.buffer.name for r in s.block.reads) for func in funcs for s in sites_of(func)}


def _keys(steps: Steps, reads: Mapping[str, tuple[str, ...]]) -> list[str]:
    """For every step what it does to what: handles are told by the steps that gave them and not by their numbers, and what may
    be said in several ways is left out."""
    names: dict[str, str] = {}
    blocks: dict[str, str] = {}
    found = []
    for step in steps:
        given = {name: _renamed(value, names) for name, value in step["in"].items() if name not in SEVERAL_WAYS}
        args = {name: value for name, value in step["args"].items() if name not in SEVERAL_WAYS}
        if isinstance(given.get("factors"), list):
            # Of a split the first follows, of parts the last.
            given["factors"] = given["factors"][1:] if step["op"] == "split" else given["factors"][:-1]
        index, read = args.get("read_buffer_index"), reads.get(blocks.get(step["in"].get("block", ""), ""), ())
        if isinstance(index, int) and index < len(read):
            args["read_buffer_index"] = read[index]
        text = json.dumps([step["op"], given, args], sort_keys=True, default=str)
        found.append(blake2b(text.encode(), digest_size=8).hexdigest())
        names.update({name: f"{found[-1]}.{n}" for n, name in enumerate(step["out"])})
        if step["op"] in LOOKUPS[:2]:
            blocks[step["out"][0]] = step["args"]["name"]
    return found


def _choices(space: Space, sketch: int, wanted: Steps) -> list[tuple[int, ...]]:
    """What is tried of each column where more go together: of sizes only those that the steps say, or leave of others."""
    factors = [step["args"].get("factors") or step["in"].get("factors") or () for step in wanted]
    sizes = {n for given in factors for n in given if isinstance(n, int)}
    found: list[tuple[int, ...]] = []
    for model in space.sketches[sketch].models:
        whole = {int(e) for e in model.extents} | sizes
        left = {a - b for a in whole for b in sizes if a > b}
        known = {0, 1} | whole | left | {a - b for a in left for b in sizes if a > b}
        sums = {model.nest.axes[a].name for a in model.nest.reduce}
        meant = table(model)
        for name, n in model.index.items():
            choices = model.columns[n].choices
            start, _, axis = name.partition("_")
            if name in ("head", "cut", "cut_again", "head_tile"):
                choices = tuple(v for v in choices if int(meant[v, 1]) in known)
            elif start == "tile" or name.endswith("_size") or (start in ("head", "last") and axis in sums):
                choices = tuple(v for v in choices if v in known)
            found.append(choices)
    return found


def _climb(
    space: Space, sketch: int, measure: Callable[[Steps], int], goal: int, most: int,
    choices: Sequence[tuple[int, ...]] | None = None,
) -> tuple[int, Point]:
    """The row of a sketch whose steps measure most, and how much.

    Args:
        space: the space.
        sketch: of it.
        measure: of the steps of a row's trace.
        goal: what is enough.
        most: combinations of decisions that are tried together.
        choices: of each column; with them more columns are tried together. Without, all values.
    """
    known: dict[bytes, int] = {}

    def reach(row: Point) -> int:
        key = row.tobytes()
        if key not in known:
            known[key] = measure(_steps(space.trace(row)))
        return known[key]

    ways = (True, False) if choices is None else (True, False, None)
    row = space.repair(_default(space, sketch)[None])[0][0]
    far, settled = reach(row), False
    while far < goal:
        # Not settled last: a decision may make no sense before others are taken, and until then be taken back.
        for trial in chain(*(_changed(space, sketch, row, settle, most, choices) for settle in ways)):
            now = reach(trial)
            if now > far:
                row, far = trial, now
                break
        else:
            # What is not settled may be written in another way, of which other changes make sense.
            tidy = space.repair(row[None])[0][0]
            if settled or reach(tidy) < far or (tidy == row).all():
                break
            row, settled = tidy, True
    return far, row


def _by_program(space: Space, trace: Trace, given: Steps) -> tuple[Point, bool]:
    """The point whose steps are most like those of a trace, whatever their order, and whether it has the same program."""
    measure = _alike(space, given)
    starts = sorted(range(len(space.sketches)), key=lambda k: -measure(_steps(space.trace(_default(space, k)))))
    most, point = _climb(space, starts[0], measure, len(given), LOOSE)
    for k in starts[1:NEAREST]:
        if most < len(given):
            most, point = max((most, point), _climb(space, k, measure, len(given), LOOSE), key=lambda one: one[0])
    tidy, inside = space.repair(point[None])
    try:
        wanted, made = (program_hash(lower_table(replay(space.func, t, "fast").func, space.target))
                        for t in (trace, space.trace(tidy[0])))
    except AutoschedError:
        return point, False
    return np.asarray(tidy[0], dtype=np.int32), bool(inside[0]) and made == wanted


def _missing(space: Space, point: Point, given: Steps) -> str:
    """What a trace has that a point has not: the steps, and which of their primitives no rule of the space gives at all."""
    reads = _reads(space)
    left = Counter(_keys(_steps(space.trace(point)), reads))
    own = []
    for n, key in enumerate(_keys(given, reads)):
        if left[key]:
            left[key] -= 1
        elif given[n]["op"] not in LOOKUPS:
            own.append(n)
    rows = space.sample(np.random.default_rng(0), 4 * FEW)
    used = {step["op"] for row in rows for step in _steps(space.trace(row))}
    foreign = [n for n in own if given[n]["op"] not in used]
    said = [f"step {n} is {_step(given, n)}" for n in (foreign or own)[:SAID]]
    more = f" and {len(foreign or own) - SAID} more" if len(foreign or own) > SAID else ""
    if foreign:
        return f"{'; '.join(said)}{more}: no rule of this space gives such a step"
    if said:
        return f"{'; '.join(said)}{more}: no decision of a rule has these values here"
    return f"{space.explain(point)} takes the same steps in another order, which gives another program"


def _default(space: Space, sketch: int) -> Point:
    row = np.zeros(space.width, dtype=np.int32)
    row[0] = sketch
    row[space.places(sketch)] = space.sketches[sketch].default
    return row


def _changed(
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
        yield from _distinct(space, row, some, settle)


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
    yield from _two_kinds(space, sketch, row)
    yield from _falling(space, sketch, row)
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


def _two_kinds(space: Space, sketch: int, row: Point) -> Iterator[dict[int, int]]:
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


def _falling(space: Space, sketch: int, row: Point) -> Iterator[dict[int, int]]:
    """What is cut off twice along an axis as smaller tiles and one cut, which is cut again: a trace begins with the same cuts."""
    for model, at in _nests(space, sketch):
        if not {"cut", "cut_again", "fall"} <= set(at) or row[at["fall"]]:
            continue
        (axis, size), (again, end) = (table(model)[row[at[name]]].tolist() for name in ("cut", "cut_again"))
        for kind in kinds_of(size - end) if again == axis >= 0 else ():
            yield from ({at["fall"]: kind, at["cut"]: int(row[at["cut_again"]]), at["cut_again"]: more}
                        for more in model.columns[model.index["cut_again"]].choices)


def _first_cut_off(space: Space, sketch: int, row: Point) -> Iterator[dict[int, int]]:
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


def _first_falling(space: Space, sketch: int, row: Point) -> Iterator[dict[int, int]]:
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


def _distinct(space: Space, row: Point, changes: Sequence[Mapping[int, int]], settle: bool | None) -> Iterator[Point]:
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


def _steps(trace: Trace) -> Steps:
    """The steps of a trace, without what applying them has filled in."""
    return [{"op": step["op"], "in": step["in"], "out": step["out"],
             "args": {k: v for k, v in step["args"].items() if v is not None and k != "func_name"}}
            for step in trace.as_json(remove_postproc=True)]


def _agree(made: Steps, wanted: Steps) -> int:
    """How many steps two traces have in common from the beginning."""
    for n, (a, b) in enumerate(zip(made, wanted)):
        if a != b:
            return n
    return min(len(made), len(wanted))


def _step(wanted: Steps, at: int) -> str:
    """A step in words."""
    if at >= len(wanted):
        return "its end"
    step = wanted[at]
    given = {**step.get("in", {}), **step.get("args", {})}
    return f"{step['op']}({', '.join(f'{k}={v}' for k, v in given.items() if v is not None)})"
