"""A cycle-exact and bit-exact model of the Versatile Tensor Accelerator (VTA).

Public names load on first use, so that ``import sim`` costs nothing and numba only what needs it.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim import asm, config, errors, isa, presets, reference, stats, timeline, timing
    from sim.config import VTAConfig
    from sim.errors import SimError
    from sim.presets import TARGETS, TargetSpec, target_spec

_MODULES = (
    "asm", "config", "costs", "encoding", "errors", "isa", "machine", "occupancy", "portable", "presets", "program",
    "races", "reference", "semantics", "stats", "timeline", "timing",
)  # fmt: skip
_NAMES = {
    "VTAConfig": "config",
    "SimError": "errors",
    "TARGETS": "presets",
    "TargetSpec": "presets",
    "target_spec": "presets",
}

VERSION = 1  # of cycles and bytes: raised whenever a program could give others

__all__ = [
    "TARGETS", "VERSION", "SimError", "TargetSpec", "VTAConfig", "asm", "config", "errors", "isa", "presets",
    "reference", "stats", "target_spec", "timeline", "timing", "warm",
]  # fmt: skip


def warm() -> None:
    """Compile every kernel, or load it from numba's cache; call it before starting workers."""
    for name in ("timing", "semantics"):
        module = importlib.import_module(f"sim.{name}")
        module.warm()


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"sim.{_NAMES[name]}"), name)
    if name in _MODULES:
        module: ModuleType = importlib.import_module(f"sim.{name}")
        return module
    raise AttributeError(f"module 'sim' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
