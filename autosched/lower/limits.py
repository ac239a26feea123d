"""How much a program may be: counted, so the same on every machine. Below these limits lowering and simulation end in bounded
time and memory; what is above is refused before it is built or walked through."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.errors import LoweringError
from sim.config import VTAConfig
from sim.isa import Table
from sim.legality import MAX_WORK, work


@dataclass(frozen=True)
class Limits:
    """The most that one program may be; VTA's runtime keeps instructions and micro-ops in buffers of 32 MiB each.

    Args:
        instructions: 128-bit words, FINISH included.
        uops: 32-bit micro-ops in DRAM.
        work: elements that transfers move plus micro-ops that run; a GEMM on a larger tile counts as its 16x16 parts. As many as
            the simulator executes.
    """

    instructions: int = 1 << 21
    uops: int = 1 << 23
    work: int = MAX_WORK


LIMITS = Limits()


def check_instructions(count: int, name: str) -> None:
    """Refuses a program that no instruction buffer holds.

    Args:
        count: its instructions.
        name: the block that makes them, or the whole program.

    Raises:
        LoweringError: kind ``capacity``.
    """
    if count > LIMITS.instructions:
        raise LoweringError(
            "capacity",
            f"block {name} becomes {count} instructions; a program has at most {LIMITS.instructions}, so work on larger tiles",
        )


def check_uops(count: int) -> None:
    """Refuses lists of micro-ops that no buffer holds.

    Raises:
        LoweringError: kind ``capacity``.
    """
    if count > LIMITS.uops:
        raise LoweringError(
            "capacity", f"the program has {count} micro-ops or more; a program has at most {LIMITS.uops}, so let more of its "
            "loops be loops of the hardware",
        )


def check_work(table: Table, config: VTAConfig, mode: str) -> None:
    """Refuses a program that takes too long to walk through.

    Args:
        table: its instructions.
        config: the machine.
        mode: ``chisel`` or ``fsim``.

    Raises:
        LoweringError: kind ``capacity``.
    """
    reason = too_much(int(work(table, config, mode).sum()))
    if reason:
        raise LoweringError("capacity", reason)


def too_much(total: int) -> str:
    """What is said of a program with so much work; nothing where it is not too much."""
    if total <= LIMITS.work:
        return ""
    return f"the program moves and computes {total} elements or more; at most {LIMITS.work} can be checked, so divide it"


def least_work(products: int, outputs: int, config: VTAConfig) -> int:
    """The least work of any schedule: products on the GEMM, and outputs that are initialised and stored.

    Args:
        products: whole elements to multiply.
        outputs: whole elements to store.
        config: the machine.
    """
    return products * max(1, config.batch * config.block_in * config.block_out // 256) + 2 * outputs
