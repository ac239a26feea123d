"""The machine bound: cycles that no program of the machine can beat which forms the workload's products on the GEMM.

Four chains are each a bound; the largest counts. All of them begin when the first instruction can start and end with the store
of one vector, after which only FINISH is left. Engines are serial, so what one engine has to do adds up; nothing is said about
tiles, orders or places. docs/bound.md has the derivation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, int_value
from autosched.ir.functor import walk, walk_expr
from autosched.ir.stmt import Block, BlockRealize, BufferStore
from autosched.ir.value_bounds import ValueBounds
from autosched.target import Target
from sim import isa, timing
from space.nest import ACC, INP, Nest

if TYPE_CHECKING:
    from space.model import Model

PIPELINE = 6  # busy cycles of a GEMM or ALU instruction beyond its micro-ops (vta.md 5)


@dataclass(frozen=True)
class MachineBound:
    """A bound and what it is made of.

    Args:
        cycles: no program is faster.
        binds: the chain that is longest: ``compute``, ``load``, ``bus`` or ``store``.
        terms: cycles by name, those of every chain; ``start`` and ``drain`` are part of each.
        vector: cycles per output vector of initial value and stages.
    """

    cycles: int
    binds: str
    terms: dict[str, int]
    vector: int


@dataclass(frozen=True)
class Epilogue:
    """The least that every output vector costs the compute engine besides its products.

    Args:
        initial: cycles of writing the accumulator before the first product, an addend included.
        after: immediate operations that the result needs.
        named: which, for the table of terms.
    """

    initial: int
    after: int
    named: tuple[str, ...]


def least_epilogue(nest: Nest, target: Target) -> Epilogue:
    """The epilogue that no program can do without; each line is proven in docs/bound.md.

    A right shift, a maximum with a constant and a minimum with a constant are one operation each, the last two where the value
    ranges reach past the constant; the accumulator is written once before a product adds to it, by a reset, or under ``chisel``
    by an immediate operation that reads an addend, elsewhere by a tensor operation (two cycles) that brings the addend in.
    """
    blocks = {r.block.name: r.block for r in walk(nest.func.body) if isinstance(r, BlockRealize)}
    values = ValueBounds(nest.func)
    needed: dict[str, bool] = {}
    addend = False
    for stage in nest.stages:
        block = blocks[stage.block]
        dom = {iv.var: iv.dom for iv in block.iter_vars}
        assert isinstance(block.body, BufferStore)
        for e in walk_expr(block.body.value):
            own = _on_chain(e, block)
            if own is None:
                continue
            other = _other(e, own)
            constant = None if other is None else int_value(other)
            low, high = values.of(own, dom)
            op = e.op if isinstance(e, BinOp | Call) else ""
            if op == "shift_right" and constant:
                needed["shr"] = True
            elif op == "max" and constant is not None and low < constant:
                needed["max"] = True
            elif op == "min" and constant is not None and high > constant:
                needed["min"] = True
            elif op == "+" and other is not None and any(isinstance(x, BufferLoad) for x in walk_expr(other)):
                addend = True
    early = (nest.anchor, *nest.sides)
    addend |= nest.anchor is not None and any(o.scope == ACC and o.consumer in early for o in nest.operands)
    if nest.anchor is None:
        initial = 0
    elif not addend or target.semantics == "chisel":
        initial = 1
    else:
        initial = 2
    return Epilogue(initial, len(needed), tuple(needed))


def _on_chain(e: Expr, block: Block) -> Expr | None:
    """The operand of an operation that comes from the stage before: the one that reads at the very place that is written."""
    assert isinstance(block.body, BufferStore)
    parts = (e.a, e.b) if isinstance(e, BinOp) else e.args if isinstance(e, Call) else ()
    for part in parts:
        if any(isinstance(x, BufferLoad) and x.indices == block.body.indices for x in walk_expr(part)):
            return part
    return None


def _other(e: Expr, own: Expr) -> Expr | None:
    parts = (e.a, e.b) if isinstance(e, BinOp) else e.args if isinstance(e, Call) else ()
    found = next((p for p in parts if p is not own), None)
    return found.value if isinstance(found, Cast) else found


def machine_bound(model: Model) -> MachineBound:
    """The bound for a program's nest.

    Args:
        model: of the sketch without structural changes.
    """
    nest, target = model.nest, model.target
    c = target.config
    vectors = model.out_elements
    epilogue = least_epilogue(nest, target)
    products = model.useful if nest.anchor else 0

    start = int(timing.fetch_cycles_floor(1, c))
    drain = int(timing.store_cycles(0, 1, 1, 1, config=c))
    least = {k: _least(model, k) for k in range(len(nest.operands))}
    streams = {k: n for k, n in least.items() if nest.operands[k].scope != ACC}
    addends = {k: n for k, n in least.items() if nest.operands[k].scope == ACC}

    def load(memory: int, elements: int) -> int:
        rows = max(1, -(-elements // 65535))
        return int(timing.load_cycles_floor(memory, 0, rows, -(-elements // rows), elements, config=c)) if elements else 0

    def words(memory: int, elements: int) -> int:
        rows = max(1, -(-elements // 65535))
        return int(timing.load_words(memory, 0, rows, elements // rows, elements, config=c)) if elements else 0

    def memory_of(k: int) -> int:
        scope = nest.operands[k].scope
        return isa.MEM_INP if scope == INP else isa.MEM_ACC if scope == ACC else isa.MEM_WGT

    after = epilogue.after * (vectors + PIPELINE)
    gemm = products + PIPELINE if nest.anchor else 0
    uops = load(isa.MEM_UOP, 1)
    addend = sum(load(isa.MEM_ACC, n) for n in addends.values())
    initial = epilogue.initial * vectors + PIPELINE if nest.anchor else 0
    compute = uops + addend + initial + gemm + after
    # The first product waits for its operands, which one engine loads; the initial values may be there before.
    waiting = sum(load(memory_of(k), 1) for k, n in streams.items() if n) + gemm + after
    # After the last load at least one vector is still to be made.
    remains = (1 + PIPELINE if nest.anchor else 0) + epilogue.after * (1 + PIPELINE)
    loading = sum(load(memory_of(k), n) for k, n in streams.items()) + remains
    # Every instruction is two words of the same bus: one per load, a product, every stage, a store, FINISH.
    instructions = len(least) + 2 * bool(nest.anchor) + epilogue.after + 3
    bus = sum(words(memory_of(k), n) for k, n in least.items()) + -(-instructions * 16 // c.bus_bytes)
    burst = max(1, c.burst_beats * c.bus_bytes // c.out_elem_bytes)
    store = vectors * int(timing.store_cycles(0, 1, burst, burst, config=c)) // burst - drain
    chains = {"compute": max(compute, waiting), "load": loading, "bus": bus, "store": store}
    binds = max(chains, key=lambda name: chains[name])
    terms = {
        "start": start, "drain": drain, "products": products, "initial": initial, "stages": after, "uops": uops,
        "addends": addend,
        **{f"{name} chain": value for name, value in chains.items()},
    }
    return MachineBound(start + chains[binds] + drain, binds, terms, epilogue.initial + epilogue.after)


def _least(model: Model, operand: int) -> int:
    """Elements of an operand that some product or stage uses: each must cross the bus once."""
    plan = model.neutral(1)
    plan.drops[:] = bool(model.taps)
    return int(np.asarray(model.least_elements(plan, operand))[0])
