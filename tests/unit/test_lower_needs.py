"""Who waits for whom: the compiled walk over elements against one that keeps a dictionary entry for each of them."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.lower import tokens
from sim import isa

DEPTHS = 96, 48, 96  # elements of INP, WGT and ACC
LOAD, COMPUTE, STORE = isa.QUEUE_LOAD, isa.QUEUE_COMPUTE, isa.QUEUE_STORE
OPERANDS = ((isa.DST_OUT, isa.DST_IN), (isa.SRC_OUT, isa.SRC_IN), (isa.WGT_OUT, isa.WGT_IN))


def transfer(rng: np.random.Generator, opcode: int) -> np.ndarray:
    """A load into some memory, or a store, of a few rows, loads with pads."""
    row = np.zeros(isa.NCOLS, dtype=np.int64)
    row[isa.OPCODE] = opcode
    row[isa.MEM] = isa.MEM_OUT if opcode == isa.OP_STORE else rng.choice([isa.MEM_INP, isa.MEM_WGT, isa.MEM_ACC, isa.MEM_UOP])
    row[isa.X_SIZE], row[isa.Y_SIZE] = rng.integers(0 if opcode == isa.OP_LOAD else 1, 7), rng.integers(1, 4)
    if opcode == isa.OP_LOAD:
        row[[isa.X_PAD_0, isa.X_PAD_1, isa.Y_PAD_0, isa.Y_PAD_1]] = rng.integers(0, 2, 4)
    row[isa.SRAM] = rng.integers(0, 8)
    return row


def computation(rng: np.random.Generator, opcode: int, lists: list[np.ndarray], longest: int) -> tuple[np.ndarray, int]:
    """A product, a reset or an ALU operation whose loops stand still, step by one or by more, and where its list begins."""
    row = np.zeros(isa.NCOLS, dtype=np.int64)
    row[isa.OPCODE] = opcode
    row[isa.RESET] = opcode == isa.OP_GEMM and rng.integers(0, 3) == 0
    row[isa.ITER_OUT], row[isa.ITER_IN] = rng.integers(1, longest, 2) if rng.integers(0, 8) else (0, 3)
    room = list(DEPTHS[2:] + DEPTHS[:2])
    for k, columns in enumerate(OPERANDS):
        steps = [int(rng.choice([0, 1, 1, 2, 5])) for _ in columns]
        for column, step, trips in zip(columns, steps, (isa.ITER_OUT, isa.ITER_IN)):
            reach = step * (int(row[trips]) - 1)
            if 0 <= reach < room[k] - 1:
                row[column] = step
                room[k] -= reach
    begin = sum(map(len, lists))
    count = int(rng.integers(1, 5))
    lists.append(np.stack([rng.integers(0, n, count) for n in room], axis=1))
    row[isa.UOP_BGN], row[isa.UOP_END] = 7, 7 + count
    return row, begin


def drawn(seed: int, longest: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Instructions in program order, where their lists begin, and all micro-ops."""
    rng = np.random.default_rng(seed)
    rows, begins, lists = [], [], []
    for opcode in rng.choice([isa.OP_LOAD, isa.OP_LOAD, isa.OP_STORE, isa.OP_GEMM, isa.OP_ALU], 40):
        if opcode in (isa.OP_LOAD, isa.OP_STORE):
            rows.append(transfer(rng, opcode))
            begins.append(0)
        else:
            row, begin = computation(rng, opcode, lists, longest)
            rows.append(row)
            begins.append(begin)
    return np.array(rows), np.array(begins), np.concatenate([np.zeros((0, 3), dtype=np.int64), *lists])


def told(row: np.ndarray, column: int, triples: np.ndarray, begin: int) -> set[int]:
    """The elements that an instruction's micro-ops touch of an operand."""
    out, inner = OPERANDS[column]
    own = triples[begin : begin + int(row[isa.UOP_END] - row[isa.UOP_BGN]), column]
    return {int(base + o * row[out] + i * row[inner]) for base in own for o in range(row[isa.ITER_OUT])
            for i in range(row[isa.ITER_IN])}


def oracle(table: np.ndarray, begins: np.ndarray, triples: np.ndarray, split_out: bool) -> tuple[list[list[int]], int]:
    """What ``needs`` says, element by element."""
    need, stale = [[-1] * 3 for _ in table], -1
    writer, reader, fresh = {}, {}, {}

    def latest(known: dict, memory: str, elements: set[int]) -> int:
        return max([known.get((memory, e), -1) for e in elements], default=-1)

    for i, row in enumerate(table):
        op, mem = row[isa.OPCODE], row[isa.MEM]
        if op == isa.OP_LOAD:
            width = row[isa.X_PAD_0] + row[isa.X_SIZE] + row[isa.X_PAD_1]
            height = row[isa.Y_PAD_0] + row[isa.Y_SIZE] + row[isa.Y_PAD_1]
            own = set(range(row[isa.SRAM], row[isa.SRAM] + width * height))
            if mem == isa.MEM_UOP or not row[isa.X_SIZE]:
                continue
            name = {isa.MEM_INP: "inp", isa.MEM_WGT: "wgt", isa.MEM_ACC: "acc"}[int(mem)]
            if name != "acc":
                need[i][COMPUTE] = latest(reader, name, own)
            elif not split_out:
                need[i][STORE] = latest(reader, name, own)
            writer.update({(name, e): i for e in own})
            fresh.update(dict.fromkeys(own, False) if name == "acc" else {})
        elif op == isa.OP_STORE:
            own = set(range(row[isa.SRAM], row[isa.SRAM] + row[isa.X_SIZE] * row[isa.Y_SIZE]))
            need[i][COMPUTE] = latest(writer, "acc", own)
            if stale < 0 and not all(fresh.get(e, False) for e in own):
                stale = i
            reader.update({("acc", e): i for e in own})
        else:
            reset = op == isa.OP_GEMM and row[isa.RESET]
            own = told(row, 0, triples, begins[i])
            if not reset or not split_out:
                need[i][STORE] = latest(reader, "acc", own)
            writer.update({("acc", e): i for e in own})
            fresh.update(dict.fromkeys(own, not reset))
            if op == isa.OP_GEMM and not reset:
                for column, name in ((1, "inp"), (2, "wgt")):
                    read = told(row, column, triples, begins[i])
                    need[i][LOAD] = max(need[i][LOAD], latest(writer, name, read))
                    reader.update({(name, e): i for e in read})
    return need, stale


@pytest.mark.parametrize("split_out", [False, True])
@pytest.mark.parametrize("longest", [4, 14])  # below and above what is gone through together
@pytest.mark.parametrize("seed", range(30))
def test_each_waits_for_the_last_that_touched_what_it_touches(seed: int, longest: int, split_out: bool) -> None:
    table, begins, triples = drawn(seed, longest)
    need, stale = tokens._needs(table, isa.queue_of(table), begins, triples, DEPTHS, split_out)
    assert (need.tolist(), stale) == oracle(table, begins, triples, split_out)


@pytest.mark.parametrize("column", range(3))
@pytest.mark.parametrize("trips", [7, 8, 9])
@pytest.mark.parametrize("outer", [False, True])
def test_elements_side_by_side_are_all_gone_through_and_no_more(column: int, trips: int, outer: bool) -> None:
    # One instruction touches so many elements from 3 on; who touches the last of them waits, and who touches the next does not.
    row = np.zeros(isa.NCOLS, dtype=np.int64)
    row[[isa.OPCODE, isa.ITER_OUT, isa.ITER_IN, isa.UOP_END]] = isa.OP_GEMM, 1, 1, 1
    row[isa.ITER_OUT if outer else isa.ITER_IN] = trips
    row[OPERANDS[column][0 if outer else 1]] = 1
    triples = np.zeros((1, 3), dtype=np.int64)
    triples[0, column] = 3
    for place, waits in ((2, False), (3, True), (2 + trips, True), (3 + trips, False)):
        other = np.zeros(isa.NCOLS, dtype=np.int64)
        other[[isa.X_SIZE, isa.Y_SIZE, isa.SRAM]] = 1, 1, place
        other[isa.OPCODE] = isa.OP_STORE if column == 0 else isa.OP_LOAD
        other[isa.MEM] = (isa.MEM_OUT, isa.MEM_INP, isa.MEM_WGT)[column]
        table = np.stack([row, other])
        need, _ = tokens._needs(table, isa.queue_of(table), np.zeros(2, dtype=np.int64), triples, DEPTHS, True)
        assert need[1, COMPUTE] == (0 if waits else -1)
