"""How fast the cycle models are: the compiled kernel, its plain twin, and the machine stepped cycle by cycle.

Run ``python tests/benchmarks/bench_timing.py``; a rate counts instructions and read bursts (events) per second.
"""

from __future__ import annotations

import importlib.util
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from sim import isa, reference, timing
from sim.config import VTAConfig
from sim.isa import Table

TESTS = Path(__file__).parents[1]
SECONDS = 2.0  # per measurement


def load(name: str) -> ModuleType:
    """Import tests/oracles/NAME.py."""
    spec = importlib.util.spec_from_file_location(name, TESTS / "oracles" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def rate(run: Callable[[Table], object], programs: list[Table]) -> float:
    """Return seconds per pass over all programs, the best of the passes that fit the time."""
    best = float("inf")
    until = time.perf_counter() + SECONDS
    while True:
        start = time.perf_counter()
        for table in programs:
            run(table)
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() > until:
            return best


def main() -> None:
    """Print the table."""
    config = VTAConfig()
    stepped, generator = load("stepped"), load("vta_programs")
    recorded = json.loads((TESTS / "data" / "rtl_cycles.json").read_text())["programs"]
    tables = [(isa.decode(isa.from_hex(p["insns"]), config), int(p["cycles"])) for p in recorded]
    sets = {
        "recorded, all 177": [t for t, _ in tables],
        "recorded, over 20000 cycles": [t for t, c in tables if c > 20_000],
        "random, 2000 instructions": [generator.program(random.Random(s).choice, 2000) for s in range(3)],
    }
    models: list[tuple[str, Callable[[Table], object]]] = [
        ("kernel", lambda t: timing.cycles(t, config)),
        ("kernel, recorded", lambda t: timing.simulate(t, config)),
        ("plain Python", lambda t: reference.cycles(t, config)),
        ("stepped", lambda t: stepped.run(t, config, limit=10**9)),
    ]
    timing.warm()
    print(f"{'programs':30} {'model':18} {'us/program':>11} {'events/s':>12} {'cycles/s':>14} {'times kernel':>13}")
    for name, programs in sets.items():
        runs = [timing.simulate(t, config) for t in programs]
        events = sum(len(r.table) + len(r.bursts) for r in runs)
        cycles = sum(r.cycles for r in runs)
        base = 0.0
        for model, run in models:
            taken = rate(run, programs)
            base = base or taken
            print(
                f"{name:30} {model:18} {1e6 * taken / len(programs):11.1f} {events / taken:12,.0f}"
                f" {cycles / taken:14,.0f} {taken / base:13.1f}"
            )


if __name__ == "__main__":
    main()
