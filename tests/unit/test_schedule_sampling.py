"""Sampling: legal choices, repeatable by seed and by decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod

import pytest
import small_programs

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.schedule import AT_ROOT, Schedule
from autosched.schedule.primitives.sampling import divisors, prime_factors
from autosched.script import T

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


chain = small_programs.chain(128, 1470, "float32")


@T.prim_func
def symbolic(A: T.Buffer(("n",)), n: T.int32):
    for i in range(n):
        with T.sblock("A"):
            vi = T.axis.spatial(n, i)
            A[vi] = 1.0


def values(sch: Schedule, rvs: list) -> list[int]:
    return [sch.get(rv) for rv in rvs]


def test_perfect_tiles_multiply_to_the_extent(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(chain, seed=11)
    for n in range(1, 6):
        for loop in sch.get_loops("B"):
            tile = values(sch, sch.sample_perfect_tile(loop, n, -1))
            assert prod(tile) == sch.get(loop).extent.value
    tiles = [values(sch, sch.sample_perfect_tile(sch.get_loops("B")[0], 3, 4)) for _ in range(30)]
    assert max(t[-1] for t in tiles) == 4
    assert len({tuple(t) for t in tiles}) > 5
    verify_trace_roundtrip(sch, chain)


def test_same_seed_same_choices() -> None:
    def draw(seed: int) -> list[object]:
        sch = Schedule(chain, seed=seed)
        loop = sch.get_loops("C")[1]
        return [values(sch, sch.sample_perfect_tile(loop, 3)) for _ in range(5)] + [
            sch.get(sch.sample_categorical([1, 2, 3], [1, 1, 1])) for _ in range(5)
        ]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_seed_seven_draws_what_tvm_draws() -> None:
    # TVM 0.26, Schedule(seed=7) on loops of extent 128 and 1470.
    sch = Schedule(chain, seed=7)
    i, j = sch.get_loops("B")
    found = [
        values(sch, sch.sample_perfect_tile(i, 2)), sch.get(sch.sample_categorical([3, 4, 5], [0.2, 0.5, 0.3])),
        values(sch, sch.sample_perfect_tile(j, 3, -1)), sch.get(sch.sample_categorical([3, 4, 5], [0.2, 0.5, 0.3])),
        values(sch, sch.sample_perfect_tile(j, 4, 16)),
    ]
    assert found == [[16, 8], 4, [147, 5, 2], 4, [3, 7, 5, 14]]


def test_decisions_are_followed_and_repaired() -> None:
    sch = Schedule(chain)
    i = sch.get_loops("B")[0]
    assert values(sch, sch.sample_perfect_tile(i, 3, decision=[4, 4, 8])) == [4, 4, 8]
    assert values(sch, sch.sample_perfect_tile(i, 3, decision=[1, 5, 8])) == [1, 16, 8]
    assert sch.trace.insts[-1].decision == [1, 16, 8]
    assert sch.get(sch.sample_categorical([5, 6], [0.5, 0.5], decision=1)) == 6
    with pytest.raises(ScheduleError, match="decision 2 is out of range: there are 2 candidates"):
        sch.sample_categorical([5, 6], [0.5, 0.5], decision=2)
    with pytest.raises(ScheduleError, match="2 candidates and 1 probabilities"):
        sch.sample_categorical([5, 6], [0.5])


def test_partitioned_tiles(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(chain, seed=3)
    i, j = sch.get_loops("B")
    for _ in range(20):
        tile = values(sch, sch.sample_partitioned_tile(i, 4, 2, 16))
        assert prod(tile) == 128
        assert prod(tile[2:]) % 16 == 0
    assert values(sch, sch.sample_partitioned_tile(i, 3, 1, 32, decision=[32, 2, 2])) == [4, 32, 1]
    assert sch.sample_partitioned_tile(j, 3, 1, 16)[0] is None
    with pytest.raises(ScheduleError, match="partition_pos 3 is not a position among 3 factors"):
        sch.sample_partitioned_tile(i, 3, 3, 2)
    verify_trace_roundtrip(sch, chain)


def test_symbolic_loops_are_left_open(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(symbolic, seed=1)
    loop = sch.get_loops("A")[0]
    tile = sch.sample_perfect_tile(loop, 3)
    assert tile[0] is None
    sch.split(loop, tile)
    assert len(sch.get_loops("A")) == 3
    verify_trace_roundtrip(sch, symbolic)


def test_categorical_frequencies() -> None:
    sch = Schedule(chain, seed=42)
    counts = Counter(sch.get(sch.sample_categorical([5, 2, 7], [0.2, 0.5, 0.3])) for _ in range(1000))
    assert abs(counts[2] - 500) < 70
    assert abs(counts[7] - 300) < 70


def test_compute_location(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(chain, seed=5)
    found = Counter()
    for _ in range(40):
        sch.sample_compute_location("B")
        found[sch.trace.insts[-1].decision] += 1
    assert set(found) == {-2, -1, 0, 1}
    assert sch.get(sch.sample_compute_location("B", decision=-1)) is AT_ROOT
    assert sch.get(sch.sample_compute_location("B", decision=0)).var.name == "i"
    sch.sample_compute_location("B", decision=9)
    assert sch.trace.insts[-1].decision == 1
    sch.sample_compute_location("C")
    assert sch.trace.insts[-1].decision == -1
    verify_trace_roundtrip(sch, chain)


def test_forked_seeds_differ() -> None:
    sch = Schedule(chain, seed=9)
    first, second = sch.fork_seed(), sch.fork_seed()
    assert first != second
    again = Schedule(chain, seed=9)
    assert [again.fork_seed(), again.fork_seed()] == [first, second]


def test_prime_factors_and_divisors() -> None:
    assert prime_factors(360) == [(2, 3), (3, 2), (5, 1)]
    assert prime_factors(1) == []
    assert prime_factors(257) == [(257, 1)]
    assert divisors(12) == [1, 2, 3, 4, 6, 12]
