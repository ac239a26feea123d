"""What replaying a trace, hashing a program and comparing two cost: ``python tests/benchmarks/bench_replay.py [WORKLOAD ...]``.

CPU milliseconds on one core, minimum and median of several runs each. Two traces in the manner of MetaSchedule's CPU sketches
(a matrix product, 34 instructions, and a 2-D convolution: tiles of four levels, caches, annotations that become parallel and
vectorised loops), and traces of the design spaces of ResNet-18 layers: of all that were drawn, the one of median length and the
longest. ``hash`` is the structural hash of a program that was never hashed (and of one that was); ``equal`` compares two such
programs that are equal.
Replays share the programs after common first instructions; the first table leaves that out. The limits that the project sets
itself: 20 ms for a trace of 34 instructions, 1 ms for a hash or a comparison.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from autosched.ir import PrimFunc
from autosched.ir.structural import structural_hash
from autosched.schedule import Schedule
from autosched.schedule.kit.shared import forget
from autosched.schedule.kit.trace import Trace
from autosched.script import T
from autosched.search.proposer import Proposer
from autosched.workloads import workload
from space import Space


@T.prim_func
def matmul(A: T.Buffer((512, 512), "float32"), B: T.Buffer((512, 512), "float32"), C: T.Buffer((512, 512), "float32")):
    for i, j, k in T.grid(512, 512, 512):
        with T.sblock("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def conv2d(
    X: T.Buffer((58, 58, 64), "float32"), W: T.Buffer((3, 3, 64, 64), "float32"), Y: T.Buffer((56, 56, 64), "float32")
):
    for h, w, co, rh, rw, ci in T.grid(56, 56, 64, 3, 3, 64):
        with T.sblock("update"):
            vh, vw, vco, vrh, vrw, vci = T.axis.remap("SSSRRR", [h, w, co, rh, rw, ci])
            with T.init():
                Y[vh, vw, vco] = T.float32(0)
            Y[vh, vw, vco] = Y[vh, vw, vco] + X[vh + vrh, vw + vrw, vci] * W[vrh, vrw, vci, vco]


def sketch(func: PrimFunc, factors: list[list[int]], spatial: int) -> Trace:
    """Tiles of each loop by given factors, interleaved from outside in, and what goes around them.

    Args:
        func: a program with one reduction block, ``update``.
        factors: per loop its four (spatial) or two (reduction) factors, from outside in.
        spatial: how many of the loops are spatial; they come first.
    """
    sch = Schedule(func, seed=1)
    block = sch.get_block("update")
    stage = sch.cache_write(block, 0, "global")
    tiles = []
    for loop, decision in zip(sch.get_loops(block), factors):
        sampled = sch.sample_perfect_tile(loop, n=len(decision), max_innermost_factor=64, decision=decision)
        tiles.append(sch.split(loop, factors=sampled))
    over, under = tiles[:spatial], tiles[spatial:]
    outer, second = [t[0] for t in over], [t[1] for t in over]
    third, inner = [t[2] for t in over], [t[3] for t in over]
    sch.reorder(*outer, *second, *(t[0] for t in under), *third, *(t[1] for t in under), *inner)
    sch.reverse_compute_at(stage, second[-1])
    reads = [sch.cache_read(block, k, "global") for k in (0, 1)]
    for copy in reads:
        sch.compute_at(copy, under[-1][0])
    root = sch.get_block("root")
    marks = {"meta_schedule.parallel": 64, "meta_schedule.vectorize": 64, "meta_schedule.unroll_explicit": 16}
    for key, value in marks.items():
        sch.annotate(root, key, value)
    sch.enter_postproc()
    for key in marks:
        sch.unannotate(root, key)
    sch.parallel(sch.fuse(*outer))
    sch.vectorize(inner[-1])
    sch.annotate(second[0], "pragma_auto_unroll_max_step", 16)
    sch.annotate(second[0], "pragma_unroll_explicit", 1)
    for child in sch.get_child_blocks(root):
        sch.get_loops(child)
    sch.decompose_reduction(block, under[0][0])
    return sch.trace


def runs(call: Callable[[], Any], repeats: int) -> str:
    """Minimum and median of the CPU time of some runs."""
    times = []
    for _ in range(repeats):
        begun = time.process_time()
        call()
        times.append((time.process_time() - begun) * 1e3)
    return f"{min(times):8.3f} {statistics.median(times):8.3f}"


def fresh(func: PrimFunc) -> PrimFunc:
    """The same program as an object that remembers no hash."""
    return replace(func)


QUADS = [[4, 4, 8, 4], [4, 4, 2, 16], [64, 8]]
CONV = [[7, 2, 2, 2], [7, 1, 2, 4], [1, 2, 2, 16], [1, 3], [3, 1], [16, 4]]


def row(name: str, func: PrimFunc, trace: Trace, repeats: int = 15) -> str:
    def play() -> PrimFunc:
        forget()
        sch = Schedule(func)
        trace.apply_to_schedule(sch)
        return sch.func

    made, again = play(), play()
    assert made == again
    copies = [(fresh(made), fresh(again)) for _ in range(repeats)]
    cold, pairs = iter([a for a, _ in copies]), iter([(fresh(a), fresh(b)) for a, b in copies])

    def compare() -> None:
        a, b = next(pairs)
        assert a == b

    cells = [
        runs(play, repeats), runs(lambda: structural_hash(next(cold)), repeats), runs(lambda: structural_hash(made), repeats),
        runs(compare, repeats),
    ]
    return f"{name:26} {len(trace.insts):6}  " + "  ".join(cells)


def among_others(name: str) -> str:
    """CPU milliseconds a trace, of many of one design space one after the other, as a search replays them."""
    space = Space(workload(name).func, "vta-de10")
    traces = [space.trace(p) for p in [*Proposer(space, 0).batch(48), *space.sample(np.random.default_rng(0), 48)]]
    cells = []
    for each in (forget, lambda: None):
        forget()
        begun = time.process_time()
        for trace in traces:
            each()
            trace.apply_to_schedule(Schedule(workload(name).func))
        cells.append((time.process_time() - begun) * 1e3 / len(traces))
    return f"{name:26} {len(traces):6}  {cells[0]:8.3f} {cells[1]:8.3f}"


def traces_of(name: str) -> list[tuple[str, PrimFunc, Trace]]:
    """The trace of median length and the longest among some points of a design space."""
    space = Space(workload(name).func, "vta-de10")
    points = [*Proposer(space, 0).batch(12), *space.sample(np.random.default_rng(0), 40)]
    traces = sorted((space.trace(p) for p in points), key=lambda t: len(t.insts))
    return [
        (f"{name}, median", workload(name).func, traces[len(traces) // 2]),
        (f"{name}, longest", workload(name).func, traces[-1]),
    ]


def main() -> None:
    names = sys.argv[1:] or ["resnet18.c2", "resnet18.c5", "resnet18.c8", "resnet18.c11"]
    cases = [
        ("matmul 512, sketch", matmul, sketch(matmul, QUADS, 2)),
        ("conv2d 56x56x64, sketch", conv2d, sketch(conv2d, CONV, 3)),
    ]
    for name in names:
        cases += traces_of(name)
    print("CPU milliseconds: minimum and median")
    print(f"{'trace':26} {'insts':>6}  {'replay':^17}  {'hash, first':^17}  {'hash, again':^17}  {'equal, first':^17}")
    for case in cases:
        print(row(*case))
    print(f"\n{'replays in a row':26} {'traces':>6}  {'each alone':>8} {'sharing beginnings':>8}")
    for name in names:
        print(among_others(name))


if __name__ == "__main__":
    main()
