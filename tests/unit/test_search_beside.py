"""Kernels that are compiled beside each other: what is, when nobody has compiled yet, and who waits for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autosched import lower
from autosched.search import pool as pool_module
from autosched.search.pool import MeasurePool
from sim import notices, timing

ORACLES = Path(__file__).resolve().parents[1] / "oracles"

# Which kernels of the space have been compiled, or loaded, and for which types: by what a search runs behind `warm`.
SAID = """
import contextlib, json, sys
import autosched, space
from brief import brief_breeding

def kernels():
    return {f"{module}.{x.__name__}": sorted(map(str, x.signatures)) for module, loaded in list(sys.modules.items())
            if module.startswith("space.") for x in vars(loaded).values() if hasattr(x, "signatures") and x.__module__ == module}

space.warm()
before = kernels()
with brief_breeding() if sys.argv[2] == "brief" else contextlib.nullcontext():
    for name in sys.argv[3:]:
        autosched.tune(name, trials=2, jobs=1, log=sys.argv[1])
print(json.dumps([before, kernels()]))
"""


@pytest.mark.parametrize("breeding", ["brief", pytest.param("whole", marks=pytest.mark.slow)])
def test_a_search_estimates_with_kernels_that_are_warm(tmp_path: Path, breeding: str) -> None:
    """Each that it compiled besides would be compiled while nothing else is done. A few generations run them all."""
    names = ("conv2d:h=8,w=8,ci=16,co=32,k=3,pad=1", "dense:m=4,k=64,n=32", "max_pool2d:h=8,w=8,c=16,k=3,stride=2,pad=1")
    words = [sys.executable, "-c", SAID, str(tmp_path), breeding, *names]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ORACLES), *(p for p in sys.path if p)])}
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=True, env=environment)
    before, after = json.loads(done.stdout.splitlines()[-1])
    assert len(before["space._play_kernel.play"]) == 1
    # What no draw asks for is warm, too: polishing may.
    assert len(before["space._rise_kernel.split"]) == 1
    assert after == before


class Noted:
    """In the place of a process that compiles: writes down what becomes of it."""

    def __init__(self, log: list[str], module: str) -> None:
        self.log, self.module, self.started = log, module, False

    def start(self) -> None:
        self.started = True
        self.log.append(f"{self.module} begins")

    def wait(self) -> None:
        self.log.append(f"{self.module} is waited for")

    def stop(self) -> None:
        self.log.append(f"{self.module} ends")


@pytest.mark.parametrize("compiles", [True, False])
def test_estimates_are_compiled_beside_lowering_where_anything_is(monkeypatch: pytest.MonkeyPatch, compiles: bool) -> None:
    log: list[str] = []

    def timed() -> None:
        log.append("timing")
        if compiles:
            notices.tell("compiling kernels")

    monkeypatch.setattr(pool_module, "Beside", lambda module: Noted(log, module))
    monkeypatch.setattr(timing, "warm", timed)
    monkeypatch.setattr(lower, "warm", lambda: log.append("lowering"))
    with notices.told_to(lambda _: None), MeasurePool(1):
        log.append("search")
    drafts, checks = (["space begins"], ["sim.semantics begins"]) if compiles else ([], [])
    assert log == ["timing", *drafts, "lowering", *checks, "space is waited for", "search", "space ends", "sim.semantics ends"]
