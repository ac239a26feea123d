"""Cycle counts that the hardware gave, and what happens to programs that never end or are too large."""

from __future__ import annotations

import inspect
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sim import isa, reference, timing
from sim.config import VTAConfig
from sim.errors import ConfigError, DeadlockError, FieldError, LimitError
from sim.isa import MEM_ACC, MEM_INP, MEM_UOP, MEM_WGT, Alu, Finish, Gemm, Insn, Load, Store, Table, table_of

DATA = Path(__file__).parents[1] / "data"
DE10 = VTAConfig()
ONE_UOP = {"uop_end": 1, "iter_out": 1, "iter_in": 1}


def recorded(name: str) -> list[tuple[str, Table, int]]:
    programs = json.loads((DATA / name).read_text())["programs"]
    return [(p["name"], isa.decode(isa.from_hex(p["insns"]), DE10), p["cycles"]) for p in programs]


@pytest.mark.parametrize(("name", "count"), [("rtl_cycles.json", 177), ("rtl_outputs.json", 40)])
def test_every_recorded_program_takes_the_recorded_cycles(name: str, count: int) -> None:
    programs = recorded(name)
    assert len(programs) == count
    wrong = [(n, c, timing.cycles(t, DE10)) for n, t, c in programs if timing.cycles(t, DE10) != c]
    assert wrong == []
    assert all(timing.simulate(t, DE10).cycles == c for _, t, c in programs[::10])


def test_plain_twin_gives_the_recorded_cycles() -> None:
    for name, table, cycles in recorded("rtl_cycles.json")[::3]:
        assert (name, reference.cycles(table, DE10)) == (name, cycles)


def test_oracle_gives_the_recorded_cycles(stepped: object) -> None:
    short = [(t, c) for _, t, c in recorded("rtl_cycles.json") if c < 1500]
    assert len(short) > 100
    for table, cycles in short:
        assert stepped.run(table, DE10)[0] == cycles  # type: ignore[attr-defined]


def test_no_ops_pay_for_fetch() -> None:
    measured = {1: 25, 2: 29, 3: 33, 7: 49, 8: 53, 9: 70, 15: 94, 16: 98, 17: 115, 24: 143, 25: 160, 33: 205, 64: 368}
    for count, cycles in {**measured, 65: 385}.items():
        assert timing.cycles(table_of([Load()] * (count - 1) + [Finish()]), DE10) == cycles


# Busy cycles on the hardware, memory idle: (x, y, pads y0 y1 x0 x1) by memory.
LOADS: list[tuple[int, int, int, int, tuple[int, int, int, int], int]] = [
    (MEM_UOP, 1, 1, 0, (0, 0, 0, 0), 22), (MEM_UOP, 2, 1, 0, (0, 0, 0, 0), 22), (MEM_UOP, 2, 1, 1, (0, 0, 0, 0), 23),
    (MEM_UOP, 16, 1, 0, (0, 0, 0, 0), 29), (MEM_UOP, 256, 1, 0, (0, 0, 0, 0), 149),
    (MEM_UOP, 1024, 1, 0, (0, 0, 0, 0), 533), (MEM_UOP, 1, 16, 0, (0, 0, 0, 0), 55),
    (MEM_UOP, 1, 8, 0, (0, 0, 0, 0), 29), (MEM_INP, 1, 1, 0, (0, 0, 0, 0), 24), (MEM_INP, 16, 1, 0, (0, 0, 0, 0), 54),
    (MEM_INP, 4, 4, 0, (0, 0, 0, 0), 54), (MEM_INP, 14, 14, 0, (0, 0, 0, 0), 414),
    (MEM_INP, 16, 16, 0, (0, 0, 0, 0), 534), (MEM_WGT, 1, 1, 0, (0, 0, 0, 0), 54),
    (MEM_WGT, 16, 1, 0, (0, 0, 0, 0), 534), (MEM_WGT, 128, 1, 0, (0, 0, 0, 0), 4118),
    (MEM_ACC, 1, 1, 0, (0, 0, 0, 0), 30), (MEM_ACC, 16, 1, 0, (0, 0, 0, 0), 150),
    (MEM_ACC, 128, 1, 0, (0, 0, 0, 0), 1046), (MEM_INP, 14, 14, 0, (1, 1, 1, 1), 454),
    (MEM_INP, 14, 14, 0, (2, 0, 0, 0), 422), (MEM_INP, 14, 14, 0, (1, 1, 0, 0), 429),
    (MEM_INP, 14, 14, 0, (0, 2, 0, 0), 436), (MEM_INP, 14, 14, 0, (0, 0, 1, 1), 422),
    (MEM_INP, 14, 14, 0, (2, 2, 2, 2), 522), (MEM_INP, 1, 1, 0, (3, 3, 3, 3), 52),
    (MEM_INP, 14, 14, 0, (15, 15, 15, 15), 2134), (MEM_INP, 4, 4, 0, (1, 1, 1, 1), 55),
    (MEM_INP, 1, 1, 0, (2, 2, 2, 2), 28),
]  # fmt: skip


def test_measured_loads() -> None:
    mem, x, y, base, pads, cycles = (np.array(column) for column in zip(*LOADS, strict=True))
    found = timing.load_cycles(mem, 0x8000 + base, y, x, x + (x == 1) * 31, *pads.T, config=DE10)
    assert found.tolist() == cycles.tolist()


def test_measured_stores() -> None:
    y, x, stride, base, cycles = np.array([
        (1, 1, 1, 0, 6), (1, 2, 2, 0, 9), (1, 4, 4, 0, 15), (1, 8, 8, 0, 27), (1, 8, 8, 1, 30), (1, 9, 9, 0, 33),
        (1, 16, 16, 0, 54), (1, 64, 64, 0, 216), (2, 1, 1, 0, 12), (8, 14, 14, 0, 396), (8, 14, 28, 3, 408),
    ]).T  # fmt: skip
    assert timing.store_cycles(0x10000 + base, y, x, stride, config=DE10).tolist() == cycles.tolist()
    full = timing.store_cycles(0, 1, 128, 128, config=VTAConfig(burst_beats=256))
    assert full == 387


def test_compute_costs() -> None:
    assert timing.gemm_cycles(3, 5, 7) == 111 and timing.alu_cycles(3, 5, 7, 1) == 111
    assert timing.alu_cycles(3, 5, 7, [0, 1]).tolist() == [216, 111]
    rows = table_of([Gemm(uop_end=3, iter_out=5, iter_in=7), Alu(uop_bgn=1, uop_end=4, iter_out=5, iter_in=7)])
    assert timing.instruction_cycles(rows, DE10).tolist() == [111, 216]


def test_empty_loops_wrap() -> None:
    for change in ({"iter_out": 0}, {"iter_in": 0}, {"uop_end": 0}):
        row = table_of([Gemm(**{**ONE_UOP, **change})])
        assert timing.instruction_cycles(row, DE10)[0] == 16390
        assert timing.instruction_cycles(row, DE10, semantics="fsim")[0] == 6
    backwards = table_of([Gemm(uop_bgn=5, uop_end=3, iter_out=1, iter_in=1)])
    assert timing.instruction_cycles(backwards, DE10)[0] == (1 << 14) - 2 + 6


def test_store_of_no_rows_runs_through_all() -> None:
    assert timing.store_cycles(0, 0, 4, 8, config=DE10) == 65536 * 15
    wide = VTAConfig(bus_bytes=16)
    assert timing.store_cycles(0, 0, 4, 8, config=wide) == -1
    with pytest.raises(DeadlockError, match="STORE at instruction 0 waits for its own end: y_size = 0"):
        timing.cycles(table_of([Store(x_size=4, push_prev=1), Finish(pop_next=1)]), wide)


def test_a_wide_bus_has_a_longer_shortest_program() -> None:
    assert [timing.cycles(table_of([Finish()]), VTAConfig(bus_bytes=b)) for b in (8, 16, 32, 64)] == [25, 27, 27, 27]


def waits(insns: list[Insn], config: VTAConfig = DE10) -> list[tuple[str, int | None, str, int]]:
    with pytest.raises(DeadlockError) as caught:
        timing.cycles(table_of(insns), config)
    return [(w.unit, w.index, w.what, w.since) for w in caught.value.waiters]


def test_deadlocks_say_who_waits_for_what_since_when() -> None:
    load = Load(mem=MEM_INP, y_size=1, x_size=1, x_stride=1)
    assert waits([Finish(pop_prev=1)]) == [("COMPUTE", 0, "a token from LOAD (pop_prev)", 24)]
    both = "a token from LOAD (pop_prev) and a token from STORE (pop_next)"
    assert waits([Finish(pop_prev=1, pop_next=1)])[0][2] == both
    assert waits([Load(mem=MEM_INP, pop_next=1, push_next=1), Finish(pop_prev=1)]) == [
        ("LOAD", 0, "a token from COMPUTE (pop_next)", 26),
        ("COMPUTE", 1, "a token from LOAD (pop_prev)", 27),
    ]
    found = waits([Store(pop_prev=1, push_prev=1), Finish(pop_next=1)])
    assert [w[:3] for w in found] == [
        ("COMPUTE", 1, "a token from STORE (pop_next)"),
        ("STORE", 0, "a token from COMPUTE (pop_prev)"),
    ]
    hang = Load(mem=MEM_INP, x_size=3, push_next=1)
    assert waits([hang, Finish(pop_prev=1)])[0] == ("LOAD", 0, "its own end: y_size = 0 never completes", 26)
    assert timing.cycles(table_of([hang, Finish()]), DE10) == 28  # nobody asked it to end
    assert waits([load])[-1][2] == "a FINISH, which the program does not have"
    assert waits([])[-1][2] == "a FINISH, which the program does not have"
    unit, index, what, _ = waits([Alu(**ONE_UOP, alu_op=isa.ALU_MUL), Finish()])[0]
    assert (unit, index) == ("FETCH", 0) and "ALU MUL" in what
    assert "LOAD ACC_8BIT" in waits([Load(mem=isa.MEM_ACC_8BIT), Finish()])[0][2]
    assert "LOAD OUT" in waits([Load(mem=isa.MEM_OUT), Finish()])[0][2]


def test_a_full_queue_ahead_of_the_producer_is_a_deadlock() -> None:
    # Three instructions wait for a token that the fourth of another queue gives, but fetch cannot get past them.
    ahead = [Load(mem=MEM_INP, pop_next=int(i == 0)) for i in range(3)]
    insns = [*ahead, Load(push_prev=1), Finish()]
    assert timing.cycles(table_of(insns), VTAConfig(queue_depth=3)) > 0
    found = waits(insns, VTAConfig(queue_depth=2))
    assert found[0][:3] == ("FETCH", 2, "room in the LOAD queue (2 entries)")
    assert found[1][:3] == ("LOAD", 0, "a token from COMPUTE (pop_next)")


def test_tokens_beyond_255_are_lost() -> None:
    def program(pushes: int, pops: int) -> list[Insn]:
        hold = [Load(mem=MEM_INP, push_next=1)] * pushes
        drain: list[Insn] = [Load(pop_prev=1)] * pops
        # Compute starts when all are posted, so that they pile up.
        return [Gemm(uop_end=1, iter_out=16, iter_in=1023), *hold, *drain, Finish()]

    for count in (254, 255):
        assert timing.cycles(table_of(program(count, count)), DE10) > 0
    assert timing.cycles(table_of(program(256, 255)), DE10) > 0
    # Index 1 + 256 + 255: the first pop that finds nothing.
    assert waits(program(256, 256))[0][:3] == ("COMPUTE", 512, "a token from LOAD (pop_prev)")


def test_meaningless_flags_are_ignored() -> None:
    load = Load(mem=MEM_INP, pop_prev=1, push_prev=1, push_next=1)
    store = Store(pop_next=1, push_next=1)
    assert timing.cycles(table_of([load, store, Finish(pop_prev=1)]), DE10) == timing.cycles(
        table_of([Load(mem=MEM_INP, push_next=1), Store(), Finish(pop_prev=1)]), DE10
    )


def test_huge_programs_are_refused_by_name() -> None:
    row = Load(mem=MEM_WGT, y_size=65535, x_size=65535, x_stride=65535)
    start = time.process_time()
    with pytest.raises(LimitError) as caught:
        timing.cycles(table_of([Finish(), row, Finish()]), DE10)
    assert caught.value.index == 1 and "y_size" in caught.value.field
    # By itself it has a closed form, unless the machine's memory is one that has to be stepped through.
    assert timing.instruction_cycles(table_of([row]), DE10)[0] == 65535 * 65535 * 32 + 22
    with pytest.raises(LimitError):
        timing.instruction_cycles(table_of([row]), VTAConfig(outstanding_reads=1))
    # The largest loop nest costs nothing to time, but too many of them overflow the counter.
    most = Gemm(uop_end=0, iter_out=0, iter_in=0)
    assert timing.cycles(table_of([most, Finish()]), DE10) > 1 << 42
    with pytest.raises(LimitError) as caught:
        timing.cycles(np.repeat(table_of([most]), 300_000, axis=0), DE10)
    assert caught.value.field == "busy cycles" and caught.value.index > 200_000
    timing.cycles(table_of([Store(x_size=65535, y_size=65535, x_stride=1), Finish()]), DE10)
    assert time.process_time() - start < 30


def test_a_cap_ends_the_run() -> None:
    table = recorded("rtl_cycles.json")[-1][1]
    full = timing.cycles(table, DE10)
    assert timing.cycles(table, DE10, cap=full) == full
    assert timing.cycles(table, DE10, cap=full - 1) == -1 == timing.cycles(table, DE10, cap=0)


@pytest.mark.parametrize("semantics", ["chisel", "fsim"])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_transfer_of_nothing_takes_a_cycle(rows: int, semantics: str) -> None:
    for insn in (Store(y_size=rows), Load(mem=MEM_INP, y_size=rows), Load(mem=MEM_UOP, y_size=rows)):
        table = table_of([insn, Finish()])
        for machine in (DE10, VTAConfig(bus_bytes=64)):
            assert timing.instruction_cycles(table, machine, semantics=semantics)[0] == 1
            assert timing.cycles(table, machine, semantics=semantics) == reference.cycles(table, machine, semantics=semantics)


def test_fsim_times_what_the_hardware_refuses() -> None:
    mul = table_of([Alu(**ONE_UOP, alu_op=isa.ALU_MUL), Finish()])
    add = table_of([Alu(**ONE_UOP, alu_op=isa.ALU_ADD), Finish()])
    assert timing.cycles(mul, DE10, semantics="fsim") == timing.cycles(add, DE10)
    narrow = table_of([Load(mem=isa.MEM_ACC_8BIT, y_size=1, x_size=16, x_stride=16), Finish()])
    inp = timing.load_cycles(MEM_INP, 0, 1, 16, 16, config=DE10)
    # Pads are none where they are not said; of these sizes each of the four would show.
    rows = (MEM_INP, 0, 30, 3, 3)
    assert timing.load_cycles(*rows, config=DE10) == timing.load_cycles(*rows, 0, 0, 0, 0, config=DE10)
    result = timing.simulate(narrow, DE10, semantics="fsim")
    assert result.done[0] - result.start[0] == inp
    empty = table_of([Load(mem=MEM_INP, x_size=4, y_pad_0=2, push_next=1), Finish(pop_prev=1)])
    assert timing.cycles(empty, DE10, semantics="fsim") == reference.cycles(empty, DE10, semantics="fsim")
    with pytest.raises(ConfigError, match="semantics"):
        timing.cycles(add, DE10, semantics="hls")


def test_arguments_are_checked() -> None:
    table = table_of([Finish()])
    assert timing.cycles(table, DE10, 0x10008) == 25
    for address in (0x10004, -8, 1 << 32):
        with pytest.raises(ConfigError, match="insn_address"):
            timing.cycles(table, DE10, address)
    table[0, isa.X_SIZE] = 1
    with pytest.raises(FieldError, match="FINISH has no such field"):
        timing.cycles(table, DE10)
    frozen = table_of([Finish()])
    frozen.setflags(write=False)
    assert timing.cycles(frozen, DE10) == 25


def test_waits_and_contention_are_attributed() -> None:
    table = table_of([
        Load(mem=MEM_WGT, y_size=1, x_size=16, x_stride=16, push_next=1),
        Gemm(uop_end=1, iter_out=1, iter_in=40),
        Load(mem=MEM_UOP, y_size=1, x_size=16, x_stride=16),
        Gemm(**ONE_UOP, pop_prev=1, push_next=1),
        Store(y_size=1, x_size=1, x_stride=1, pop_prev=1, push_prev=1),
        Finish(pop_next=1),
    ])  # fmt: skip
    run = timing.simulate(table, DE10)
    assert run.wait_prev[3] == run.start[3] - run.done[2] - 1 > 0
    assert run.start[3] == run.done[0] + 1
    assert run.wait_next[5] == run.start[5] - run.done[3] - 1 == run.done[4] - run.done[3]
    assert run.alone[2] == 29 and run.contention[2] == run.done[2] - run.start[2] - 29 > 150
    # The micro-op load stands behind the weights that were asked for before it, and behind nothing else.
    words = run.foreign[2]
    assert words[timing.CLIENT_NAMES.index("wgt")] == words.sum() >= run.contention[2]
    bare = timing.simulate(table, DE10, record=False)
    assert bare.cycles == run.cycles and len(bare.bursts) == 0 and (bare.start == run.start).all()


def test_start_up_is_quick() -> None:
    timing.warm()
    code = (
        "import time\n"
        "import sim, sys\n"
        "assert 'numba' not in sys.modules\n"
        "from sim import isa, timing\n"
        "timing.cycles(isa.table_of([isa.Finish()]), sim.VTAConfig())\n"
        "print(time.process_time())"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=DATA.parents[1], capture_output=True, text=True, check=True)
    # Processor time, so that a busy machine does not count: about 0.8 s from the cache, 9 s without.
    assert float(done.stdout) < 3


def test_the_last_cycle_that_counts_is_that_of_the_end() -> None:
    # The load goes on after FINISH is done, which nothing makes wait for it.
    table = table_of([Load(mem=MEM_INP, dram=4096, y_size=8, x_size=16, x_stride=16), Finish()])
    end = timing.cycles(table, DE10)
    for cycles in (timing.cycles, reference.cycles):
        assert [cycles(table, DE10, cap=cap) for cap in (end - 1, end, end + 1)] == [-1, end, end]


@pytest.mark.parametrize("opcode", [-1, 5, 7])
def test_an_opcode_that_is_none_is_refused(opcode: int) -> None:
    table = table_of([Load(), Finish()])
    table[0, isa.OPCODE] = opcode
    with pytest.raises(FieldError):
        timing.cycles(table, DE10)


def test_the_plain_twin_is_called_as_the_model_is() -> None:
    assert inspect.signature(reference.cycles) == inspect.signature(timing.cycles)


def test_few_reads_at_once_wait_for_the_memory_again() -> None:
    """With one in flight every burst does, with two every other one; with three none, whatever the machine is."""
    counts = np.array([1, 2, 3, 7, 40])
    for bus, beats, delay, reads in itertools.product((8, 16), (2, 8, 64), (2, 16, 90), (1, 2, 3, 16)):
        machine = VTAConfig(bus_bytes=bus, burst_beats=beats, read_delay=delay, outstanding_reads=reads)
        words = counts * beats
        x = words * bus // machine.wgt_elem_bytes
        whole = x * machine.wgt_elem_bytes == words * bus
        alone = timing.load_cycles(MEM_WGT, 0, 1, x[whole], x[whole], config=machine) - words[whole]
        waits = timing.read_waits(counts, words, machine)
        assert (alone == 6 + delay + waits[whole]).all() and waits[0] == 0
        assert (waits[1:] > 0).all() == (reads == 1) and waits.any() == (reads < 3 and (reads - 1) * beats < delay + 2)
