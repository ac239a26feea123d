"""The Chrome trace, token arrows, scratchpad occupancy, and the chart of characters."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from sim import isa, occupancy, stats, timeline, timing
from sim.config import VTAConfig
from sim.isa import MEM_INP, MEM_UOP, MEM_WGT, Finish, Gemm, Load, Store, table_of
from sim.program import load_file

DE10 = VTAConfig()
DATA = Path(__file__).parents[1] / "data"

# Two vectors times one weight tile, added into two cleared accumulators.
SMALL = table_of([
    Load(mem=MEM_UOP, sram=0, y_size=1, x_size=1, x_stride=1),
    Load(mem=MEM_INP, sram=4, y_size=1, x_size=2, x_stride=2),
    Load(mem=MEM_WGT, sram=7, y_size=1, x_size=1, x_stride=1, push_next=1),
    Gemm(reset=1, uop_end=1, iter_out=1, iter_in=2, dst_in=1),
    Gemm(uop_end=1, iter_out=1, iter_in=2, dst_in=1, src_in=1, pop_prev=1, push_next=1),
    Store(sram=0, y_size=1, x_size=2, x_stride=2, pop_prev=1, push_prev=1),
    Finish(pop_next=1),
])  # fmt: skip


def uop_words(table: isa.Table, word: int) -> tuple[np.ndarray, np.ndarray]:
    mine = (table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == MEM_UOP)
    offsets = np.concatenate([[0], np.cumsum(mine * table[:, isa.X_SIZE])])
    return offsets, np.full(int(offsets[-1]), word, dtype=np.uint32)


def test_tokens_pair_in_order(vta_programs: ModuleType) -> None:
    seen = 0
    for seed in range(60):
        choose = random.Random(seed).choice
        run = timing.simulate(vta_programs.program(choose, 40), vta_programs.machine(choose, (8, 16)))
        pairs = timeline.token_pairs(run)
        seen += len(pairs)
        for _, giver, taker in pairs:
            assert run.done[giver] < run.start[taker]
        for columns in ((0, 1), (0, 2)):
            assert max(Counter(tuple(p[c] for c in columns) for p in pairs).values(), default=1) == 1
        taken = [(isa.QUEUE_LOAD, isa.POP_NEXT), (isa.QUEUE_COMPUTE, isa.POP_PREV), (isa.QUEUE_COMPUTE, isa.POP_NEXT),
                 (isa.QUEUE_STORE, isa.POP_PREV)]  # fmt: skip
        pops = sum(int(((run.queue == q) & (run.start >= 0) & (run.table[:, c] != 0)).sum()) for q, c in taken)
        assert len(pairs) == pops
    assert seen > 300


def test_trace_holds_tracks_slices_arrows_and_counters() -> None:
    run = timing.simulate(SMALL, DE10)
    word = int(isa.encode_uops([[0, 4, 7]], DE10)[0])
    curves = occupancy.occupancy(run, *uop_words(SMALL, word))
    trace = json.loads(json.dumps(timeline.chrome_trace(run, curves)))
    events = trace["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert list(names.values()) == list(stats.UNITS) and {e["pid"] for e in events} == {1}
    slices = [e for e in events if e["ph"] == "X"]
    for tid in names:
        mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in slices if e["tid"] == tid)
        assert mine and all(a[1] <= b[0] for a, b in itertools.pairwise(mine))
    gemm = next(e for e in slices if e["cat"] == "gemm")
    assert (gemm["ts"], gemm["ts"] + gemm["dur"] - 1) == (run.start[4], run.done[4])
    assert gemm["args"]["instruction"] == 4 and gemm["args"]["token from LOAD"] == run.wait_prev[4] > 0
    assert gemm["args"]["text"].startswith("GEMM uop_end=1") and gemm["name"].startswith("GEMM")
    named = [e for e in slices if names[e["tid"]] != "FETCH" and not e["cat"].startswith("wait")]
    assert named and all(e["args"]["text"].startswith(e["name"]) for e in named), "an instruction, without its tokens"
    assert not any(word in e["name"] for e in named for word in ("pop", "push"))
    assert any(e["cat"] == "wait token LOAD" and e["ts"] + e["dur"] == run.start[4] for e in slices)
    # Each arrow begins inside its giver's slice and ends inside its taker's.
    begins = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert set(begins) == set(ends) and len(begins) == 3
    for arrow in (*begins.values(), *ends.values()):
        assert any(s["tid"] == arrow["tid"] and s["ts"] <= arrow["ts"] < s["ts"] + s["dur"] for s in slices)
    counters = {e["name"] for e in events if e["ph"] == "C"}
    assert counters == {"UOP in use", "INP in use", "WGT in use", "ACC in use", "OUT in use"}
    assert trace["otherData"]["cycles"] == run.cycles


def test_occupancy_of_a_known_program() -> None:
    run = timing.simulate(SMALL, DE10)
    word = int(isa.encode_uops([[0, 4, 7]], DE10)[0])
    curves = {name: list(zip(*(a.tolist() for a in curve), strict=True)) for name, curve in
              occupancy.occupancy(run, *uop_words(SMALL, word)).items()}  # fmt: skip
    start, done = run.start.tolist(), run.done.tolist()
    assert curves["UOP"] == [(start[0], 1), (done[4] + 1, 0)]
    assert curves["INP"] == [(start[1], 2), (done[4] + 1, 0)]
    assert curves["WGT"] == [(start[2], 1), (done[4] + 1, 0)]
    assert curves["ACC"] == [(start[3], 2), (done[4] + 1, 0)]
    assert curves["OUT"] == [(start[4], 2), (done[5] + 1, 0)]
    # A micro-op that points elsewhere uses nothing of what was loaded.
    other = int(isa.encode_uops([[0, 100, 200]], DE10)[0])
    assert set(occupancy.occupancy(run, *uop_words(SMALL, other))) == {"UOP", "ACC", "OUT"}


def test_occupancy_ends_at_zero_and_fits(vta_programs: ModuleType) -> None:
    for seed in range(80):
        choose = random.Random(seed).choice
        config = vta_programs.machine(choose)
        run = timing.simulate(vta_programs.program(choose, 40), config)
        mine = (run.table[:, isa.OPCODE] == isa.OP_LOAD) & (run.table[:, isa.MEM] == MEM_UOP)
        area = (run.table[:, isa.X_SIZE] + run.table[:, [isa.X_PAD_0, isa.X_PAD_1]].sum(axis=1)) * (
            run.table[:, isa.Y_SIZE] + run.table[:, [isa.Y_PAD_0, isa.Y_PAD_1]].sum(axis=1)
        )
        offsets = np.concatenate([[0], np.cumsum(np.where(mine, area, 0))])
        words = np.random.default_rng(seed).integers(0, 1 << 28, int(offsets[-1]))
        for name, (times, levels) in occupancy.occupancy(run, offsets, words).items():
            assert (np.diff(times) > 0).all() and times[-1] <= run.cycles + 1, name
            assert levels[-1] == 0 and (levels >= 0).all()
            assert levels.max() <= {"UOP": config.uop_capacity, "INP": config.inp_depth, "WGT": config.wgt_depth}.get(
                name, config.acc_depth
            )


def test_too_many_accesses_are_refused() -> None:
    table = table_of([Gemm(uop_end=0, iter_out=0, iter_in=0), Finish()])
    run = timing.simulate(table, DE10)
    with pytest.raises(ValueError, match="too many to follow"):
        occupancy.occupancy(run, [0, 0, 0], [])


def test_a_recorded_program_becomes_a_file(tmp_path: Path) -> None:
    program = load_file(DATA / "rtl_outputs.json", DE10)[0]
    path = tmp_path / "trace.json"
    run = timeline.write_trace(path, program)
    events = json.loads(path.read_text())["traceEvents"]
    assert run.cycles == program.cycles
    assert max(e["ts"] + e["dur"] for e in events if e["ph"] == "X") == run.cycles + 1
    assert {e["ph"] for e in events} == {"M", "X", "s", "f", "C"}


def test_gantt_shows_who_does_what() -> None:
    run = timing.simulate(SMALL, DE10)
    lines = timeline.gantt(run, width=60).splitlines()
    assert lines[0].startswith(f"cycles 0..{run.cycles}")
    rows = {line.split("|")[0].strip(): line.split("|")[1] for line in lines[1:5]}
    assert list(rows) == list(stats.UNITS) and {len(r) for r in rows.values()} == {60}
    assert "I" in rows["LOAD"] and "W" in rows["LOAD"] and "S" in rows["STORE"] and "l" in rows["COMPUTE"]
    assert "W load wgt" in lines[5] and "t alu tensor" not in lines[5]
    # One column per cycle: exactly the spans of the account.
    fine = timeline.gantt(run, width=10_000).splitlines()
    compute = fine[3].split("|")[1]
    assert len(compute) == run.cycles + 1
    assert compute.count("G") == run.done[4] - run.start[4] + 1
    assert compute[int(run.start[4])] == "G" == compute[int(run.done[4])] != compute[int(run.done[4]) + 1]
    part = timeline.gantt(run, width=10, begin=int(run.start[4]), end=int(run.done[4]) + 1).splitlines()
    assert set(part[3].split("|")[1]) == {"G"}
    with pytest.raises(ValueError, match="nothing to draw"):
        timeline.gantt(run, begin=run.cycles + 5)


def test_glyphs_are_distinct() -> None:
    assert len(timeline.GLYPHS) == len(stats.KINDS) == len(set(timeline.GLYPHS))
