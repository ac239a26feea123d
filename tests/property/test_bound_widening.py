"""Where loads widen: programs that bring int8 elements into the accumulator by loads alone, run, are not below the bound.

They are written by hand, since no schedule of the space does so: on a narrow bus such a load takes as long as a reset and a
product, on a wide one it is sooner.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.ir import PrimFunc
from autosched.kernel import of_schedule, resolve
from autosched.lower import lower_table
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import Target, get_target
from autosched.workloads import workload
from sim import isa
from sim.timing import PIPELINE_CYCLES as PIPELINE
from space import Space
from space.least_loads import widened_in

VECTORS, TILES = 1024, 8
Step = Callable[[str, str], str]
# By name: how many tensors, and what is done to x and y that come of them, an operation a step.
PROGRAMS: dict[str, tuple[int, tuple[Step, ...]]] = {
    "copied": (1, ()),
    "clipped": (1, (lambda x, y: f"T.max({x}, -3)", lambda x, y: f"T.min({x}, 4)")),
    "halved": (1, (lambda x, y: f"({x}) + 1", lambda x, y: f"T.shift_right({x}, 1)")),
    "sum": (2, (lambda x, y: f"{x} + {y}", lambda x, y: f"T.max({x}, 0)", lambda x, y: f"T.min({x}, 127)")),
    "largest": (2, (lambda x, y: f"T.max({x}, {y})",)),
}
# By name: keys of the machine, and cycles of a vector in a long load that widens, rounded down.
MACHINES: dict[str, tuple[dict[str, Any], int]] = {
    "8 bytes": ({}, 2), "16 bytes": ({"bus_bytes": 16}, 1), "32 bytes": ({"bus_bytes": 32}, 0),
    "64 bytes": ({"bus_bytes": 64}, 0), "batch 2": ({"LOG_BATCH": 1}, 4),
    "batch 2, 16 bytes": ({"LOG_BATCH": 1, "bus_bytes": 16}, 2), "batch 2, 32 bytes": ({"LOG_BATCH": 1, "bus_bytes": 32}, 1),
}
BOTH = pytest.mark.parametrize("name", PROGRAMS)


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(MACHINES[request.param][0] | {"semantics": "fsim"}))
    target = get_target(path)
    assert widened_in(target) == MACHINES[request.param][1]
    return target


def program(count: int, batch: int, body: str) -> PrimFunc:
    shape = f"({VECTORS}, {batch}, 16)"
    given = ", ".join(f'{t}: T.Buffer({shape}, "int8")' for t in "uv"[:count])
    head = f'@T.prim_func\ndef main({given}, out: T.Buffer({shape}, "int8")):\n'
    func = parse(f"from autosched.script import T\n{head}{body}")
    assert isinstance(func, PrimFunc)
    return func


def block(name: str, loops: str, batch: int, at: str, to: str, value: str) -> str:
    return f"""
        for i0, b0, l0 in T.grid({loops}, {batch}, 16):
            with T.block("{name}"):
                i = T.axis.spatial({VECTORS}, {at})
                b, l = T.axis.remap("SS", [b0, l0])
                {to}[i, b, l] = {value}
"""


def wide(tensor: str) -> str:
    return f'T.cast({tensor}[i, b, l], "int32")'


def written(name: str, batch: int) -> PrimFunc:
    """The program as a user writes it: all in one block."""
    count, steps = PROGRAMS[name]
    value = wide("u")
    for step in steps:
        value = step(value, wide("v"))
    body = block("out", str(VECTORS), batch, "i0", "out", f'T.cast({value}, "int8")')
    return program(count, batch, f"    for t in range(1):{body}")


def by_loads(name: str, batch: int) -> Schedule:
    """The same with loads to the accumulator, of two banks, a tile at a time."""
    count, steps = PROGRAMS[name]
    tile = VECTORS // TILES
    blocks = [(f"load_{t}", f"s{t}", wide(t)) for t in "uv"[:count]]
    blocks += [(f"step_{n}", "su", step("su[i, b, l]", "sv[i, b, l]")) for n, step in enumerate(steps)]
    blocks.append(("store", "out", 'T.cast(su[i, b, l], "int8")'))
    held = [f'    s{t} = T.alloc_buffer(({VECTORS}, {batch}, 16), "int32", scope="local.acc_buffer")\n' for t in "uv"[:count]]
    made = "".join(block(n, str(tile), batch, f"t * {tile} + i0", to, value) for n, to, value in blocks)
    sch = Schedule(program(count, batch, f"{''.join(held)}    for t in range({TILES}):{made}"))
    for t in "uv"[:count]:
        sch.double_buffer(sch.get_sblock(f"load_{t}"), 0)
    return sch


@BOTH
def test_loads_alone_do_not_beat_the_bound(name: str, machine: Target) -> None:
    user = written(name, machine.config.batch)
    sch = by_loads(name, machine.config.batch)
    made = of_schedule(sch.func, machine, sch)
    task = resolve(user, machine)
    inputs = task.inputs(0)
    np.testing.assert_array_equal(next(iter(task.results(*inputs).values())), made(*inputs))
    table = lower_table(sch.func, machine).table
    assert (table[:, isa.MEM] == isa.MEM_ACC_8BIT).sum() == TILES * PROGRAMS[name][0]
    assert not (table[:, isa.OPCODE] == isa.OP_GEMM).any()
    assert Space(user, machine).machine.cycles <= made.cycles


@BOTH
def test_an_element_costs_a_product_and_a_result_a_write_where_a_load_is_no_sooner(name: str, machine: Target) -> None:
    count = PROGRAMS[name][0]
    terms = Space(written(name, machine.config.batch), machine).machine.terms
    sooner = widened_in(machine) < 2
    brought = 0 if sooner else VECTORS * count
    written_first = 0 if sooner else VECTORS
    # An addition of a constant, and of what a product brings in, is none of the ALU's operations.
    operations = {"clipped": 2, "halved": 1, "sum": 2}.get(name, 0)
    found = terms["products"] + terms["initial"] + terms["stages"]
    instructions = PIPELINE * (operations + (name == "sum" and not sooner))
    assert found == brought + written_first + operations * VECTORS + instructions
    assert terms["load chain"] == 0  # all of it may be COMPUTE's
    assert bool(terms["uops"]) == bool(operations)


def summed(batch: int, begin: str, end: str) -> PrimFunc:
    """A product for each result, and a tensor of int8 that is added to it, at its begin or its end."""
    shape = f"({VECTORS}, {batch}, 16)"
    given = ", ".join(f'{t}: T.Buffer({shape}, "int8")' for t in "xz")
    func = parse(f"""
from autosched.script import T
@T.prim_func
def main({given}, w: T.Buffer((16, 16), "int8"), out: T.Buffer({shape}, "int8")):
    c = T.alloc_buffer({shape}, "int32")
    for i0, b0, l0, k0 in T.grid({VECTORS}, {batch}, 16, 16):
        with T.block("c"):
            i, b, l, k = T.axis.remap("SSSR", [i0, b0, l0, k0])
            with T.init():
                c[i, b, l] = {begin}
            c[i, b, l] = c[i, b, l] + {wide("x").replace("l]", "k]")} * T.cast(w[l, k], "int32")
    for i0, b0, l0 in T.grid({VECTORS}, {batch}, 16):
        with T.block("out"):
            i, b, l = T.axis.remap("SSS", [i0, b0, l0])
            out[i, b, l] = T.cast({end}, "int8")
""")
    assert isinstance(func, PrimFunc)
    return func


def test_sums_that_begin_with_what_is_loaded_do_not_beat_the_bound(machine: Target) -> None:
    """Of what a load brings in sooner than a reset writes zeros neither counts."""
    batch = machine.config.batch
    user = summed(batch, "0", f"c[i, b, l] + {wide('z')}")
    sch = Schedule(summed(batch, wide("z"), "c[i, b, l]"))
    c = sch.get_sblock("c")
    sch.set_scope(c, 0, "local.acc_buffer")
    x, _ = sch.cache_read(c, "x", "local.inp_buffer"), sch.cache_read(c, "w", "local.wgt_buffer")
    i, b, _, _ = sch.get_loops(c)
    tile, each = sch.split(i, [TILES, None])
    start = sch.decompose_reduction(c, each)
    sch.compute_at(x, tile)
    sch.reverse_compute_at(sch.get_sblock("out"), tile)
    sch.double_buffer(x, 0)
    sch.double_buffer(start, 0)
    sch.tensorize(b, machine.gemm_intrin)
    made = of_schedule(sch.func, machine, sch)
    task = resolve(user, machine)
    inputs = task.inputs(0)
    np.testing.assert_array_equal(next(iter(task.results(*inputs).values())), made(*inputs))
    table = lower_table(sch.func, machine).table
    assert (table[:, isa.MEM] == isa.MEM_ACC_8BIT).sum() == TILES
    found = Space(user, machine).machine
    assert found.cycles <= made.cycles
    assert found.terms["products"] == VECTORS
    assert found.terms["initial"] // VECTORS == min(1, widened_in(machine))


@BOTH
def test_schedules_of_the_space_stay_above_the_bound(name: str, machine: Target) -> None:
    space = Space(written(name, machine.config.batch), machine)
    cycles = [lower_table(space.schedule(p).func, machine).cycles() for p in space.sample(np.random.default_rng(0), 6)]
    assert space.machine_bound() <= min(cycles)


@pytest.mark.parametrize("text", [
    "residual:h=6,w=6,c=32", "avg_pool2d:h=4,w=4,c=64,k=4", "max_pool2d:h=9,w=9,c=16,k=3,stride=2,pad=1",
])
def test_named_programs_cost_what_they_cost_elsewhere(text: str) -> None:
    """The bound of a machine that widens while it loads, as slowly as it resets and multiplies, is that of one that does not."""
    func = workload(text).func
    loads, other = (Space(func, t).machine.terms for t in ("vta-fsim", "vta-de10-portable"))
    if "max" in text:  # of products and comparisons those count that an ALU which multiplies cannot do without
        used, apart = 81, 1
        assert loads["products"] == used + used - apart < other["products"]
        return
    assert loads["products"] == other["products"] > 0
    assert loads["stages"] == other["stages"]
    assert loads["initial"] == other["initial"] - PIPELINE > 0  # a load is one instruction, where they are two
