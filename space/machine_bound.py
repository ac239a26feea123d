"""The machine bound: cycles that no program of the machine can beat which forms the workload's products on the GEMM.

Four chains are each a bound; the largest counts. All of them begin when the first instruction can start and end with the store
of one vector, after which only FINISH is left. Engines are serial, so what one engine has to do adds up; nothing is said about
tiles, orders or places. docs/bound.md has the derivation, docs/bound/nests.md that of several nests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from operator import and_

from autosched.ir.scopes import ACC
from autosched.target import Target
from sim import isa, timing
from sim.timing import PIPELINE_CYCLES as PIPELINE
from space.counts import Context, between
from space.formed import formings
from space.lanes import fillings
from space.least_loads import fills, latency
from space.model import LAID_OUT, Model
from space.needs import Needs, needs_of
from space.passing import passing as passing_of
from space.passing import stored as stored_by
from space.uses import uses_of


@dataclass(frozen=True)
class MachineBound:
    """A bound and what it is made of.

    Args:
        cycles: no program is faster.
        binds: the chain that is longest: ``compute``, ``load``, ``bus`` or ``store``.
        terms: cycles by name, those of every chain; ``start`` and ``drain`` are part of each.
        vector: cycles per output vector of initial value and stages.
        words: of the bus, by tensor: what every program has to load of it.
    """

    cycles: int
    binds: str
    terms: dict[str, int]
    vector: int
    words: dict[str, int]


def machine_bound(
    models: Sequence[Model], visited: int = 0, given: Set[str] = frozenset(), deep: int = 0, fuller: bool = False,
    apart: bool = True, different: int = 0,
) -> MachineBound:
    """The bound for a program's nests: engines are serial, so what one of them has to do for all nests adds up.

    What several nests may have in common (an operand, the products themselves, what an instruction costs beyond its micro-ops,
    the micro-ops) is counted once.

    Args:
        models: of a sketch, one for every nest.
        visited: results that products are added to, at least, each as often as that happens; for operands that lie as the space
            chooses.
        given: names of the program's own tensors: what the host makes of them may be what another one is, taken away.
        deep: products that a sum has, at least, if there is one nest.
        fuller: whether the form has elements repeatedly so as to fill lanes: of another form the results are no more alike.
        apart: whether the program's text has to tell what is the same; else draws of its parameters do.
        different: results that are no others by the program's text; 0 where it does not tell.
    """
    config = models[0].config
    full = dict(fillings(models[0].packing))
    formed = formings(tuple(models), apart)
    kinds: dict[str, frozenset[str]] = {}
    context = Context(full, formed, passing_of(models), kinds, given, len(models) == 1, deep, fuller, different)
    nests: list[Needs] = []
    for model, rest in zip(models, uses_of(models)):
        nests.append(needs_of(model, context, rest))
        kinds |= dict.fromkeys(stored_by(model.nest), nests[-1].kinds)
        if models[0].origins:
            # What a nest stores for another one is as full as its results are: another layout may leave no lane empty there.
            full |= between(model, full)
    visits = -(-formed.visits(visited) // (config.batch * config.block_out)) if models[0].origins else None
    return min((_longest(kept, models[0].target, visits) for kept in _each_once(models, nests)), key=lambda b: b.cycles)


def _each_once(models: Sequence[Model], nests: Sequence[Needs]) -> Iterator[list[Needs]]:
    """What the nests need, without those that make again what another one makes: in either of the two layouts that is needed.

    Nor does a nest count that only lays out as a weight what another one makes.
    """
    makers: dict[str, list[int]] = {}
    for k, model in enumerate(models):
        if model.original == LAID_OUT:
            continue
        makers.setdefault(model.original or model.nest.out, []).append(k)
    for which in (0, -1) if any(len(own) > 1 for own in makers.values()) else (0,):
        yield [nests[k] for k in sorted(own[which] for own in makers.values())]


def _longest(nests: Sequence[Needs], target: Target, visits: int | None) -> MachineBound:
    """The bound of what some nests need together.

    Args:
        nests: what each of them needs.
        target: the machine.
        visits: how many products there are at least, where the layout is the space's; else None.
    """
    config = target.config
    gemm = any(n.products for n in nests)
    # Or there is none: a load that widens is an instruction, and stands for the one that writes zeros, too.
    alone = all(n.alone for n in nests)
    start = int(timing.fetch_cycles_floor(1, config))
    drain = int(timing.store_cycles(0, 1, 1, 1, config=config))
    uops = int(timing.load_cycles_floor(isa.MEM_UOP, 0, 1, 1, 1, config=config))
    # Nests of the same products may share them, and what is done to them.
    sums = _sharing(nests)
    products = sum(max(n.products for n in group) for group in sums)
    operations = max(n.operations for n in nests)
    uops *= bool(operations) or not alone
    # An instruction finds and leaves one value at every place of the accumulator (docs/bound.md).
    summed = sum(min(n.summed for n in group) for group in sums)
    written = sum(min(n.written for n in group) for group in sums)
    worked = sum(max(n.worked for n in group) for group in sums)
    # Of sums that start with what is loaded none is written otherwise.
    writes = int(gemm and not alone and (written > 0 or not summed))
    multiply = max(int(gemm), -(-summed // config.acc_depth))
    # A load with padding writes zeros as fast as a reset; on a wide bus it is the shorter instruction.
    if fills(target):
        written = 0
    others = max(writes + operations, -(-max(written, worked) // config.acc_depth))
    initial = sum(min(n.initial for n in group) for group in sums) + PIPELINE * writes
    taken = {name for n in nests for name in n.taken}
    once = {name: cycles for name, cycles in _once([n.widened for n in nests]).items() if name not in taken}
    widened, riding = sum(once.values()), 0
    if gemm and visits is not None:
        # Another layout may have lanes that are free: what is added to a sum comes in by them (docs/bound/widening.md).
        riding = sum(cycles for name, cycles in once.items() if any(name in n.riders for n in nests))
        widened -= riding
        products = max(products - sum(n.loose for n in nests), riding, visits - widened - sum(n.mixed for n in nests))
    after = sum(max(n.after for n in group) for group in sums) + widened + PIPELINE * operations
    work = products + (PIPELINE if gemm else 0) + after
    moves = sorted({scope for n in nests for scope in n.moves})
    addends = sum(_once([n.addends for n in nests]).values()) + sum(latency(config, s) for s in moves if s == ACC)
    # Of what other tensors have already a nest may make nothing.
    busy = [n for n in nests if n.products or n.worked or n.vectors] or nests
    waiting = min(n.first for n in busy) + work
    # After the last load at least one vector is still to be made.
    remains = min((1 + PIPELINE if n.products else 0) + n.operations * (1 + PIPELINE) for n in busy)
    loads = _once([n.streams for n in nests])
    loading = sum(loads.values()) + remains * bool(loads) + sum(latency(config, s) for s in moves if s != ACC)
    loading = max([loading, *(n.behind for n in nests)])
    # Every instruction is two words of the same bus: one per load, a product, every stage, a store, FINISH.
    words = _once([n.words for n in nests])
    instructions = others + 2 + (bool(words) if alone else (len(moves) or len(words)) + multiply + 1)
    bus = sum(words.values()) + -(-instructions * 16 // config.bus_bytes)
    burst = max(1, config.burst_beats * config.bus_bytes // config.out_elem_bytes)
    vectors = sum(n.vectors for n in nests)
    store = vectors * int(timing.store_cycles(0, 1, burst, burst, config=config)) // burst - drain
    # Of each kind one is counted already.
    further = PIPELINE * (multiply - gemm + others - writes - operations)
    chains = {"compute": max(uops + addends + initial + work + further, waiting), "load": loading, "bus": bus, "store": store}
    binds = max(chains, key=lambda name: chains[name])
    terms = {
        "start": start, "drain": drain, "products": products, "initial": initial, "stages": after, "uops": uops,
        "addends": addends, "instructions": further, "joined": sum(n.joined for n in nests),
        **{f"{name} chain": value for name, value in chains.items()},
    }
    return MachineBound(start + chains[binds] + drain, binds, terms, max(n.vector for n in nests), words)


def _sharing(nests: Sequence[Needs]) -> list[list[Needs]]:
    """Nests together that may have products in common."""
    groups: list[list[Needs]] = []
    for nest in nests:
        same = [g for g in groups if any(len(nest.sum) == len(n.sum) and all(map(and_, nest.sum, n.sum)) for n in g)]
        groups = [*(g for g in groups if g not in same), [*(n for g in same for n in g), nest]]
    return groups


def _once(found: Sequence[dict[str, int]]) -> dict[str, int]:
    """Of each tensor the most that one nest needs of it."""
    most: dict[str, int] = {}
    for needs in found:
        for name, cycles in needs.items():
            most[name] = max(cycles, most.get(name, 0))
    return most
