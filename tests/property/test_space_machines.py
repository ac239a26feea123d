"""Spaces of other machines: smaller memories, other blocks and batches, other semantics; no point fails or is wrong."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.errors import ProgramError
from autosched.lower import lower_table
from autosched.measure import Candidate, measure
from autosched.target import Target, get_target
from autosched.workloads import workload
from space import Space
from space.rules import NUMERIC, STRUCTURAL

MACHINES: dict[str, dict[str, Any]] = {
    "small": {"LOG_UOP_BUFF_SIZE": 12, "LOG_INP_BUFF_SIZE": 12, "LOG_WGT_BUFF_SIZE": 15, "LOG_ACC_BUFF_SIZE": 14},
    "tiny": {
        "LOG_UOP_BUFF_SIZE": 9, "LOG_INP_BUFF_SIZE": 10, "LOG_WGT_BUFF_SIZE": 12, "LOG_ACC_BUFF_SIZE": 12, "semantics": "fsim",
    },
    "few-uops": {"uop_depth": 32, "semantics": "portable"},
    "short-queues": {"queue_depth": 8, "semantics": "portable"},
    "block32": {"LOG_BLOCK": 5},
    "block8": {
        "LOG_BLOCK": 3, "LOG_INP_BUFF_SIZE": 14, "LOG_WGT_BUFF_SIZE": 16, "LOG_ACC_BUFF_SIZE": 16, "semantics": "portable",
    },
    "batch2": {"LOG_BATCH": 1, "semantics": "fsim"},
    "little-inp": {"LOG_INP_BUFF_SIZE": 12},
}
WORKLOADS = (
    "add:m=3,n=320",
    "dense:m=4,k=64,n=96,bias=1",
    "conv2d:h=11,w=8,ci=48,co=32,k=1,stride=2,tail=cast",
    "conv2d:n=2,h=7,w=6,ci=32,co=48,k=3,stride=2,pad=1,bias=1",
)


def machine(name: str, folder: Path) -> Target:
    """A target as a user describes it."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(MACHINES[name]))
    return get_target(path)


@pytest.mark.parametrize("name", MACHINES)
def test_every_point_of_every_machine_computes_the_reference(name: str, tmp_path: Path) -> None:
    target = machine(name, tmp_path)
    rng = np.random.default_rng(0)
    for text in WORKLOADS:
        if "add" in text and target.config.batch > 1:
            continue
        task = workload(text, target.config.batch, target.config.block_in)
        space = Space(task.func, target)
        for point in space.sample(rng, 2):
            result = measure(Candidate(task, target, tuple(space.trace(point).as_json())), execute=True)
            assert result.ok, (text, space.explain(point), result)
            assert result.cycles is not None and result.cycles >= space.bound(point[None])[0], (text, space.explain(point))


@pytest.mark.parametrize("text", WORKLOADS)
def test_the_model_knows_how_much_memory_a_schedule_takes(text: str, tmp_path: Path) -> None:
    """Exactly what lowering allocates; of elementwise programs, no less (a result may take an operand's place)."""
    target = machine("small", tmp_path)
    task = workload(text)
    uncut = [rule for rule in (*STRUCTURAL, *NUMERIC) if rule.name not in ("cuts", "residency")]  # parts share memory
    space = Space(task.func, target, uncut)
    for point in space.sample(np.random.default_rng(1), 12):
        sketch, plan = space.meaning(point[None])
        nest, model = sketch.model.nest, sketch.model
        expected: Counter[str] = Counter()
        expected["local.acc_buffer"] = int(model.init_elements(plan, plan.body)[0]) * (1 + int(plan.acc_banks[0]))
        for k, operand in enumerate(nest.operands):
            expected[operand.scope] += int(model.footprint(plan, plan.body, k)[0]) * (1 + int(plan.banks[k][0]))
        found: Counter[str] = Counter()
        for storage in lower_table(space.schedule(point).func, target).storages:
            found[storage.scope] += storage.elements * storage.copies
        if nest.anchor is None:
            assert found.total() <= target.config.acc_depth, space.explain(point)
        else:
            assert found == expected, space.explain(point)


def test_a_strided_load_outside_all_loops_counts_the_whole_tensor(tmp_path: Path) -> None:
    """A column that no output reads is copied too: 3 x 11 x 8 elements do not fit 256, though 3 x 11 x 7 would."""
    func = workload(WORKLOADS[2]).func
    large, small = Space(func, "vta-de10"), Space(func, machine("small", tmp_path))
    decisions = {"tile_co": 2, "tile_y": 2, "tile_x": 1, "tile_ci": 1, "order": 3, "load_kernel": 5}
    point = large.point(**decisions)
    sketch, plan = large.meaning(point[None])
    assert sketch.model.footprint(plan, plan.body, 0)[0] == 3 * 11 * 8
    with pytest.raises(ProgramError, match="not in the space"):
        small.point(**decisions)
    assert small.valid(small.point(**decisions, load_data=2)[None])[0]


def test_windows_wider_than_the_image_take_it_whole(tmp_path: Path) -> None:
    """A kernel of 5 over rows of 4: each output needs all of a row, wherever it stands."""
    target = machine("tiny", tmp_path)
    text = "conv2d:h=9,w=4,ci=32,co=16,k=5,pad=1,tail=cast"
    space = Space(workload(text).func, target)
    for point in space.sample(np.random.default_rng(0), 16):
        result = measure(Candidate(text, target, tuple(space.trace(point).as_json())), execute=True)
        assert result.ok, (space.explain(point), result)


@pytest.mark.parametrize("name", ["tiny", "small"])
def test_loads_that_a_border_leaves_out_keep_their_buffer_small(name: str, tmp_path: Path) -> None:
    """A 1x1 kernel over padding: some tiles load nothing, and ``2 * x - 1 >= 0`` is written ``x >= 1``."""
    target = machine(name, tmp_path)
    text = "conv2d:h=9,w=8,ci=48,co=16,k=1,stride=2,pad=1,tail=cast"
    space = Space(workload(text).func, target)
    points = space.sample(np.random.default_rng(0), 200)
    left_out = points[points[:, space.names.index("drop_zeros")] == 1][:6]
    assert len(left_out) > 5
    for point in left_out:
        result = measure(Candidate(text, target, tuple(space.trace(point).as_json())), execute=True)
        assert result.ok, (space.explain(point), result)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"LOG_BATCH": 1, "semantics": "portable"}, "one row of a batch"),
        ({"LOG_BATCH": 1}, "the Chisel ALU has one row"),
        ({"LOG_BLOCK": 5, "semantics": "portable"}, "field positions follow the buffer sizes"),
        ({"LOG_UOP_BUFF_SIZE": 9, "uop_depth": 2048}, "exceeds the 128"),
    ],
)
def test_machines_that_cannot_be_are_refused(description: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(description))
    with pytest.raises(ProgramError, match=message):
        get_target(path)


@pytest.mark.parametrize(("size", "held"), [(9, 128), (12, 1024), (13, 2048), (14, 2048), (15, 2048)])
def test_a_plain_configuration_file_holds_what_its_buffer_holds(size: int, held: int, tmp_path: Path) -> None:
    path = tmp_path / "vta_config.json"
    path.write_text(json.dumps({"LOG_UOP_BUFF_SIZE": size}))
    assert get_target(path).config.uop_capacity == held
