"""Where a compute no-op stands that a load behind a store waits for: what the machine does with it on every other spot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from autosched import kernel, te
from autosched.ir import PrimFunc
from autosched.ir.expr import int_value
from autosched.ir.interp import run
from autosched.lower import Lowered, lower_table, tokens
from autosched.target import get_target
from sim import isa
from sim.semantics import execute
from space import Space

TARGET = get_target("vta-de10")


def layer(data: Any, weight: Any, bias: Any, name: str, stride: int) -> Any:
    """A 3x3 convolution without padding, with bias and clip."""
    _, _, h, w, _, _ = data.shape
    co = weight.shape[0]
    shape = (1, co, (h - 3) // stride + 1, (w - 3) // stride + 1, 1, 16)
    axes = [te.reduce_axis((0, n), name=f"{name}_{k}") for k, n in (("ci", weight.shape[1]), ("y", 3), ("x", 3), ("b", 16))]
    ci, ky, kx, b = axes
    total = te.compute(shape, lambda n, o, y, x, nb, cb: te.sum(
        data[n, ci, y * stride + ky, x * stride + kx, nb, b].astype("int32") * weight[o, ci, ky, kx, cb, b].astype("int32"),
        axis=axes), name=f"{name}_sum")
    made = te.compute(shape, lambda n, o, y, x, nb, cb: te.min(te.max(
        (total[n, o, y, x, nb, cb] + bias[0, o, 0, 0, 0, cb]) >> 6, te.const(-128, "int32")), te.const(127, "int32")),
        name=f"{name}_scaled")
    return te.compute(shape, lambda *i: made[i].astype("int8"), name=name)


def chain(height: int, channels: Sequence[int], stride: int) -> PrimFunc:
    """Layers, each of which reads what the one before stores."""
    data = te.placeholder((1, channels[0], height, height, 1, 16), "int8", name="data")
    tensor, args = data, [data]
    for k, (ci, co) in enumerate(pairwise(channels)):
        weight = te.placeholder((co, ci, 3, 3, 16, 16), "int8", name=f"w{k}")
        bias = te.placeholder((1, co, 1, 1, 1, 16), "int32", name=f"b{k}")
        tensor = layer(tensor, weight, bias, f"l{k}", stride)
        args += [weight, bias]
    return te.create_prim_func([*args, tensor])


CHAINS = {
    "small": (10, (1, 1, 1), 1), "wide": (30, (1, 2, 1), 1), "strided": (31, (1, 2, 4), 2), "deep": (12, (4, 4, 4), 1),
    "three": (14, (2, 1, 2, 1), 1),
}


@lru_cache
def schedules(name: str) -> tuple[PrimFunc, ...]:
    """A chain by 25 schedules, from what the estimate likes best of some to what it likes less."""
    space = Space(chain(*CHAINS[name]), TARGET)
    points = space.sample(np.random.default_rng(1), 256)
    chosen = points[np.argsort(space.draft(points), kind="stable")][:200:8]
    return tuple(kernel.scheduled(space.func, space.trace(p).as_json(), "fast", check=False) for p in chosen)


def lowered(
    func: PrimFunc, monkeypatch: pytest.MonkeyPatch, chosen: Sequence[int] | None
) -> tuple[Lowered, tuple[tuple[int, int], ...]]:
    """A program, and (spots, the one that was taken) of every no-op.

    Args:
        func: a schedule.
        monkeypatch: by which spots are taken.
        chosen: which spot each no-op takes; None for what lowering takes.
    """
    found: list[tuple[int, int]] = []
    own = tokens._spot

    def spot(table: isa.Table, engine: Any, taken: Any, store: int, load: int) -> int:
        spots = [i for i in range(store + 1, load) if engine[i] == isa.QUEUE_COMPUTE] + [load]
        at = own(table, engine, taken, store, load) if chosen is None else spots[chosen[len(found)]]
        found.append((len(spots), spots.index(at)))
        return at

    with monkeypatch.context() as patch:
        patch.setattr(tokens, "_spot", spot)
        return lower_table(func, TARGET), tuple(found)


# The others in the long runs.
SOME = [pytest.param(name, marks=[pytest.mark.slow] if n % 2 else []) for n, name in enumerate(CHAINS)]


@pytest.mark.parametrize("name", SOME)
def test_hardly_ever_another_spot_is_better(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All spots of all no-ops are simulated; what the units do to each other on the bus is what the choice cannot know."""
    lost, gained, gained_late = [], 0, 0
    for func in schedules(name):
        made, spots = lowered(func, monkeypatch, None)
        every = product(*(range(n) for n, _ in spots))
        cycles = {chosen: lowered(func, monkeypatch, chosen)[0].cycles() for chosen in every}
        own = made.cycles()
        assert own == cycles[tuple(at for _, at in spots)]
        lost.append(own - min(cycles.values()))
        gained += cycles[tuple(n - 1 for n, _ in spots)] - own
        gained_late += cycles[(0,) * len(spots)] - own
    assert np.count_nonzero(lost) <= 1 and max(lost) <= 100
    assert gained > 0 and gained_late >= -max(lost)


@pytest.mark.parametrize("name", SOME)
def test_every_spot_gives_the_same_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    for func in schedules(name)[::6]:
        arrays = {b.name: rng.integers(-8, 8, [int_value(n) or 1 for n in b.shape]).astype(b.dtype) for b in func.buffers[:-1]}
        expected = run(func, *arrays.values())[0]
        _, spots = lowered(func, monkeypatch, None)
        for chosen in (None, [0] * len(spots), [n - 1 for n, _ in spots]):
            program = lowered(func, monkeypatch, chosen)[0].program(arrays)
            ran = execute(program, TARGET.mode)
            assert [bytes(ran.read(o.address, o.size)) for o in program.outputs] == [expected.tobytes()]


@pytest.mark.parametrize("name", SOME)
def test_weights_do_not_wait_with_what_a_layer_stores(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gained = []
    for func in schedules(name):
        own = lower_table(func, TARGET).cycles()
        with monkeypatch.context() as patch:
            patch.setattr(tokens, "_waiting_last", lambda table, engine, need: np.arange(len(table)))
            gained.append(lower_table(func, TARGET).cycles() - own)
    assert min(gained) == 0 < max(gained)


INP, WGT, RESET, STORE, ALU, GEMM = -1, -2, -3, isa.OP_STORE, isa.OP_ALU, isa.OP_GEMM  # loads of the operands, and opcodes


@pytest.mark.parametrize(("rows", "order"), [
    ([(STORE, -1), (INP, 0), (WGT, -1), (INP, 0), (WGT, -1)], [0, 2, 4, 1, 3]),
    ([(STORE, -1), (INP, 0), (ALU, -1), (WGT, -1)], [0, 3, 2, 1]),
    ([(STORE, -1), (INP, 0), (RESET, -1), (WGT, -1)], [0, 3, 2, 1]),
    ([(STORE, -1), (WGT, 0), (INP, -1), (WGT, -1)], [0, 2, 1, 3]),  # the second into the same memory stays behind
    ([(STORE, -1), (INP, 0), (GEMM, -1), (WGT, -1)], [0, 1, 2, 3]),  # a product may read what a load replaces
    ([(STORE, -1), (INP, 0), (GEMM, -1), (INP, 0), (WGT, -1)], [0, 1, 2, 3, 4]),  # the store is done by then
    ([(STORE, -1), (INP, 0), (STORE, -1), (INP, 0), (WGT, -1)], [0, 1, 2, 3, 4]),
    ([(STORE, -1), (INP, 0), (STORE, -1), (INP, 2), (WGT, -1)], [0, 1, 2, 4, 3]),
    ([(STORE, -1), (WGT, -1), (INP, 0), (WGT, -1)], [0, 1, 3, 2]),
])
def test_which_loads_come_last(rows: list[tuple[int, int]], order: list[int]) -> None:
    table = np.zeros((len(rows), isa.NCOLS), dtype=np.int64)
    for row, (kind, _) in zip(table, rows):
        row[isa.OPCODE] = kind if kind >= 0 else GEMM if kind == RESET else isa.OP_LOAD
        row[isa.MEM], row[isa.RESET] = {INP: isa.MEM_INP, WGT: isa.MEM_WGT}.get(kind, 0), kind == RESET
    need = np.full((len(rows), 3), -1)
    need[:, isa.QUEUE_STORE] = [store for _, store in rows]
    assert tokens._waiting_last(table, isa.queue_of(table), need).tolist() == order
