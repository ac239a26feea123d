"""The machine description: VTA's own configuration keys, and what its shell and memory add.

Formulas of sizes and depths: VTA's ``pkg_config.py`` and ``hw_spec.h``; of field widths: ``sim.encoding``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from sim.errors import ConfigError, clipped, nearest

# Not keys of vta_config.json: the ISA fixes them.
INSN_BITS = 128
UOP_BITS = 32
ITER_BITS = 14
INSN_BYTES = INSN_BITS // 8
PAGE_BITS = 12
PAGE_BYTES = 1 << PAGE_BITS
TOKEN_LIMIT = 255  # the RTL's token counters have 8 bits and saturate

# Whose meaning of an instruction a program relies on: the RTL's, the functional simulator's, or only what all share.
SEMANTICS: tuple[str, ...] = ("chisel", "fsim", "portable")
# The two that can be executed.
MODES: tuple[str, ...] = ("chisel", "fsim")


def mode_of(semantics: str) -> str:
    """Return how programs of these semantics are executed, timed and encoded: as the RTL does, except under ``fsim``."""
    return "fsim" if semantics == "fsim" else "chisel"


def multiplies(semantics: str) -> bool:
    """Whether the ALU of these semantics has MUL."""
    return semantics == "fsim"


def shifts_by_tensors(semantics: str) -> bool:
    """Whether these semantics shift each element by one of another tensor: implementations disagree on its range."""
    return semantics != "portable"


def loads_widen(semantics: str) -> bool:
    """Whether loads of these semantics bring int8 elements into the accumulators (ACC_8BIT)."""
    return semantics == "fsim"


# Names that change neither a cycle nor a byte.
_COSMETIC = ("TARGET", "HW_VER", "clock_mhz")
_RANGES: dict[str, tuple[int, int]] = {
    "LOG_INP_WIDTH": (0, 5),
    "LOG_WGT_WIDTH": (0, 5),
    "LOG_ACC_WIDTH": (3, 6),
    "LOG_BATCH": (0, 10),
    "LOG_BLOCK": (0, 10),
    "LOG_UOP_BUFF_SIZE": (3, 30),
    "LOG_INP_BUFF_SIZE": (1, 34),
    "LOG_WGT_BUFF_SIZE": (1, 34),
    "LOG_ACC_BUFF_SIZE": (1, 34),
    "bus_bytes": (8, 64),
    "burst_beats": (2, 256),
    "read_delay": (1, 100_000),
    "outstanding_reads": (1, 256),
    "queue_depth": (1, 65_536),
    "uop_depth": (2, 1 << 20),
    "clock_mhz": (1, 10_000),
}


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


@dataclass(frozen=True)
class VTAConfig:
    """A VTA: the keys of ``vta_config.json`` (log2 of bits, elements or bytes), then the shell.

    bus_bytes: width of the memory bus (8 is what the RTL was checked with).
    burst_beats: longest burst, in bus words; bursts never cross a multiple of ``burst_beats * bus_bytes``.
    read_delay: cycles that the memory waits before it serves a request that found it empty.
    outstanding_reads: read bursts in flight at once.
    queue_depth: entries of each instruction queue.
    uop_depth: micro-ops that the real memory holds; None takes the depth of LOG_UOP_BUFF_SIZE.
    clock_mhz: for reports only.

    Raises ConfigError for a machine that cannot be built.
    """

    TARGET: str = "sim"
    HW_VER: str = "0.0.2"
    LOG_INP_WIDTH: int = 3
    LOG_WGT_WIDTH: int = 3
    LOG_ACC_WIDTH: int = 5
    LOG_BATCH: int = 0
    LOG_BLOCK: int = 4
    LOG_UOP_BUFF_SIZE: int = 15
    LOG_INP_BUFF_SIZE: int = 15
    LOG_WGT_BUFF_SIZE: int = 18
    LOG_ACC_BUFF_SIZE: int = 17
    bus_bytes: int = 8
    burst_beats: int = 16
    read_delay: int = 16
    outstanding_reads: int = 16
    queue_depth: int = 512
    uop_depth: int | None = 2048
    clock_mhz: int = 100

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if name == "uop_depth" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(name, f"must be an integer, not {_shown(value)}")
            if not low <= value <= high:
                raise ConfigError(name, f"{_shown(value)} is outside {low}..{high}")
        for name in ("TARGET", "HW_VER"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(name, f"must be a string, not {_shown(getattr(self, name))}")
        for name in ("bus_bytes", "burst_beats"):
            if not _is_power_of_two(getattr(self, name)):
                raise ConfigError(name, f"{getattr(self, name)} is not a power of two")
        if self.LOG_ACC_WIDTH < self.LOG_INP_WIDTH:
            raise ConfigError("LOG_ACC_WIDTH", "the accumulator is narrower than the output (LOG_INP_WIDTH)")
        self._check_elements()

    def _check_elements(self) -> None:
        for memory, bits, size_key in (
            ("INP", self.inp_elem_bits, "LOG_INP_BUFF_SIZE"),
            ("WGT", self.wgt_elem_bits, "LOG_WGT_BUFF_SIZE"),
            ("ACC", self.acc_elem_bits, "LOG_ACC_BUFF_SIZE"),
        ):
            if bits % 8:
                raise ConfigError("LOG_BLOCK", f"an element of {memory} has {bits} bits, not whole bytes")
            if bits // 8 > PAGE_BYTES:
                reason = f"an element of {memory} has {bits // 8} bytes, more than a page ({PAGE_BYTES})"
                raise ConfigError("LOG_BLOCK", reason)
            if 1 << getattr(self, size_key) < 2 * (bits // 8):
                raise ConfigError(size_key, f"{memory} holds fewer than two elements of {bits // 8} bytes")
        if self.uop_depth is not None:
            if not _is_power_of_two(self.uop_depth):
                raise ConfigError("uop_depth", f"{self.uop_depth} is not a power of two")
            addressable = 1 << self.log_uop_depth
            if self.uop_depth > addressable:
                reason = f"{self.uop_depth} exceeds the {addressable} that LOG_UOP_BUFF_SIZE can address"
                raise ConfigError("uop_depth", reason)

    # Sizes.

    @property
    def batch(self) -> int:
        """Rows of an INP, ACC or OUT element."""
        return 1 << self.LOG_BATCH

    @property
    def block_in(self) -> int:
        """Reduction length of one GEMM uop."""
        return 1 << self.LOG_BLOCK

    @property
    def block_out(self) -> int:
        """Output lanes of one GEMM uop."""
        return 1 << self.LOG_BLOCK

    @property
    def LOG_OUT_WIDTH(self) -> int:
        """Log2 bits of an output lane: always as narrow as an input."""
        return self.LOG_INP_WIDTH

    @property
    def LOG_OUT_BUFF_SIZE(self) -> int:
        """Log2 bytes of OUT, which has as many entries as ACC."""
        return self.LOG_ACC_BUFF_SIZE + self.LOG_OUT_WIDTH - self.LOG_ACC_WIDTH

    @property
    def inp_elem_bits(self) -> int:
        """Bits of one INP element."""
        return 1 << (self.LOG_BATCH + self.LOG_BLOCK + self.LOG_INP_WIDTH)

    @property
    def wgt_elem_bits(self) -> int:
        """Bits of one WGT element."""
        return 1 << (2 * self.LOG_BLOCK + self.LOG_WGT_WIDTH)

    @property
    def acc_elem_bits(self) -> int:
        """Bits of one ACC element."""
        return 1 << (self.LOG_BATCH + self.LOG_BLOCK + self.LOG_ACC_WIDTH)

    @property
    def inp_elem_bytes(self) -> int:
        """Bytes of one INP element."""
        return self.inp_elem_bits // 8

    @property
    def wgt_elem_bytes(self) -> int:
        """Bytes of one WGT element."""
        return self.wgt_elem_bits // 8

    @property
    def acc_elem_bytes(self) -> int:
        """Bytes of one ACC element."""
        return self.acc_elem_bits // 8

    @property
    def out_elem_bytes(self) -> int:
        """Bytes of one OUT element."""
        return self.inp_elem_bits // 8

    @property
    def uop_elem_bytes(self) -> int:
        """Bytes of one micro-op."""
        return UOP_BITS // 8

    @property
    def log_uop_depth(self) -> int:
        """Log2 of the micro-ops that LOG_UOP_BUFF_SIZE holds: it sets field widths under fsim, not capacity."""
        return self.LOG_UOP_BUFF_SIZE + 3 - 5

    @property
    def log_inp_depth(self) -> int:
        """Log2 of INP's elements."""
        return self.LOG_INP_BUFF_SIZE + 3 - self.LOG_BATCH - self.LOG_BLOCK - self.LOG_INP_WIDTH

    @property
    def log_wgt_depth(self) -> int:
        """Log2 of WGT's elements."""
        return self.LOG_WGT_BUFF_SIZE + 3 - 2 * self.LOG_BLOCK - self.LOG_WGT_WIDTH

    @property
    def log_acc_depth(self) -> int:
        """Log2 of ACC's elements."""
        return self.LOG_ACC_BUFF_SIZE + 3 - self.LOG_BATCH - self.LOG_BLOCK - self.LOG_ACC_WIDTH

    @property
    def inp_depth(self) -> int:
        """Elements of INP."""
        return 1 << self.log_inp_depth

    @property
    def wgt_depth(self) -> int:
        """Elements of WGT."""
        return 1 << self.log_wgt_depth

    @property
    def acc_depth(self) -> int:
        """Elements of ACC."""
        return 1 << self.log_acc_depth

    @property
    def out_depth(self) -> int:
        """Elements of OUT."""
        return self.acc_depth

    @property
    def uop_capacity(self) -> int:
        """Micro-ops that the machine really holds."""
        return 1 << self.log_uop_depth if self.uop_depth is None else self.uop_depth

    @property
    def burst_bytes(self) -> int:
        """Bytes of the longest burst, and the boundary that no data burst crosses."""
        return self.burst_beats * self.bus_bytes

    # In, out, identity.

    @classmethod
    def from_json(cls, mapping: Mapping[str, object]) -> VTAConfig:
        """Build from the keys of ``vta_config.json`` and the shell's; absent ones take their defaults.

        An absent ``uop_depth`` is no more than what a given LOG_UOP_BUFF_SIZE holds, so that a plain ``vta_config.json`` with a
        small micro-op buffer is a machine.
        """
        known = [f.name for f in fields(cls)]
        for name in mapping:
            if name not in known:
                raise ConfigError(clipped(name), "unknown key" + nearest(name, known))
        size = mapping.get("LOG_UOP_BUFF_SIZE")
        if "uop_depth" not in mapping and isinstance(size, int) and 2 <= size < cls.LOG_UOP_BUFF_SIZE:
            held = 1 << (size - 2)  # 4 bytes each
            mapping = {"uop_depth": None if cls.uop_depth is None or held < cls.uop_depth else cls.uop_depth, **mapping}
        return cls(**mapping)  # type: ignore[arg-type]  # __post_init__ checks every type

    def to_json(self) -> dict[str, object]:
        """Return every key with its value, in declaration order."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def key(self) -> str:
        """SHA-256, in hex, of what decides cycles and bytes; names and the clock do not."""
        relevant = {k: v for k, v in self.to_json().items() if k not in _COSMETIC}
        relevant["uop_depth"] = self.uop_capacity
        text = json.dumps(relevant, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _shown(value: object) -> str:
    return clipped(repr(value))

