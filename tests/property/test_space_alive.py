"""What a space reckons that buffers of all nests take of each memory is what lowering does with: as much, and no less.

Where there is room, lowering may take more of the accumulator, so that no result waits for the store of what it works on; it
does without where there is none (``in_place.share_in_place``). So a point is lowered in memories of as many elements as are
reckoned for it, and of one less.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from spaces import computes

from autosched.errors import LoweringError
from autosched.ir.interp import random_inputs, run
from autosched.ir.scopes import ACC, INP, WGT
from autosched.ir.stmt import Buffer, PrimFunc
from autosched.kernel import of_schedule, replay
from autosched.lower import lower_table, program
from autosched.lower.capacity import Held, needed
from autosched.lower.storage import Storage
from autosched.script import parse
from autosched.target import Target, get_target
from space import Space, sketch
from space.inverse import Point
from space.rules.cuts import value_of

BLOCK8 = {"LOG_BLOCK": 3, "LOG_ACC_BUFF_SIZE": 12}  # 128 accumulators
SMALLER = {"LOG_BLOCK": 3, "LOG_ACC_BUFF_SIZE": 11}  # 64
FSIM = {"LOG_ACC_BUFF_SIZE": 12, "semantics": "fsim"}  # 64
DRAWN, MOST = 400, 12  # points, and those of a sketch that are lowered: half of them the fullest

# Their blocks stand in turn, as recomputing a product leaves them or as they were written; or one nest behind the other.
IN_TURN = ("matrix_squared", "concat_of_pools", "attention_joint_result", "concat_of_products", "complex_in_two_sums")
# The last one of these runs in the middle: what another nest stores stands where its reader is, and what that pads ahead of both.
BEHIND = ("two_branches", "conv_chain", "dense_three_outputs", "channels_split_and_joined")


def machine(config: Mapping[str, object], folder: Path) -> Target:
    """A machine with these figures."""
    path = folder / "machine.json"
    path.write_text(json.dumps(config))
    return get_target(path)


def alive(func: PrimFunc, space: Space, point: Point, patch: pytest.MonkeyPatch, room: Mapping[str, int]) -> dict[str, int]:
    """Elements of each memory at its fullest moment, as lowering has it; without a place they are none of the program's.

    Args:
        func: the program.
        space: its space.
        point: that is lowered.
        patch: undone behind it.
        room: elements of the memories; those of the machine where nothing is said.

    Raises:
        LoweringError: they do not suffice.
    """
    found: dict[Buffer, Storage] = {}
    given, whole = program.allocate, Target.capacity

    def seen(*args: object) -> dict[Buffer, Storage]:
        found.clear()
        found.update(given(*args))  # type: ignore[arg-type]
        return found

    with patch.context() as own:
        own.setattr(program, "allocate", seen)
        own.setattr(Target, "capacity", lambda target, scope: room.get(scope, whole(target, scope)))
        lower_table(replay(func, space.trace(point), "fast").func, space.target)
    held = [Held(b.scope, s.size, s.total // s.size, *s.life) for b, s in found.items()]
    return {scope: int(needed([h for h in held if h.scope == scope])) for scope in (INP, WGT, ACC)}


def reckoned(space: Space, point: Point) -> dict[str, int]:
    """As ``alive``, as the space has it."""
    sketch = space.sketches[int(point[0])]
    own = np.ascontiguousarray(point[None, space.places(int(point[0]))])
    held = sketch.held([model.plan(rows) for model, rows in sketch.split(own)])
    return {scope: int(np.max(needed([h for h in held if h.scope == scope]))) for scope in (INP, WGT, ACC)}


def chosen(space: Space, seed: int, most: int) -> list[Point]:
    """Of every sketch the points that take most of each memory, most of all of the accumulator, and as many others."""
    points = space.sample(np.random.default_rng(seed), DRAWN)
    found: list[Point] = []
    for k in range(len(space.sketches)):
        own = points[points[:, 0] == k]
        takes = [reckoned(space, p) for p in own]
        full = {scope: np.argsort([-t[scope] for t in takes], kind="stable").tolist() for scope in (ACC, INP, WGT)}
        first = [*full[ACC][: most // 4], *full[INP][: most // 8], *full[WGT][: most // 8]]
        found += [own[n] for n in dict.fromkeys([*first, *range(min(len(own), most - most // 2))])]
    return found


def holds(func: PrimFunc, target: Target, patch: pytest.MonkeyPatch, most: int = MOST) -> None:
    """What the space counts is enough to lower every point; and of some an accumulator less is not."""
    space = Space(func, target)
    exact = False
    for point in chosen(space, zlib.crc32(func.name.encode()), most):
        ours = reckoned(space, point)
        theirs = alive(func, space, point, patch, ours)
        said = space.explain(point), point.tolist(), ours, theirs
        assert all(theirs[scope] <= ours[scope] <= target.capacity(scope) for scope in ours), said
        exact = exact or (theirs[ACC] == ours[ACC] and not suffices(func, space, point, patch, ours | {ACC: ours[ACC] - 1}))
    assert exact


def suffices(func: PrimFunc, space: Space, point: Point, patch: pytest.MonkeyPatch, room: Mapping[str, int]) -> bool:
    """Whether a point lowers in memories of so many elements; only for want of more may it not."""
    try:
        alive(func, space, point, patch, room)
    except LoweringError as error:
        assert error.kind == "capacity"
        return False
    return True


@pytest.mark.parametrize(("name", "config"), [
    ("matrix_squared", BLOCK8), ("concat_of_pools", FSIM), ("conv_chain", FSIM), ("dense_three_outputs", SMALLER),
    ("channels_split_and_joined", FSIM), ("morphology_open", BLOCK8),
    *(pytest.param(name, config, marks=pytest.mark.slow) for name in (*IN_TURN, *BEHIND) for config in (BLOCK8, FSIM)),
])
def test_nests_are_in_the_accumulator_one_after_the_other(
    name: str, config: Mapping[str, object], user_programs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    holds(user_programs.program(name), machine(config, tmp_path), monkeypatch)


def test_a_result_waits_for_a_store_where_there_is_no_room_beside_what_it_reads(
    user_programs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of three that are made of one sum, the second is made of the first: beside it or, once that is stored, in its place."""
    func = user_programs.program("dense_three_outputs")
    space = Space(func, machine(BLOCK8, tmp_path))
    point = max(chosen(space, 0, MOST), key=lambda p: reckoned(space, p)[ACC])
    most, least = alive(func, space, point, monkeypatch, {})[ACC], reckoned(space, point)[ACC]
    assert 0 < least < most <= 128
    for room, takes in ((most, most), (most - 1, least), (least, least)):
        assert alive(func, space, point, monkeypatch, {ACC: room})[ACC] == takes
    with pytest.raises(LoweringError, match=f"{ACC} holds {least - 1} elements and the program needs {least}"):
        alive(func, space, point, monkeypatch, {ACC: least - 1})


@pytest.mark.parametrize(("name", "order"), [
    ("matrix_squared", "a a_aa_a y"), ("channels_split_and_joined", "y_c1_c0 t_pad y_c0 y_c1_c1"), ("conv_chain", "a out"),
])
def test_nests_run_in_their_turns(name: str, order: str, user_programs: ModuleType) -> None:
    """Where blocks come to stand is what the space says of it, also of what pads a tensor of another nest outside all loops."""
    space = Space(user_programs.program(name), "vta-de10")
    (sketch,) = space.sketches
    said = {turn.number: model.nest.out for model, turn in zip(sketch.models, sketch.turns)}
    assert [said[n] for n in sorted(said)] == [block for block in order.split() if block in said.values()]
    row = np.zeros(space.width, dtype=np.int32)
    row[space.places(0)] = sketch.default
    text = space.schedule(space.repair(row[None])[0][0]).func.script()
    places = [text.index(f'T.sblock("{block}")') for block in order.split()]
    assert places == sorted(places), text
    for model, turn in zip(sketch.models, sketch.turns):
        for k, before in turn.pads.items():
            stands = text.find(f'T.sblock("{model.nest.operands[k].producer}")')  # a load without zeros is another block
            assert stands < 0 or all((text.index(f'T.sblock("{out}")') < stands) == (n < before) for n, out in said.items())


@pytest.mark.parametrize(("cut", "thick"), [(10, 32), (5, 13), (9, 4)])
def test_a_last_slice_takes_no_more_than_there_is(
    cut: int, thick: int, user_programs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slices that do not divide a part ahead of another one end with it: behind it are results of that."""
    func = user_programs.program("conv_1d_like")
    monkeypatch.setattr(sketch, "CUT", 0)
    space = Space(func, machine({"LOG_ACC_BUFF_SIZE": 13}, tmp_path))
    (model,) = space.sketches[0].models
    left = 62 - cut
    decided = {"cut": int(value_of(model, 3, np.array([cut]))[0]), "tile_v3": left, "tail": 4, "tail_size": thick}
    point = space.point(**decided)
    assert left % thick and space.explain(point).startswith(f"cut last v3={cut} | "), space.explain(point)
    ours = reckoned(space, point)
    assert alive(func, space, point, monkeypatch, ours)[ACC] == ours[ACC] == 2 * left
    assert not suffices(func, space, point, monkeypatch, ours | {ACC: ours[ACC] - 1})
    kernel = of_schedule(func, space.target, space.schedule(point))
    inputs = random_inputs(func, 0)
    (wanted,) = run(func, *inputs)
    np.testing.assert_array_equal(kernel(*inputs), wanted)


PRODUCT = """
    for i, j, k in T.grid(16, 32, 32):
        with T.block("s{n}"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                s{n}[vi, vj] = 0
            s{n}[vi, vj] += T.cast(x[vi, vk], "int32") * T.cast(w{n}[vj, vk], "int32")
"""
STORE = """
    for i, j in T.grid(16, 32):
        with T.block("y{n}"):
            vi, vj = T.axis.remap("SS", [i, j])
            y{n}[vi, vj] = T.cast(T.max(T.min(s{n}[vi, vj] >> 7, 127), -128), "int8")
"""
HEAD = """
@T.prim_func
def main(x: T.Buffer((16, 32), "int8"), w0: T.Buffer((32, 32), "int8"), w1: T.Buffer((32, 32), "int8"),
         y0: T.Buffer((16, 32), "int8"), y1: T.Buffer((16, 32), "int8")):
    s0 = T.alloc_buffer((16, 32), "int32")
    s1 = T.alloc_buffer((16, 32), "int32")
"""


@pytest.mark.parametrize(("order", "early"), [
    ("s0 s1 y0 y1", [False, True]), ("s1 s0 y0 y1", [False, True]), ("s1 s0 y1 y0", [False, True]),
    ("s0 y0 s1 y1", [False, False]), ("s1 y1 s0 y0", [False, False]),
])
def test_sums_of_a_nest_ahead_of_another_stand_where_it_stores(order: str, early: list[bool]) -> None:
    """Where one tile is all of a nest: in a loop of one iteration then, and as they stood otherwise. They compute the same."""
    text = HEAD + "".join((PRODUCT if name[0] == "s" else STORE).format(n=name[1]) for name in order.split())
    func = parse(text)
    assert isinstance(func, PrimFunc)
    space = Space(func, "vta-de10")
    assert all([model.early for model in sketch.models] == early for sketch in space.sketches)
    row = np.zeros(space.width, dtype=np.int32)
    row[space.places(0)] = space.sketches[0].default
    point = space.repair(row[None])[0][0]
    made = space.schedule(point).func
    stand = [made.script().index(f'T.sblock("{name}') for name in ("s0", "s1")]
    stored = [made.script().index(f'T.sblock("{name}') for name in ("y0", "y1")]
    assert max(stand) > min(stored), made.script()
    assert sum(step.op == "add_unit_loop" for step in space.trace(point).insts) == sum(early)
    computes(func, "vta-de10", 4)


TWICE = """
@T.prim_func
def main(x: T.Buffer((16, 32), "int8"), w0: T.Buffer((32, 32), "int8"), w1: T.Buffer((32, 32), "int8"),
         w2: T.Buffer((32, 32), "int8"), y0: T.Buffer((16, 32), "int8"), y1: T.Buffer((16, 32), "int8"),
         y2: T.Buffer((16, 32), "int8")):
    s0 = T.alloc_buffer((16, 32), "int32")
    c = T.alloc_buffer((16, 32), "int32")
    d = T.alloc_buffer((16, 32), "int32")
    u = T.alloc_buffer((16, 32), "int8")
    s1 = T.alloc_buffer((16, 32), "int32")
    s2 = T.alloc_buffer((16, 32), "int32")
"""
CLIPPED = """
    for i, j in T.grid(16, 32):
        with T.block("{name}"):
            vi, vj = T.axis.remap("SS", [i, j])
            {name}[vi, vj] = T.max(T.min(s0[vi, vj] >> {bits}, 127), -128)
"""
NARROWED = """
    for i, j in T.grid(16, 32):
        with T.block("{name}"):
            vi, vj = T.axis.remap("SS", [i, j])
            {name}[vi, vj] = T.cast({of}[vi, vj], "int8")
"""


def twice(order: str) -> PrimFunc:
    """What a sum makes is stored twice, as ``u`` and ``y0``; ``y2`` is made of the first, and ``y1`` of something else."""
    blocks = {
        "c": CLIPPED.format(name="c", bits=7), "d": CLIPPED.format(name="d", bits=5),
        "u": NARROWED.format(name="u", of="c"), "y0": NARROWED.format(name="y0", of="d" if "d" in order.split() else "c"),
        "s2": PRODUCT.format(n=2).replace("x[", "u["),
    }
    text = TWICE if "d" in order.split() else TWICE.replace('    d = T.alloc_buffer((16, 32), "int32")\n', "")
    for name in order.split():
        text += blocks.get(name) or (PRODUCT if name[0] == "s" else STORE).format(n=name[1])
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize(("order", "outs", "turns", "early"), [
    # Both stores are one nest, where the first of them stands: its reader comes before the last.
    ("s0 c u s2 s1 y1 y0 y2", "y1 y0 y2", [1, 0, 2], [False, True, True]),
    ("s0 c d u s2 s1 y1 y0 y2", "y1 y0 y2", [1, 0, 2], [False, True, True]),
    # Or where the last stands, where nothing in between needs it.
    ("s0 c u s1 y1 y0 s2 y2", "y1 y0 y2", [0, 1, 2], [False, True, False]),
    # Two nests, where what the second store is made of stands behind that reader.
    ("s0 c u s2 d s1 y1 y0 y2", "u y1 y0 y2", [0, 1, 2, 3], None),
])
def test_a_nest_that_stores_twice_runs_where_its_first_reader_needs_it(
    order: str, outs: str, turns: list[int], early: list[bool] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    func = twice(order)
    space = Space(func, machine(BLOCK8 | {"LOG_ACC_BUFF_SIZE": 14}, tmp_path))
    (sketch,) = space.sketches
    assert [model.nest.out for model in sketch.models] == outs.split()
    assert [turn.number for turn in sketch.turns] == turns
    assert early is None or [model.early for model in sketch.models] == early
    row = np.zeros(space.width, dtype=np.int32)
    row[space.places(0)] = sketch.default
    point = space.repair(row[None])[0][0]
    ours = reckoned(space, point)
    assert alive(func, space, point, monkeypatch, ours)[ACC] == ours[ACC] == (128 if " d u " in order else 64)
    computes(func, "vta-de10", 4)


ONE = """
@T.prim_func
def main(x: T.Buffer((16, 32), "int8"), w0: T.Buffer((32, 32), "int8"), y0: T.Buffer((16, 32), "int8")):
    s0 = T.alloc_buffer((16, 32), "int32")
"""


@pytest.mark.parametrize(("value", "tiles"), [
    ("v + (v >> 2)", 2), ("T.max(v >> 4, v >> 7)", 2), ("(v >> 5) + (v >> 6) + (v >> 7)", 3), ("T.max(v + 3, (v >> 2) + v)", 2),
    ("T.max(v >> 4, v >> 7) + v", 3), ("T.min((v >> 1) + 3, 40) + T.max(v >> 3, v >> 5)", 3),
])
@pytest.mark.parametrize("semantics", ["chisel", "fsim"])
def test_what_is_read_again_ahead_of_a_value_is_not_read_twice_by_it(
    value: str, tiles: int, semantics: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second side that is worked out ahead has a place of its own; then what is left may work in that of what both read."""
    store = STORE.replace("s{n}[vi, vj] >> 7", re.sub(r"\bv\b", "s0[vi, vj]", value))
    func = parse(ONE + (PRODUCT + store).format(n=0))
    assert isinstance(func, PrimFunc)
    space = Space(func, machine({"LOG_ACC_BUFF_SIZE": 14, "semantics": semantics}, tmp_path))
    point = space.point()
    ours = reckoned(space, point)
    assert alive(func, space, point, monkeypatch, ours)[ACC] == ours[ACC] == tiles * 32
    assert not suffices(func, space, point, monkeypatch, ours | {ACC: ours[ACC] - 1})
