"""Random schedules compute what the program computes, print and parse, and replay from their traces."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import small_programs

from autosched.errors import NotSupportedError, ProgramError, ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.expr import int_value
from autosched.ir.interp import random_inputs, run
from autosched.schedule import LoopRV, Schedule
from autosched.script import T, parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


@T.prim_func
def pipeline(A: T.Buffer((12, 10), "int32"), D: T.Buffer((12, 8), "int32")):
    B = T.sblock_alloc_buffer((12, 10), "int32")
    C = T.sblock_alloc_buffer((12, 8), "int32")
    for i, j in T.grid(12, 10):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 3 + vi
    for i, j, k in T.grid(12, 8, 3):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 1
            C[vi, vj] = C[vi, vj] + B[vi, vj + vk]
    for i, j in T.grid(12, 8):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], B[vi, vj])


matmul = small_programs.matmul(7, 5, 9, "int8", "int32", transposed=True)


class Chooser:
    """Tries random primitives; what is refused leaves the schedule alone."""

    def __init__(self, sch: Schedule, rng: random.Random) -> None:
        self.sch = sch
        self.rng = rng
        self.accepted: dict[str, int] = {}

    def block(self) -> str:
        names = [r.block.name for r in self.sch.state.realizes.values()][1:]
        return self.rng.choice([n for n in names if names.count(n) == 1])

    def loops(self) -> list[LoopRV]:
        return self.sch.get_loops(self.block()) or self.loops()

    def split(self) -> None:
        factors: list[int | None] = [self.rng.randint(1, 5) for _ in range(self.rng.randint(1, 2))]
        factors.insert(self.rng.randint(0, len(factors)), None)
        names = [f"s{self.rng.randint(0, 99)}" for _ in factors] if self.rng.random() < 0.3 else None
        self.sch.split(self.rng.choice(self.loops()), factors, self.rng.random() < 0.7, names=names)

    def fuse(self) -> None:
        loops = self.loops()
        at = self.rng.randrange(len(loops))
        self.sch.fuse(*loops[at:at + self.rng.randint(1, 3)], preserve_unit_iters=self.rng.random() < 0.7)

    def reorder(self) -> None:
        loops = self.loops()
        self.sch.reorder(*self.rng.sample(loops, self.rng.randint(1, len(loops))))

    def kind(self) -> None:
        loop = self.rng.choice(self.loops())
        choice = self.rng.choice(["parallel", "vectorize", "unroll", "bind"])
        if choice == "bind":
            self.sch.bind(loop, "vthread")
        else:
            getattr(self.sch, choice)(loop)

    def add_unit_loop(self) -> None:
        self.sch.add_unit_loop(self.rng.choice([self.block(), self.rng.choice(self.loops())]))

    def cache(self) -> None:
        scope = self.rng.choice(["shared", "local", "local.inp_buffer"])
        if self.rng.random() < 0.5:
            self.sch.cache_read(self.block(), self.rng.randrange(2), scope)
        else:
            self.sch.cache_write(self.block(), 0, scope)

    def scope(self) -> None:
        self.sch.set_scope(self.block(), 0, self.rng.choice(["shared", "local.acc_buffer"]))

    def loop_partition(self) -> None:
        self.sch.loop_partition(self.rng.choice(self.loops()), [self.rng.randint(1, 4), None])

    def partition_block(self) -> None:
        self.sch.partition_block(self.rng.choice(self.loops()), [self.rng.randint(1, 4), None])

    def recompute(self) -> None:
        self.sch.recompute_at_consumers(self.sch.get_block(self.block()))

    def attach(self) -> None:
        self.sch.compute_at(self.sch.get_block(self.block()), self.rng.choice(self.loops()))

    def merge(self) -> None:
        depth = self.rng.randint(0, 1)
        found = [self.sch.get_loops(r.block.name) for r in list(self.sch.state.realizes.values())[1:]]
        first, second = sorted(self.rng.sample(range(len(found)), 2)) if len(found) > 1 else (0, 0)
        if len(found[first]) > depth and len(found[second]) > depth:
            self.sch.merge(found[first][depth], found[second][depth])

    def sample(self) -> None:
        loop = self.rng.choice(self.loops())
        self.sch.split(loop, self.sch.sample_perfect_tile(loop, 2, -1))

    def step(self, op: str) -> None:
        try:
            before = self.sch.func
            getattr(self, op)()
        except ScheduleError:
            assert self.sch.func is before
            return
        self.accepted[op] = self.accepted.get(op, 0) + (self.sch.func is not before)


COMMON = ["split", "split", "fuse", "reorder", "reorder", "kind", "add_unit_loop", "cache", "scope", "sample", "merge"]


def check(func: PrimFunc, seed: int, ops: list[str], verify: Verify) -> dict[str, int]:
    rng = random.Random(seed)
    sch = Schedule(func, seed=seed + 1)
    chooser = Chooser(sch, rng)
    for _ in range(rng.randint(2, 9)):
        chooser.step(rng.choice(ops))
    verify(sch, func)
    assert parse(sch.func.script()) == sch.func
    numbers = np.random.default_rng(seed)
    inputs = [numbers.integers(-100, 100, [int(s.value) for s in b.shape]).astype(b.dtype) for b in func.buffers[:-1]]
    shape = [int(s.value) for s in func.buffers[-1].shape]
    want, got = (np.zeros(shape, "int32") for _ in range(2))
    run(func, *inputs, want)
    run(sch.func, *inputs, got)
    np.testing.assert_array_equal(got, want, err_msg=f"seed {seed}\n" + "\n".join(sch.trace.as_python()) + sch.script())
    return chooser.accepted


@pytest.mark.parametrize("func", [pipeline, matmul], ids=["pipeline", "matmul"])
def test_random_schedules_keep_the_meaning(func: PrimFunc, verify_trace_roundtrip: Verify) -> None:
    total: dict[str, int] = {}
    for seed in range(24):
        for op, n in check(func, seed, COMMON, verify_trace_roundtrip).items():
            total[op] = total.get(op, 0) + n
    for op in set(COMMON) - ({"merge", "scope"} if func is matmul else set()):
        assert total.get(op, 0) > 0, f"{op} was never accepted"


def test_random_partitions_keep_the_meaning(verify_trace_roundtrip: Verify) -> None:
    ops = ["loop_partition", "split", "reorder", "fuse"]
    accepted = sum(check(pipeline, 1000 + s, ops, verify_trace_roundtrip).get("loop_partition", 0) for s in range(12))
    assert accepted > 5


def test_random_parts_of_stages_keep_the_meaning(verify_trace_roundtrip: Verify) -> None:
    ops = ["partition_block", "partition_block", "recompute", "attach", "attach", "split", "reorder", "fuse", "merge", "cache"]
    total: dict[str, int] = {}
    for seed in range(60):
        for op, n in check(matmul if seed % 4 == 0 else pipeline, 5000 + seed, ops, verify_trace_roundtrip).items():
            total[op] = total.get(op, 0) + n
    assert min(total.get(op, 0) for op in ("partition_block", "recompute", "attach")) > 5


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(10))
def test_many_random_schedules_keep_the_meaning(chunk: int, verify_trace_roundtrip: Verify) -> None:
    for seed in range(2000 + 100 * chunk, 2100 + 100 * chunk):
        ops = [*COMMON, "loop_partition", "partition_block", "recompute", "attach"]
        check(pipeline if seed % 2 else matmul, seed, ops, verify_trace_roundtrip)


# -- random programs -------------------------------------------------------------------------------------------------


def stored(func: PrimFunc, inputs: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """What a program leaves in its outputs, which start as 77: what it does not store shows."""
    outputs = [np.full([int_value(e) or 1 for e in b.shape], 77, b.dtype) for b in func.buffers[len(inputs):]]
    run(func, *inputs, *outputs)
    return outputs


def check_program(
    rng: random.Random, programs: ModuleType, steps: ModuleType, verify: Verify, length: int,
    weights: dict[str, int] | None = None,
) -> list[tuple[str, bool]]:
    """A random program under random steps; which primitives were tried, and whether they were accepted."""
    func = parse(programs.program(rng))
    inputs = random_inputs(func, 1)
    want = stored(func, inputs)
    sch, draw, tried = Schedule(func, seed=1), steps.Steps(rng, weights), []
    for _ in range(length):
        step = draw.draw(sch)
        if step is None or len(sch.state.loops) > 40:
            break
        before, kept = sch.func, sch.copy()
        try:
            steps.apply(sch, step)
        except (ScheduleError, NotSupportedError):
            assert sch.func is before, f"{step.op} was refused and changed the program"
            tried.append((step.op, False))
            continue
        if sch.func.buffers != func.buffers:
            sch = kept  # another layout of a parameter: other arrays
            continue
        tried.append((step.op, True))
        where = f"{step.op} broke it:\n{func.script()}\n" + "\n".join(sch.trace.as_python())
        text = sch.func.script()
        again = parse(text)
        assert again == sch.func, where
        assert again.script() == text, where
        try:
            results = stored(sch.func, inputs)
        except ProgramError as error:
            raise AssertionError(f"{error}: {where}\n{text}") from None
        for got, expected in zip(results, want):
            np.testing.assert_array_equal(got, expected, err_msg=where)
    verify(sch, func)
    return tried


def test_random_programs_keep_their_meaning_and_reach_every_primitive(
    affine_programs: ModuleType, schedule_steps: ModuleType, verify_trace_roundtrip: Verify
) -> None:
    """The generator is worth something: most primitives are accepted and refused within a few programs."""
    tried: dict[str, set[bool]] = {}
    for seed in range(100):
        rng = random.Random(f"reach{seed}")
        for op, accepted in check_program(rng, affine_programs, schedule_steps, verify_trace_roundtrip, 8):
            tried.setdefault(op, set()).add(accepted)
    both = {op for op, seen in tried.items() if len(seen) == 2}
    assert {"split", "fuse", "reorder", "compute_at", "reverse_compute_at", "compute_inline", "reverse_compute_inline",
            "cache_read", "cache_write", "decompose_reduction", "blockize", "transform_layout", "rfactor"} <= both
    assert len(tried) >= 25


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(10))
def test_many_random_programs_keep_their_meaning(
    affine_programs: ModuleType, schedule_steps: ModuleType, verify_trace_roundtrip: Verify, chunk: int
) -> None:
    for seed in range(1000 * chunk, 1000 * chunk + 500):
        rng = random.Random(f"many{seed}")
        check_program(rng, affine_programs, schedule_steps, verify_trace_roundtrip, rng.randint(1, 12))


def rarely_drawn(steps: ModuleType) -> dict[str, int]:
    """Weights that prefer the primitives that the fuzzing against TVM leaves out or draws rarely."""
    rare = ("rolling_buffer", "read_at", "write_at", "cache_inplace", "cache_index")
    return {**steps.WEIGHTS, **dict.fromkeys(rare, 5), **{op: 3 * w for op, w in steps.OWN.items()}}


def test_random_programs_under_rarely_drawn_primitives(
    affine_programs: ModuleType, schedule_steps: ModuleType, verify_trace_roundtrip: Verify
) -> None:
    weights, accepted = rarely_drawn(schedule_steps), set()
    wanted = {"double_buffer", "read_at", "write_at", "recompute_at_consumers", "sample_categorical"}
    for seed in range(400):
        if seed >= 30 and wanted <= accepted:
            break
        rng = random.Random(f"rare{seed}")
        tried = check_program(rng, affine_programs, schedule_steps, verify_trace_roundtrip, rng.randint(2, 10), weights)
        accepted |= {op for op, taken in tried if taken}
    assert wanted <= accepted


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(8))
def test_many_random_programs_under_rarely_drawn_primitives(
    affine_programs: ModuleType, schedule_steps: ModuleType, verify_trace_roundtrip: Verify, chunk: int
) -> None:
    weights = rarely_drawn(schedule_steps)
    for seed in range(1000 * chunk, 1000 * chunk + 500):
        rng = random.Random(f"rare{seed}")
        check_program(rng, affine_programs, schedule_steps, verify_trace_roundtrip, rng.randint(2, 12), weights)
