"""Where the fields of instructions and micro-ops stand, and how much of each memory they can name.

There are two rules. The Chisel build decodes positions and widths that are constants, whatever the sizes of its memories
(``ISA.scala``). The functional simulator and the HLS design take the widths from the depths (``hw_spec.h``). At the default
sizes the two are one. Semantics choose the rule: ``chisel`` the first, ``fsim`` the second; ``portable`` needs a machine on
which they agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sim.config import INSN_BITS, ITER_BITS, UOP_BITS, VTAConfig, mode_of
from sim.errors import ConfigError

Layout = tuple[tuple[str, int, int], ...]

SRAM_BITS = 16

# Widths of the Chisel build: those of the default memories, with 2^13 micro-ops.
_CHISEL_WIDTHS = {"uop": 13, "inp": 11, "wgt": 10, "acc": 11}

_PREFIX = (("opcode", 3), ("pop_prev", 1), ("pop_next", 1), ("push_prev", 1), ("push_next", 1))


def _pack(*named: tuple[str, int]) -> Layout:
    """Lay fields LSB first into 64-bit units; one that would cross a unit's end starts the next unit."""
    layout: list[tuple[str, int, int]] = []
    position = 0
    for name, width in named:
        if position % 64 + width > 64:
            position = (position // 64 + 1) * 64
        layout.append((name, position, width))
        position += width
    return tuple(layout)


# LOAD and STORE are the same for every machine.
_MEM = _pack(
    *_PREFIX,
    ("mem", 3), ("sram", SRAM_BITS), ("dram", 32), ("y_size", 16), ("x_size", 16), ("x_stride", 16),
    ("y_pad_0", 4), ("y_pad_1", 4), ("x_pad_0", 4), ("x_pad_1", 4),
)  # fmt: skip


@dataclass(frozen=True)
class Encoding:
    """Bit layouts: (field, lowest bit, width) of every field, prefix first, in the order of the C structs.

    mem: of LOAD and STORE. gemm, alu: of those; ``imm`` is signed. uop: widths of a micro-op's ACC (dst), INP (src) and WGT
    index, from bit 0 on. uop_index: width of ``uop_bgn``.
    """

    mem: Layout
    gemm: Layout
    alu: Layout
    uop: tuple[int, int, int]
    uop_index: int

    @property
    def prefix(self) -> Layout:
        """What every instruction has."""
        return self.mem[: len(_PREFIX)]


def _encoding(uop: int, inp: int, wgt: int, acc: int) -> Encoding:
    loops = (
        *_PREFIX, ("reset", 1), ("uop_bgn", uop), ("uop_end", uop + 1), ("iter_out", ITER_BITS), ("iter_in", ITER_BITS),
        ("dst_out", acc), ("dst_in", acc),
    )  # fmt: skip
    gemm = _pack(*loops, ("src_out", inp), ("src_in", inp), ("wgt_out", wgt), ("wgt_in", wgt))
    alu = _pack(*loops, ("src_out", acc), ("src_in", acc), ("alu_op", 3), ("use_imm", 1), ("imm", 16))
    return Encoding(_MEM, gemm, alu, (acc, max(acc, inp), wgt), uop)


CHISEL = _encoding(**_CHISEL_WIDTHS)


@lru_cache(maxsize=64)
def _by_depths(uop: int, inp: int, wgt: int, acc: int) -> Encoding:
    return _encoding(uop, inp, wgt, acc)


def encoding_of(config: VTAConfig, semantics: str = "chisel") -> Encoding:
    """Return the layouts of a machine under semantics (one of ``sim.config.SEMANTICS``)."""
    return CHISEL if mode_of(semantics) == "chisel" else _of_depths(config)


def _of_depths(config: VTAConfig) -> Encoding:
    return _by_depths(config.log_uop_depth, config.log_inp_depth, config.log_wgt_depth, config.log_acc_depth)


def agree(config: VTAConfig) -> bool:
    """Whether both rules give a machine the same layouts."""
    return _of_depths(config) == CHISEL


def check_encoding(config: VTAConfig, semantics: str) -> None:
    """Raise ConfigError for a machine whose fields do not fit an instruction or a micro-op."""
    encoding = encoding_of(config, semantics)
    if sum(encoding.uop) > UOP_BITS:
        sizes = " + ".join(str(w) for w in encoding.uop)
        reason = f"a uop needs {sizes} bits (ACC, INP, WGT index), more than {UOP_BITS}"
        raise ConfigError("LOG_ACC_BUFF_SIZE", reason)
    for kind, layout in (("GEMM", encoding.gemm), ("ALU", encoding.alu)):
        end = max(low + width for _, low, width in layout)
        if end > INSN_BITS:
            reason = f"a {kind} instruction needs {end} bits, more than {INSN_BITS}; smaller buffers fit"
            raise ConfigError("LOG_UOP_BUFF_SIZE", reason)


@dataclass(frozen=True)
class Usable:
    """Elements of each memory that instructions can name: its depth, or what the narrowest field for it reaches."""

    uop: int
    inp: int
    wgt: int
    acc: int


@lru_cache(maxsize=64)
def usable(config: VTAConfig, semantics: str) -> Usable:
    """Return how much of each memory a program can use; OUT has as much as ACC."""
    encoding = encoding_of(config, semantics)
    acc, inp, wgt = (min(1 << width, 1 << SRAM_BITS) for width in encoding.uop)
    return Usable(
        uop=min(config.uop_capacity, 1 << encoding.uop_index, 1 << SRAM_BITS),
        inp=min(config.inp_depth, inp),
        wgt=min(config.wgt_depth, wgt),
        acc=min(config.acc_depth, acc),
    )
