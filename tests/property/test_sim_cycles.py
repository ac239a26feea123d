"""The event-driven cycle model against a machine stepped register by register, and against its plain twin."""

from __future__ import annotations

import random
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim import isa, reference, timing
from sim.config import VTAConfig
from sim.errors import DeadlockError
from sim.isa import Table

WIDE = (16, 32, 64)
SLOW = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def run(table: Table, config: VTAConfig, address: int) -> timing.Timing | DeadlockError:
    try:
        return timing.simulate(table, config, address)
    except DeadlockError as error:
        return error


def agree_with_stepped(stepped: ModuleType, table: Table, config: VTAConfig, address: int) -> bool:
    """Compare the cycle count, and start and end of every instruction; True if the program ends."""
    result = run(table, config, address)
    cycles = result.cycles if isinstance(result, timing.Timing) else None
    # A deadlocked program is stepped on for a while after its last event, to see that nothing comes.
    limit = cycles + 2 if cycles is not None else result.cycle + 300
    found, trace = stepped.run(table, config, address, limit=limit)
    assert found == cycles
    if isinstance(result, timing.Timing):
        for i, (start, done) in trace.items():
            assert (i, start) == (i, result.start[i])
            assert done == result.done[i] or (done == -1 and result.done[i] > result.cycles)
        assert set(np.flatnonzero(result.start >= 0)) == set(trace)
    return cycles is not None


@pytest.mark.parametrize("buses", [(8,), WIDE], ids=["bus 8", "wide"])
@given(data=st.data())
@settings(SLOW, max_examples=40)
def test_drawn_programs_step_the_same(
    buses: tuple[int, ...], stepped: ModuleType, vta_programs: ModuleType, data: st.DataObject
) -> None:
    def choose(options: object) -> object:
        return data.draw(st.sampled_from(options))  # type: ignore[arg-type]

    config = vta_programs.machine(choose, buses)
    table = vta_programs.program(choose, data.draw(st.integers(0, 12)))
    assert agree_with_stepped(stepped, table, config, choose(vta_programs.INSN_ADDRESSES))


@pytest.mark.parametrize("buses", [(8,), WIDE], ids=["bus 8", "wide"])
@pytest.mark.parametrize("careless", [0, 5], ids=["tokens right", "tokens wrong"])
def test_random_programs_step_the_same(
    buses: tuple[int, ...], careless: int, stepped: ModuleType, vta_programs: ModuleType
) -> None:
    ended = 0
    for seed in range(30):
        choose = random.Random(seed).choice
        config = vta_programs.machine(choose, buses)
        table = vta_programs.program(choose, choose((1, 5, 20, 40)), careless)
        ended += agree_with_stepped(stepped, table, config, choose(vta_programs.INSN_ADDRESSES))
    assert ended == 30 if not careless else 6 < ended < 30


@pytest.mark.slow
@pytest.mark.parametrize("buses", [(8,), WIDE], ids=["bus 8", "wide"])
def test_many_random_programs_step_the_same(
    buses: tuple[int, ...], stepped: ModuleType, vta_programs: ModuleType
) -> None:
    for seed in range(1_000, 16_000):
        choose = random.Random(seed).choice
        config = vta_programs.machine(choose, buses)
        table = vta_programs.program(choose, choose((3, 10, 40, 120)), choose((0, 0, 0, 3)))
        agree_with_stepped(stepped, table, config, choose(vta_programs.INSN_ADDRESSES))


def test_plain_twin_is_equal(vta_programs: ModuleType) -> None:
    for seed in range(300):
        choose = random.Random(seed).choice
        config = vta_programs.machine(choose, (8, *WIDE))
        table = vta_programs.program(choose, choose((1, 5, 20, 40)), choose((0, 0, 5)))
        address = choose(vta_programs.INSN_ADDRESSES)
        result = run(table, config, address)
        try:
            cycles, starts, dones = reference.trace(table, config, address)
        except DeadlockError as error:
            assert isinstance(result, DeadlockError)
            expected = [(w.unit, w.index, w.since) for w in error.waiters]
            assert [(w.unit, w.index, w.since) for w in result.waiters if w.index is not None] == expected
            continue
        assert isinstance(result, timing.Timing)
        assert cycles == result.cycles == timing.cycles(table, config, address)
        assert starts == {int(i): int(result.start[i]) for i in np.flatnonzero(result.start >= 0)}
        assert dones == {int(i): int(result.done[i]) for i in np.flatnonzero(result.done >= 0)}
        cap = choose((cycles - 1, cycles, cycles + 1))
        capped = cycles if cap >= cycles else -1
        assert timing.cycles(table, config, address, cap=cap) == capped
        assert reference.cycles(table, config, address, cap=cap) == capped


def test_bursts_gone_through_at_once_take_their_time(vta_programs: ModuleType) -> None:
    """Long loads, whose bursts are skipped where nothing keeps them, against the same run burst by burst."""
    fewer = 0
    for seed in range(200):
        choose = random.Random(seed).choice
        config = replace(vta_programs.machine(choose, (8, *WIDE)), outstanding_reads=choose((1, 2, 3, 5, 6, 7, 8, 12, 16)))
        table = vta_programs.program(choose, choose((1, 5, 20, 40)), choose((0, 0, 5)))
        loads = np.flatnonzero((table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.X_SIZE] > 0))
        for i in loads:
            table[i, isa.X_SIZE] = choose((1, 1, 2, 3, 4, 8, 16, 40, 100, 400))
            table[i, isa.Y_SIZE] = choose((1, 1, 2, 5, 12, 30))
            table[i, isa.X_STRIDE] = choose((int(table[i, isa.X_SIZE]), 16, 128, 401))
        address = choose(vta_programs.INSN_ADDRESSES)
        stepwise = run(table, config, address)
        try:
            at_once = timing.simulate(table, config, address, record=False)
        except DeadlockError as error:
            assert isinstance(stepwise, DeadlockError)
            assert (error.cycle, error.waiters) == (stepwise.cycle, stepwise.waiters)
            continue
        assert isinstance(stepwise, timing.Timing)
        assert at_once.cycles == stepwise.cycles == timing.cycles(table, config, address)
        for name in ("visible", "start", "done", "idle", "wait_fetch", "wait_prev", "wait_next"):
            np.testing.assert_array_equal(getattr(at_once, name), getattr(stepwise, name), name)
        fewer += len(stepwise.bursts) > 200
    assert fewer > 50


def test_costs_bound_every_instruction_of_a_run(vta_programs: ModuleType) -> None:
    contended = 0
    for seed in range(150):
        choose = random.Random(seed).choice
        config = vta_programs.machine(choose, (8, *WIDE))
        table = vta_programs.program(choose, 40)
        result = timing.simulate(table, config)
        busy = result.done - result.start
        ended = result.done >= 0
        loads = ended & (table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.X_SIZE] > 0)
        alone = timing.instruction_cycles(table, config)
        assert (busy == alone)[ended & ~loads].all()
        columns = (isa.MEM, isa.DRAM, isa.Y_SIZE, isa.X_SIZE, isa.X_STRIDE, isa.Y_PAD_0)
        floor = timing.load_cycles_floor(*(table[loads, c] for c in columns), config=config)
        assert (busy[loads] >= floor).all()
        assert (result.contention[loads] == np.maximum(busy - alone, 0)[loads]).all()
        contended += int((result.contention > 0).sum())
        visible = result.visible[result.visible >= 0]
        assert (visible >= timing.fetch_cycles_floor(np.arange(1, len(visible) + 1), config)).all()
        waits = result.wait_fetch + result.wait_prev + result.wait_next
        started = result.start >= 0
        assert (waits == result.start - result.idle)[started].all()
    assert contended > 100


def test_costs_alone_equal_a_run_alone(vta_programs: ModuleType) -> None:
    """The instruction before FINISH, with fetch quiet, takes what ``instruction_cycles`` says."""
    for seed in range(1_500):
        choose = random.Random(seed).choice
        config = vta_programs.machine(choose, (8, *WIDE))
        builder = vta_programs.Builder(choose)
        if config.burst_beats < 4:
            continue  # FINISH would still be on its way
        insn = builder.instruction()
        row = insn.row()
        row[isa.POP_PREV : isa.PUSH_NEXT + 1] = 0
        queue = int(isa.queue_of(row[None])[0])
        row[isa.PUSH_NEXT if queue == isa.QUEUE_LOAD else isa.PUSH_PREV] = queue != isa.QUEUE_COMPUTE
        pop_prev, pop_next = int(queue == isa.QUEUE_LOAD), int(queue == isa.QUEUE_STORE)
        table = np.stack([row, isa.Finish(pop_prev=pop_prev, pop_next=pop_next).row()])
        result = timing.simulate(table, config)
        assert result.done[0] - result.start[0] == timing.instruction_cycles(row[None], config)[0]
        if row[isa.OPCODE] == isa.OP_LOAD and row[isa.X_SIZE]:
            words = timing.load_words(*(int(row[c]) for c in (5, 7, 8, 9, 10)), config=config)
            assert words == result.bursts[result.bursts[:, 0] > 0, 5].sum()


@pytest.mark.parametrize("bus", [8, *WIDE])
def test_fetch_cost_equals_a_run_of_no_ops(bus: int) -> None:
    for beats in (2, 16, 256):
        for delay in (1, 16, 40):
            config = VTAConfig(bus_bytes=bus, burst_beats=beats, read_delay=delay)
            for count in (1, 2, 7, 8, 9, 17, 100, 300):
                table = isa.table_of([isa.Load()] * (count - 1) + [isa.Finish()])
                visible = timing.simulate(table, config).visible[-1]
                assert visible == timing.fetch_cycles(count, config) >= timing.fetch_cycles_floor(count, config)
