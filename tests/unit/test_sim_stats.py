"""The account of a run: every cycle of every unit once, and nothing invented."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from sim import isa, stats, timing
from sim.config import VTAConfig
from sim.isa import MEM_INP, MEM_UOP, MEM_WGT, Alu, Finish, Gemm, Load, Store, table_of

DE10 = VTAConfig()


def test_units_partition_the_cycles(vta_programs: ModuleType) -> None:
    for seed in range(250):
        choose = random.Random(seed).choice
        config = vta_programs.machine(choose, (8, 16, 32, 64))
        run = timing.simulate(vta_programs.program(choose, choose((1, 10, 40))), config)
        spans = stats.activity(run)
        assert (spans.end > spans.begin).all() and (spans.begin >= 1).all()
        assert (spans.end <= run.cycles + 1).all()
        for unit in range(4):
            mine = spans.unit == unit
            assert (spans.begin[mine][1:] >= spans.end[mine][:-1]).all()
        account = stats.summarize(run)
        for name, unit in account.units.items():
            assert unit.busy + unit.stalled + unit.idle == run.cycles and unit.idle >= 0, name
            assert sum(unit.busy_by.values()) == unit.busy and sum(unit.stalled_by.values()) == unit.stalled
        assert sum(account.contention.values()) == run.contention.sum()
        started = np.flatnonzero((run.start >= 0) & (run.done >= 0) & (run.done <= run.cycles))
        for i in started:
            here = (spans.insn == i) & (spans.unit == run.queue[i] + 1) & (spans.kind < stats.FIRST_WAIT)
            assert spans.begin[here].tolist() == [run.start[i]] and spans.end[here].tolist() == [run.done[i] + 1]
        for i in np.flatnonzero((run.start >= 0) & (run.start <= run.cycles) & (run.done < 0)):  # FINISH did not wait for it
            here = (spans.insn == i) & (spans.unit == run.queue[i] + 1) & (spans.kind < stats.FIRST_WAIT)
            assert spans.begin[here].tolist() == [run.start[i]] and spans.end[here].tolist() == [run.cycles + 1]


def test_the_account_of_a_known_program() -> None:
    table = table_of([
        Load(mem=MEM_UOP, y_size=1, x_size=2, x_stride=2),
        Load(mem=MEM_INP, y_size=2, x_size=8, x_stride=8),
        Load(mem=MEM_WGT, y_size=1, x_size=1, x_stride=1, push_next=1),
        Gemm(reset=1, uop_end=1, iter_out=1, iter_in=16),
        Gemm(uop_end=1, iter_out=1, iter_in=16, pop_prev=1),
        Alu(uop_end=2, iter_out=1, iter_in=16, alu_op=isa.ALU_ADD),
        Alu(uop_end=1, iter_out=1, iter_in=16, alu_op=isa.ALU_SHR, use_imm=1, imm=8, push_next=1),
        Store(y_size=1, x_size=16, x_stride=16, pop_prev=1, push_prev=1),
        Finish(pop_next=1),
    ])  # fmt: skip
    run = timing.simulate(table, DE10)
    account = stats.summarize(run)
    compute = account.units["COMPUTE"]
    assert compute.busy_by == {
        "load uop": 1 + int(run.done[0] - run.start[0]), "reset": 23, "gemm": 23, "alu tensor": 71, "alu imm": 23,
        "finish": 2,
    }  # fmt: skip
    assert account.units["STORE"].busy_by == {"store": 55}
    assert compute.stalled_by["wait token STORE"] == 55
    assert account.bytes_read == {"insn": 144, "uop": 8, "wgt": 256, "inp": 256}
    assert account.bytes_written == 256
    assert account.bus_words == {"fetch": 18, "uop": 1, "inp": 32, "wgt": 32}
    assert account.bus_utilisation == 83 / run.cycles
    assert (account.gemm_uops, account.alu_uops, account.macs) == (16, 48, 16 * 256)
    assert account.gemm_utilisation == 16 / run.cycles
    assert account.read_bandwidth == pytest.approx(664 / run.cycles)
    plain = json.loads(json.dumps(account.to_json()))
    assert plain["units"]["COMPUTE"]["busy_by"]["gemm"] == 23 and plain["cycles"] == run.cycles
    text = account.table()
    assert text.startswith(f"{run.cycles} cycles, 9 instructions") and "wait token STORE" in text


def test_a_full_queue_stalls_fetch() -> None:
    long = Gemm(uop_end=1, iter_out=1, iter_in=500)
    table = table_of([*[long] * 6, Finish()])
    roomy = stats.summarize(timing.simulate(table, DE10)).units["FETCH"]
    tight = stats.summarize(timing.simulate(table, VTAConfig(queue_depth=2))).units["FETCH"]
    assert roomy.stalled == 0 and tight.stalled_by["queue full"] > 4 * 500
    assert roomy.busy == tight.busy


def test_contention_goes_to_who_was_ahead() -> None:
    table = table_of([
        Load(mem=MEM_WGT, y_size=1, x_size=16, x_stride=16),
        Gemm(uop_end=1, iter_out=1, iter_in=40),
        Load(mem=MEM_UOP, y_size=1, x_size=16, x_stride=16),
        Finish(),
    ])  # fmt: skip
    run = timing.simulate(table, DE10)
    # The micro-ops wait for weights asked for earlier; the weights lose the eight words of the micro-ops.
    assert run.contention.tolist() == [8, 0, 224, 0]
    assert stats.contention_by(run) == {"uop": 8, "wgt": 224}


def test_an_unrecorded_run_is_refused() -> None:
    table = table_of([Finish()])
    stats.activity(timing.simulate(table, DE10))
    with pytest.raises(ValueError, match="record=True"):
        stats.activity(timing.simulate(table, DE10, record=False))


def test_recorded_programs_have_an_account() -> None:
    data = Path(__file__).parents[1] / "data" / "rtl_cycles.json"
    programs = json.loads(data.read_text())["programs"]
    longest = max(programs, key=lambda p: int(p["cycles"]))
    account = stats.summarize(timing.simulate(isa.decode(isa.from_hex(longest["insns"]), DE10), DE10))
    assert account.cycles == longest["cycles"] == 53553
    # 64 vectors, 16 x 16 blocks, of which each is one GEMM step.
    assert account.gemm_uops == 64 * 16 * 16
    assert account.bytes_written == 64 * 16 * 16
