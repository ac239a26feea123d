"""Rows in use: of what a window strides over, a tile holds what it reads, and no gaps."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decided import run, within_bounds
from draws import accepted, task_of
from turns import in_turn

from autosched import te
from autosched.ir import PrimFunc
from autosched.ir.scopes import INP
from autosched.lower import lower_table
from autosched.target import Target, get_target
from autosched.workloads import workload
from sim import isa, timing
from space import Space
from space.normalise import normalised
from space.rules.rows import Rows

PATCHES = [
    "conv2d:h=8,w=8,ci=32,co=32,k=2,stride=2",  # all of it is read, window beside window
    "conv2d:h=9,w=6,ci=16,co=48,k=3,stride=3",
    "conv2d:h=8,w=12,ci=16,co=16,k=2,stride=4",  # a quarter is read
    "conv2d:h=16,w=16,ci=3,co=32,k=8,stride=8",
    "conv2d:h=13,w=11,ci=16,co=48,k=3,stride=3",  # a row and two columns are left over
]
WITHOUT = "conv2d:h=224,w=224,ci=3,co=384,k=32,stride=32"


def forms(name: str, target: str = "vta-de10") -> tuple[Space, list[int]]:
    """The space of a convolution, and which of its forms hold rows in use alone."""
    space = Space(workload(name).func, target)
    return space, [k for k, sketch in enumerate(space.sketches) if "rows in use" in sketch.done]


def copied(func: PrimFunc, name: str) -> list[int]:
    """The shape of the only copy of a parameter."""
    (shape,) = re.findall(rf"{name}_global\w* = T.sblock_alloc_buffer\(\((.*?)\), ", str(func))
    return [int(n) for n in shape.split(", ")]


def points_of(name: str, target: str, count: int, seed: int = 0) -> tuple[Space, np.ndarray]:
    space, own = forms(name, target)
    drawn = space.sample(np.random.default_rng(seed), count)
    return space, drawn[np.isin(drawn[:, 0], own)]


@pytest.mark.parametrize(("text", "split"), [
    ("h=8,w=8,k=2,stride=2", True), ("h=8,w=8,k=3,stride=2", False),  # boundary: windows overlap
    ("h=9,w=9,k=3,stride=3", True), ("h=10,w=10,k=3,stride=3", True),  # a row is left over
    ("h=11,w=11,k=2,stride=4", False), ("h=13,w=13,k=2,stride=4", True),  # boundary: the last stride ends beyond the rows
    ("h=9,w=10,k=3,stride=3", True),  # along one of the dimensions
    ("h=8,w=8,k=1,stride=2", True), ("h=8,w=8,k=1,stride=1", False), ("h=8,w=8,k=2,stride=4", True),
    ("h=2,w=2,k=2,stride=2", False),  # one window
])
def test_a_dimension_is_split_where_its_windows_do_not_overlap(text: str, split: bool) -> None:
    machine = get_target("vta-de10")
    sch = normalised(workload(f"conv2d:{text},ci=32,co=32").func, machine)
    found = Rows().apply(sch, machine)
    assert [what for what, _ in found] == ["rows in use"] * split


@pytest.mark.parametrize(("text", "shape"), [
    ("h=8,w=12,k=2,stride=2", [4, 2, 6, 2]), ("h=8,w=12,k=2,stride=4", [2, 4, 3, 4]), ("h=9,w=10,k=3,stride=3", [3, 3, 3, 3]),
    ("h=13,w=11,k=3,stride=3", [4, 3, 3, 3]), ("h=9,w=11,k=2,stride=4", [2, 4, 11]), ("h=13,w=11,k=2,stride=4", [3, 4, 11]),
    ("h=8,w=12,k=1,stride=2", [4, 2, 12]),  # of the innermost a run of one is a request for two words
])
def test_which_dimensions_are_split(text: str, shape: list[int]) -> None:
    machine = get_target("vta-de10")
    sch = normalised(workload(f"conv2d:{text},ci=32,co=32").func, machine)
    ((_, other),) = Rows().apply(sch, machine)
    assert copied(other.func, "data") == [1, 2, *shape, 1, 16]


# Keys of a machine, and the words of the bus that an element of its input memory is.
MACHINES: list[tuple[dict[str, Any], int]] = [
    ({}, 2), ({"LOG_BLOCK": 5}, 4), ({"LOG_BATCH": 1, "semantics": "fsim"}, 4), ({"LOG_BLOCK": 5, "bus_bytes": 16}, 2),
    ({"bus_bytes": 16}, 1), ({"LOG_BATCH": 2, "semantics": "fsim", "bus_bytes": 16}, 4), ({"LOG_BLOCK": 3}, 1),
    ({"LOG_BLOCK": 5, "LOG_BATCH": 1, "semantics": "fsim", "bus_bytes": 16}, 4), ({"bus_bytes": 32}, 1),
]


def machine_of(keys: dict[str, Any], folder: Path) -> Target:
    path = folder / "machine.json"
    path.write_text(json.dumps(keys))
    return get_target(path)


@pytest.mark.parametrize(("keys", "words"), MACHINES)
@pytest.mark.parametrize(("stride", "k"), [(2, 1), (3, 1), (1, 1), (2, 2)])
def test_runs_are_of_one_element_where_its_words_take_longer_than_a_request(
    keys: dict[str, Any], words: int, stride: int, k: int, tmp_path: Path,
) -> None:
    machine = machine_of(keys, tmp_path)
    assert timing.load_words(isa.MEM_INP, 0, 1, 1, 1, config=machine.config) == words
    block = machine.config.block_in
    text = f"conv2d:n={machine.config.batch},h=8,w={4 * stride},ci={block},co={block},k={k},stride={stride}"
    found = Rows().apply(normalised(workload(text, machine.config.batch, block).func, machine), machine)
    single = stride > 1 and (words > 2 or k > 1)
    assert ["w" for _, other in found if copied(other.func, "data")[-4:-2] == [4, stride]] == ["w"] * single
    if not single or k > 1:
        return

    def cycles(rows: int, size: int, step: int) -> int:
        """Of a load of so many runs, while COMPUTE reads too."""
        load = isa.Load(mem=isa.MEM_INP, dram=256, y_size=rows, x_size=size, x_stride=step, push_next=1)
        other = isa.Load(mem=isa.MEM_ACC, dram=64, y_size=1, x_size=16, x_stride=16)
        waits = isa.Load(mem=isa.MEM_UOP, pop_prev=1)
        found = timing.simulate(isa.table_of([load, other, waits, isa.Finish()]), machine.config, semantics=machine.mode)
        return int(found.done[0] - found.start[0])

    # One by one they come about as soon as in a run, and sooner than with what lies between them.
    assert 8 * cycles(32, 1, stride) <= 9 * cycles(1, 32, 32)
    assert cycles(32, 1, stride) < cycles(1, 31 * stride + 1, 31 * stride + 1)


@pytest.mark.parametrize(("dtype", "split"), [("int8", True), ("int32", False)])
def test_so_they_are_in_the_input_memory_alone(dtype: str, split: bool, tmp_path: Path) -> None:
    """A tensor that is added at every other place, which comes in by products with an identity, or by loads of COMPUTE's own."""
    x = te.placeholder((2, 8, 6, 1, 32), "int8", name="x")
    w = te.placeholder((2, 2, 32, 32), "int8", name="w")
    z = te.placeholder((2, 8, 12, 1, 32), dtype, name="z")
    r, c = (te.reduce_axis((0, n), name=name) for n, name in ((2, "r"), (32, "c")))
    total = te.compute((2, 8, 6, 1, 32), lambda o, y, v, b, n: te.sum(
        x[r, y, v, b, c].astype("int32") * w[o, r, n, c].astype("int32"), axis=[r, c]), name="total")
    more = te.compute((2, 8, 6, 1, 32), lambda o, y, v, b, n: (
        total[o, y, v, b, n] + z[o, y, v * 2, b, n].astype("int32")), name="more")
    out = te.compute((2, 8, 6, 1, 32), lambda *at: (more[at] >> 8).astype("int8"), name="out")
    machine = machine_of({"LOG_BLOCK": 5}, tmp_path)
    found = Rows().apply(normalised(te.create_prim_func([x, w, z, out]), machine), machine)
    assert [copied(other.func, "z")[2:4] for _, other in found] == [[6, 2]] * split


def windows(size: int, first: int, k: int, stride: int, count: int) -> PrimFunc:
    """Windows of rows that begin further in, over two blocks of channels."""
    x = te.placeholder((2, size, 6, 1, 16), "int8", name="x")
    w = te.placeholder((2, 2, k, 16, 16), "int8", name="w")
    r, q, c = (te.reduce_axis((0, n), name=name) for n, name in ((2, "r"), (k, "q"), (16, "c")))
    total = te.compute((2, count, 6, 1, 16), lambda o, y, v, b, n: te.sum(
        x[r, y * stride + first + q, v, b, c].astype("int32") * w[o, r, q, n, c].astype("int32"), axis=[r, q, c]), name="total")
    out = te.compute((2, count, 6, 1, 16), lambda o, y, v, b, n: (total[o, y, v, b, n] >> 8).astype("int8"), name="out")
    return te.create_prim_func([x, w, out])


@pytest.mark.parametrize(("of", "rows"), [
    ((17, 1, 4, 4, 4), [4, 4]), ((19, 2, 4, 4, 4), [4, 4]),  # in front of the first and behind the last
    ((16, 1, 2, 4, 4), [4, 4]), ((16, 3, 1, 4, 4), [4, 4]),  # all of it is whole strides
    ((16, 3, 2, 4, 3), [3, 4]), ((20, 2, 3, 4, 4), [4, 4]),  # a window that is cut by these begins one
    ((16, 1, 2, 4, 3), [4, 4]),
    ((15, 3, 2, 4, 3), [3, 4]), ((14, 3, 2, 4, 3), []),  # boundary: the last stride ends with the rows, or behind them
])
def test_windows_may_begin_further_in(of: tuple[int, int, int, int, int], rows: list[int]) -> None:
    func, machine = windows(*of), get_target("vta-de10")
    found = Rows().apply(normalised(func, machine), machine)
    assert [copied(other.func, "x") for _, other in found] == [[2, *rows, 6, 1, 16]] * bool(rows)
    if not rows:
        return
    space = Space(func, "vta-de10")
    own = next(k for k, sketch in enumerate(space.sketches) if "rows in use" in sketch.done)
    some = Space(func, "vta-de10", fixed={"sketch": own}).sample(np.random.default_rng(0), 12)
    assert len(some) == 12
    for point in some:
        result = run(space, func, point, execute=True)
        assert result.ok and result.cycles is not None and result.cycles >= space.machine_bound(), space.explain(point)


@pytest.mark.parametrize(("name", "target"), in_turn(PATCHES))
def test_every_point_computes_what_the_program_says(name: str, target: str) -> None:
    space, points = points_of(name, target, 160)
    assert len(points) > 20
    within_bounds(space, name, points, 6)
    tally, least = accepted(task_of(name, target), space, points[:16], 0.2, np.random.default_rng(1))
    assert not tally.faults and tally.drawn == 16 and tally.executed
    assert least >= space.machine_bound()


@pytest.mark.parametrize("name", PATCHES)
def test_a_tile_holds_what_the_model_says(name: str) -> None:
    """The largest load of the data, as lowering makes it, against the model's count of elements."""
    space, points = points_of(name, "vta-de10", 100, 3)
    met = 0
    for point in points:
        sketch, plan = space.meaning(point[None])
        model, parts = sketch.model, [part for part in plan.parts if part.on[0]]
        (data,) = (k for k, operand in enumerate(model.nest.operands) if operand.scope == INP)
        if plan.keep[data][0] or not plan.attach[data][0]:
            continue
        lowered = lower_table(space.schedule(point).func, "vta-de10")
        made = {storage.elements for storage in lowered.storages if storage.scope == INP}
        assert made == {int(model.footprint(plan, part, data)[0]) for part in parts}, space.explain(point)
        met += 1
    assert met > 5


def test_patches_of_an_image_are_at_their_products() -> None:
    """32 x 32 patches of 224 x 224: a window is half of the memory of data, a channel block's weights are all of that of weights.

    With what lies between windows a tile is one of them at a time, so that either data or weights come over and over. Rows in
    use are a few columns of all windows: every result stays in the accumulator, and data and weights come once.
    """
    space, own = forms(WITHOUT)
    tiles = {"tile_y": 7, "tile_x": 7, "tile_ky": 1, "tile_kx": 8}
    some = Space(space.func, "vta-de10", fixed={"sketch": own[0], **tiles})
    points = some.sample(np.random.default_rng(0), 200)
    found = run(some, WITHOUT, points[some.draft(points).argmin()])
    assert found.ok and found.cycles is not None
    assert space.machine_bound() < found.cycles < 1.05 * space.machine_bound()
    other = next(k for k in range(len(space.sketches)) if k not in own)
    assert not len(Space(space.func, "vta-de10", fixed={"sketch": other, **tiles}).sample(np.random.default_rng(0), 5))
