"""What the rules need to know about a program: its axes, its operands and the chain of blocks that makes its output.

The analysis is structural. A program is a sequence of nests, one for every tensor that is stored, or for several of one sum: a
block that matches the target's GEMM intrinsic, or none, and chains of element-wise stages that end in stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from autosched.errors import ProgramError, SpaceError
from autosched.ir.expr import BufferLoad, Cast, Var, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.patterns import choice_of, is_widened, loads_in, update_of
from autosched.ir.printer import expr_text
from autosched.ir.scopes import ACC
from autosched.ir.stmt import Buffer, BufferStore, PrimFunc
from autosched.ir.value_bounds import ValueBounds
from autosched.lower.normalise import IMM_MAX, IMM_MIN
from autosched.schedule.primitives.reductions.neutral_terms import leaves
from autosched.target import Target
from space.chains import begun_apart, chain_of, forks_of, live_in, needed
from space.checks import check_differences, check_site, check_tensors
from space.halos import Halo, Surroundings, elsewhere, placed, slides, surroundings_of
from space.operands import Operand, dims_of, moved, moving, operands_of
from space.sites import (
    LANES,
    BorderError,
    NotPackedError,
    Site,
    ahead,
    alu_ops,
    is_copy,
    is_guarded,
    loads_of,
    match_gemm,
    reads_of,
    sites_of,
)
from space.stages import Stage, is_wide, lanes_of, moved_first, stage_of, start_of


@dataclass(frozen=True)
class Axis:
    """A loop of the program that a schedule may tile; lanes of the intrinsic are not axes.

    Args:
        name: name of the iterator.
        extent: iterations.
        reduce: whether it is reduced over.
        anchor_index: position among the anchor block's iterators (-1: the program has no reduction).
        out_index: position among the output block's loops (-1 for a reduction axis).
    """

    name: str
    extent: int
    reduce: bool
    anchor_index: int
    out_index: int


@dataclass(frozen=True)
class Wide:
    """A block that widens what a reduction of the ALU reads: a product with an identity, for every element of a window.

    Args:
        block: its name.
        dims: of what it makes, as an operand's.
        iters: iterators of the block.
        lanes: which of them are the intrinsic's.
    """

    block: str
    dims: tuple[tuple[tuple[int, ...], int], ...]
    iters: int
    lanes: tuple[int, ...]


@dataclass(frozen=True)
class Nest:
    """A program as the rules see it.

    Args:
        func: the program.
        anchor: name of the block that the intrinsic computes, or None for an ALU-only program.
        axes: spatial axes in output order, then reduction axes in the anchor's order.
        anchor_iters: number of iterators of the anchor.
        operands: what has to be loaded; inp and wgt of the anchor first.
        stages: the chain from the anchor (not included) to the block before the output.
        out: name of the block that stores the output.
        out_loops: number of loops of the output block.
        init_ops: (immediate, tensor) ALU operations of the reduction's initial value, per element; (0, 0) where it is zero.
        init_cycles: cycles of the initial value of an element: one for a zero, for a constant or a tensor that is moved.
        sides: blocks that make what the initial value reads, once for each distinct element.
        between: whether another nest reads what this one stores.
        tensorized: whether the anchor is the intrinsic's; else the ALU reduces.
        step: cycles of the anchor's step, per element.
        wides: blocks that widen what the ALU reduces.
        guarded: whether the anchor's terms are constants outside of a condition, padding that is left out of the window.
        clears: whether the initial value comes in by a maximum or minimum: the first tile of an accumulator is cleared before.
        live: tensors of the chain that are in the accumulator at once; more than one where sums are joined.
        forks: where several of the chain read one block of it, every block that some read, each with these.
        also: further blocks that store, tensors of the same shape as the output, ahead of its block.
        halos: what stages read at several places.
        within: how many of the first stages stand in the place of a halo; where all do, what is stored stands there.
        place: which halo that is.
        begun: tensors besides, that a stage begins with what has fewer elements for.
        ahead: values that the ALU works out ahead of every step of a reduction, each in a place of its own.
    """

    func: PrimFunc
    anchor: str | None
    axes: tuple[Axis, ...]
    anchor_iters: int
    operands: tuple[Operand, ...]
    stages: tuple[Stage, ...]
    out: str
    out_loops: int
    init_ops: tuple[int, int] = (0, 0)
    init_cycles: int = 1
    sides: tuple[str, ...] = ()
    between: bool = False
    tensorized: bool = True
    step: int = 1
    wides: tuple[Wide, ...] = ()
    guarded: bool = False
    clears: bool = False
    live: int = 1
    forks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    also: tuple[str, ...] = ()
    halos: tuple[Halo, ...] = ()
    within: int = 0
    place: int = 0
    begun: int = 0
    ahead: int = 0

    @property
    def stands(self) -> bool:
        """Whether what is stored stands in the place of a halo."""
        return 0 < self.within == len(self.stages)

    @property
    def stores(self) -> int:
        """How many tensors the nest stores."""
        return 1 + len(self.also)

    @cached_property
    def blocks(self) -> tuple[str, ...]:
        """Names of the blocks that it moves, without those that store or load."""
        stages = [s.block for s in (*self.stages, *(stage for halo in self.halos for stage in halo.stages))]
        return (*([self.anchor] if self.anchor else []), *stages, *(w.block for w in self.wides), *self.sides)

    @cached_property
    def links(self) -> tuple[str, ...]:
        """Stages that add products to the chain."""
        return tuple(s.block for s in self.stages if s.products)

    @cached_property
    def starting(self) -> frozenset[str]:
        """Tensors that the anchor reads in its initial value alone, where the ALU reduces."""
        site = None if self.tensorized else next((s for s in sites_of(self.func) if s.block.name == self.anchor), None)
        start = site.block.init if site is not None else None
        if site is None or not isinstance(start, BufferStore):
            return frozenset()
        first, later = [
            {e.buffer.name for e in walk_expr(v) if isinstance(e, BufferLoad)} for v in (start.value, site.store.value)]
        return frozenset(first - later)

    def begins_with(self, operand: Operand) -> bool:
        """Whether the anchor's initial value is made of an operand."""
        return self.anchor in operand.readers and operand.scope == ACC and (self.tensorized or operand.name in self.starting)

    @cached_property
    def addends(self) -> tuple[int, ...]:
        """The operands that the initial values of a sum of products are made of, on the side as well, by number."""
        early = (self.anchor, *self.sides)
        return tuple(k for k, o in enumerate(self.operands) if self.tensorized and o.scope == ACC and o.consumer in early)

    @cached_property
    def spatial(self) -> tuple[int, ...]:
        """Indices of the spatial axes."""
        return tuple(i for i, a in enumerate(self.axes) if not a.reduce)

    @cached_property
    def reduce(self) -> tuple[int, ...]:
        """Indices of the reduction axes."""
        return tuple(i for i, a in enumerate(self.axes) if a.reduce)


def analyse(func: PrimFunc, target: Target, halos: bool = False, joint: bool = False) -> tuple[Nest, ...]:
    """The nests of an unscheduled program, in program order: one for every tensor that goes to DRAM, or for several of one sum.

    That is every result, and every tensor that one nest makes and the GEMM of another reads.

    Args:
        func: the program, with constant extents.
        target: the machine whose intrinsic has to match.
        halos: whether a stage may read what others make at several places.
        joint: whether several sums of products of a nest share loads of what they all read, each for all steps of these sums.

    Raises:
        SpaceError: the program is outside what a space can tile; the message says why.
    """
    check_tensors(func)
    sites = sites_of(func)
    params = {*func.buffers, *(c.buffer for c in func.constants)}
    matches = {s.block.name: m for s in sites if (m := match_gemm(s.block, target)) is not None}
    by_output = {s.store.buffer: s for s in sites}
    for site in sites:
        check_site(site, matches, by_output, target)
    outs = _outputs(sites, matches, by_output, params)
    sources = params | {s.store.buffer for s in outs}
    taken: dict[str, str] = {}
    nests = []
    for group in _together(func, target, outs, matches, by_output, sources):
        chain = chain_of(group, matches, by_output, sources, halos)
        nests.append(_nest(func, target, chain, matches, by_output, sources, halos, joint))
        stored = group[-1].store.buffer.name
        for name in (*nests[-1].blocks, *dict.fromkeys(o.producer for o in nests[-1].operands if o.producer is not None)):
            if name in taken:
                raise SpaceError(f"block {name!r} feeds both {taken[name]} and {stored}; one of them needs a "
                                 "block of its own that computes it again", "copy")
            taken[name] = stored
    for name in matches:
        if name not in taken:
            raise SpaceError(f"block {name!r} does not feed the output {outs[-1].block.name!r}", "result")
    check_differences(sites)
    return tuple(nests)


def shared(func: PrimFunc, target: Target) -> tuple[str, tuple[tuple[str, ...], ...]] | None:
    """The last block that feeds several of the tensors that go to DRAM and that no nest makes together, or None.

    With it come its readers, those of each nest together.

    Args:
        func: a program as for ``analyse``.
        target: the machine.

    Raises:
        SpaceError: as for ``analyse``.
    """
    sites = sites_of(func)
    params = {*func.buffers, *(c.buffer for c in func.constants)}
    matches = {s.block.name: m for s in sites if (m := match_gemm(s.block, target)) is not None}
    by_output = {s.store.buffer: s for s in sites}
    outs = _outputs(sites, matches, by_output, params)
    sources = params | {s.store.buffer for s in outs}
    fed: dict[str, set[str]] = {s.block.name: set() for s in sites}
    for group in _together(func, target, outs, matches, by_output, sources):
        for site in needed(group, by_output, sources):
            fed[site.block.name].add(group[-1].block.name)
    for site in reversed(sites):
        if len(fed[site.block.name]) > 1:
            readers = [s for s in sites if any(x.buffer is site.store.buffer for x in reads_of(s))]
            groups = [tuple(r.block.name for r in readers if to in fed[r.block.name]) for to in sorted(
                fed[site.block.name], key=[s.block.name for s in sites].index)]
            return site.block.name, tuple(groups)
    return None


def _together(
    func: PrimFunc, target: Target, outs: list[Site], matches: dict[str, tuple[BufferLoad, BufferLoad]],
    by_output: dict[Buffer, Site], sources: set[Buffer],
) -> list[list[Site]]:
    """The blocks that store, those of one nest in one list: they share blocks, and one set of loops makes them all.

    Such a nest stands where its last store stood, so nothing that is stored in between may read what an earlier one has stored;
    or where its first one stood, if blocks do of which something later is made, and all that it is made of is there.
    """
    order = [*by_output.values()]
    groups: list[list[Site]] = []
    for n, out in enumerate(outs):
        own = {s.block.name for s in needed([out], by_output, sources) if not is_copy(s, matches)}
        for group in groups:
            if not own & {s.block.name for s in needed(group, by_output, sources)}:
                continue
            stored = {s.store.buffer for s in group}
            between = needed([s for s in outs[outs.index(group[0]) : n + 1] if s not in group], by_output, set())
            if any(x.buffer in stored for s in between for x in reads_of(s)):
                continue
            within = order[order.index(group[0]) : order.index(out)]
            if any(s.block.name in own for s in within) and any(x.buffer in stored for s in within for x in reads_of(s)):
                continue
            try:
                _nest(func, target, chain_of([*group, out], matches, by_output, sources), matches, by_output, sources)
            except ProgramError:
                continue  # each by itself, then
            group.append(out)
            break
        else:
            groups.append([out])
    return sorted(groups, key=lambda g: outs.index(g[-1]))


def _outputs(
    sites: list[Site], matches: dict[str, tuple[BufferLoad, BufferLoad]], by_output: dict[Buffer, Site], params: set[Buffer]
) -> list[Site]:
    """The blocks that store what goes to DRAM, in program order."""
    between = set()
    for pair in matches.values():
        for load in pair:
            site = by_output.get(load.buffer)
            while site is not None and is_copy(site, matches):
                read = loads_of(site)
                site = by_output.get(read[0].buffer) if read else None
            if site is not None:
                between.add(site.store.buffer)
    outs = [s for s in sites if s.store.buffer in params or s.store.buffer in between]
    if not any(s.store.buffer in params for s in outs):
        raise SpaceError("the program writes none of its parameters", "result")
    for site in outs:
        buffer = site.store.buffer
        if buffer.dtype != "int8":
            to = "is a result" if buffer in params else "feeds a matrix product"
            raise SpaceError(f"{buffer.name} {to} and {buffer.dtype}; the machine stores int8 only: cast what block "
                             f"{site.block.name!r} writes", "result")
    return outs


def _around(
    chain: list[Site], matches: dict[str, tuple[BufferLoad, BufferLoad]], by_output: dict[Buffer, Site], sources: set[Buffer],
    axes: int, target: Target,
) -> list[Surroundings]:
    """What stages of a chain read at several places, and ahead of it what that begins with, if it reads others so in turn."""
    found = []

    def look(site: Site, reader: Site, through: Sequence[BufferLoad] | None) -> None:
        for buffer in (b for b in by_output if b in elsewhere(site) and b not in sources):
            made = chain_of([by_output[buffer]], matches, by_output, sources, True)
            stages, within = _begun(made[0], [stage_of(s, matches.get(s.block.name), by_output, target) for s in made], target)
            live = 0 if within == len(made) else live_in(made, sources)
            loads = [x for x in loads_of(site) if x.buffer is buffer]
            if through is not None:
                loads = [moved(x, site, by) for by in through for x in loads]
            around = surroundings_of(reader, site, loads, made, stages, live, within, by_output, chain[-1], axes)
            _check_elementwise(made, made[0], LANES)
            look(made[0], reader, around.loads)
            found.append(around)

    for site in chain:
        look(site, site, None)
    return found


def _nest(
    func: PrimFunc, target: Target, chain: list[Site], matches: dict[str, tuple[BufferLoad, BufferLoad]],
    by_output: dict[Buffer, Site], sources: set[Buffer], halos: bool = False, joint: bool = False,
) -> Nest:
    """The nest of one chain; what other nests store is as good as a parameter to it."""
    out = chain[-1]
    outs = [s for s in chain if s.store.buffer in sources]
    anchor = chain[0] if chain[0].block.init is not None else None
    tensorized = anchor is None or anchor.block.name in matches
    lanes = LANES
    _check_elementwise(chain, anchor, lanes)
    axes, anchor_vars = _axes(out, anchor, lanes)
    for other in outs[:-1]:
        if len(other.loops) != len(out.loops) or _loops_of(_axes(other, anchor, lanes)[0]) != _loops_of(axes):
            raise SpaceError(f"blocks {other.block.name!r} and {out.block.name!r} of one sum have different loops", "order")
    around = _around(chain, matches, by_output, sources, len(axes), target) if halos else []
    operands = operands_of(chain, anchor, matches, by_output, sources, lanes, anchor_vars,
                           [(x.reader, made, x.loads) for x in around for made in x.made], joint)
    operands = tuple(o.cropped([axis.extent for axis in axes]) for o in operands)
    wides = () if tensorized or anchor is None else _wides(anchor, matches, by_output, sources, lanes, anchor_vars)
    stages = tuple(stage_of(s, matches.get(s.block.name), by_output, target) for s in chain if s is not anchor and s not in outs)
    stages, within = _begun(chain[0], stages, target, True) if around and anchor is None else (stages, 0)
    for site in outs:
        stored = site.store.value.value if isinstance(site.store.value, Cast) else site.store.value
        if not isinstance(stored, BufferLoad) or site is chain[0]:
            raise SpaceError(
                f"output block {site.block.name!r} must only narrow an int32 stage to {site.store.buffer.dtype}, "
                f"got {expr_text(site.store.value)}", "result"
            )
    sides = _sides(anchor, by_output, sources) if anchor else {}
    last = next((s for s in reversed(chain) if s is not anchor and s not in outs), None)
    init_ops, init_cycles, clears = _initial(anchor, target, bool(sides), func, last) if anchor else ((0, 0), 0, False)
    read = {x.buffer for site in by_output.values() for x in loads_of(site)}
    between = any(s.store.buffer in read for s in outs)  # results of the program may be, too
    imm, tensor = (0, 0) if tensorized or anchor is None else alu_ops(anchor.store.value)
    return Nest(func, anchor.block.name if anchor else None, axes, len(anchor.block.iter_vars) if anchor else 0,
                operands, stages, out.block.name, len(out.loops), init_ops, init_cycles,
                tuple(s.block.name for s in sides.values()), between, tensorized, 1 if tensorized else imm + 2 * tensor, wides,
                not tensorized and anchor is not None and _is_guarded(anchor),
                clears, live_in(chain, sources) if anchor or within else 1, forks_of(chain),
                tuple(s.block.name for s in outs[:-1]), tuple(x.halo for x in around), within, _place(around, chain[0]),
                begun_apart(chain), 0 if tensorized or anchor is None else ahead(anchor))


def _is_guarded(anchor: Site) -> bool:
    """Whether an ALU reduction takes in a constant outside of a condition, which its window then leaves out.

    Raises:
        SpaceError: the constant may change what is reduced.
    """
    update, init = update_of(anchor.store), anchor.block.init
    if update is None or not is_guarded(update[1]):
        return False
    choice = choice_of(update[1])
    constant = None if choice is None else int_value(choice[2])
    start = int_value(init.value) if isinstance(init, BufferStore) else None
    if choice is None or constant is None or start is None or not leaves(update[0], start, constant):
        reads = ", ".join(dict.fromkeys(x.buffer.name for x in loads_in(update[1]))) or "what it reads"
        begin = "a tensor" if start is None else str(start)
        raise BorderError(
            f"block {anchor.block.name!r} takes in {constant} around {reads}, and starts with {begin}; a load pads with 0 only, "
            "and what is left out changes nothing: give the program a tensor with what is around it", "pad")
    return True


def _begun(
    first: Site, stages: Sequence[Stage], target: Target, stored: bool = False
) -> tuple[tuple[Stage, ...], int]:
    """A chain with what it costs to begin, and how many of its stages stand in the place of a halo that the first one reads.

    Those do that are before one that begins with a constant, as to extend a sign: the RTL reads the operand of that where it is,
    and stores to a place of its own. Where the first cannot stand there, it moves what it reads: that stays for others to read.
    So does one of which all that follows would be ``stored`` from places apart.
    """
    halos = elsewhere(first)
    if not halos or not stages:
        return tuple(stages), 0
    if not any(slides(first, buffer, target) for buffer in halos):
        return (moved_first(stages[0], target), *stages[1:]), 0
    own = (n for n, stage in enumerate(stages)
           if n and (stage.imm_ops or stage.extends) and not stage.tensor_ops and not stage.products)
    within = next(own, len(stages))
    if stored and within == len(stages) and any(placed(first, buffer, target) for buffer in halos):
        return (moved_first(stages[0], target), *stages[1:]), 0
    return tuple(stages), within


def _place(around: Sequence[Surroundings], first: Site) -> int:
    """Which halo the first stages stand in the place of, which may itself stand in that of the one that it begins with."""
    at = next((n for n, x in enumerate(around) if x.made[-1].store.buffer in elsewhere(first)), 0)
    while at and not around[at].halo.live:
        at -= 1
    return at


def _loops_of(axes: tuple[Axis, ...]) -> list[tuple[int, int]]:
    """Of every axis that a block stores along, which of its loops it is and how long."""
    return [(axis.out_index, axis.extent) for axis in axes if not axis.reduce]


def _wides(
    anchor: Site, matches: dict[str, tuple[BufferLoad, BufferLoad]], by_output: dict[Buffer, Site], sources: set[Buffer],
    lanes: int, anchor_vars: list[Var],
) -> tuple[Wide, ...]:
    """The blocks that widen what a reduction reads.

    Raises:
        SpaceError: it reads what another block computes.
    """
    found: dict[str, Wide] = {}
    for load in loads_of(anchor):
        site = by_output.get(load.buffer)
        if site is None or load.buffer in sources:
            continue
        name = site.block.name
        if name not in matches or not is_wide(site, matches[name]):
            single = all(int_value(iv.dom.extent) == 1 for iv in anchor.block.iter_vars if iv.kind == "reduce")
            made = load.buffer.name
            read = loads_in(site.store.value)
            padded = choice_of(site.store.value) is not None and bool(read) and all(x.buffer not in by_output for x in read)
            if single:
                way = "it reduces one element: write it as a stage"
            elif padded:
                way = f"a load pads with 0 only: give the program {read[0].buffer.name} with what is around it"
            elif load.dtype == "int8" or is_widened(site.store.value):
                way = f"make {made} a result, and the rest another program"
            else:
                way = (f"a nest has one reduction: let {made} be an int8 result and reduce it in another program, or store it as "
                       "int8 and take the minimum or maximum of its elements as they are")
            raise SpaceError(f"block {anchor.block.name!r} reduces what block {name!r} computes; {way}", "join")
        dims = dims_of(load, lanes, anchor_vars, f"block {anchor.block.name!r}")
        found[name] = Wide(name, dims, len(site.block.iter_vars), lanes_of(site))
    return tuple(found.values())


def _sides(anchor: Site, by_output: dict[Buffer, Site], sources: set[Buffer]) -> dict[Buffer, Site]:
    """By buffer, the blocks that make what the sum starts with, element by element from parameters."""
    assert isinstance(anchor.block.init, BufferStore)
    found = {}
    for e in walk_expr(anchor.block.init.value):
        site = by_output.get(e.buffer) if isinstance(e, BufferLoad) else None
        if site is None or site is anchor:
            continue
        store = site.store
        if any(x.buffer not in sources or moving(x.indices) != moving(store.indices) for x in loads_of(site)):
            raise SpaceError(f"block {site.block.name!r} makes what {anchor.block.name!r} starts with, and not element by "
                             "element from parameters", "join")
        found[store.buffer] = site
    return found


def _initial(
    anchor: Site, target: Target, made: bool, func: PrimFunc, last: Site | None
) -> tuple[tuple[int, int], int, bool]:
    """What the reduction's initial value costs: (immediate and tensor operations, cycles), per element, and ``clears``.

    Args:
        anchor: the reduction.
        target: the machine.
        made: whether a block makes the value, which is then above all that stood in the accumulator: one MAX brings it in.
        func: the program.
        last: the stage that makes what is left in the accumulator: one MAX or MIN brings in a constant beyond all of that, where
            an instruction holds it.
    """
    assert isinstance(anchor.block.init, BufferStore)
    value = anchor.block.init.value
    constant, (imm, tensor) = int_value(value), start_of(value, target)
    ops = (int(constant != 0), 0) if constant is not None else alu_ops(value)
    if target.semantics == "chisel":
        return ops, imm + 2 * tensor, False
    if constant and IMM_MIN <= constant <= IMM_MAX and last is not None:
        low, high = ValueBounds(func).of(last.store.value, {iv.var: iv.dom for iv in last.block.iter_vars})
        if not low < constant < high:
            return ops, 1, True
    return ops, 2 if made else imm + 2 * tensor, made


def _check_elementwise(chain: list[Site], anchor: Site | None, lanes: int) -> None:
    for site in chain:
        store = site.store
        if not all(isinstance(i, Var) or int_value(i) == 0 for i in store.indices) or len(store.indices) <= lanes:
            raise NotPackedError(f"block {site.block.name!r} does not store one element per iteration in order", "order")
        if site is anchor:
            continue
        for load in loads_of(site):
            if load.buffer in {s.store.buffer for s in chain} and load.indices != store.indices:
                name = load.buffer.name
                raise SpaceError(f"block {site.block.name!r} reads {name} at another place than it writes, and vectors are "
                                 f"stored where they are made: compute {name} where it is read, or let it be an int8 result of "
                                 "this program and read it in another one",
                                 "index")
    shapes = {tuple(int_value(e) for e in s.store.buffer.shape) for s in chain}
    if len(shapes) > 1:
        raise NotPackedError("the blocks of the output chain have different shapes: give each result a sum of its own, or make "
                             "what they are parts of one result", "order")


def _axes(out: Site, anchor: Site | None, lanes: int) -> tuple[tuple[Axis, ...], list[Var]]:
    loop_of = {loop.var: n for n, loop in enumerate(out.loops)}
    bound = {iv.var: v for iv, v in zip(out.block.iter_vars, out.realize.iter_values)}
    axes: list[Axis] = []
    anchor_vars: list[Var] = []
    for dim, index in enumerate(out.store.indices[:-lanes]):
        if int_value(index) is not None:
            continue  # a dimension along which one element is stored needs no loop
        value = bound.get(index) if isinstance(index, Var) else None
        if not isinstance(value, Var) or value not in loop_of:
            raise SpaceError(f"dimension {dim} of {out.store.buffer.name} is not one loop of block {out.block.name!r}", "form")
        extent = int_value(out.loops[loop_of[value]].extent)
        if extent is None:
            raise SpaceError(f"loop {value.name} of block {out.block.name!r} has a symbolic extent; a space needs constants",
                             "symbolic")
        position = -1
        var = index
        if anchor is not None:
            var = anchor.store.indices[dim]
            own = {iv.var: n for n, iv in enumerate(anchor.block.iter_vars)}
            if not isinstance(var, Var) or var not in own:
                raise SpaceError(f"dimension {dim} of block {anchor.block.name!r} is not one of its iterators", "index")
            position = own[var]
        assert isinstance(var, Var)
        axes.append(Axis(var.name.removeprefix("v_"), extent, False, position, loop_of[value]))
        anchor_vars.append(var)
    if anchor is not None:
        # The lane of a sum of products is the intrinsic's; a reduction of the ALU has none.
        loads = [e for e in walk_expr(anchor.store.value) if isinstance(e, BufferLoad) and e.dtype == "int8"]
        lane = loads[0].indices[-1] if loads else None
        for n, iv in enumerate(anchor.block.iter_vars):
            if iv.kind == "reduce" and iv.var is not lane:
                extent = int_value(iv.dom.extent)
                if extent is None:
                    raise SpaceError(f"reduction {iv.var.name} has a symbolic extent; a space needs constants", "symbolic")
                axes.append(Axis(iv.var.name.removeprefix("v_"), extent, True, n, -1))
                anchor_vars.append(iv.var)
    return tuple(axes), anchor_vars
