"""autosched: find, prove and apply the best schedule of a tensor program on a VTA."""

from __future__ import annotations

import importlib
from typing import Any

from autosched import _siblings

__version__ = "0.1.0"

_siblings.check()

# Public names are loaded on first use: ``import autosched`` costs no search library and no compiler.
_PUBLIC = {
    "PrimFunc": "autosched.ir",
    "IRModule": "autosched.ir",
    "Schedule": "autosched.schedule",
    "TensorIntrin": "autosched.schedule",
    "AXIS_SEPARATOR": "autosched.schedule",
    "te": "autosched.te",
    "script": "autosched.script",
    "parse": "autosched.script",
    "lower": "autosched.lower",
    "measure": "autosched.measure",
    "target": "autosched.target",
    "workload": "autosched.workloads",
    "tune": "autosched.search",
    "compile": "autosched.records",
    "load": "autosched.networks",
    "errors": "autosched.errors",
}
_MODULES = {"te", "script", "lower", "measure", "target", "errors", "ir", "schedule", "workloads", "kernel", "records", "search",
            "networks"}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"autosched.{name}")
    where = _PUBLIC.get(name)
    if where is None:
        raise AttributeError(f"module 'autosched' has no attribute {name!r}")
    return getattr(importlib.import_module(where), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
