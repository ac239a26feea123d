"""The bound of points: cycles that no execution of a point can beat, the busiest engine with what compute itself has to load.

Only beats are counted, never latencies that a machine might hide; of a strided or padded region only what is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from autosched.ir.scopes import ACC, INP
from sim import timing
from space.least_elements import least_elements

if TYPE_CHECKING:
    from space.model import Model
    from space.plan import Plan
    from space.rule import Ints


def compute_floor(model: Model, plan: Plan) -> Ints:
    """Cycles that the GEMM and ALU pipelines need at least, shape (n,): one a uop, two a tensor-tensor uop."""
    alu = model.out_elements * (model.imm_ops + 2 * model.tensor_ops + model.added) + model.halo_floor
    if model.nest.anchor is None:
        return np.full(len(plan), alu, dtype=np.int64)
    products = np.where(plan.drops | model.nest.guarded, model.padding.useful, model.products) * model.nest.step
    if model.nest.wides:
        # A reset and a product for every element that some step reads; what only stages add costs one product, counted there.
        whole, wides = model.neutral(1), {wide.block for wide in model.nest.wides}
        products = products + 2 * sum(int(least_elements(model, whole, k)[0]) for k, o in enumerate(model.nest.operands)
                                      if o.scope == INP and wides & set(o.readers))
    # Every accumulator is written once before the first product adds to it; a sum may stand where its addend was loaded.
    loaded = sum(int(least_elements(model, model.neutral(1), k)[0]) for k, o in enumerate(model.nest.operands)
                 if o.leads and o.consumer == model.nest.anchor and model.nest.init_ops == (0, 0))
    return np.asarray(products + max(model.out_elements - loaded, 0) + alu, dtype=np.int64)


def engines(model: Model, plan: Plan) -> tuple[Ints, Ints, Ints]:
    """Cycles that computing, loading and storing need at least, shape (n,) each; addends are loaded by both of the former."""
    c = model.config
    load = np.zeros(len(plan), dtype=np.int64)
    acc = np.zeros(len(plan), dtype=np.int64)
    for k, operand in enumerate(model.nest.operands):
        beats = least_elements(model, plan, k) * model.bytes_of[operand.scope] // c.bus_bytes
        if operand.scope == ACC:
            acc += beats
        else:
            load += beats
    # A burst carries at most burst_beats beats, and every burst pays its handshake (vta.md 5.9): full bursts are the least.
    per_burst = max(1, c.burst_beats * c.bus_bytes // c.out_elem_bytes)
    store = model.nest.stores * model.out_elements * int(timing.store_cycles(0, 1, per_burst, per_burst, config=c)) // per_burst
    return compute_floor(model, plan) + acc, load + acc, np.full(len(plan), store, dtype=np.int64)


def bound(nests: Sequence[tuple[Model, Plan]]) -> Ints:
    """A lower bound of the cycles of every point, shape (n,): each engine serves all nests, one thing at a time.

    Args:
        nests: the nests of a program, each with what the points mean for it.
    """
    found = [engines(model, plan) for model, plan in nests]
    return np.asarray(np.max([np.sum(parts, axis=0) for parts in zip(*found)], axis=0), dtype=np.int64)
