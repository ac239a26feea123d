"""Races: what a missing token leaves unordered, and what the FIFO of a channel orders."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from sim import isa
from sim.errors import DeadlockError, ExecutionError, ProgramError
from sim.presets import TARGETS
from sim.program import Program, Segment
from sim.races import MAX_RACES, check_races
from sim.trace import stores_meet, uops_are_constant

DE10 = TARGETS["vta-de10"].config
UOPS, INP, WGT, ACC, OUT = 0x10000, 0x20000, 0x40000, 0x80000, 0xC0000
LOOP = {"uop_end": 1, "iter_out": 1, "iter_in": 4, "dst_in": 1, "src_in": 1}


def program(insns):
    memory = (Segment(UOPS, isa.encode_uops([(0, 0, 0)], DE10).tobytes()),)
    head = isa.Load(mem=isa.MEM_UOP, dram=UOPS // 4, y_size=1, x_size=1, x_stride=1)
    return Program("races", DE10, isa.table_of([head, *insns, isa.Finish()]), 0x1000, memory)


def pipeline(passes=2):
    """Load, multiply and store, ``passes`` times over the same buffers, every conflict ordered."""
    insns = []
    for k in range(passes):
        later = int(k > 0)
        more = int(k < passes - 1)
        insns += [
            isa.Load(mem=isa.MEM_INP, dram=INP // 16, y_size=1, x_size=4, x_stride=4, pop_next=later),
            isa.Load(mem=isa.MEM_WGT, dram=WGT // 256, y_size=1, x_size=1, x_stride=1, push_next=1),
            isa.Gemm(**LOOP, pop_prev=1, pop_next=later, push_prev=more, push_next=1),
            isa.Store(dram=OUT // 16, y_size=1, x_size=4, x_stride=4, pop_prev=1, push_prev=1),
        ]
    return [*insns, isa.Load(mem=isa.MEM_UOP, pop_next=1)]


def pairs(found):
    return {(r.first, r.second, r.memory, r.kind, r.range) for r in found}


def test_ordered():
    assert check_races(program(pipeline())) == []


def without(index, *flags, then=()):
    insns = pipeline()
    insns[index] = replace(insns[index], **dict.fromkeys(flags, 0))
    for other, flag in then:
        insns[other] = replace(insns[other], **{flag: 0})
    return program(insns)


@pytest.mark.parametrize(
    ("prog", "expected"),
    [
        # LOAD WGT -> GEMM: neither input nor weights are there.
        (without(1, "push_next", then=((2, "pop_prev"),)), {
            (1, 3, "INP", "RAW", (0, 3)), (2, 3, "WGT", "RAW", (0, 0))}),
        # GEMM -> the next LOAD: the input is overwritten early.
        (without(2, "push_prev", then=((4, "pop_next"),)), {
            (3, 5, "INP", "WAR", (0, 3)), (3, 6, "WGT", "WAR", (0, 0))}),
        # GEMM -> STORE.
        (without(2, "push_next", then=((3, "pop_prev"),)), {(3, 4, "OUT", "RAW", (0, 3))}),
        # STORE -> the next GEMM; the final pop then takes the second store's token.
        (without(3, "push_prev", then=((6, "pop_next"),)), {(4, 7, "OUT", "WAR", (0, 3))}),
    ],
)  # fmt: skip
def test_each_missing_token(prog, expected):
    assert expected <= pairs(check_races(prog))


def test_a_token_of_the_right_channel_at_the_wrong_place():
    """The push comes before the load that matters: counts balance, and the data is not there."""
    insns = pipeline(1)
    insns[0] = replace(insns[0], push_next=1)
    insns[1] = replace(insns[1], push_next=0)
    (race,) = check_races(program(insns))
    assert (race.first, race.second, race.memory) == (2, 3, "WGT")
    assert "no token orders instructions 2 and 3" in str(race)


def test_the_nth_pop_takes_the_nth_push():
    """Two loads push, the GEMM behind the first pop only knows of the first."""
    load = isa.Load(mem=isa.MEM_INP, dram=INP // 16, y_size=1, x_size=4, x_stride=4, push_next=1)
    weights = isa.Load(mem=isa.MEM_WGT, dram=WGT // 256, y_size=1, x_size=1, x_stride=1, push_next=1)
    wait = isa.Load(mem=isa.MEM_UOP, pop_prev=1)
    gemm = isa.Gemm(**LOOP, pop_prev=1)
    assert check_races(program([load, weights, wait, gemm])) == []
    (race,) = check_races(program([load, weights, gemm, wait]))
    assert (race.first, race.second, race.memory, race.kind) == (2, 3, "WGT", "RAW")


def test_order_through_a_third_engine():
    """A LOAD of what a STORE wrote is ordered through compute, or races on DRAM."""
    back = isa.Load(mem=isa.MEM_INP, sram=100, dram=OUT // 16 + 3, y_size=1, x_size=2, x_stride=2, pop_next=1)
    through = [isa.Load(mem=isa.MEM_UOP, pop_next=1, push_prev=1), back]
    insns = [*pipeline(1)[:-1], *through]
    assert check_races(program(insns)) == []
    insns[-2:] = [isa.Load(mem=isa.MEM_UOP, push_prev=1), back]
    (race,) = check_races(program(insns))
    assert pairs([race]) == {(4, 6, "DRAM", "RAW", (OUT + 48, OUT + 63))}
    assert f"{OUT + 48:#x}..{OUT + 63:#x}" in str(race)
    insns[-1] = replace(back, dram=OUT // 16 + 4)
    assert check_races(program(insns)) == []


def test_strided_rows_that_interleave_do_not_meet():
    store = isa.Store(dram=OUT // 16, y_size=4, x_size=1, x_stride=2, pop_prev=1)
    insns = [*pipeline(1)[:3], store]
    between = isa.Load(mem=isa.MEM_INP, sram=100, dram=OUT // 16 + 1, y_size=4, x_size=1, x_stride=2)
    assert check_races(program([*insns, between])) == []
    touching = replace(between, x_size=2)
    assert [r.memory for r in check_races(program([*insns, touching]))] == ["DRAM"]


def test_a_store_reads_acc_under_the_functional_simulator():
    """A LOAD ACC during a STORE hurts only where the STORE reads ACC."""
    load = isa.Load(mem=isa.MEM_ACC, dram=ACC // 64, y_size=1, x_size=4, x_stride=4)
    insns = pipeline(1)
    insns[-1:-1] = [load]
    assert check_races(program(insns), "chisel") == []
    for semantics in ("fsim", "portable"):
        assert pairs(check_races(program(insns), semantics)) == {(4, 5, "ACC", "WAR", (0, 3))}


def test_a_program_that_cannot_run():
    with pytest.raises(DeadlockError, match="LOAD at instruction 1 waits for a token from COMPUTE"):
        check_races(program([isa.Load(mem=isa.MEM_INP, pop_next=1, push_next=1), isa.Load(pop_prev=1)]))
    with pytest.raises(ExecutionError):
        check_races(program([isa.Load(mem=isa.MEM_INP, x_size=1)]))
    with pytest.raises(ProgramError, match="'rtl' is none of"):
        check_races(program([]), "rtl")


def test_many_races_are_cut_and_thousands_of_instructions_are_quick():
    insns = pipeline(600)
    check_races(program(insns))
    wide = {"uop_end": 1, "iter_out": 14, "iter_in": 56, "dst_out": 56, "dst_in": 1, "src_out": 56, "src_in": 1}
    big = [replace(i, **wide) if isinstance(i, isa.Gemm) else i for i in insns]
    prog = program(big)
    start = time.perf_counter()
    assert check_races(prog) == []
    assert time.perf_counter() - start < 1.0  # 470 000 micro-ops in 2400 instructions
    loose = [replace(i, pop_next=0, push_prev=0) for i in insns]
    loose[-1] = isa.Load(mem=isa.MEM_UOP)
    assert len(check_races(program(loose))) == MAX_RACES


def test_which_stores_meet_bytes_of_memory():
    def meet(low, high, mode="chisel", **store):
        return list(stores_meet(isa.table_of([isa.Store(**store)]), DE10, mode, low, high))

    first = {"dram": 0, "y_size": 1, "x_size": 1, "x_stride": 1}
    assert meet(0, 1, **first) == meet(15, 99, **first) == [0] and meet(16, 99, **first) == []
    # Without rows the functional simulator stores nothing; the RTL counts to 65 536.
    none = {**first, "dram": 2, "y_size": 0}
    assert meet(16, 48, "fsim", **none) == [] and meet(16, 48, **none) == [0]


def test_a_stride_that_is_never_taken_moves_no_micro_op():
    load = isa.Load(mem=isa.MEM_UOP, dram=4, y_size=1, x_size=1, x_stride=4096)
    for dram, constant in ((0, True), (1, False), (2, True)):
        store = isa.Store(dram=dram, y_size=1, x_size=1, x_stride=1)
        assert uops_are_constant(isa.table_of([load, store]), DE10, "chisel") == constant
