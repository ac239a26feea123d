"""The draft: estimated cycles of many points at once, from how the three engines take turns on a tile.

A tile of the output is initialised, gets its matrix products and its element-wise stages, and is stored; the next tile's loads
run meanwhile, as far ahead as their banks allow. What every step of it takes is said here, by the geometry and the rules; the
engines then play it through (:mod:`space.play`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autosched.ir.scopes import ACC
from autosched.lower.compute import HAZARD_DISTANCE
from autosched.lower.gemm import LISTED_SHARE
from autosched.lower.uops import AHEAD_SHARE
from sim.costs import fetch_batch
from sim.timing import PIPELINE_CYCLES, fetch_cycles_floor, read_waits
from space import arranged, borders
from space.apart import apart, own_load
from space.plan import columns, ends, stacked, times, turned
from space.play import (
    AFTER,
    AROUND,
    BANKS,
    BEATS,
    CLEAR,
    DEPTH,
    ENGINE,
    FIRST,
    FIXED,
    INIT,
    KNOWN,
    LATE,
    LEAD,
    LEFT,
    ONCE,
    OUT,
    PIECES,
    PRODUCTS,
    READ,
    RELOAD,
    RESET,
    SHARES,
    SLICED,
    SLICES,
    STAGE,
    STORE,
    STORES,
    TRAIL,
    TRANSFERS,
    UOPS,
    WITHIN,
)

if TYPE_CHECKING:
    from sim.config import VTAConfig
    from space.model import Model
    from space.plan import Part, Plan
    from space.rule import Ints

Floats = npt.NDArray[np.float64]

ISSUE = 7  # cycles of a computing instruction beyond its micro-ops: pipeline and hand-over (vta.md 5)
HANDLING = 7  # cycles between two loads beyond their beats and the memory's delay: request, drain, next (vta.md 5.7)
FETCH = 2  # bus words of an instruction
FETCHED = 16  # cycles that the fetch of an instruction takes while the loads keep the memory busy (6 alone)
BEHIND = 128  # cycles that a load of micro-ops waits for reads in front of it, and between its own, at most (two of 64 words)
LISTS = 64  # micro-ops that lists are seldom longer than, nor than half of the memory
LONG_QUEUE = 64  # entries of a queue that hold what engines go through while a load waits for its bank
MACHINES = 64  # whose figures are remembered
START = 44  # launch, first instructions, FINISH, beyond the delay of the first fetch


@dataclass
class Terms:
    """What the estimate of one part is made of; a rule's ``draft`` may correct it. Arrays of shape (n,), in cycles.

    What the geometry says of all parts at once has one more dimension in front.

    Args:
        products: of the matrix products.
        pieces: GEMM instructions of one nest.
        init: of the initial values of one output element.
        stages: of the element-wise stages of one output element.
        operations: ALU instructions of one slice.
        fills: per operand, how often it is loaded; where it is not, 0.
        beats: per operand, cycles that the memory is busy with one fill: bus words, and what passes between its bursts.
        transfers: per operand, DMA instructions of one fill.
        store: of all stores.
        extra: whatever a rule knows better.
        addends_first: of the addends that the first load waits for; what is not loaded first waits for the first loads.
        uops: of the micro-ops.
        kinds: into how many instructions borders cut a product.
    """

    part: Part
    products: Floats
    pieces: Floats
    init: Floats
    stages: Floats
    operations: Floats
    fills: list[Floats]
    beats: list[Floats]
    transfers: list[Floats]
    store: Floats
    extra: Floats
    uops: Floats
    kinds: Floats
    addends_first: Floats

    def load(self, operand: int, config: VTAConfig) -> Floats:
        """Cycles of all fills of an operand, shape (n,)."""
        return self.fills[operand] * (self.beats[operand] + latency(config) * self.transfers[operand])


def latency(config: VTAConfig) -> int:
    """Cycles between two loads beyond their beats."""
    return HANDLING + config.read_delay


@lru_cache(maxsize=MACHINES)
def burst(config: VTAConfig) -> float:
    """Cycles that a burst of full length keeps the memory from others, among many that follow each other."""
    many = 1 << 16
    return config.burst_beats + float(read_waits(many, many * config.burst_beats, config)) / many


def fetch(config: VTAConfig) -> float:
    """Cycles that the fetch of an instruction keeps the memory from others: its words, and its share of what follows a burst."""
    return FETCH + (burst(config) - config.burst_beats) / fetch_batch(config)


@lru_cache(maxsize=MACHINES)
def gaps(config: VTAConfig) -> tuple[float, float]:
    """Cycles between two batches of instructions, on a memory that waits for it and on one that others keep awake.

    0 where queues are long and fetch is faster than the shortest instructions, as in the RTL: then engines hardly wait for it.
    """
    batch = fetch_batch(config)
    each = float(np.diff(fetch_cycles_floor([batch, 2 * batch], config))[0])
    if config.queue_depth >= LONG_QUEUE and each + config.read_delay < ISSUE * batch:
        return 0.0, 0.0
    return each + config.read_delay - batch, each - batch


def terms_of(model: Model, plan: Plan, part: Part) -> Terms:
    """The terms of a part, or of all parts' stack, as the geometry has them, before any rule has spoken."""
    shape = part.on.shape
    nothing: Floats = np.zeros(shape)
    work = np.where(part.on, times(part.extents), 0).astype(np.float64) if model.nest.anchor else nothing.copy()
    if not model.nest.tensorized:
        # What is widened is reset first.
        work = work * model.nest.step + 2.0 * model.widened(part)
    pieces, made = np.ones(shape), uops(model, plan, part)
    if model.target.semantics == "portable" or not model.nest.tensorized:
        # Products close together must not add to one accumulator, nor operations of the ALU anywhere: where a tile has too few,
        # each is an instruction.
        sums = times(part.tiles[..., model.n_spatial :]).astype(np.float64)
        few = _few(part, model.n_spatial)
        pieces = np.where(few > 0, few * sums + (1 - few), pieces)
        if model.nest.tensorized and model.nest.anchor is not None:
            # So where a last tile is smaller, whose loops are an instruction's own.
            pieces = np.maximum(pieces, made[1])
    if model.nest.guarded:
        # What a border cuts differently is an instruction of its own: here every step of the window.
        pieces = times(part.tiles[..., model.n_spatial :]).astype(np.float64)
    if model.nest.wides:
        # Behind a reset and a product, which widen what it reads.
        pieces = pieces + 2
    if model.nest.halos:
        # What stages read at several places is made for every tile, as a product is.
        work = work + np.where(part.on, (borders.cycles(model, part) - borders.tail(model, part)) * times(part.outer), 0)
        pieces = pieces * (model.nest.anchor is not None) + _halo_instructions(model, plan, part)
    stages = np.full(shape, float(sum(s.taken for s in model.nest.stages)))
    instructions = np.full(shape, float(sum(s.instructions for s in model.nest.stages)))
    moved = _moved(model, plan)
    if moved is not None:
        # One operation, or a reset and a sum of two accumulators.
        chisel = model.target.semantics == "chisel"
        stages += moved * (1 if chisel else 3)
        instructions += moved * (1 if chisel else 2)
    fills, beats, transfers = [], [], []
    for k in range(len(model.nest.operands)):
        words, dmas = model.transfer(plan, part, k)
        often: Floats = model.fills(plan, part, k).astype(np.float64)
        if part.on.ndim > 1 and (alone := apart(model, plan, k)).any():
            own, own_dmas = own_load(model, plan, k)
            words, dmas = np.where(alone, own, words), np.where(alone, own_dmas, dmas)
            often = np.where(alone, part.on, often)
        fills.append(often)
        beats.append(words.astype(np.float64))
        transfers.append(dmas.astype(np.float64))
    return Terms(
        part, work, pieces, np.where(_stands(model, plan, part), 0.0, float(model.nest.init_cycles if model.nest.anchor else 0)),
        stages, instructions, fills, beats, transfers, np.where(part.on, model.store_cycles(plan, part), 0.0), nothing.copy(),
        *made, nothing.copy(),
    )


def _halo_instructions(model: Model, plan: Plan, part: Part) -> Floats:
    """Instructions that make the halos of a tile, for each strip that the data of the first come in, shape as ``on``.

    A sum of products is one, but where its products are too close together for ``portable``.
    """
    found: Floats = np.zeros(part.on.shape)
    again: Floats = np.zeros(part.on.shape)
    made, strips = borders.elements(model, part), borders.strips(model, plan, part)
    for k, halo in enumerate(model.nest.halos):
        for stage in halo.stages:
            cut = model.cut is not None and stage.block == model.cut.block
            close = (made[..., k] // (strips if cut else 1) <= HAZARD_DISTANCE) & (model.target.semantics == "portable")
            products = np.where(close, stage.products, min(stage.products, 1))
            again += products * cut
            found += stage.instructions - stage.products + products * (not cut)
    return again + found / strips


def _few(part: Part, spatial: int) -> Floats:
    """The share of a part's tiles that have so few results that products follow each other on one of them, shape as ``on``.

    The last tile along an axis may be smaller than the others.
    """
    tiles, outer, short = part.tiles[..., :spatial], part.outer[..., :spatial], part.short[..., :spatial]
    ragged = np.flatnonzero((short > 0).any(axis=tuple(range(short.ndim - 1))))
    found: Floats = np.zeros(part.on.shape)
    for last in product((False, True), repeat=len(ragged)):
        sizes, share = tiles.copy(), np.ones(part.on.shape)
        for a, at_end in zip(ragged, last):
            ends = np.where(short[..., a] > 0, 1 / outer[..., a], 0.0)
            sizes[..., a] -= short[..., a] if at_end else 0
            share *= ends if at_end else 1 - ends
        found += np.where(times(sizes) <= HAZARD_DISTANCE, share, 0.0)
    return found


def _moved(model: Model, plan: Plan) -> npt.NDArray[np.bool_] | None:
    """Whether what a chain of stages begins with is moved first, shape (n,); None where it never is.

    A result of two tensors stands where one of them was (``share_in_place`` of lowering), but for what several parts read.
    """
    nest = model.nest
    begins = nest.stages[0].begins if nest.stages and nest.anchor is None and not nest.halos else ()
    if not begins:
        return None
    parts = sum(part.on.astype(np.int64) for part in plan.parts)
    once = [plan.attach[k] == 0 for k, operand in enumerate(nest.operands) if operand.name in begins]
    return np.asarray(np.all(once, axis=0) & (parts > 1), dtype=np.bool_)


def _stands(model: Model, plan: Plan, part: Part) -> npt.NDArray[np.bool_]:
    """Whether sums stand where what they start with is loaded (``share_in_place`` of lowering), shape as ``on``.

    Not where it is loaded once for several parts, and nowhere if something else reads it.
    """
    nest, several = model.nest, plan.stack.on.sum(axis=0) > 1
    found: npt.NDArray[np.bool_] = np.zeros(part.on.shape, dtype=np.bool_)
    for k, operand in enumerate(nest.operands):
        if operand.leads and operand.readers == (nest.anchor,) and nest.tensorized and nest.init_ops == (0, 0):
            found |= part.on & ~(model.shared(plan, k) & several)
    return found


def draft(model: Model, plan: Plan, enough: Floats | None = None) -> Floats:
    """Estimated cycles of every point, shape (n,).

    Args:
        model: of the space.
        plan: the points.
        enough: estimates above these need not be worked out to their end, shape (n,): what is returned is above them, too.
    """
    from space._play_kernel import play

    n, operands, every = len(plan), len(model.nest.operands), plan.stack
    fill = np.zeros((10, operands, len(plan.parts), n))
    work = np.zeros((21, len(plan.parts), n))
    padding = model.padding
    widths = np.zeros((7, len(padding.dims), len(plan.parts), n))
    terms = _corrected(model, plan, terms_of(model, plan, every))
    extra = np.where(every.on, terms.extra, 0.0).sum(axis=0)
    _fills(model, plan, terms, fill, work)
    _work(model, plan, terms, fill, work)
    dims = np.full((n, len(padding.dims), 4), -1, dtype=np.int64)
    for n_dim, dim in enumerate(padding.dims):
        extents = model.extent_of(plan, every, padding.operand)
        padded = model.padded_extent(plan, every, padding.operand)
        widths[0, n_dim] = extents[..., dim.at]
        widths[1, n_dim] = padding.most(plan, every, n_dim, padded)
        widths[2, n_dim] = times(extents[..., : dim.at])
        widths[4, n_dim], _, widths[3, n_dim] = dim.used
        widths[5, n_dim] = padded[..., dim.at]
        widths[6, n_dim] = dim.often
        for a in padding.movers(dim.axes):
            side = 0 if a < model.n_spatial else 1
            dims[:, n_dim, side] = plan.position[:, a]
            dims[:, n_dim, 2 + side] = dim.coeffs[a]
    out: Floats = np.zeros(n)
    play(
        np.array(every.on), *_loops(model, plan, fill), model.n_spatial, fill, work,
        _tails(model, plan, every), _side_by_side(model, plan), np.array(plan.acc_banks), dims, padding.useful_before,
        padding.operand, np.array(plan.drops),
        widths, float(ISSUE), float(latency(model.config)), fetch(model.config), float(FETCHED),
        begins(model.config), burst(model.config),
        float(model.config.outstanding_reads), float(model.config.queue_depth), float(fetch_batch(model.config)),
        *gaps(model.config),
        np.full(n, np.inf) if enough is None else enough - extra, out,
    )
    return np.asarray(out + extra, dtype=np.float64)


def begins(config: VTAConfig) -> float:
    """Cycles of a program before its first load begins and behind its last instruction.

    Args:
        config: of the machine.
    """
    return float(START + config.read_delay)


def _loops(model: Model, plan: Plan, fill: Floats) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Extents, tiles and tiles along every axis, the first index of it and its place, as the clock takes them.

    The strips in which a halo's data come are one more axis, innermost, where there are any.
    """
    every = plan.stack
    found = (*turned(plan, every), columns(every.lows), columns(plan.position))
    strips = borders.strips(model, plan, every)
    if model.cut is None or not (strips > 1).any():
        return found
    inside = borders.rows(model, every), borders.thick(model, plan, every), strips, np.zeros_like(strips)
    several = np.where(strips > 1, len(model.extents) + 1, 0)
    fill[DEPTH, model.cut.operand] = np.maximum(fill[DEPTH, model.cut.operand], several)
    fill[SHARES, model.cut.operand][strips > 1] = 1
    made = [np.ascontiguousarray(np.concatenate([figures, own[:, None]], axis=1)) for figures, own in zip(found, inside)]
    place = np.full((1, len(plan)), len(model.extents), dtype=np.int64)
    return made[0], made[1], made[2], made[3], np.ascontiguousarray(np.concatenate([found[4], place]))


def _corrected(model: Model, plan: Plan, terms: Terms) -> Terms:
    """The terms of all parts after every rule has seen those of each."""
    names = [f.name for f in fields(Terms)][1:]
    parts = [{name: _one(getattr(terms, name), p) for name in names} for p in range(len(plan.parts))]
    each = [Terms(part, *(_open(was[name]) for name in names)) for part, was in zip(plan.parts, parts)]
    for own in each:
        for rule in model.overriding("draft"):
            rule.draft(model, plan, own)
    return Terms(terms.part, *(
        getattr(terms, name) if all(_same(getattr(own, name), was[name]) for own, was in zip(each, parts))
        else _all([getattr(own, name) for own in each], len(plan)) for name in names))


def _one(value: Any, part: int) -> Any:
    """What terms of all parts have for one of them."""
    if isinstance(value, list):
        return [row[part] for row in value]
    return value[part] if isinstance(value, np.ndarray) else value


def _open(value: Any) -> Any:
    """A term for rules to change: of several figures a list of its own."""
    return list(value) if isinstance(value, list) else value


def _same(found: Any, was: Any) -> bool:
    """Whether no rule has put another figure there: what is changed in place is changed in all parts' figure as well."""
    if isinstance(was, list):
        return len(found) == len(was) and all(a is b for a, b in zip(found, was))
    return found is was


def _all(values: list[Any], n: int) -> Any:
    """The same of all parts, each of shape (n,)."""
    if isinstance(values[0], list):
        return [_all(list(rows), n) for rows in zip(*values)]
    return np.stack([value if np.shape(value) == (n,) else np.broadcast_to(value, n) for value in values])


def _fills(model: Model, plan: Plan, terms: Terms, fill: Floats, work: Floats) -> None:
    """What every operand's loads take, and the addends' that are loaded once."""
    known = np.asarray(terms.addends_first)
    after = {stage.block for stage in model.nest.stages}
    loops, tiled = terms.part.outer[..., : model.n_spatial] > 1, plan.position[:, : model.n_spatial]
    late: Floats = np.zeros(known.shape)
    for k, operand in enumerate(model.nest.operands):
        compute = operand.scope == ACC
        stages = [reader in model.nest.links for reader in operand.readers]
        engine = 1 if compute else 2 if all(stages) else 3 if any(stages) else 0
        once = compute & (plan.attach[k] == 0)
        busy = (terms.fills[k] > 0) & ~once
        if k in model.starting:
            busy &= ~((known > 0) & np.stack(plan.firsts))
        ahead = (known > 0) & (k in model.nest.addends)  # the first load waits for it
        late += np.where(once & ~ahead, terms.load(k, model.config), 0.0)
        for column, values in (
            (DEPTH, model.depth(plan, terms.part, k)), (BEATS, np.where(busy, terms.beats[k], 0.0)),
            (TRANSFERS, terms.transfers[k]), (BANKS, 1 + plan.banks[k]), (ENGINE, engine),
        ):
            fill[column, k] = values
        if plan.keep[k].any():
            fill[ONCE, k] = np.where(plan.keep[k], 1 + _overlaps(model, plan, k), 0)
        if set(operand.readers) <= after:
            fill[AFTER, k] = ~(loops & (tiled >= plan.attach[k][:, None])).any(axis=-1)
    _shares(model, plan, terms.part, fill)
    work[LATE] = late
    work[KNOWN] = known


def _left(model: Model, elements: Floats, fill: Floats) -> None:
    """What stages take behind the last one that reads an operand, whose place is free meanwhile: those of a slice's elements."""
    stages = model.nest.stages
    for k in model.behind:
        last = max(n for n, stage in enumerate(stages) if stage.block in model.nest.operands[k].readers)
        rest = stages[last + 1 :]
        fill[LEFT, k] = elements * sum(s.taken for s in rest) + ISSUE * sum(s.instructions for s in rest)


def _shares(model: Model, plan: Plan, part: Part, fill: Floats) -> None:
    """Of every fill for products alone, the loop whose iterations read a few of its transfers each, and how many these are.

    Where the ALU computes alone, what counts as products is many instructions, each over all of a fill: it is read as a whole.
    """
    fill[SHARES] = 1
    if not model.nest.tensorized:
        return
    from space._loads_kernel import shares

    extents, _, outer = turned(plan, part)
    shares(
        model.regions(plan, part), extents, outer, columns(plan.position), fill[DEPTH], np.array(plan.drops), *model.dims,
        fill[WITHIN], fill[SHARES],
    )
    fill[SHARES, (fill[ENGINE] != 0) | (fill[ONCE] > 0)] = 1


def _tails(model: Model, plan: Plan, part: Part) -> Floats:
    """Of the last tile along every axis, how much of a fill of every operand it brings, and in how many transfers.

    Where it lies in a place for a whole tile, its rows follow each other with gaps. Shape (3, operands, axes, parts, n), empty
    where all tiles are alike. What a border of the padding cuts off is seen at the border.
    """
    short = ends(plan, part)
    if not short.any():
        return np.zeros((3, 0, 0, 0, 0))
    from space._loads_kernel import tails

    dims, movers, sizes = model.dims
    found = np.ones((3, len(model.nest.operands), len(model.extents), *part.on.shape))
    padded = np.zeros(movers.shape[:2], dtype=np.bool_)
    for dim in model.padding.dims:
        padded[model.padding.operand, dim.at] = True
    keep = np.array(plan.keep, dtype=np.bool_).reshape(len(model.nest.operands), len(plan))
    tails(model.regions(plan, part), short, dims, movers, sizes, padded, model.dense, np.array(plan.drops), keep, found)
    return found


def _overlaps(model: Model, plan: Plan, operand: int) -> npt.NDArray[np.bool_]:
    """Whether pieces of an operand that stays share elements: two axes move a dimension, and one of them is around the load."""
    found = np.zeros(len(plan), dtype=np.bool_)
    around = model.around(plan, operand)
    for coeffs, _ in model.nest.operands[operand].dims:
        moving = [a for a, c in enumerate(coeffs) if c and model.extents[a] > 1]
        if len(moving) > 1:
            found |= around[:, moving].any(axis=1)
    return found


def _work(model: Model, plan: Plan, terms: Terms, fill: Floats, work: Floats) -> None:
    """What the compute engine does between two loads, for a tile, and for a slice of it."""
    part = terms.part
    outs = np.maximum(model.outs_run(plan, part), 1).astype(np.float64)
    slices = model.slices(plan, part) if model.nest.stages else np.ones(part.on.shape, dtype=np.int64)
    elements = times(model.out_tiles(plan, part))
    _left(model, elements / slices, fill)
    # Of a whole tile: the last one along an axis may be smaller.
    work[PRODUCTS] = terms.products * (part.tiles / np.maximum(part.extents, 1)).prod(axis=-1)
    work[PIECES] = terms.pieces
    work[INIT] = np.where(terms.init > 0, model.init_elements(plan, part) * terms.init + ISSUE, 0.0)
    for second in range(1, plan.main):
        # Written together with the first part's: a second instruction, which waits for nothing.
        work[INIT, 0] += np.where(part.on[second], work[INIT, second], 0.0)
        work[INIT, second] = 0.0
    work[AROUND], work[OUT] = part.init, part.out
    if model.nest.wides:
        # Of what counts as products the reset of what is widened, and what is done behind the last that reads what is loaded.
        work[LEAD] = model.widened(part) / np.maximum(terms.products, 1)
        work[TRAIL] = np.maximum(1 - 2 * work[LEAD], 0)
    # Only what computes writes what is stored from: a reset and a load need not wait for the store before.
    work[RESET] = model.nest.init_ops == (0, 0) and model.target.semantics == "chisel"
    work[FIXED] = ISSUE * terms.operations
    work[STAGE] = elements / slices * terms.stages + work[FIXED]
    work[SLICED] = -1.0
    if part.slices.any():  # a single vector has no axis to slice
        work[SLICED] = np.where(part.slices > 0, plan.position[np.arange(len(plan)), part.slices - 1], -1)
    work[FIRST] = -1.0
    if model.nest.halos:
        # What the first halo's products are added to is made while their operands load.
        first, tail = model.nest.halos[0].stages[0], borders.tail(model, part)
        begins = borders.elements(model, part)[..., 0] * (first.imm_ops + first.taken - first.cycles)
        work[LEAD] = begins / np.maximum(borders.cycles(model, part) - tail, 1) if model.nest.anchor is None else 0.0
        strips = borders.strips(model, plan, part)
        # Where these come in strips, once for all: as if behind the tile before, while the first strip loads.
        tail = tail + np.where(strips > 1, begins, 0)
        work[PRODUCTS] = np.where(strips > 1, work[PRODUCTS] * (1 - work[LEAD]) / strips, work[PRODUCTS])
        work[LEAD] = np.where(strips > 1, 0.0, work[LEAD])
        work[STAGE] += tail / slices
        # What a halo's place holds is made before the tile's own is waited for, unless it is what is stored.
        within = model.nest.stages[: model.nest.within]
        ahead = tail + sum(elements / slices * s.taken + ISSUE * s.instructions for s in within)
        if model.nest.anchor is None and not model.nest.stands:
            work[FIRST] = ahead
    elif model.nest.anchor is None and any(s.moves != (0, 0) for s in model.nest.stages[:1]):
        work[FIRST] = 0.0  # what is read stays, and slices take turns in the place that they are moved to
    work[SLICES] = slices
    # A whole tile's share: the last one may be smaller.
    whole = times(part.extents[..., : model.n_spatial])
    ragged = ends(plan, part)[:, : model.n_spatial].any(axis=1).reshape(part.on.shape)
    work[STORE] = np.where(ragged, terms.store * elements / np.maximum(whole, 1), terms.store / outs) / slices
    work[STORES] = model.store_transfers(plan, part)
    # What the memory does not hold at once comes in pieces on the way, each behind reads of what the others load.
    visits = np.maximum(times(part.outer), 1)
    # A list that is longer by itself is loaded as a whole.
    capacity = model.config.uop_capacity
    several = capacity / AHEAD_SHARE
    piece = np.clip(terms.uops / visits, several, max(several, min(capacity / 2, LISTS)))
    ring = terms.uops > capacity
    later = np.where(ring, np.maximum(terms.uops / piece - 1, 0.0), 0.0)
    words = model.config.uop_elem_bytes / model.config.bus_bytes * burst(model.config) / model.config.burst_beats
    behind = np.minimum(BEHIND, burst(model.config) + piece * words)
    work[UOPS] = np.where(ring, piece, terms.uops) * words
    work[READ] = later * piece * words / visits
    work[RELOAD] = later * (piece * words + latency(model.config) + behind) / visits
    # A maximum can only bring in a value where something smaller is known to stand: a place's first tile finds anything.
    work[CLEAR] = model.init_elements(plan, part) if model.nest.clears else 0.0


def _side_by_side(model: Model, plan: Plan) -> npt.NDArray[np.int64]:
    """Per part, whether there is room beside what the part before used last: 2 for all copies of its buffers, 1 for the first.

    Of what the load engine fills, and of the accumulator, where it is -1 if there is none for a single tile; shape (2, parts, n).
    """
    from space._draft_kernel import side_by_side

    part, scopes, operands = plan.stack, list(model.depths), model.nest.operands
    of_all, of_each = (len(operands), *part.on.shape), (len(operands), len(plan))
    every = range(len(operands))
    found = np.zeros((2, *part.on.shape), dtype=np.int64)
    halos = borders.elements(model, part).sum(axis=-1) if model.nest.halos else np.zeros(part.on.shape, dtype=np.int64)
    side_by_side(
        np.array(part.on), model.init_elements(plan, part), model.tile_elements(part), times(model.out_tiles(plan, part)),
        model.tile_copies(plan, part), halos,
        np.array([model.footprint(plan, part, k) for k in every], dtype=np.int64).reshape(of_all),
        np.array(model.every_fill(plan)),
        np.array(plan.banks, dtype=np.int64).reshape(of_each),
        np.array([model.shared(plan, k) for k in every], dtype=np.bool_).reshape(of_each),
        np.array([scopes.index(operand.scope) for operand in operands], dtype=np.int64),
        np.array([model.depths[scope] for scope in scopes], dtype=np.int64), scopes.index(ACC),
        np.zeros((4, len(scopes)), dtype=np.int64), found,
    )
    rows, clear = arranged.clear(model, plan)
    for own, there in zip(found[1, 2:], clear[2:]):
        own[rows] = np.where(own[rows] < 0, own[rows], there)
    return found


def uops(model: Model, plan: Plan, part: Part) -> tuple[Floats, Floats]:
    """Micro-ops that a part loads, and how many instructions a product is where borders cut it, shape (n,) each.

    There is a list for every combination of addresses that its operands take at the instruction. Where the memory does not hold
    all lists, one is loaded again for every visit.
    """
    from space import _draft_kernel

    n, axes, config, padding = len(plan), len(model.extents), model.config, model.padding
    read = [k for k, o in enumerate(model.nest.operands) if o.scope != ACC and o.consumer not in model.nest.links]
    attach = np.array([plan.attach[k] for k in read], dtype=np.int64).reshape(len(read), n)
    depth = model.around_products(plan)
    tied = np.zeros(axes, dtype=np.bool_)
    tied[[a for group in padding.taps for a in group if a >= model.n_spatial]] = True
    cut = np.flatnonzero((padding.sides >= 0).all(axis=1))[:2] if padding.taps else np.zeros(0, dtype=np.int64)
    borders, taps = padding.sides[cut].T
    along = np.zeros((len(cut), axes), dtype=np.bool_)
    for own, dim, border in zip(along, cut, borders):
        own[list(padding.taps[dim])] = True
        own[border] = False
    # What a stride leaves out between two results of a row is not what lies between two rows.
    joined = all(padding.dims[d].coeffs[a] == 1 for d, a in zip(cut.tolist(), borders.tolist()))
    found: Floats = np.zeros((2, *np.atleast_2d(part.on).shape))
    sizes, useful = np.ones((2, len(cut), *found.shape[1:]))
    if len(cut) and plan.drops.any():
        sizes = padding.kinds(part, model.ranges(plan, part, depth)).reshape(len(padding.dims), *found.shape[1:])[cut]
        useful = padding.shares_in(plan, part).reshape(len(padding.dims), *found.shape[1:])[cut]
    _draft_kernel.uops(
        np.array(np.atleast_2d(part.on)), *turned(plan, part), _conditional(model, plan, part), stacked(columns(part.lows)),
        columns(plan.position), depth,
        np.array(np.atleast_2d(part.init)),
        attach, np.array([plan.keep[k] for k in read], dtype=np.bool_).reshape(attach.shape),
        np.array([plan.banks[k] for k in read], dtype=np.int64).reshape(attach.shape), np.array(plan.acc_banks),
        np.array(plan.drops), model.read_along[read], tied, np.ascontiguousarray(borders), np.ascontiguousarray(taps),
        along, padding.ends_meet[cut], sizes, useful, model.extents, model.n_spatial,
        model.target.semantics == "portable", joined, model.even[read].all(axis=0), config.uop_capacity,
        config.uop_capacity // LISTED_SHARE, PIPELINE_CYCLES * config.bus_bytes / config.uop_elem_bytes,
        np.zeros(axes, dtype=np.bool_), np.zeros((2, axes), dtype=np.int64), np.zeros((len(cut), 6)), found,
    )
    return (found[0], found[1]) if part.on.ndim > 1 else (found[0, 0], found[1, 0])


def _conditional(model: Model, plan: Plan, part: Part) -> Ints:
    """By how much the last tile along every axis is smaller where a condition says so, shape (parts, axes, n).

    None does where that tile lies densely on chip: lowering gives it loops of its own (``ends`` of lowering). Of an operand's
    outermost dimension whole rows are left out anyway.
    """
    short = ends(plan, part)
    if model.target.semantics != "portable" or not short.any():
        return short
    short = short.copy()
    for k, operand in enumerate(model.nest.operands):
        if not model.dense[k].any():
            continue
        inner = np.cumprod(model.extent_of(plan, part, k), axis=-1).reshape(*short.shape[::2], -1)
        for d in np.flatnonzero(model.dense[k, 1 : len(operand.dims)]) + 1:
            (axis,) = (a for a, c in enumerate(operand.dims[d][0]) if c and model.extents[a] > 1)
            apart = (inner[..., d - 1] > 1) & (plan.position[:, axis] < plan.attach[k]) & ~plan.keep[k]
            short[:, axis][apart] = 0
    return short
