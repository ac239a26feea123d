"""Speed of execution, race analysis and the portability check on programs as large as a ResNet-18 layer.

Run with ``pytest tests/benchmarks/bench_execute.py``.
"""

from __future__ import annotations

import numpy as np
import pytest

from sim import isa
from sim.portable import check
from sim.presets import TARGETS
from sim.program import Program, Segment
from sim.races import check_races
from sim.semantics import execute, warm

DE10 = TARGETS["vta-de10"].config
UOPS, INP, WGT, OUT = 0x10000, 0x100000, 0x200000, 0x300000
# Output height and width, input and output channels, kernel: the convolutions of ResNet-18 after the first. Those
# of stride 1 have 451584 tiles of 16x16, those of stride 2 half of that, the 1x1 ones 25088.
LAYERS = {
    "c2": (56, 56, 64, 64, 3), "c3": (28, 28, 64, 128, 3), "c4": (28, 28, 64, 128, 1), "c5": (28, 28, 128, 128, 3),
    "c6": (14, 14, 128, 256, 3), "c7": (14, 14, 128, 256, 1), "c8": (14, 14, 256, 256, 3), "c9": (7, 7, 256, 512, 3),
    "c10": (7, 7, 256, 512, 1), "c11": (7, 7, 512, 512, 3),
}  # fmt: skip


def layer(height: int, width: int, channels: int, filters: int, kernel: int) -> Program:
    """A stream with a layer's amount of work: per tile of outputs and block of filters, all its taps and channels.

    Addresses are those of a plausible schedule, not of a correct convolution: speed does not depend on values.
    """
    rows = min(height, 14)
    columns = min(width, 14)
    taps = kernel * kernel * channels // 16
    chunk = min(taps, 36)
    uops = [(0, k % 64, k) for k in range(chunk)]
    insns: list[isa.Insn] = [isa.Load(mem=isa.MEM_UOP, dram=UOPS // 4, y_size=1, x_size=chunk, x_stride=chunk)]
    steps = {"iter_out": rows, "iter_in": columns, "dst_out": columns, "dst_in": 1}
    first = True
    for _ in range((height // rows) * (width // columns) * (filters // 16)):
        insns.append(isa.Gemm(reset=1, uop_end=1, pop_next=int(not first), **steps))
        for _ in range(taps // chunk):
            back = int(not first)
            first = False
            insns += [
                isa.Load(mem=isa.MEM_INP, dram=INP // 16, y_size=16, x_size=16, x_stride=56, pop_next=back),
                isa.Load(mem=isa.MEM_WGT, dram=WGT // 256, y_size=1, x_size=chunk, x_stride=chunk, push_next=1),
                isa.Gemm(uop_end=chunk, src_out=columns, src_in=1, pop_prev=1, push_prev=1, **steps),
            ]
        for k, (op, imm) in enumerate(((isa.ALU_SHR, 8), (isa.ALU_MIN, 127), (isa.ALU_MAX, -128))):
            insns.append(isa.Alu(
                alu_op=op, use_imm=1, imm=imm, uop_end=1, src_out=columns, src_in=1, push_next=int(k == 2), **steps
            ))  # fmt: skip
        insns.append(isa.Store(
            dram=OUT // 16, y_size=rows, x_size=columns, x_stride=width, pop_prev=1, push_prev=1
        ))  # fmt: skip
    insns += [isa.Load(pop_next=1), isa.Load(mem=isa.MEM_INP, pop_next=1, push_next=1), isa.Load(pop_prev=1)]
    memory = (
        Segment(UOPS, isa.encode_uops(uops, DE10).tobytes()),
        Segment(INP, np.random.default_rng(0).bytes(1 << 17)),
        Segment(WGT, np.random.default_rng(1).bytes(1 << 17)),
    )
    return Program("layer", DE10, isa.table_of([*insns, isa.Finish()]), 0x1000, memory)


@pytest.fixture(scope="module")
def layers() -> list[Program]:
    warm()
    return [layer(*shape) for shape in LAYERS.values()]


@pytest.mark.parametrize("mode", ["chisel", "fsim"])
def test_execute_ten_layers(benchmark, layers, mode):
    counts = benchmark.pedantic(lambda: [execute(p, mode).counters["gemm_counter"] for p in layers], rounds=3)
    assert sum(counts) == 4 * 451584 + 3 * 225792 + 3 * 25088


@pytest.mark.parametrize("name", ["c2", "c11"])
def test_races_of_a_layer(benchmark, name):
    warm()
    program = layer(*LAYERS[name])
    assert benchmark(lambda: check_races(program)) == []


def test_portability_of_a_layer(benchmark):
    warm()
    program = layer(*LAYERS["c2"])
    # Taps of one output follow each other, which only HLS cannot do.
    assert {d.who for d in benchmark(lambda: check(program))} == {("hls",)}
