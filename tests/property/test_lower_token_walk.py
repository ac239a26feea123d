"""Who must wait for whom: the compiled walk against one that looks at every element of every iteration."""

import numpy as np
import pytest

from autosched.lower.tokens import _needs
from sim import isa

DEPTHS = (48, 40, 44)
COLUMNS = ((isa.DST_OUT, isa.DST_IN), (isa.SRC_OUT, isa.SRC_IN), (isa.WGT_OUT, isa.WGT_IN))


def drawn(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loads, products, resets, additions and stores, with micro-ops of which some begin at the same place."""
    table = np.zeros((count, isa.NCOLS), dtype=np.int64)
    uop_at = np.zeros(count, dtype=np.int64)
    triples = rng.integers(0, 12, size=(24, 3))
    for i in range(count):
        op = rng.choice([isa.OP_LOAD, isa.OP_GEMM, isa.OP_GEMM, isa.OP_ALU, isa.OP_STORE])
        table[i, isa.OPCODE] = op
        if op in (isa.OP_LOAD, isa.OP_STORE):
            mem = rng.choice([isa.MEM_INP, isa.MEM_WGT, isa.MEM_ACC]) if op == isa.OP_LOAD else isa.MEM_OUT
            table[i, [isa.MEM, isa.SRAM, isa.Y_SIZE, isa.X_SIZE]] = mem, rng.integers(20), rng.integers(1, 4), rng.integers(0, 5)
            continue
        uop_at[i] = rng.integers(16)
        table[i, [isa.UOP_END, isa.ITER_OUT, isa.ITER_IN]] = rng.integers(1, 8), rng.integers(0, 4), rng.integers(1, 4)
        table[i, isa.RESET] = op == isa.OP_GEMM and rng.random() < 0.3
        for pair in COLUMNS:
            table[i, list(pair)] = rng.integers(0, 3, size=2)
    return table, uop_at, triples


def plain(table: np.ndarray, uop_at: np.ndarray, triples: np.ndarray, split_out: bool) -> tuple[np.ndarray, int]:
    need = np.full((len(table), 3), -1, dtype=np.int64)
    writer, reader = ([dict[int, int]() for _ in range(3)] for _ in range(2))  # of INP, WGT and ACC
    fresh: set[int] = set()
    stale = -1
    for i, row in enumerate(table):
        op = row[isa.OPCODE]
        span = range(row[isa.SRAM], row[isa.SRAM] + row[isa.Y_SIZE] * row[isa.X_SIZE])
        if op == isa.OP_LOAD:
            if row[isa.X_SIZE]:
                m = (isa.MEM_INP, isa.MEM_WGT, isa.MEM_ACC).index(row[isa.MEM])
                latest = -1 if m == 2 and split_out else max(reader[m].get(k, -1) for k in span)
                need[i, 2 if m == 2 else 1] = latest
                writer[m].update(dict.fromkeys(span, i))
                fresh -= set(span) if m == 2 else set()
        elif op == isa.OP_STORE:
            need[i, 1] = max([writer[2].get(k, -1) for k in span], default=-1)
            stale = i if stale < 0 and not fresh.issuperset(span) else stale
            reader[2].update(dict.fromkeys(span, i))
        else:
            gemm = op == isa.OP_GEMM and not row[isa.RESET]
            out = op != isa.OP_GEMM or gemm
            uops = triples[uop_at[i] : uop_at[i] + row[isa.UOP_END]]
            touched = [
                {int(u[m] + o * row[a] + j * row[b])
                 for u in uops for o in range(row[isa.ITER_OUT]) for j in range(row[isa.ITER_IN])}
                for m, (a, b) in enumerate(COLUMNS)
            ]
            if out or not split_out:
                need[i, 2] = max([reader[2].get(k, -1) for k in touched[0]], default=-1)
            if gemm:
                need[i, 0] = max([writer[m].get(k, -1) for m in (0, 1) for k in touched[m + 1]], default=-1)
                for m in (0, 1):
                    reader[m].update(dict.fromkeys(touched[m + 1], i))
            writer[2].update(dict.fromkeys(touched[0], i))
            fresh = fresh | touched[0] if out else fresh - touched[0]
    return need, stale


@pytest.mark.parametrize("split_out", [False, True])
def test_micro_ops_with_the_same_base_are_as_one(split_out: bool) -> None:
    waits = 0
    for seed in range(40):
        table, uop_at, triples = drawn(np.random.default_rng(seed), 24)
        need, stale = _needs(table, isa.queue_of(table), uop_at, triples, DEPTHS, split_out)
        expected = plain(table, uop_at, triples, split_out)
        assert np.array_equal(need, expected[0]) and stale == expected[1], seed
        waits += int((need >= 0).sum())
    assert waits > 300
