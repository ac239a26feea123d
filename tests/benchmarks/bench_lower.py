"""Speed of lowering on schedules of ResNet-18 layers.

Run with ``pytest tests/benchmarks/bench_lower.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.lower import lower_table, warm
from autosched.target import get_target
from autosched.workloads import workload
from space import Space


@pytest.mark.parametrize("layer", ["resnet18.c2", "resnet18.c5", "resnet18.c11", "t3"])
def test_typical_schedule(benchmark: Any, layer: str) -> None:
    """The schedule of median length among forty random ones."""
    warm()
    target = get_target("vta-de10")
    space = Space(workload(layer).func, target)
    funcs = [space.schedule(point).mod["main"] for point in space.sample(np.random.default_rng(1), 40)]
    funcs.sort(key=lambda func: len(lower_table(func, target).table))
    func = funcs[len(funcs) // 2]
    low = benchmark(lower_table, func, target)
    benchmark.extra_info["instructions"] = len(low.table)
