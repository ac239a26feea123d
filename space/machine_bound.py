"""The machine bound: cycles that no program of the machine can beat which forms the workload's products on the GEMM.

Four chains are each a bound; the largest counts. All of them begin when the first instruction can start and end with the store
of one vector, after which only FINISH is left. Engines are serial, so what one engine has to do adds up; nothing is said about
tiles, orders or places. docs/bound.md has the derivation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from operator import and_

import numpy as np
import numpy.typing as npt

from autosched.ir.expr import BinOp, BufferLoad, Call, Expr, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import update_of
from autosched.ir.scopes import ACC, INP, WGT
from autosched.ir.stmt import BufferStore
from autosched.ir.value_bounds import ValueBounds, dtype_bounds
from sim import isa, timing
from sim.config import VTAConfig
from sim.timing import PIPELINE_CYCLES as PIPELINE
from space.alike import factors_of, in_common, recurring, repeated, same_factors
from space.formed import Formed, Formings, formings
from space.joins import groups_of, joins_of_stages, joins_of_windows
from space.lanes import Filling, derived, fillings, repeats, shares
from space.last_loads import behind_loads
from space.least_elements import least_elements
from space.least_epilogue import Epilogue, blocks_of, differences_of, identities_of, least_epilogue
from space.least_loads import beats, latency, load
from space.model import LAID_OUT, Model
from space.nest import Nest
from space.operands import Operand
from space.passing import passing as passing_of
from space.passing import stored as stored_by
from space.plan import indices


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


@dataclass(frozen=True)
class _Needs:
    """What one nest needs of every engine, in cycles.

    Args:
        streams: loads of the GEMM's operands, by tensor.
        addends: loads into the accumulator, by tensor.
        moves: memories that something is loaded to, where the host may lay all that goes to one side by side: one transfer each
            then, whose latency is in neither of both above.
        words: words of the bus, by tensor.
        first: what the first product waits for.
        products: of the GEMM.
        widened: int8 operands of stages, by tensor: a product with an identity for every element, once.
        riders: of these, those that are added to sums of products: such may be products of the sums as well.
        loose: products with an identity that other sums go on from, which may be products of these.
        taken: tensors of which the products are such already.
        sum: which products these are, by what each of their factors may be: nests that form the same ones need them once; ()
            without any.
        initial: of writing the accumulators before them, and of operations after them, without what an instruction adds.
        after: of the operations.
        joined: of these, what an operand of every result makes due beyond a shift and a clip.
        mixed: cycles of products that stages add.
        operations: their number for each vector.
        summed: vectors that are sums of products.
        written: of these, those whose accumulators are written before their products by what is no load of addends.
        worked: operations that results need, of all vectors together.
        vectors: that are stored.
        vector: cycles of each of them besides the products.
        behind: from when loads can begin to the last operation; 0 where nothing is known of that.
    """

    streams: dict[str, int]
    addends: dict[str, int]
    moves: frozenset[str]
    words: dict[str, int]
    first: int
    products: int
    widened: dict[str, int]
    riders: frozenset[str]
    loose: int
    taken: tuple[str, ...]
    sum: tuple[frozenset[str], ...]
    initial: int
    after: int
    joined: int
    mixed: int
    operations: int
    summed: int
    written: int
    worked: int
    vectors: int
    vector: int
    behind: int


def machine_bound(
    models: Sequence[Model], visited: int = 0, given: Set[str] = frozenset(), deep: int = 0, fuller: bool = False,
    apart: bool = True,
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
    """
    config = models[0].config
    full = dict(fillings(models[0].packing))
    formed = formings(tuple(models), apart)
    passing = passing_of(models)
    nests: list[_Needs] = []
    used = _used(models)
    kinds: dict[str, frozenset[str]] = {}
    for n, model in enumerate(models):
        nests.append(_needs(model, full, formed, passing, used[n], kinds, given, len(models) == 1, deep, fuller))
        if models[0].origins:
            # What a nest stores for another one is as full as its results are: another layout may leave no lane empty there.
            full |= _between(model, full)
    visits = -(-formed.visits(visited) // (config.batch * config.block_out)) if models[0].origins else None
    return min((_longest(kept, config, visits) for kept in _each_once(models, nests)), key=lambda b: b.cycles)


@dataclass(frozen=True)
class _Used:
    """What the rest of a program has of a nest's results.

    Args:
        share: of them, at least, that are results of the program or that another nest reads.
        pooled: results, at most, of the nests that take only the largest or smallest of several of them; None where one is read
            otherwise: what is done to each of them might be done to those few.
    """

    share: Fraction
    pooled: int | None


def _used(models: Sequence[Model]) -> list[_Used]:
    """Of every nest, what the rest of the program has of its results."""
    results = {b.name for b in models[0].nest.func.buffers}
    found: dict[int, _Used] = {}
    for n in reversed(range(len(models))):
        names = set(stored_by(models[n].nest))
        share, pooled = Fraction(0), 0
        places: dict[tuple[Hashable, ...], npt.NDArray[np.bool_]] = {}  # what is read, by tensor and layout
        for m in range(n + 1, len(models)):
            nest = models[m].nest
            for k, operand in enumerate(nest.operands):
                if operand.name in names:
                    # A vector is stored, and what is read may be sixteen of them, as a weight.
                    read = _least(models[m], k) * prod(models[m].target.memories[operand.scope].lanes)
                    made = max(models[n].out_elements, 1) * models[n].config.batch * models[n].config.block_out
                    part = Fraction(read, made) * found[m].share
                    share = max(share, min(part, Fraction(1)))
                    if found[m].share == 1 and (own := _places(operand, models[m].extents)) is not None:
                        # Several readers together need what any of them does.
                        key = (operand.name, operand.scope, operand.source)
                        places[key] = places[key] | own if key in places else own
                        read = int(places[key].sum()) * prod(models[m].target.memories[operand.scope].lanes)
                        share = max(share, min(Fraction(read, made), Fraction(1)))
                    extremum = bool(differences_of(nest)) or (bool(nest.wides) and _is_extremum(nest))
                    least = found[m].pooled
                    few = models[m].out_elements if least is None else min(models[m].out_elements, least)
                    pooled = pooled + few if extremum and pooled >= 0 else -1
        whole = bool(names & results) or not share
        found[n] = _Used(Fraction(1) if whole else share, None if whole or pooled < 0 else pooled)
    return [found[n] for n in range(len(models))]


def _places(operand: Operand, extents: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
    """Which elements of a tensor a nest reads, one dimension for each of its; None where padding or a diagonal hides that."""
    moved = [a for coeffs, _ in operand.dims for a, c in enumerate(coeffs) if c]
    if operand.producer is not None or len(moved) != len(set(moved)):
        return None
    found = np.ones((), dtype=np.bool_)
    for d, (coeffs, size) in enumerate(operand.dims):
        start = np.array(operand.within[d] if operand.within else [0]) + (operand.first[d] if operand.first else 0)
        index = np.add.outer(start, indices(extents, coeffs, [a for a, c in enumerate(coeffs) if c]))
        found = np.logical_and.outer(found, np.isin(np.arange(size), index))
    return found


def _is_extremum(nest: Nest) -> bool:
    """Whether what a nest reduces by is a minimum or maximum."""
    body = blocks_of(nest)[nest.anchor or nest.out].body
    update = update_of(body) if isinstance(body, BufferStore) else None
    return update is not None and update[0] in ("min", "max")


def _each_once(models: Sequence[Model], nests: Sequence[_Needs]) -> Iterator[list[_Needs]]:
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


def _longest(nests: Sequence[_Needs], config: VTAConfig, visits: int | None) -> MachineBound:
    """The bound of what some nests need together.

    Args:
        nests: what each of them needs.
        config: the machine.
        visits: how many products there are at least, where the layout is the space's; else None.
    """
    gemm = any(n.products for n in nests)
    start = int(timing.fetch_cycles_floor(1, config))
    drain = int(timing.store_cycles(0, 1, 1, 1, config=config))
    uops = int(timing.load_cycles_floor(isa.MEM_UOP, 0, 1, 1, 1, config=config))
    # Nests of the same products may share them, and what is done to them.
    sums = _sharing(nests)
    products = sum(max(n.products for n in group) for group in sums)
    operations = max(n.operations for n in nests)
    # An instruction finds and leaves one value at every place of the accumulator (docs/bound.md).
    summed = sum(min(n.summed for n in group) for group in sums)
    written = sum(min(n.written for n in group) for group in sums)
    worked = sum(max(n.worked for n in group) for group in sums)
    writes = int(gemm and (written > 0 or not summed))  # of sums that start with what is loaded none is written otherwise
    multiply = max(int(gemm), -(-summed // config.acc_depth))
    # A load with padding writes zeros as fast as a reset; on a wide bus it is the shorter instruction.
    if timing.load_words(isa.MEM_ACC, 0, 1, 1, 1, config=config) <= PIPELINE:
        written = 0
    others = max(writes + operations, -(-max(written, worked) // config.acc_depth))
    initial = sum(min(n.initial for n in group) for group in sums) + PIPELINE * writes
    taken = {name for n in nests for name in n.taken}
    once = {name: cycles for name, cycles in _once([n.widened for n in nests]).items() if name not in taken}
    widened, riding = sum(once.values()), 0
    if gemm and visits is not None:
        # Another layout may have lanes that are free: what is added to a sum comes in by them (docs/bound.md).
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
    instructions = (len(moves) or len(words)) + multiply + others + 3
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


def _sharing(nests: Sequence[_Needs]) -> list[list[_Needs]]:
    """Nests together that may have products in common."""
    groups: list[list[_Needs]] = []
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


def _of(count: int, share: Fraction) -> int:
    """A share of a number of elements, in whole ones: however tensors are packed, so many are needed for what is in these."""
    return -(-count * share.numerator // share.denominator)


def _formed(model: Model, formed: Formed) -> int:
    """Products of the GEMM, at least, that form what masks leave of a block's."""
    if not model.origins:
        return formed.products
    lanes, results = model.config.batch * model.config.block_out, max(formed.results, default=0)
    # One adds to so many results, and as many terms to each as a vector of data has.
    return max(-(-formed.terms // (lanes * model.config.block_in)), -(-results // lanes))


def _real(count: int, filling: Filling | None, lanes: int) -> int:
    """Elements, at least, that hold what is the program's of some."""
    return count if filling is None else min(_of(count, filling.lanes), -(-filling.most // lanes))


def _source(model: Model, operand: Operand, full: Mapping[str, Filling]) -> str:
    """What of an operand has to come once: all of what the host lays out, in whichever layout; else the tensor.

    Of parts of a tensor, which may overlap, so does the largest.
    """
    made = model.origins.get(operand.name)
    if made is None or operand.name not in full or not full[operand.name].moved:
        return operand.name
    scope = operand.scope
    if scope == INP and set(operand.readers) <= identities_of(model.nest):
        # What a product with ones brings in may be either factor: it is there where it is the weight of another product.
        same = (o for o in model.nest.operands if model.origins.get(o.name) == made and o.name in full)
        others = {o.scope for o in same if full[o.name].whole}
        scope = WGT if WGT in others else scope
    return f"{scope} of {', '.join(sorted(made))}"


def _between(model: Model, full: Mapping[str, Filling]) -> dict[str, Filling]:
    """By name, how full the tensors are that a nest stores for another one."""
    (_, share), c = shares(model, full), model.config
    most = _of(model.out_elements, share) * c.batch * c.block_out
    blocks, made = blocks_of(model.nest), {}
    for name in (model.nest.out, *model.nest.also):
        store = blocks[name].body
        assert isinstance(store, BufferStore)
        before = full.get(store.buffer.name, Filling(Fraction(0), Fraction(0), 0))  # of a tensor that several nests make parts of
        lanes = max(share, before.lanes)
        made[store.buffer.name] = Filling(lanes, lanes, most + before.most)
    return made


def _needs(
    model: Model, full: Mapping[str, Filling], forms: Formings, passing: frozenset[str], rest: _Used,
    kinds: dict[str, frozenset[str]], given: Set[str], single: bool, deep: int, fuller: bool,
) -> _Needs:
    """What a nest needs.

    Args:
        model: of the nest.
        full: how full tensors are, by name.
        forms: what masks leave of the program.
        passing: tensors that another program keeps in the accumulator.
        rest: what the rest of the program has of its results.
        kinds: by tensor, the operations that the nest which makes it has counted; its own are added.
        given: names of the program's own tensors.
        single: whether it is the program's only one.
        deep: products that a sum of it has, at least.
        fuller: as for ``machine_bound``.
    """
    nest, c = model.nest, model.config
    formed = forms.of(nest.anchor) if nest.tensorized else None
    epilogue, summed, reaching = _epilogue(model, formed, deep)
    lanes_of = {scope: prod(memory.lanes) for scope, memory in model.target.memories.items()}
    constant = {x.buffer.name for x in nest.func.constants}
    # Where a load widens, what an identity widens needs no product.
    loads_widen = model.target.loads_widen
    identities = identities_of(nest)
    widened = nest.anchor in identities
    products = model.padding.useful if nest.anchor and not (loads_widen and widened) else 0
    # Where the layout is the space's choice, other layouts may leave no lane empty.
    real, share = (part * rest.share for part in shares(model, full))
    reduced = [k for k, o in enumerate(nest.operands) if o.consumer in _reads(nest)]
    # Masks may leave out products, or all of a result's.
    left = _of(products, real) if formed is None or widened else min(_of(products, real), _formed(model, formed))
    masked = left < _of(products, real)
    # Sums that are alike need be formed once, and results that are alike made once; each is stored.
    read = [nest.operands[k] for k in reduced if nest.operands[k].scope != ACC]
    alike = repeated(model, read, masked) if nest.anchor and not forms.drawn else 1
    again = 1 if widened or not nest.tensorized else recurring(model, read)
    # What the host has laid out several times may make results that are alike, too.
    data, weights = (
        Fraction(1, forms.again(own)) * (
            1 if fuller or forms.drawn else forms.once(model, own) if masked else repeats(model, full, own))
        for own in ([o for o in read if o.scope == scope] for scope in (INP, WGT)))
    distinct = data * weights
    products = -(-(_of(left, distinct) if masked else _of(products, real * data)) // (alike * again))
    # Vectors of padding alone are the same constant: a program may make one of them and store it again and again.
    vectors, stored = _of(_with_products(model), share * distinct), _of(model.out_elements, share)
    if formed is not None:
        vectors = min(vectors, _of(summed, distinct))
    kept = {name: forms.stored(name, stored, c.batch * c.block_out) for name in stored_by(nest)}
    made = max((forms.made(name, stored, c.batch * c.block_out) for name in stored_by(nest)), default=stored)
    vectors = min(vectors, _of(made, distinct))
    starts = -(-vectors // alike) if products else 0
    copies = 1 if forms.drawn else repeated(model, nest.operands, masked)
    vectors = -(-vectors // copies)
    square = not forms.drawn and same_factors(model, forms.kin)
    if nest.tensorized and square:
        # c[i, j] is c[j, i]: half of them is known, though not in the lanes where it is stored.
        products, vectors, copies = -(-products // 2), -(-vectors // 2), copies * 2
    # Nothing is done to what another tensor has as it is.
    anew = max((forms.made(name, stored, c.batch * c.block_out, anew=True) for name in stored_by(nest)), default=stored)
    fresh = min(vectors, -(-_of(anew, distinct) // copies))
    lanes = c.batch * c.block_out
    same, results, others = forms.sums(model, nest.anchor), forms.results(model), forms.results(model, anew=True)
    if same is not None and not widened:
        products = min(products, -(-same.left // (lanes * c.block_in)))
        starts = min(starts, -(-same.results // lanes))
    if results is not None:
        vectors = min(vectors, -(-results // lanes))
    if others is not None:
        fresh = min(fresh, -(-others // lanes))
    computed = derived(model, full)
    passes = any(nest.operands[k].name in passing for k in reduced)
    if widened and passes:
        products = starts = 0
    whole = [_least(model, k) for k in range(len(nest.operands))]
    least = [forms.least(model, k, count, share) for k, count in enumerate(whole)]
    used = max((least[k] for k in reduced), default=0)
    if widened and products:
        # Sums of windows that overlap may share their parts.
        starts = starts if max(whole[k] for k in reduced) == products else 0
        products = max(_of(used, share), min(made, max(kept.values(), default=stored)))
        products = min(products, -(-same.results // lanes)) if same is not None else products
    if not nest.tensorized:
        # What windows connect, comparisons have to connect, one at a time.
        apart = max((groups_of(model, k) for k in reduced if least[k] == used), default=model.out_elements)
        if not nest.wides:
            products = joins_of_windows(model, used, apart, _is_extremum(nest), bool(epilogue.named))
        else:
            steps = max(used - apart, 0)
            # A comparison with a constant is half of a product dearer than it looks: docs/bound.md.
            products = steps if loads_widen or passes else used + -(-3 * steps // 2) * _compares_all(nest)
        products, starts = _of(products, share), 0
        products = min(products, fresh) if others is not None else products
    differences = differences_of(nest)
    # A single product may be an identity's.
    links = [s for s in nest.stages if s.products > loads_widen and s.block not in differences]
    mixed = 0
    # Sums of the same tensors may be one sum; where the host may add up weights, so may those of one tensor.
    known = [factors_of(model, nest.anchor, forms.kin)]
    for s in links:
        factors = factors_of(model, s.block, forms.kin)
        common = any(in_common(factors, other, bool(model.origins)) for other in known)
        fills = [full[o.name].lanes for o in nest.operands if o.scope == WGT and s.block in o.readers and o.name in full]
        if s.block not in identities and not common:
            added, linked = _of(s.products * vectors, max(fills, default=Fraction(1))), forms.of(s.block)
            added = added if linked is None else min(added, _formed(model, linked))
            once = forms.sums(model, s.block)
            mixed += added if once is None else min(added, -(-once.left // (lanes * c.block_in)))
        known.append(factors)
    joined = {s.block for s in nest.stages if s.products and s.block in identities and not loads_widen}
    needed: dict[str, int] = {}
    for k, operand in enumerate(nest.operands):
        if operand.scope == INP and joined & set(operand.readers) and operand.name not in passing:
            some = forms.real(model, operand, _real(whole[k], full.get(operand.name), lanes_of[INP]), fuller, alone=True)
            name = _source(model, operand, full)
            needed[name] = max(some, needed.get(name, 0))
    taken = {_source(model, o, full) for o in nest.operands if o.scope == INP and set(_reads(nest)) & set(o.readers)}
    taken = taken if widened or nest.wides else set()
    streams: dict[str, int] = {}
    addends: dict[str, int] = {}
    words: dict[str, int] = {}
    moves: set[str] = set()
    first = 0
    for k, operand in (*enumerate(nest.operands), *forms.copies(model)):
        # A tensor that is read at several places need not come twice, and of several scaled identities one would do.
        name = "a constant" if operand.name in constant else _source(model, operand, full)
        if operand.twin or operand.name in passing | computed or (name in words and name in (operand.name, "a constant")):
            continue
        own = operand in nest.operands
        some = _real(whole[k], full.get(operand.name) if own else None, lanes_of[operand.scope])
        if any(operand.uses(a) for a in nest.spatial):
            some = int(some * rest.share)
        some = forms.real(model, operand, some, fuller)
        into = addends if operand.scope == ACC else streams
        waits = name not in words and operand.consumer in _reads(nest) and operand.scope != ACC and some
        first += load(c, operand.scope, 1) if waits and own else 0
        apart = 0 if not model.origins else latency(c, operand.scope)
        into[name] = max(load(c, operand.scope, some) - apart, into.get(name, 0))
        moves |= {operand.scope} if model.origins and some else set()
        words[name] = max(beats(c, operand.scope, some), words.get(name, 0))
    # Nests that multiply the same tensors may have products in common, wherever each of them takes its own.
    moved = tuple(frozenset(_source(model, replace(o, name=name), full) for name in forms.kin(o.name))
                  for o in nest.operands if o.scope != ACC and o.consumer == nest.anchor)
    # What is kept in the accumulator may have had these operations already; they do not count again.
    before = frozenset[str]().union(*(kinds.get(nest.operands[k].name, frozenset()) for k in reduced)) if passes else frozenset()
    due = [kind for kind in epilogue.named if kind not in before]
    # Another nest may make of the operand what several need of it.
    extra = epilogue.extra if single and same is None and alike * again * distinct == 1 else 0
    kinds |= {name: before.union(epilogue.named) for name in stored_by(nest)}
    # What a maximum takes the largest of may be done to that alone: it is monotone.
    worked = fresh if rest.pooled is None else min(fresh, _of(rest.pooled, share))
    if alike > 1:  # what is done to them ahead of other operands is done to sums
        worked = min(worked, -(-_of(_with_products(model), share) // alike))
    works = [min(worked, -(-_of(reaching[kind], distinct) // max(alike, copies))) if kind in reaching else worked for kind in due]
    loads = sum(least[k] for k, o in enumerate(nest.operands) if o.name in epilogue.loaded - computed and not o.twin)
    written = max(starts - loads, 0)
    early = _early(nest) if model.origins and products and (mixed or not widened) else frozenset[str]()
    elements = {o.name: least[k] for k, o in enumerate(nest.operands) if o.scope == ACC and o.name not in computed}
    joins = _of(joins_of_stages(model, elements, given - passing, bool(epilogue.named)), share)
    riders = frozenset(_source(model, o, full) for o in nest.operands if o.scope == INP and early & joined & set(o.readers))
    plain = single and not (model.origins or widened or masked or square) and alike * again == rest.share == 1
    behind = behind_loads(model, {o.scope: least[k] for k, o in enumerate(nest.operands) if k in reduced}) if plain else 0
    alone = sum(n for name, n in needed.items() if name not in taken and name not in riders) // max(model.out_elements, 1)
    return _Needs(
        streams=streams, addends=addends, moves=frozenset(moves), words=words, first=first, products=products, widened=needed,
        riders=riders, loose=products if widened and mixed else 0, taken=tuple(sorted(taken)), sum=moved if nest.anchor else (),
        initial=(min(epilogue.initial, 1) if computed else epilogue.initial) * written,
        after=sum(works) + extra * worked + mixed + joins, joined=extra * worked, mixed=mixed,
        operations=sum(map(bool, works)) + bool(joins) + sum(not s.fresh and s.block not in early for s in links) * bool(vectors),
        summed=starts, written=written, worked=sum(works),
        vectors=sum(count for name, count in kept.items() if name not in passing),
        vector=epilogue.initial * bool(written or not starts) + len(due) + extra + -(-(mixed + joins) // max(vectors, 1)) + alone,
        behind=behind,
    )


def _epilogue(model: Model, formed: Formed | None, deep: int) -> tuple[Epilogue, int, dict[str, int]]:
    """(what a vector costs besides its products, how many have any, how many need each operation that not all of them do).

    Of sums of fewer products than others, because of a mask or a border, none may reach what a constant cuts off.
    """
    most = model.padding.ends[1]

    def of(share: Fraction) -> Epilogue:
        return least_epilogue(model.nest, model.target, bool(model.origins), products=deep, formed=share)

    if formed is None:
        return of(most), 0, {}
    c = model.config
    vectors = [-(-n // (c.batch * c.block_out)) for n in formed.results] if model.origins else formed.vectors
    fixed = {x.buffer.name for x in model.nest.func.constants}
    shares = [n / formed.every for n in formed.reach]
    if not shares or any(o.name in fixed for o in model.nest.operands if o.consumer == model.nest.anchor):
        return of(most), max(vectors, default=0), {}  # of constants some may be larger than others
    found = of(shares[-1])
    fewest = of(shares[0]) if len(shares) > 1 else found
    found, reaching = replace(found, extra=min(found.extra, fewest.extra)), {}
    for kind in set(found.named) - set(fewest.named):
        first = bisect_left(range(len(shares)), True, key=lambda n: kind in of(shares[n]).named)
        reaching[kind] = vectors[first]
    return found, vectors[0], reaching


def _early(nest: Nest) -> frozenset[str]:
    """Stages that add products to sums of products ahead of minima, maxima and further stores: they may be products of the sums.

    What is stored ahead of them is a sum by itself, and so a sum more is due.
    """
    blocks = blocks_of(nest)
    stored = {e.buffer for name in (nest.out, *nest.also) if isinstance(s := blocks[name].body, BufferStore)
              for e in walk_expr(s.value) if isinstance(e, BufferLoad)}
    found: set[str] = set()
    one = not any(s.fresh for s in nest.stages)  # where sums come together, one of them may be none of what is meant
    for stage in nest.stages:
        if stage.products:
            found.add(stage.block)
        stores = [s for s in (blocks[stage.block].init, blocks[stage.block].body) if isinstance(s, BufferStore)]
        bends = any(isinstance(e, BinOp) and e.op in ("min", "max") for s in stores for e in walk_expr(s.value))
        if one and ((bends and not nest.forks) or any(s.buffer in stored for s in stores)):
            break
    return frozenset(found)


def _with_products(model: Model) -> int:
    """Output vectors with a product that no padding makes zero; all where padding is not known dimension by dimension."""
    return model.padding.vectors(model.out_elements) if model.padding.taps else model.out_elements


def _compares_all(nest: Nest) -> bool:
    """Whether results are the extrema of int8 that can be anything, with nothing done to them: of others less may say enough."""
    blocks = blocks_of(nest)
    anchor, values, whole = blocks[nest.anchor or nest.out], ValueBounds(nest.func), dtype_bounds("int8")
    assert isinstance(anchor.body, BufferStore)
    value = anchor.body.value
    if any(s.imm_ops or s.tensor_ops or s.products for s in nest.stages):
        return False
    if not (isinstance(value, BinOp) and value.op in ("min", "max") and isinstance(anchor.init, BufferStore)):
        return False
    own = [isinstance(e, BufferLoad) and e.buffer is anchor.body.buffer for e in (value.a, value.b)]
    term: Expr = value.b if own[0] else value.a
    bounds = [int_value(anchor.init.value)]
    if isinstance(term, Call) and term.op == "if_then_else":
        bounds, term = [*bounds, int_value(term.args[2])], term.args[1]
    neutral = all(b is not None and (b <= whole[0] if value.op == "max" else b >= whole[1]) for b in bounds)
    given = {c.buffer for c in nest.func.constants}
    made = [blocks[w.block].body for w in nest.wides]
    read = [e.buffer for body in made if isinstance(body, BufferStore) for e in walk_expr(body.value)
            if isinstance(e, BufferLoad) and e.dtype == "int8" and e.buffer not in given]
    return sum(own) == 1 and isinstance(term, BufferLoad) and neutral and all(values.of_buffer(b) == whole for b in read)


def _reads(nest: Nest) -> tuple[str, ...]:
    """The blocks whose operands the anchor takes in."""
    return (*([nest.anchor] if nest.anchor else []), *(w.block for w in nest.wides))


def _least(model: Model, operand: int) -> int:
    """Elements of an operand that some product or stage uses: each must cross the bus once."""
    plan = model.neutral(1)
    plan.drops[:] = bool(model.padding.taps)
    least = int(np.asarray(least_elements(model, plan, operand))[0])
    own, padding = model.nest.operands[operand], model.padding
    factor = operand != padding.operand and own.scope != ACC and own.readers == (model.nest.anchor,)
    return padding.read(own, least) if padding.taps and factor else least
