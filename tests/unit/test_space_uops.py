"""Micro-ops in the estimate where those on one accumulator must be apart: counted as lowering makes them, and what they cost."""

from __future__ import annotations

import numpy as np
import pytest
from decided import off, settled

from autosched.lower.program import lower_table
from autosched.workloads import workload
from sim import isa
from space import Space
from space.draft import uops

WHOLE = {"drop_zeros": 1, "tile_y": 4, "tile_x": 4, "tile_s": 2, "load_kernel": 7, "banks_kernel": 2}
PHASES = WHOLE | {"tile_r": 2, "tile_ky": 2, "tile_kx": 2}


@pytest.mark.parametrize(("ci", "decisions", "few", "near"), [
    # Rows and columns are an instruction's loops for all taps and phases of a tile, for those too that no border cuts. Lists take
    # turns in the memory, and weights wait while they are read.
    (512, PHASES | {"tile_co": 4, "tile_ci": 8}, 8, 0.004),
    # As many as there is room for, but for that of the stages: all are loaded again. A few less are loaded once.
    (1024, PHASES | {"tile_co": 2, "tile_ci": 16}, 8, 0.02), (960, PHASES | {"tile_co": 2, "tile_ci": 15}, 8, 0.02),
    # Phases are instructions of their own where a border cuts, and keep no accumulators apart.
    (512, PHASES | {"tile_co": 1, "tile_ci": 16}, 8, 0.02),
    # Of a row's phase half of the taps meet a border.
    (1024, WHOLE | {"tile_co": 4, "tile_r": 1, "tile_ci": 64, "tile_ky": 1, "tile_kx": 1, "load_kernel": 9}, 130, 0.015),
])
def test_micro_ops_of_phases_are_counted_as_lowering_makes_them(
    ci: int, decisions: dict[str, int], few: int, near: float
) -> None:
    name = f"conv2d_transpose:h=4,w=4,ci={ci},co=128,k=4,stride=2,pad=1"
    space = Space(workload(name).func, "vta-de10-portable")
    point = settled(space, **decisions)
    table = lower_table(space.schedule(point).func, space.target).table
    loads = table[(table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_UOP)]
    model, plan = space.sketches[0].model, space.meaning(point[None])[1]
    counted, loaded = uops(model, plan, plan.stack)[0], loads[:, isa.X_SIZE].sum()
    assert np.abs(counted.sum() - loaded) <= few, space.explain(point)
    assert np.abs(off(space, name, point[None])[0]) < near


@pytest.mark.parametrize(("size", "ends"), [(28, [True, False]), (27, [True, True])])
def test_a_stride_may_end_before_the_padding(size: int, ends: list[bool]) -> None:
    """Tiles at such an end are as all others: two instructions, not nine as where rows read padding, too."""
    name = f"conv2d:h={size},w=28,ci=32,co=32,k=3,stride=2,pad=1,groups=2,bias=0"
    space = Space(workload(name).func, "vta-de10-portable")
    point = settled(space, drop_zeros=1, tile_g=1, tile_y=7, load_data=3)
    model, plan = space.sketches[0].model, space.meaning(point[None])[1]
    (part,) = [p for p in plan.parts if p.on[0]]
    assert model.padding.ends_meet.tolist() == [ends, [True, False]]
    table = lower_table(space.schedule(point).func, space.target).table
    made = int(((table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] == 0)).sum())
    visits = int(part.outer[0].prod())
    assert abs(visits * uops(model, plan, part)[1][0] / made - 1) < 0.08


GROUPS = "conv2d:h=28,w=28,ci=128,co=128,k=3,stride=2,pad=1,groups=8,bias=0"
VALID = "conv2d:h=16,w=16,ci=32,co=64,k=3,bias=0,tail=cast"
SINGLE = "conv2d:h=14,w=14,ci=32,co=32,k=1,bias=0,tail=cast"
DENSE = "dense:m=14,k=128,n=160,bias=0"


@pytest.mark.parametrize(("name", "tiles", "early"), [
    (GROUPS, {"g": 2, "y": 7}, False), (GROUPS, {"g": 2, "y": 4}, True),
    (GROUPS, {"g": 4, "y": 4}, False),  # four accumulators are far enough apart
    (GROUPS, {"g": 3, "y": 7}, True),  # the last two are not
    (GROUPS, {"g": 1, "y": 4, "x": 5}, True),
    (VALID, {"co": 2, "y": 7, "x": 7}, False), (VALID, {"co": 1, "y": 5, "x": 14}, False),
    (VALID, {"co": 2, "y": 5, "x": 5}, True),
    # What it reads lies densely, in rows of their own length: its loops end by no condition.
    (SINGLE, {"x": 5, "y": 7, "co": 1}, False), (SINGLE, {"x": 5, "y": 1, "co": 1}, False),
    (DENSE, {"m": 7, "n": 2}, False), (DENSE, {"m": 5, "n": 2}, True), (DENSE, {"m": 5, "n": 5}, False),
])
def test_a_loop_that_ends_early_is_an_instructions_own(
    name: str, tiles: dict[str, int], early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the last tile, where it is smaller: what keeps accumulators apart besides may be too little."""
    space = Space(workload(name).func, "vta-de10-portable")
    decisions = {**{f"tile_{axis}": size for axis, size in tiles.items()}, **({"drop_zeros": 1} if name == GROUPS else {})}
    loads = {column: 3 for column in space.names if column in ("load_data", "load_kernel", "load_weight")}
    point = settled(space, **decisions, **loads)
    assert {column: int(point[space.names.index(column)]) for column in decisions} == decisions
    model, plan = space.sketches[0].model, space.meaning(point[None])[1]
    (part,) = [p for p in plan.parts if p.on[0]]
    table = lower_table(space.schedule(point).func, space.target).table
    made = int(((table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] == 0)).sum())
    visits = int(part.outer[0].prod())
    assert round(visits * uops(model, plan, part)[1][0]) == made
    monkeypatch.setattr("space.draft._conditional", lambda model, plan, part: np.zeros_like(part.outer.T[None]))
    assert (round(visits * uops(model, plan, part)[1][0]) < made) == early, "as if no condition ended any"
