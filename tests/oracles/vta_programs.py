"""Random machines and programs for the cycle models; ``choose`` picks from a sequence.

``random.Random(seed).choice`` makes them fast, hypothesis' ``draw(sampled_from(...))`` makes them shrink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim import isa
from sim.config import VTAConfig

Choose = Callable[[Sequence[Any]], Any]

# (pops, pushes) of each unit: (flag, channel).
FLAGS: dict[str, tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]] = {
    "load": ((("pop_next", "c2l"),), (("push_next", "l2c"),)),
    "compute": ((("pop_prev", "l2c"), ("pop_next", "s2c")), (("push_prev", "c2l"), ("push_next", "c2s"))),
    "store": ((("pop_prev", "c2s"),), (("push_prev", "s2c"),)),
}
INSN_ADDRESSES = (0x10000, 0x1008, 0x2078, 0x7F8)


def machine(choose: Choose, buses: Sequence[int] = (8,)) -> VTAConfig:
    """A machine: any burst, delay, number of outstanding reads and queue depth."""
    return VTAConfig(
        bus_bytes=choose(buses),
        burst_beats=choose((16, 16, 2, 4, 8, 64, 256)),
        read_delay=choose((16, 16, 1, 2, 3, 4, 8, 40, 100)),
        outstanding_reads=choose((16, 16, 1, 2, 3, 4)),
        queue_depth=choose((512, 512, 1, 2, 3, 8)),
        LOG_BLOCK=choose((4, 4, 5)),
        LOG_BATCH=choose((0, 0, 0, 1)),
    )


@dataclass
class Builder:
    """Keeps the tokens that are there if every instruction ran in program order: such programs never deadlock."""

    choose: Choose
    careless: int = 0  # out of 100 pops, how many are taken without a token
    tokens: dict[str, int] = field(default_factory=lambda: {"l2c": 0, "c2l": 0, "c2s": 0, "s2c": 0})

    def flags(self, unit: str, pushes: bool = True) -> dict[str, int]:
        pops, gives = FLAGS[unit]
        flags = {}
        for flag, channel in pops:
            if self.tokens[channel] and self.choose((True, True, False)):
                self.tokens[channel] -= 1
                flags[flag] = 1
            elif self.careless and self.choose(range(100)) < self.careless:
                flags[flag] = 1
        for flag, channel in gives if pushes else ():
            if self.tokens[channel] < 250 and self.choose((True, False)):
                self.tokens[channel] += 1
                flags[flag] = 1
        return flags

    def transfer(self, mem: int) -> dict[str, int]:
        big = (0, 1, 1, 2, 3, 5, 8, 9, 16, 17, 40)
        x = self.choose((0, 1, 2, 4)) if mem == isa.MEM_WGT else self.choose(big)
        y = self.choose((1, 1, 2)) if mem == isa.MEM_WGT else self.choose((1, 1, 1, 2, 3, 4, 20))
        x = min(x, 5) if y == 20 else x
        shape = {
            "mem": mem,
            "dram": self.choose(range(64)) + self.choose((0, 4096)),
            "y_size": y,
            "x_size": x,
            "x_stride": self.choose((x, x, x + 1, x + 7, 33)),
        }
        if mem != isa.MEM_OUT and self.choose((False, False, True)):
            for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"):
                shape[name] = self.choose((0, 0, 1, 2, 3, 15))
        return shape

    def loops(self) -> dict[str, int]:
        begin = self.choose(range(4))
        return {
            "uop_bgn": begin,
            "uop_end": begin + self.choose((1, 1, 2, 5)),
            "iter_out": self.choose((1, 1, 2, 3)),
            "iter_in": self.choose((1, 1, 4, 7)),
            "reset": self.choose((0, 1)),
        }

    def instruction(self) -> isa.Insn:
        unit = self.choose(("load", "load", "compute", "compute", "compute", "store"))
        flags = self.flags(unit)
        if unit == "load":
            return isa.Load(**flags, **self.transfer(self.choose((isa.MEM_INP, isa.MEM_WGT))))
        if unit == "store":
            return isa.Store(**flags, **self.transfer(isa.MEM_OUT))
        kind = self.choose(("load", "gemm", "alu"))
        if kind == "load":
            return isa.Load(**flags, **self.transfer(self.choose((isa.MEM_UOP, isa.MEM_ACC))))
        if kind == "gemm":
            return isa.Gemm(**flags, **self.loops())
        return isa.Alu(**flags, **self.loops(), alu_op=self.choose(range(4)), use_imm=self.choose((0, 1)), imm=-3)


def program(choose: Choose, length: int, careless: int = 0) -> isa.Table:
    """A program of ``length`` instructions, FINISH, and sometimes more after it."""
    builder = Builder(choose, careless)
    insns = [builder.instruction() for _ in range(length)]
    insns.append(isa.Finish(**builder.flags("compute", pushes=False)))
    insns += [isa.Finish()] * choose((0, 0, 0, 3))
    return isa.table_of(insns)
