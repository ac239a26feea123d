"""What a space says of its points: figures, forms and points are those recorded, so that only who means to changes one.

Written anew by ``pytest tests/unit/test_space_recorded.py --update-golden -n 0``; that the figures are right is shown elsewhere,
against lowering, the simulator and brute force.
"""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from autosched.workloads import workload
from space import Space
from space.rules.length import instructions

FILE = Path(__file__).resolve().parents[1] / "data" / "space_figures.json.xz"
WORKLOADS = [
    "t1", "t3", "resnet18.c2", "resnet18.c3", "resnet18.c10", "mobilenet.d5", "dcgan.ct3",
    "dense:m=3,k=64,n=96,bias=1", "dense:m=1,k=32,n=48,tail=cast,bias=0", "add:m=3,n=320",
    "conv2d:n=2,h=7,w=6,ci=32,co=48,k=3,stride=2,pad=1,bias=1", "conv2d:h=9,w=11,ci=48,co=64,k=5,pad=2,tail=cast",
    "conv2d:h=11,w=8,ci=48,co=32,k=1,stride=2,tail=cast", "max_pool2d:h=8,w=8,c=16,k=3,stride=2,pad=1",
    "residual:h=4,w=4,c=32",
]
PROGRAMS = [
    "attention_without_softmax", "average_pool_nchw", "bias_then_shift_stages", "complex_product", "conv_chain",
    "conv_projection", "conv_separable", "conv_then_pool", "conv_two_biases", "dense_difference", "dense_leaky_stages",
    "dense_maxout", "dense_shared_data", "dense_sum_of_two", "dense_three_outputs", "fir_decimated", "max_of_three",
    "max_pool_padded", "two_branches", "two_heads",
]
TARGETS = ("vta-de10", "vta-de10-portable", "vta-fsim")
CASES = [f"{name}@{TARGETS[n % 3]}" for n, name in enumerate([*WORKLOADS, *PROGRAMS])]


@functools.cache
def recorded() -> dict[str, Any]:
    with lzma.open(FILE, "rt", encoding="utf-8") as file:
        return json.load(file)


def digest(what: object) -> str:
    data = what.tobytes() if isinstance(what, np.ndarray) else json.dumps(what).encode()
    return hashlib.sha256(data).hexdigest()[:12]


def lengths(space: Space, points: np.ndarray) -> list[int]:
    """The bound on the number of instructions, of all nests together."""
    found = []
    for point in points:
        sketch, own = space.sketches[int(point[0])], point[None][:, space.places(int(point[0]))]
        found.append(sum(int(instructions(model, model.plan(rows))[0]) for model, rows in sketch.split(own)))
    return found


def around(space: Space, points: np.ndarray) -> np.ndarray:
    """Rows in which one column of a point has its first, its middle or its last choice."""
    rows = []
    for point in points:
        form = int(point[0])
        for column, at in zip(space.sketches[form].columns, space.places(form)):
            some = {column.choices[0], column.choices[len(column.choices) // 2], column.choices[-1]}
            for value in some - {int(point[at])}:
                row = point.copy()
                row[at] = value
                rows.append(row)
    return np.stack(rows)


def said(space: Space, points: np.ndarray) -> dict[str, Any]:
    """All that is recorded of some points, and of what is around them."""
    rows = around(space, points)
    fixed, inside = space.repair(rows)
    near = fixed[inside]
    some = near[:: max(1, len(near) // 16)]
    machine = space.machine
    drafts = space.draft(points)
    rng = np.random.default_rng(1)
    return {
        "bred": digest(np.ascontiguousarray(space.mutate(np.repeat(points, 8, axis=0), rng))),
        "drawn": digest(np.ascontiguousarray(np.concatenate([space.sample(rng, 8), space.eager(rng, 32)]))),
        "columns": digest([space.names, [c.tolist() for c in space.choices], [list(s.done) for s in space.sketches]]),
        "machine": space.machine_bound(), "floor": space.floor(),
        "terms": json.dumps([machine.binds, machine.vector, machine.terms]),
        "draft": drafts.tolist(), "bound": space.bound(points).tolist(), "length": lengths(space, points),
        "features": space.features(points, drafts).astype(np.float64).sum(axis=1).tolist(),
        "explain": digest([space.explain(p) for p in points]), "trace": digest([space.trace(p).as_json() for p in points]),
        "tiles": digest(space.same_tiles(points)), "neighbours": digest(np.ascontiguousarray(space.neighbours(points[0]))),
        "inside": digest(inside), "repaired": digest(np.ascontiguousarray(near)), "valid": digest(space.valid(rows)),
        "kinds": digest(space.same_loops(near)), "raw": space.raw(),
        # An estimate of a size that a list would tell soon, too; of a larger space it costs more than all else here.
        "count": space.count(limit=1)[0] if space.raw() < 3e5 else 0,
        "explain around": digest([space.explain(p) for p in some]),
        "trace around": digest([space.trace(p).as_json() for p in some]),
        "drafts around": float(space.draft(near).sum()), "bounds around": int(space.bound(near).sum()),
        "features around": float(space.features(near).astype(np.float64).sum()),
    }


@pytest.mark.parametrize("case", CASES)
def test_a_space_says_of_its_points_what_it_said(case: str, user_programs: ModuleType, request: pytest.FixtureRequest) -> None:
    name, _, target = case.partition("@")
    space = Space(user_programs.program(name) if name in PROGRAMS else workload(name).func, target)
    if request.config.getoption("--update-golden"):
        rng = np.random.default_rng(0)
        points = np.concatenate([space.sample(rng, 4), space.eager(rng, 64)[:4]])
        known = recorded() if FILE.exists() else {}
        known[case] = {"points": points.tolist(), **said(space, points)}
        with lzma.open(FILE, "wt", encoding="utf-8") as file:
            json.dump(known, file)
    known = recorded()[case]
    points = np.array(known["points"], dtype=np.int32)
    assert space.valid(points).all()
    for what, value in said(space, points).items():
        # Sums of floats may be a last digit apart on another machine.
        wanted = known[what] if isinstance(value, str) else pytest.approx(known[what], rel=1e-6)
        assert value == wanted, f"{what} of {case}"
