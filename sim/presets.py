"""Named targets: a machine and the meaning of its instructions.

``verified`` says what each was checked against and ``extrapolated`` what was not, in words for reports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sim import legality
from sim.config import SEMANTICS, VTAConfig
from sim.errors import ConfigError, UnknownTargetError


@dataclass(frozen=True)
class TargetSpec:
    """A machine, and which implementation's semantics its programs rely on (one of SEMANTICS)."""

    name: str
    config: VTAConfig
    semantics: str
    verified: str
    extrapolated: str

    def __post_init__(self) -> None:
        if self.semantics not in SEMANTICS:
            raise ConfigError("semantics", f"{self.semantics!r} is none of {', '.join(SEMANTICS)}")
        legality.check_semantics(self.config, self.semantics)


_DE10 = VTAConfig(TARGET="de10nano")
_PYNQ = VTAConfig(TARGET="pynq", burst_beats=256)
_ULTRA96 = VTAConfig(TARGET="ultra96", bus_bytes=16, burst_beats=256, uop_depth=None, clock_mhz=333)
_ZCU104 = replace(_ULTRA96, TARGET="zcu104", HW_VER="0.0.1")
_FSIM = VTAConfig(TARGET="sim", uop_depth=None)

_RTL = "cycles and bytes equal to the generated RTL with its simulated memory"
_BOARD = "latency and refresh of a board's DRAM"
_SISTER = "the same RTL generator as vta-de10"
_LONG = "256-beat bursts; " + _BOARD
_WIDE = "all cycles: 128-bit bus by reading the RTL's source, HLS pipelines not modelled; " + _BOARD

TARGETS: dict[str, TargetSpec] = {
    spec.name: spec
    for spec in (
        TargetSpec("vta-de10", _DE10, "chisel", _RTL, _BOARD),
        TargetSpec("vta-pynq", _PYNQ, "chisel", _SISTER, _LONG),
        TargetSpec("vta-de10-portable", _DE10, "portable", _RTL, _BOARD),
        TargetSpec("vta-pynq-portable", _PYNQ, "portable", _SISTER, _LONG),
        TargetSpec("vta-ultra96", _ULTRA96, "portable", "bytes", _WIDE),
        TargetSpec("vta-zcu104", _ZCU104, "portable", "bytes", _WIDE),
        TargetSpec("vta-fsim", _FSIM, "fsim", "bytes", "all cycles: the functional simulator has none"),
    )
}


def target_spec(name: str) -> TargetSpec:
    """Return the preset called ``name``; UnknownTargetError names the nearest one."""
    try:
        return TARGETS[name]
    except KeyError:
        raise UnknownTargetError(name, tuple(TARGETS)) from None
