"""Random schedules: whatever the placement primitives accept computes what the unscheduled program computes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autosched.errors import NotSupportedError, ProgramError, ScheduleError
from autosched.ir.functor import free_vars, walk
from autosched.ir.interp import run, written
from autosched.ir.printer import script
from autosched.ir.stmt import TRUE, Block, For, PrimFunc
from autosched.schedule import Schedule, Trace
from autosched.script import T


@T.prim_func
def conv(d: T.Buffer((10, 4), "int32"), w: T.Buffer((3, 4, 6), "int32"), out: T.Buffer((5, 6), "int32")):
    pad = T.sblock_alloc_buffer((12, 4), "int32")
    acc = T.sblock_alloc_buffer((5, 6), "int32")
    act = T.sblock_alloc_buffer((5, 6), "int32")
    for i, c in T.grid(12, 4):
        with T.sblock("pad"):
            vi, vc = T.axis.remap("SS", [i, c])
            pad[vi, vc] = T.if_then_else(vi >= 1 and vi < 11, d[vi - 1, vc], 0)
    for y, o, r, c in T.grid(5, 6, 3, 4):
        with T.sblock("conv"):
            vy, vo, vr, vc = T.axis.remap("SSRR", [y, o, r, c])
            with T.init():
                acc[vy, vo] = 0
            acc[vy, vo] += pad[vy * 2 + vr, vc] * w[vr, vc, vo]
    for y, o in T.grid(5, 6):
        with T.sblock("act"):
            vy, vo = T.axis.remap("SS", [y, o])
            act[vy, vo] = T.max(acc[vy, vo], 0) >> 1
    for y, o in T.grid(5, 6):
        with T.sblock("out"):
            vy, vo = T.axis.remap("SS", [y, o])
            out[vy, vo] = act[vy, vo] + 1


@T.prim_func
def fork(a: T.Buffer((6, 10), "int32"), out: T.Buffer((6,), "int32")):
    x = T.sblock_alloc_buffer((6, 10), "int32")
    y = T.sblock_alloc_buffer((6,), "int32")
    z = T.sblock_alloc_buffer((6,), "int32")
    for i, j in T.grid(6, 10):
        with T.sblock("x"):
            vi, vj = T.axis.remap("SS", [i, j])
            x[vi, vj] = a[vi, vj] * 3 - 1
    for i, j in T.grid(6, 10):
        with T.sblock("y"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                y[vi] = 0
            y[vi] += x[vi, vj]
    for i, j in T.grid(6, 10):
        with T.sblock("z"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                z[vi] = -1000000
            z[vi] = T.max(z[vi], x[vi, vj])
    for i in range(6):
        with T.sblock("out"):
            vi = T.axis.spatial(6, i)
            out[vi] = y[vi] - z[vi]


@T.prim_func
def layout(a: T.Buffer((8, 6), "int32"), out: T.Buffer((6, 8), "int32")):
    flat = T.sblock_alloc_buffer((48,), "int32")
    tile = T.sblock_alloc_buffer((2, 6, 4), "int32")
    twice = T.sblock_alloc_buffer((2, 6, 4), "int32")
    for i in range(48):
        with T.sblock("flat"):
            v = T.axis.spatial(48, i)
            flat[v] = a[v // 6, v % 6] + v
    for p, q, r in T.grid(2, 6, 4):
        with T.sblock("tile"):
            vp, vq, vr = T.axis.remap("SSS", [p, q, r])
            tile[vp, vq, vr] = flat[(vp * 4 + vr) * 6 + vq]
    for p, q, r in T.grid(2, 6, 4):
        with T.sblock("twice"):
            vp, vq, vr = T.axis.remap("SSS", [p, q, r])
            twice[vp, vq, vr] = tile[vp, vq, vr] * 2
    for q, i in T.grid(6, 8):
        with T.sblock("out"):
            vq, vi = T.axis.remap("SS", [q, i])
            out[vq, vi] = twice[vi // 4, vq, vi % 4] - 5


@T.prim_func
def window(a: T.Buffer((13,), "int32"), total: T.Buffer((1,), "int32"), out: T.Buffer((11,), "int32")):
    b = T.sblock_alloc_buffer((13,), "int32")
    s = T.sblock_alloc_buffer((11,), "int32")
    for i in range(13):
        with T.sblock("b"):
            v = T.axis.spatial(13, i)
            b[v] = a[v] * a[v]
    for i, k in T.grid(11, 3):
        with T.sblock("s"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                s[vi] = 7
            s[vi] += b[vi + vk]
    for k in range(13):
        with T.sblock("total"):
            vk = T.axis.reduce(13, k)
            with T.init():
                total[0] = 0
            total[0] += b[vk]
    for i in range(11):
        with T.sblock("out"):
            v = T.axis.spatial(11, i)
            out[v] = s[v] * 2


@T.prim_func
def chain(a: T.Buffer((9, 8), "int32"), out: T.Buffer((1,), "int32")):
    rows = T.sblock_alloc_buffer((9,), "int32")
    less = T.sblock_alloc_buffer((9,), "int32")
    for i, k in T.grid(9, 8):
        with T.sblock("rows"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                rows[vi] = 1
            rows[vi] += a[vi, vk]
    for i in range(9):
        with T.sblock("less"):
            v = T.axis.spatial(9, i)
            less[v] = rows[8 - v] - 2
    for k in range(9):
        with T.sblock("all"):
            vk = T.axis.reduce(9, k)
            with T.init():
                out[0] = 0
            out[0] += less[vk]


PROGRAMS = {f.name: f for f in (conv, fork, layout, window, chain)}


def outputs(func: PrimFunc) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    names = {b.name for b in written(func)}
    given = [
        None if b.name in names else rng.integers(-9, 10, [int(s.value) for s in b.shape]).astype(b.dtype)
        for b in func.buffers
    ]
    return [np.array(x) for x in run(func, *given)]


def step(sch: Schedule, rng: random.Random) -> str:
    """Tries one random primitive; returns its name."""
    state = sch.state
    inits = {
        b.ident for r in state.realizes.values() if r.block.init is not None
        for b in walk(r.block.init) if isinstance(b, Block)
    }
    names = [
        n for n in state.block_names()
        if n != "root" and len(state.blocks_named(n)) == 1 and state.blocks_named(n)[0].ident not in inits
    ]
    if not names:
        return "nothing"
    block = sch.get_block(rng.choice(names))
    loops = sch.get_loops(block)
    targets = sch.get_loops(sch.get_block(rng.choice(names)))
    kind = rng.choice((
        "split", "split", "reorder", "fuse", "compute_at", "compute_at", "reverse_compute_at", "reverse_compute_at",
        "compute_inline", "reverse_compute_inline", "decompose_reduction", "blockize", "recompute_at_consumers",
        "cache_read", "cache_write", "reorder_block_iter_var", "add_unit_loop",
    ))
    if kind in ("split", "fuse", "blockize", "decompose_reduction", "reorder") and not loops:
        return kind
    if kind.endswith("compute_at") and not targets:
        return kind
    if kind.startswith("cache_") and (
        state.scope_of(state.block(sch._symbols[block])) is not state.root
        or any(r.predicate != TRUE for r in state.realizes.values())
    ):
        # Caches have tests of their own; here they only give the placement more to place.
        return kind
    if kind == "split":
        sch.split(rng.choice(loops), rng.choice([[None, 2], [None, 3], [2, None], [None, 4]]))
    elif kind == "reorder":
        realize = state.realizes[sch._symbols[block]]
        used = {v for value in realize.iter_values for v in free_vars(value)}
        if all(loop.var in used or int(loop.extent.value) == 1 for loop in state.loops_above(realize)):
            sch.reorder(*rng.sample(loops, rng.randint(1, len(loops))))
    elif kind == "fuse":
        at = rng.randrange(len(loops))
        sch.fuse(*loops[at:at + 2])
    elif kind == "compute_at":
        sch.compute_at(block, rng.choice(targets), rng.random() < 0.3, rng.choice([-1, -1, -2, 0, 1]))
    elif kind == "reverse_compute_at":
        last = True if rng.random() < 0.4 else None
        sch.reverse_compute_at(block, rng.choice(targets), rng.random() < 0.3, rng.choice([-1, -1, -2]), last)
    elif kind == "decompose_reduction":
        sch.decompose_reduction(block, rng.choice(loops))
    elif kind == "blockize":
        sch.blockize(rng.choice(loops), rng.random() < 0.5)
    elif kind == "cache_read":
        sch.cache_read(block, 0, "local")
    elif kind == "cache_write":
        sch.cache_write(block, 0, "local")
    elif kind == "reorder_block_iter_var":
        count = len(state.realizes[sch._symbols[block]].block.iter_vars)
        sch.reorder_block_iter_var(block, rng.sample(range(count), count))
    elif kind == "add_unit_loop":
        sch.add_unit_loop(block)
    else:
        getattr(sch, kind)(block)
    return kind


def check(name: str, seed: int, length: int) -> int:
    """One random schedule; returns how many primitives were accepted."""
    func = PROGRAMS[name]
    rng = random.Random(f"{name}{seed}")
    want = outputs(func)
    sch = Schedule(func, seed=1)
    accepted = 0
    for _ in range(length):
        before = sch.func
        try:
            kind = step(sch, rng)
        except (ScheduleError, NotSupportedError):
            assert sch.func is before
            continue
        if sch.func is before:
            continue
        accepted += 1
        if sum(isinstance(n, For) for n in sch.state.loops.values()) > 60:
            break
        try:
            got = outputs(sch.func)
        except ProgramError as error:
            raise AssertionError(f"{kind} broke it: {error}\n{sch.trace}\n{script(sch.func)}") from None
        assert all(np.array_equal(p, q) for p, q in zip(got, want)), f"{kind} broke it:\n{sch.trace}\n{script(sch.func)}"
    again = Schedule(func, seed=1)
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
    assert again.func == sch.func
    return accepted


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(8))
def test_accepted_schedules_compute_the_same(name: str, seed: int) -> None:
    assert check(name, seed, 25) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_many_accepted_schedules_compute_the_same(name: str) -> None:
    for seed in range(100, 400):
        check(name, seed, 30)
