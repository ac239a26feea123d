"""Random bits as programs: an answer or a clear refusal, in bounded time and memory, never a crash."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
import warnings

import numpy as np
import pytest

from sim import isa, portable, races
from sim.errors import DecodeError, SimError
from sim.machine import run
from sim.presets import TARGETS
from sim.program import Program, Segment, loads
from sim.semantics import execute

DE10 = TARGETS["vta-de10"].config
WORK = 1 << 15
SEGMENT = (Segment(0x10000, random.Random(0).randbytes(1 << 16)),)


def random_words(rng: np.random.Generator) -> isa.Words:
    """A short stream: pure noise, or noise under valid opcodes with many small fields, often ended by FINISH."""
    n = int(rng.integers(1, 12))
    words = rng.integers(0, 1 << 64, (n, 2), dtype=np.uint64)
    style = rng.integers(0, 4)
    if style:
        words[:, 0] &= ~np.uint64(7)
        words[:, 0] |= rng.choice([0, 0, 1, 2, 4], n).astype(np.uint64)
        memory = np.uint64(7 << 7)
        transfer = (words[:, 0] & np.uint64(7)) < 2
        words[transfer, 0] &= ~memory
        kinds = rng.choice([0, 1, 2, 3, 0, 1, 2, 3, 4, 5], int(transfer.sum())).astype(np.uint64)
        words[transfer, 0] |= kinds << np.uint64(7)
        words[~transfer, 1] &= ~np.uint64(4 << 44)
    if style >= 2:
        # Few flags, few bits set: small sizes and indices, so that much of it runs.
        sparse = rng.integers(0, 1 << 64, (4, n, 2), dtype=np.uint64)
        mask = sparse[0] & sparse[1] & sparse[2] & sparse[3]
        mask[:, 0] |= np.uint64(7 | 7 << 7)
        words &= mask
    if style == 3:
        # No flags, no memory that cannot be loaded, a few rows of a few elements, a few iterations.
        words[:, 0] &= ~np.uint64(15 << 3)
        transfer = (words[:, 0] & np.uint64(7)) < 2
        words[transfer, 0] &= np.uint64(0x0000_07FF_FFFF_FDFF)
        words[transfer, 1] = words[transfer, 1] & np.uint64(0xFFFF_00FF_001F_000F) | np.uint64(1)
        words[~transfer, 0] &= np.uint64(0x003E_01F8_07E0_80FF)
        words[~transfer, 0] |= np.uint64(1 << 21 | 1 << 35 | 1 << 49)
    if rng.random() < 0.8:
        words = np.vstack([words, np.array([[3, 0]], dtype=np.uint64)])
    return words


def one(rng: np.random.Generator) -> str:
    """Run one stream every way; what came of the run as the RTL."""
    words = random_words(rng)
    try:
        table = isa.decode(words, DE10)
    except DecodeError as error:
        assert 0 <= error.index < len(words)
        return "DecodeError"
    program = Program("fuzz", DE10, table, 0x1000, SEGMENT)
    outcomes = []
    for act in (
        lambda: run(program, max_work=WORK),
        lambda: execute(program, "fsim", max_work=WORK),
        lambda: races.check_races(program, "portable", max_work=WORK),
        lambda: portable.check(program, max_work=WORK),
    ):
        try:
            act()
            outcomes.append("ran")
        except SimError as error:
            assert str(error)
            assert "\n" not in str(error)
            outcomes.append(type(error).__name__)
    return outcomes[0]


def fuzz(count: int, seed: int) -> dict[str, int]:
    rng = np.random.default_rng(seed)
    outcomes: dict[str, int] = {}
    for _ in range(count):
        start = time.perf_counter()
        outcome = one(rng)
        assert time.perf_counter() - start < 5.0
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return outcomes


def test_random_streams():
    one(np.random.default_rng(1))
    outcomes = fuzz(600, 2)
    # The streams must reach all layers, or the test proves nothing.
    assert {"ran", "DecodeError", "DeadlockError", "ExecutionError", "LimitError"} <= set(outcomes), outcomes
    assert outcomes["ran"] > 40, outcomes


def test_memory_stays_bounded():
    fuzz(20, 3)
    tracemalloc.start()
    fuzz(100, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


@pytest.mark.slow
def test_a_hundred_thousand_random_streams():
    outcomes = fuzz(100_000, 5)
    assert outcomes["ran"] > 10_000, outcomes


def test_damaged_files():
    """Every prefix and many bit flips of a program file: programs, or one ProgramError."""
    good = json.dumps({
        "config": "vta-de10",
        "programs": [{
            "name": "p", "insns": ["00000000000000000000000000000003"], "cycles": 25, "delay": 16,
            "memory": [{"address": 4096, "bytes": "AAAA"}],
            "outputs": [{"name": "y", "address": 4096, "size": 3, "expected": "AAAA"}],
        }],
    })  # fmt: skip
    assert len(loads(good)) == 1
    rng = random.Random(0)
    texts = [good[:k] for k in range(len(good))]
    for _ in range(3000):
        at = rng.randrange(len(good))
        texts.append(good[:at] + chr(rng.randrange(32, 127)) + good[at + 1 :])
    refused = 0
    for damaged in texts:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loads(damaged)
        except SimError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 1000
