"""What a space says of the memories is what lowering finds: at the limit, accepted points are placed and refused ones are not."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from spaces import computes

from autosched import te
from autosched.errors import LoweringError
from autosched.ir.scopes import ACC, INP, SRAM_SCOPES
from autosched.lower import lower_table
from autosched.lower.capacity import Held, needed
from autosched.target import Target, get_target
from autosched.workloads import workload
from space import Space
from space.inverse import Point
from space.rule import Points

SMALL = {"LOG_INP_BUFF_SIZE": 10, "LOG_WGT_BUFF_SIZE": 13, "LOG_ACC_BUFF_SIZE": 12, "name": "vta-small"}  # 64, 32 and 64 elements
NEAR = 1.34  # of a memory
SUMS = (
    "dense:m=6,k=96,n=128,bias=1", "conv2d:h=9,w=7,ci=32,co=32,k=3,pad=1,bias=1", "max_pool2d:h=12,w=10,c=32,k=3,stride=2,pad=1",
    "avg_pool2d:h=6,w=6,c=32,k=6", "residual:h=6,w=6,c=48",
)
STAGES = ("add:m=12,n=160", "add:m=3,n=320")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """A machine on which little is a lot."""
    path: Path = tmp_path_factory.mktemp("machine") / "small.json"
    path.write_text(json.dumps(SMALL))
    return get_target(path)


def totals(space: Space, points: Points) -> dict[str, npt.NDArray[np.int64]]:
    """Elements of each memory that the buffers of points take together, as the space has it; shape (n,)."""
    found = {scope: np.zeros(len(points), dtype=np.int64) for scope in SRAM_SCOPES}
    for k, sketch in enumerate(space.sketches):
        at = np.flatnonzero(points[:, 0] == k)
        for model, own in sketch.split(np.ascontiguousarray(points[at][:, space.places(k)])):
            for held in model.held(model.plan(own)):
                found[held.scope][at] += held.size * held.copies
    return found


def has_one_turn(space: Space, point: Point) -> bool:
    """Whether a part has one tile only, while others have copies to be used in turn."""
    sketch = space.sketches[int(point[0])]
    for model, own in sketch.split(np.ascontiguousarray(point[None, space.places(int(point[0]))])):
        plan = model.plan(own)
        if any(plan.acc_banks[0] and model.tiles_run(plan, part)[0] == 1 for part in plan.parts):
            return True
    return False


@pytest.mark.parametrize(("name", "target"), [
    *((name, "vta-de10") for name in (*SUMS, *STAGES)),
    ("dense_two_outputs", "vta-de10"),  # of one sum
    ("dense_sum_of_two", "vta-de10"), ("dense_chain", "vta-de10"),  # of two, and of one after the other
    ("conv2d:h=9,w=7,ci=32,co=32,k=1,bias=1", "vta-de10-portable"),  # what the sum starts with is made at its side
])
def test_buffers_take_what_lowering_gives_them(name: str, target: str, user_programs: ModuleType) -> None:
    """But where padding is left out at the border of a tile, and where lowering lets a stage have an operand's place.

    Where there is room, what is made of something stored has a place of its own, which nobody counts on.
    """
    func = user_programs.program(name) if name in user_programs.names() else workload(name).func
    space = Space(func, target)
    every = space.sample(np.random.default_rng(0), 300)
    most, shown = totals(space, every), [space.explain(p) for p in every]
    # One of each kind: copies, parts, what stays, slices, a value that sums start with at every place.
    words = ("cut", "keep", "store by", "x2 ", "init by", "@co")
    kinds = [[n for n, said in enumerate(shown) if word in said][:1] for word in words]
    kinds.append([n for n, point in enumerate(every) if has_one_turn(space, point)][:1])
    for n in sorted({n for kind in kinds for n in kind}):
        storages = lower_table(space.schedule(every[n]).func, target).storages
        for scope in SRAM_SCOPES:
            given = sum(s.elements * s.copies for s in storages if s.scope == scope)
            less = "no zeros" in shown[n] or "differences" in shown[n] if scope == INP else scope == ACC and name in STAGES
            more = scope == ACC and name == "dense_two_outputs" and most[scope][n] < given <= 2 * most[scope][n]
            assert more or given == most[scope][n] or (less and given < most[scope][n]), (scope, given, most[scope][n], shown[n])


@pytest.mark.parametrize("name", (*SUMS, *STAGES))
def test_points_fit_and_what_is_too_large_does_not(name: str, small: Target) -> None:
    """Of nests without a sum only the former.

    Where lowering finds a place for banks that are filled in turn all the same, they take more than the memory: a space does not
    count on that.
    """
    space = Space(workload(name).func, small)
    rows = space.repair(space.draws(np.random.default_rng(0), 3000))[0]
    rows = np.unique(rows[(space.repair(rows)[0] == rows).all(axis=1)], axis=0)
    rows = rows[np.random.default_rng(2).permutation(len(rows))]
    inside = space.valid(rows)
    for point in rows[inside][:3]:
        lower_table(space.schedule(point).func, small)
    if name in STAGES:
        return
    refused = shared = 0
    for row in rows[~inside & (space.nests[rows[:, 0]] == 1)]:
        own = row[None, space.places(int(row[0]))]
        model = space.sketches[int(row[0])].model
        plan = model.plan(own)
        share = max(int(np.max(needed([h for h in model.held(plan) if h.scope == s]))) / small.capacity(s) for s in SRAM_SCOPES)
        if 1 < share < NEAR and all(rule.allows(model, own, plan)[0] for rule in model.rules):
            try:
                given = lower_table(space.schedule(row).func, small).storages
                assert any(sum(s.elements * s.copies for s in given if s.scope == x) > small.capacity(x) for x in SRAM_SCOPES)
                shared += 1
            except LoweringError as error:
                assert error.code == "capacity", space.explain(row)
                refused += 1
        if refused == 4 or shared == 8:
            return
    raise AssertionError("nothing was refused")


def test_a_memory_holds_what_its_fullest_moment_does() -> None:
    """Brute force over moments, for several programs at once and for one."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        held = []
        for _ in range(int(rng.integers(6))):
            first = int(rng.integers(5))
            held.append(Held("", rng.integers(9, size=3), rng.integers(1, 4, size=3), first, first + int(rng.integers(5))))
        most = [
            max(sum(int(h.size[n] * h.copies[n]) for h in held if h.first <= at <= h.last) for at in range(10)) for n in range(3)
        ]
        assert np.broadcast_to(needed(held), 3).tolist() == most
        each = [[Held("", int(h.size[n]), int(h.copies[n]), h.first, h.last) for h in held] for n in range(3)]
        assert [needed(one) for one in each] == most


@pytest.mark.parametrize(("rows", "fit"), [(21, True), (23, False)])
def test_what_nests_load_outside_of_their_loops_is_there_before_all_of_them(rows: int, fit: bool) -> None:
    """Two nests that each hold all of the data: 2 x 882 elements of 2 048, or 2 x 1 058."""
    space = Space(workload(f"max_pool2d:h={rows},w={rows},c=32,k=3,stride=2,pad=0").func, "vta-de10")
    drawn = space.draws(np.random.default_rng(0), 6000)
    drawn = drawn[drawn[:, 0] == 0]
    names = space.sketches[0].names
    both = [space.places(0)[names.index(f"{nest}.load_data")] for nest in ("pool_part", "out")]
    drawn[:, both] = 0
    found, inside = space.repair(drawn)
    found = np.unique(found[inside & (found[:, both] == 0).all(axis=1)], axis=0)
    assert bool(len(found)) is fit
    for point in found[:: max(1, len(found) // 4)]:
        assert len(lower_table(space.schedule(point).func, space.target).table)


def _mean(factor: int) -> Any:
    """An average of 3 x 3 by a factor and a shift, as integer networks have it."""
    x = te.placeholder((1, 32, 14, 14), "int8", name="x")
    ry, rx = te.reduce_axis((0, 3), name="ry"), te.reduce_axis((0, 3), name="rx")
    total = te.compute((1, 32, 12, 12), lambda n, c, i, j: te.sum(x[n, c, i + ry, j + rx].astype("int32"), axis=[ry, rx]))
    out = te.compute((1, 32, 12, 12), lambda n, c, i, j: ((total[n, c, i, j] * factor) >> 9).astype("int8"), name="out")
    return te.create_prim_func([x, out])


def _row_bias() -> Any:
    """Rows that begin with an addend of the column: it is loaded, and what is widened is added where it stands."""
    a = te.placeholder((1, 32, 12, 12), "int8", name="a")
    m = te.placeholder((12,), "int32", name="m")

    def clipped(n: Any, c: Any, i: Any, j: Any) -> Any:
        return te.max(te.min(((a[n, c, i, j].astype("int32") << 4) + m[j]) >> 4, 127), -128).astype("int8")

    return te.create_prim_func([a, m, te.compute((1, 32, 12, 12), clipped, name="out")])


def _two_joins() -> Any:
    """A sum that is compared with one int8 addend and then another, which stand in the accumulator together."""
    a, w = te.placeholder((12, 32), "int8", name="a"), te.placeholder((64, 32), "int8", name="w")
    given, k = [te.placeholder((12, 64), "int8", name=name) for name in ("p", "q")], te.reduce_axis((0, 32), name="k")
    value = te.compute((12, 64), lambda i, j: te.sum(a[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name="s")
    p, q = given
    one = te.compute((12, 64), lambda i, j: te.max(value[i, j], p[i, j].astype("int32")), name="one")
    both = te.compute((12, 64), lambda i, j: te.max(one[i, j], q[i, j].astype("int32")), name="both")
    narrow = te.compute((12, 64), lambda i, j: te.max(te.min(both[i, j] >> 5, 127), -128).astype("int8"), name="out")
    return te.create_prim_func([a, w, p, q, narrow])


def _shifted() -> Any:
    """A sum to which the same shifted element is added in several places: none of them is where the addend was."""
    a, w = te.placeholder((12, 32), "int8", name="a"), te.placeholder((64, 32), "int8", name="w")
    b, k = te.placeholder((12,), "int32", name="b"), te.reduce_axis((0, 32), name="k")
    s = te.compute((12, 64), lambda i, j: te.sum(a[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name="s")
    t = te.compute((12, 64), lambda i, j: s[i, j] + (b[i] << 3), name="t")
    narrow = te.compute((12, 64), lambda i, j: te.max(te.min(t[i, j] >> 5, 127), -128).astype("int8"), name="out")
    return te.create_prim_func([a, w, b, narrow])


@pytest.mark.parametrize("func", [_mean(300), _mean(129), _row_bias(), _two_joins(), _shifted()],
                         ids=["read four times", "read twice", "row bias", "two joins", "shifted"])
def test_a_place_taken_over_and_places_made_aside_are_counted(func: Any, small: Target) -> None:
    """A sum that stands where its addend was has that one's size in all of its copies; a value that reads its operand often
    has a place of its own, and none for each time."""
    space = Space(func, small)
    points = space.sample(np.random.default_rng(0), 1600)
    cuts = [n for n, name in enumerate(space.names) if name in ("head", "cut")]
    points = points[(points[:, cuts] == 0).all(axis=1)]  # parts take the same memory in turn
    held = totals(space, points)[ACC]
    near = points[np.argsort(-held, kind="stable")[:60]]
    assert len(near) == 60 and held.max() > 56  # of 64
    for point in near:
        lowered = lower_table(space.schedule(point).func, small)
        given = sum(s.elements * s.copies for s in lowered.storages if s.scope == ACC)
        assert given <= 64
    computes(func, "vta-de10")
