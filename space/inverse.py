"""From a schedule back to the point that makes it.

A trace says what was decided, step by step, but not by which columns. So points are changed one decision at a time, or two, for
as long as their traces agree with the given one further; what is found has that very trace.

Who writes a schedule by hand takes the same steps in another order, or others that come to the same. So where no point has the
trace, points are compared by which steps they take, in whatever order, and the nearest one may still have the same program.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, islice, product
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.errors import AutoschedError, ProgramError
from autosched.kernel import program_hash, replay
from autosched.lower import lower_table
from autosched.schedule.kit.trace import Trace
from space.changes import FEW, Point, changed, distinct_rows, first_cut_off, first_falling
from space.rules.cuts import table
from space.sites import sites_of

if TYPE_CHECKING:
    from space.space import Space

Steps = Sequence[Mapping[str, Any]]
SOME, MOST = 512, 4096  # combinations of decisions that are tried together: at first, and where that finds nothing
LOOSE = 64  # of them, where the order of steps does not count and one decision alone shows
TOGETHER = 16  # traces that are written in one go; the first that leads further ends it
NEAREST = 3  # forms that are compared by which steps they take
SEVERAL_WAYS = frozenset({"consumer_blocks", "preserve_unit_loops", "preserve_unit_iters", "disable_predication", "index"})
LOOKUPS = ("get_sblock", "get_block", "get_loops")
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
    known: dict[bytes, int] = {}  # of every form one thing is wanted, in whatever way
    # Where one way of climbing ends below the top, another may go on.
    for most, hinted in product((SOME, MOST), (False, True)):
        for _, k, wanted in sorted(forms, key=lambda form: form[:2], reverse=True):
            choices = _choices(space, k, wanted) if hinted else None
            far, row = _climb(space, k, _further(wanted), len(wanted) + 1, most, choices, known)
            if far > len(wanted):
                # Columns that change nothing may still hold what other points need, and parts have two ways to be written.
                changes = [*first_cut_off(space, k, row), *first_falling(space, k, row)]
                others = distinct_rows(space, row, changes, True) if changes else iter(())
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
    choices: Sequence[tuple[int, ...]] | None = None, known: dict[bytes, int] | None = None,
) -> tuple[int, Point]:
    """The row of a sketch whose steps measure most, and how much.

    Args:
        space: the space.
        sketch: of it.
        measure: of the steps of a row's trace.
        goal: what is enough.
        most: combinations of decisions that are tried together.
        choices: of each column; with them more columns are tried together. Without, all values.
        known: of rows what their steps measure, as found before; what is found is added.
    """
    found = {} if known is None else known

    def reach(*rows: Point) -> list[int]:
        keys = [row.tobytes() for row in rows]
        new = {key: row for key, row in zip(keys, rows) if key not in found}
        if new:
            # What they mean is worked out together.
            for key, trace in zip(new, space.traces(np.stack([*new.values()]))):
                found[key] = measure(_steps(trace))
        return [found[key] for key in keys]

    ways = (True, False) if choices is None else (True, False, None)
    row = space.repair(_default(space, sketch)[None])[0][0]
    far, settled = reach(row)[0], False
    while far < goal:
        # Not settled last: a decision may make no sense before others are taken, and until then be taken back.
        trials = chain(*(changed(space, sketch, row, settle, most, choices) for settle in ways))
        while some := list(islice(trials, TOGETHER)):
            further = next(((now, trial) for now, trial in zip(reach(*some), some) if now > far), None)
            if further is not None:
                far, row = further
                break
        else:
            # What is not settled may be written in another way, of which other changes make sense.
            tidy = space.repair(row[None])[0][0]
            if settled or reach(tidy)[0] < far or (tidy == row).all():
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
