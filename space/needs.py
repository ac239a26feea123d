"""What one nest needs of every engine, at least; docs/bound.md and docs/bound/nests.md have the derivation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import prod

from autosched.ir.expr import BinOp, BufferLoad
from autosched.ir.functor import walk_expr
from autosched.ir.scopes import ACC, INP, WGT
from autosched.ir.stmt import BufferStore
from space.alike import factors_of, in_common
from space.counts import Context, Counts, formed_products, reads, with_products
from space.joins import joins_of_stages
from space.lanes import Filling, derived, part
from space.last_loads import behind_loads
from space.least_epilogue import blocks_of, differences_of, identities_of
from space.least_loads import beats, latency, load, widens_sooner
from space.model import Model
from space.nest import Nest
from space.operands import Operand
from space.stages import Stage
from space.uses import Uses


@dataclass(frozen=True)
class Needs:
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
        kinds: operations that its results have had.
        alone: whether loads that widen may bring in all that its products do.
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
    kinds: frozenset[str]
    alone: bool


@dataclass(frozen=True)
class _Loads:
    """What has to be loaded; as in ``Needs``."""

    streams: dict[str, int]
    addends: dict[str, int]
    moves: frozenset[str]
    words: dict[str, int]
    first: int


def needs_of(model: Model, context: Context, rest: Uses) -> Needs:
    """What a nest needs.

    Args:
        model: of the nest.
        context: what is known of the program.
        rest: what the rest of the program has of its results.
    """
    return _Nest(model, context, rest).needs()


class _Nest:
    """A nest with its counts; figures that several others are made of are worked out when they are asked for."""

    def __init__(self, model: Model, context: Context, rest: Uses) -> None:
        self.model, self.nest, self.context, self.rest = model, model.nest, context, rest
        self.counts = Counts(model, context, rest.share)
        self.computed = derived(model, context.full)

    def needs(self) -> Needs:
        """All of it."""
        nest, counts, loads, works, epilogue = self.nest, self.counts, self.loads(), self.works, self.counts.epilogue
        products, mixed, joins = counts.products, self.mixed, self.joins
        loaded = epilogue.loaded - self.computed  # what sums start with
        begun = sum(counts.least[k] for k, o in enumerate(nest.operands) if o.name in loaded and not o.twin)
        written, extra = max(counts.starts - begun, 0), self.extra
        later = sum(not s.fresh and s.block not in self.early for s in self.links) * bool(counts.vectors)
        alone = sum(n for name, n in self.widened.items() if name not in self.taken and name not in self.riders)
        return Needs(
            streams=loads.streams, addends=loads.addends, moves=loads.moves, words=loads.words, first=loads.first,
            products=products, widened=self.widened, riders=self.riders, loose=products if counts.widened and mixed else 0,
            taken=tuple(sorted(self.taken)), sum=self.sum(),
            initial=(min(epilogue.initial, 1) if self.computed else epilogue.initial) * written,
            after=sum(works) + extra * self.worked + mixed + joins, joined=extra * self.worked, mixed=mixed,
            operations=sum(map(bool, works)) + bool(joins) + later,
            summed=counts.starts, written=written, worked=sum(works),
            vectors=sum(count for name, count in counts.kept.items() if name not in self.context.passing),
            vector=epilogue.initial * bool(written or not counts.starts) + len(self.due) + extra
            + -(-(mixed + joins) // max(counts.vectors, 1)) + alone // max(self.model.out_elements, 1),
            behind=self.behind(),
            kinds=self.before.union(epilogue.named),
            alone=bool(self.straight) and (counts.widened or not nest.tensorized) and not mixed,
        )

    # -- Loads -----------------------------------------------------------------------------------------------------------------

    def source(self, operand: Operand) -> str:
        """What of an operand has to come once: all of what the host lays out, in whichever layout; else the tensor.

        Of parts of a tensor, which may overlap, so does the largest.
        """
        full, origins = self.context.full, self.model.origins
        made = origins.get(operand.name)
        if made is None or operand.name not in full or not full[operand.name].moved:
            return operand.name
        scope = operand.scope
        if scope == INP and set(operand.readers) <= identities_of(self.nest):
            # What a product with ones brings in may be either factor: it is there where it is the weight of another product.
            same = (o for o in self.nest.operands if origins.get(o.name) == made and o.name in full)
            others = {o.scope for o in same if full[o.name].whole}
            scope = WGT if WGT in others else scope
        return f"{scope} of {', '.join(sorted(made))}"

    @cached_property
    def straight(self) -> frozenset[str]:
        """Operands of the GEMM that loads may bring to the accumulator themselves, and the identities that these do without."""
        identities = identities_of(self.nest) if self.model.target.loads_widen else set()
        return frozenset(o.name for o in self.nest.operands if o.scope != ACC and set(o.readers) <= identities)

    def loads(self) -> _Loads:
        """Of every tensor what is read, once: one that is read at several places need not come twice."""
        config, counts, context, forms = self.model.config, self.counts, self.context, self.counts.forms
        constant = {x.buffer.name for x in self.nest.func.constants}
        straight = self.straight
        streams: dict[str, int] = {}
        addends: dict[str, int] = {}
        words: dict[str, int] = {}
        moves: set[str] = set()
        first = 0
        for k, operand in (*enumerate(self.nest.operands), *forms.copies(self.model)):
            # Of several scaled identities one would do.
            name = "a constant" if operand.name in constant else self.source(operand)
            known = name in words and name in (operand.name, "a constant")
            if operand.twin or known or operand.name in context.passing | self.computed | (straight & constant):
                continue
            own = operand in self.nest.operands
            some = _real(counts.whole[k], context.full.get(operand.name) if own else None, self.lanes(operand.scope))
            if any(operand.uses(a) for a in self.nest.spatial):
                some = int(some * self.rest.share)
            some = forms.real(self.model, operand, some, context.fuller)
            anew = name not in words
            words[name] = max(beats(config, operand.scope, some), words.get(name, 0))
            if operand.name in straight:  # COMPUTE has as much to do then as with products
                continue
            into = addends if operand.scope == ACC else streams
            waits = anew and operand.consumer in reads(self.nest) and operand.scope != ACC and some
            first += load(config, operand.scope, 1) if waits and own else 0
            apart = 0 if not self.model.origins else latency(config, operand.scope)
            into[name] = max(load(config, operand.scope, some) - apart, into.get(name, 0))
            moves |= {operand.scope} if self.model.origins and some else set()
        return _Loads(streams, addends, frozenset(moves), words, first)

    def lanes(self, scope: str) -> int:
        """Lanes of an element of a memory."""
        return prod(self.model.target.memories[scope].lanes)

    def behind(self) -> int:
        """From when loads can begin to the last operation."""
        counts = self.counts
        if not (counts.plain and self.rest.share == 1):
            return 0
        return behind_loads(self.model, {self.nest.operands[k].scope: counts.least[k] for k in counts.reduced})

    # -- Products besides the anchor's -----------------------------------------------------------------------------------------

    def sum(self) -> tuple[frozenset[str], ...]:
        """Nests that multiply the same tensors may have products in common, wherever each of them takes its own."""
        nest, kin = self.nest, self.counts.forms.kin
        if not nest.anchor:
            return ()
        # Whichever identities sums have: the negative of one, or a multiple, may be made of it.
        scaled = {x.buffer.name for x in nest.func.constants} if self.counts.widened else set()
        return tuple(
            frozenset("an identity" if o.name in scaled else self.source(replace(o, name=name)) for name in kin(o.name))
            for o in nest.operands if o.scope != ACC and o.consumer == nest.anchor)

    @cached_property
    def links(self) -> list[Stage]:
        """Stages that add products; a single one may be an identity's."""
        differences = differences_of(self.nest)
        return [s for s in self.nest.stages if s.products > widens_sooner(self.model.target) and s.block not in differences]

    @cached_property
    def mixed(self) -> int:
        """Products of these: sums of the same tensors may be one sum; where the host may add up weights, so may one tensor's."""
        return sum(self.added(stage) for stage in self.own_links())

    def own_links(self) -> Iterator[Stage]:
        """Those whose products are neither an identity's nor another one's."""
        kin, identities = self.counts.forms.kin, identities_of(self.nest)
        known = [factors_of(self.model, self.nest.anchor, kin)]
        for stage in self.links:
            factors = factors_of(self.model, stage.block, kin)
            if stage.block not in identities and not any(in_common(factors, o, bool(self.model.origins)) for o in known):
                yield stage
            known.append(factors)

    def added(self, stage: Stage) -> int:
        """Products that one of them adds."""
        counts, full = self.counts, self.context.full
        fills = [full[o.name].lanes for o in self.nest.operands if o.scope == WGT and stage.block in o.readers and o.name in full]
        added = part(stage.products * counts.vectors, max(fills, default=Fraction(1)))
        linked, once = counts.forms.of(stage.block), counts.forms.sums(self.model, stage.block)
        added = added if linked is None else min(added, formed_products(self.model, linked))
        return added if once is None else min(added, -(-once.left // (counts.lanes * self.model.config.block_in)))

    @cached_property
    def widens(self) -> set[str]:
        """Stages that widen what they read, where no load does so sooner."""
        if widens_sooner(self.model.target):
            return set()
        return {s.block for s in self.nest.stages if s.products and s.block in identities_of(self.nest)}

    @cached_property
    def widened(self) -> dict[str, int]:
        """What these read, by tensor."""
        context, needed = self.context, dict[str, int]()
        for k, operand in enumerate(self.nest.operands):
            if operand.scope == INP and self.widens & set(operand.readers) and operand.name not in context.passing:
                some = _real(self.counts.whole[k], context.full.get(operand.name), self.lanes(INP))
                some = self.counts.forms.real(self.model, operand, some, context.fuller, alone=True)
                name = self.source(operand)
                needed[name] = max(some, needed.get(name, 0))
        return needed

    @cached_property
    def taken(self) -> set[str]:
        """Tensors that the anchor's own products widen."""
        if not (self.counts.widened or self.nest.wides):
            return set()
        return {self.source(o) for o in self.nest.operands if o.scope == INP and set(reads(self.nest)) & set(o.readers)}

    @cached_property
    def early(self) -> frozenset[str]:
        """Stages whose products may be the anchor's."""
        some = self.model.origins and self.counts.products and (self.mixed or not self.counts.widened)
        return _early(self.nest) if some else frozenset()

    @cached_property
    def riders(self) -> frozenset[str]:
        """Of what is widened, what such stages add."""
        early = self.early & self.widens
        return frozenset(self.source(o) for o in self.nest.operands if o.scope == INP and early & set(o.readers))

    # -- Operations ------------------------------------------------------------------------------------------------------------

    @cached_property
    def before(self) -> frozenset[str]:
        """Operations that what is kept in the accumulator may have had already; they do not count again."""
        if not self.counts.passes:
            return frozenset()
        names = (self.nest.operands[k].name for k in self.counts.reduced)
        return frozenset[str]().union(*(self.context.kinds.get(name, frozenset()) for name in names))

    @cached_property
    def due(self) -> list[str]:
        """Operations that count."""
        return [kind for kind in self.counts.epilogue.named if kind not in self.before]

    @cached_property
    def worked(self) -> int:
        """Vectors that something is done to."""
        counts = self.counts
        # What a maximum takes the largest of may be done to that alone: it is monotone.
        worked = counts.fresh if self.rest.pooled is None else min(counts.fresh, part(self.rest.pooled, counts.share))
        if counts.alike > 1:  # what is done to them ahead of other operands is done to sums
            worked = min(worked, -(-part(with_products(self.model), counts.share) // counts.alike))
        return worked

    @cached_property
    def works(self) -> list[int]:
        """Vectors that each of the operations is done to."""
        counts = self.counts
        reaching, each = counts.reaching, max(counts.alike, counts.copies)
        found = {kind: counts.differing(part(count, counts.distinct), count) for kind, count in reaching.items()}
        return [min(self.worked, -(-found[kind] // each)) if kind in found else self.worked for kind in self.due]

    @cached_property
    def extra(self) -> int:
        """What an operand of every result makes due: of what several results need of it, another nest may make it."""
        counts = self.counts
        single = self.context.single and counts.same is None
        return counts.epilogue.extra if single and counts.alike * counts.again * counts.distinct == 1 else 0

    @cached_property
    def joins(self) -> int:
        """What brings operands of int32 together."""
        counts, context = self.counts, self.context
        operands = enumerate(self.nest.operands)
        elements = {o.name: counts.least[k] for k, o in operands if o.scope == ACC and o.name not in self.computed}
        return part(
            joins_of_stages(self.model, elements, context.given - context.passing, bool(counts.epilogue.named)), counts.share)


def _real(count: int, filling: Filling | None, lanes: int) -> int:
    """Elements, at least, that hold what is the program's of some."""
    return count if filling is None else min(part(count, filling.lanes), -(-filling.most // lanes))


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
