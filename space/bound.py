"""The bound of points: cycles that no execution of a point can beat, the busiest engine with what compute itself has to load.

Only beats are counted, never latencies that a machine might hide; of a strided or padded region only what is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim import timing
from space.nest import ACC

if TYPE_CHECKING:
    from space.model import Model
    from space.plan import Plan
    from space.rule import Ints


def compute_floor(model: Model, plan: Plan) -> Ints:
    """Cycles that the GEMM and ALU pipelines need at least, shape (n,): one a uop, two a tensor-tensor uop."""
    alu = model.out_elements * (model.imm_ops + 2 * model.tensor_ops)
    if model.nest.anchor is None:
        return np.full(len(plan), alu, dtype=np.int64)
    products = np.where(plan.drops, model.useful, model.products)
    # Every accumulator is written once before the first product adds to it.
    return np.asarray(products + model.out_elements + alu, dtype=np.int64)


def bound(model: Model, plan: Plan) -> Ints:
    """A lower bound of the cycles of every point, shape (n,)."""
    c = model.config
    load = np.zeros(len(plan), dtype=np.int64)
    acc = np.zeros(len(plan), dtype=np.int64)
    for k, operand in enumerate(model.nest.operands):
        beats = model.least_elements(plan, k) * model.bytes_of[operand.scope] // c.bus_bytes
        if operand.scope == ACC:
            acc += beats
        else:
            load += beats
    # A burst carries at most burst_beats beats, and every burst pays its handshake (vta.md 5.9): full bursts are the least.
    per_burst = max(1, c.burst_beats * c.bus_bytes // c.out_elem_bytes)
    store = model.out_elements * int(timing.store_cycles(0, 1, per_burst, per_burst, config=c)) // per_burst
    return np.asarray(np.maximum(np.maximum(compute_floor(model, plan) + acc, load + acc), store), dtype=np.int64)
