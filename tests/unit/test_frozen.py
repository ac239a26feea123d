"""What is handed around does not change: dataclasses of the machine's model, lowering, records and the space are frozen."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import is_dataclass

ROOMS = ("sim", "autosched.lower", "autosched.records", "space")
# Work in progress: who makes one fills it in, and hands it to nobody who keeps it.
FILLED_IN = {
    "sim.reference._Burst", "autosched.lower.affine.Loop", "autosched.lower.dram.Pages", "autosched.lower.storage.Storage",
    "autosched.lower.compute.Kernels", "autosched.lower.compute.Fold", "autosched.lower.dma.Rows", "autosched.lower.dma._Boxes",
    "autosched.lower.gemm._Pieces", "autosched.lower.gemm._Way", "autosched.lower.nest.Dim", "autosched.lower.nest.Grid",
    "autosched.lower.emit.Emitter", "autosched.lower.tokens.Stream",
    "autosched.lower.tree.Site", "autosched.lower.tree.Tree", "autosched.lower.uops.Placement", "autosched.lower.uops.Uops",
    "autosched.records.reading.LogFile", "space.build.Piece", "space.draft.Terms", "space.plan.Part", "space.plan.Plan",
    "space.visits._Text",
}


def test_all_but_what_is_filled_in_is_frozen() -> None:
    found = set()
    for room in ROOMS:
        for module in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
            here = vars(importlib.import_module(module.name)).values()
            own = [c for c in here if isinstance(c, type) and is_dataclass(c) and c.__module__ == module.name]
            found |= {f"{module.name}.{c.__name__}" for c in own if not vars(c)["__dataclass_params__"].frozen}
    assert found == FILLED_IN
