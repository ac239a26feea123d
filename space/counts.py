"""How many of a nest's products and results count: each once, and without those that are known or that nobody needs."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from autosched.ir.scopes import ACC, INP, WGT
from autosched.ir.stmt import BufferStore
from space.alike import recurring, repeated, same_factors
from space.joins import compares_all, groups_of, is_extremum, joins_of_windows
from space.lanes import Filling, part, repeats, shares
from space.least_elements import least_of
from space.least_epilogue import Epilogue, blocks_of, identities_of, shared_epilogue
from space.least_loads import widens_sooner
from space.passing import stored as stored_by

if TYPE_CHECKING:
    from space.formed import Formed, Formings
    from space.model import Model
    from space.nest import Nest
    from space.once import Kept
    from space.operands import Operand


@dataclass(frozen=True)
class Context:
    """What is known of a program when one of its nests is looked at.

    Args:
        full: how full tensors are, by name.
        forms: what masks leave of the program.
        passing: tensors that another program keeps in the accumulator.
        kinds: by tensor, the operations that the nest which makes it has counted.
        given: names of the program's own tensors.
        single: whether the nest is the program's only one.
        deep: products that a sum of it has, at least.
        fuller: whether the form has elements repeatedly so as to fill lanes: of another form the results are no more alike.
        different: results that are no others by the program's text; 0 where it does not tell.
    """

    full: Mapping[str, Filling]
    forms: Formings
    passing: frozenset[str]
    kinds: Mapping[str, frozenset[str]]
    given: Set[str]
    single: bool
    deep: int
    fuller: bool
    different: int = 0


class Counts:
    """What of a nest's products and results has to be made, at least; each figure is worked out when it is asked for.

    Args:
        model: of the nest.
        context: what is known of the program.
        needed: the share of its results that the rest of the program has.
    """

    def __init__(self, model: Model, context: Context, needed: Fraction) -> None:
        self.model, self.nest, self.context = model, model.nest, context
        self.forms = context.forms
        self.lanes = model.config.batch * model.config.block_out
        # Where the layout is the space's choice, other layouts may leave no lane empty.
        self.real, self.share = (own * needed for own in shares(model, context.full))

    # -- The nest by itself ----------------------------------------------------------------------------------------------------

    @cached_property
    def widened(self) -> bool:
        """Whether its products are an identity's, which only widens."""
        return self.nest.anchor in identities_of(self.nest)

    @cached_property
    def reduced(self) -> list[int]:
        """Places of the operands that the anchor takes in."""
        return [k for k, o in enumerate(self.nest.operands) if o.consumer in reads(self.nest)]

    @cached_property
    def factors(self) -> list[Operand]:
        """Of these, what is no addend."""
        return [self.nest.operands[k] for k in self.reduced if self.nest.operands[k].scope != ACC]

    @cached_property
    def passes(self) -> bool:
        """Whether another program keeps what the anchor takes in in the accumulator."""
        return any(self.nest.operands[k].name in self.context.passing for k in self.reduced)

    @cached_property
    def whole(self) -> list[int]:
        """Elements of every operand that something reads."""
        return [least_of(self.model, k) for k in range(len(self.nest.operands))]

    @cached_property
    def least(self) -> list[int]:
        """Of these, those that results need which are needed."""
        return [self.forms.least(self.model, k, count, self.share) for k, count in enumerate(self.whole)]

    @cached_property
    def used(self) -> int:
        """Elements that are reduced: of the operand with most of them."""
        return max((self.least[k] for k in self.reduced), default=0)

    @cached_property
    def formed(self) -> Formed | None:
        """What masks leave of its products, if it has any."""
        return self.forms.of(self.nest.anchor) if self.nest.tensorized else None

    @cached_property
    def _epilogue(self) -> tuple[Epilogue, int, dict[str, int]]:
        return shared_epilogue(self.model, self.formed, self.context.deep)

    @property
    def epilogue(self) -> Epilogue:
        """What a vector costs besides its products."""
        return self._epilogue[0]

    @property
    def summed(self) -> int:
        """Vectors with any product that is not 0, where masks leave some."""
        return self._epilogue[1]

    @cached_property
    def reaching(self) -> dict[str, int]:
        """Vectors that need an operation, by its kind, where not all of them do."""
        found = dict(self._epilogue[2])
        for kind, results in self.forms.limited([s.block for s in self.nest.stages]).items():
            # A share is taken of vectors as the form has them, of which some lanes may be empty.
            vectors = -(-results // self.lanes)
            found[kind] = min(vectors, found.get(kind, vectors))
        return found

    # -- What is alike ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _useful(self) -> int:
        """Products that no padding makes zero; where a load widens sooner, what an identity widens needs none."""
        sooner = self.widened and widens_sooner(self.model.target)
        return self.model.padding.useful if self.nest.anchor and not sooner else 0

    @cached_property
    def _left(self) -> int:
        """Of these, what masks leave, of elements that hold something of the program's: they may leave out all of a result's."""
        some = part(self._useful, self.real)
        return some if self.formed is None or self.widened else min(some, formed_products(self.model, self.formed))

    @cached_property
    def masked(self) -> bool:
        """Whether masks leave out any."""
        return self._left < part(self._useful, self.real)

    @cached_property
    def alike(self) -> int:
        """Results of the same sum: it need be formed once."""
        return repeated(self.model, self.factors, self.masked) if self.nest.anchor and not self.forms.drawn else 1

    @cached_property
    def again(self) -> int:
        """Sums that a product may stand in."""
        return 1 if self.widened or not self.nest.tensorized else recurring(self.model, self.factors)

    @cached_property
    def _data(self) -> Fraction:
        return self._laid_out_once(INP)

    @cached_property
    def distinct(self) -> Fraction:
        """The share of results that may differ: what the host has laid out several times may make results that are alike."""
        return self._data * self._laid_out_once(WGT)

    def _laid_out_once(self, scope: str) -> Fraction:
        """The share of the factors in a memory that are laid out once."""
        own = [o for o in self.factors if o.scope == scope]
        once: int | Fraction = 1
        if not self.context.fuller and not self.forms.drawn:
            once = self.forms.once(self.model, own) if self.masked else repeats(self.model, self.context.full, own)
        return Fraction(1, self.forms.again(own)) * once

    @cached_property
    def square(self) -> bool:
        """Whether c[i, j] is c[j, i]: half of them is known, though not in the lanes where it is stored."""
        return not self.forms.drawn and same_factors(self.model, self.forms.kin)

    @cached_property
    def _repeated(self) -> int:
        """Results that are made of the same operands, at most."""
        return 1 if self.forms.drawn else repeated(self.model, self.nest.operands, self.masked)

    @property
    def copies(self) -> int:
        """How many results are the same one, at most."""
        return self._repeated * 2 if self.nest.tensorized and self.square else self._repeated

    @cached_property
    def plain(self) -> bool:
        """Whether nothing is alike, nor known, nor left out, nor laid out anew, in a program that this nest is all of."""
        odd = self.model.origins or self.widened or self.masked or self.square
        return self.context.single and not odd and self.alike * self.again == 1

    @cached_property
    def same(self) -> Kept | None:
        """What draws leave of the anchor's sums."""
        return self.forms.sums(self.model, self.nest.anchor)

    # -- Results ---------------------------------------------------------------------------------------------------------------

    @cached_property
    def stored(self) -> int:
        """Vectors that are stored, of elements that hold something."""
        return part(self.model.out_elements, self.share)

    @cached_property
    def kept(self) -> dict[str, int]:
        """Of each tensor that is stored, the vectors that are needed."""
        return {name: self.forms.stored(name, self.stored, self.lanes) for name in stored_by(self.nest)}

    @cached_property
    def made(self) -> int:
        """Of the tensor with most of them, the vectors that are made."""
        return max((self.forms.made(name, self.stored, self.lanes) for name in stored_by(self.nest)), default=self.stored)

    @cached_property
    def _apart(self) -> int:
        """Vectors that may differ. Those of padding alone are a constant: one of them may be stored again and again."""
        some = part(with_products(self.model), self.share * self.distinct)
        every = part(with_products(self.model), self.share)
        if self.formed is not None:
            some, every = min(some, part(self.summed, self.distinct)), min(every, self.summed)
        return self.differing(min(some, part(self.made, self.distinct)), min(every, self.made))

    def differing(self, some: int, every: int) -> int:
        """How many of some vectors differ: as many as hold results that are no others by the text, where that tells.

        Args:
            some: what elements that are laid out repeatedly leave of them.
            every: they, of results that are needed.
        """
        return max(some, min(every, -(-self.context.different // self.lanes))) if self.context.single else some

    @cached_property
    def _by_text(self) -> int:
        """Vectors, without those that the program's text shows to be another one."""
        some = -(-self._apart // self._repeated)
        return -(-some // 2) if self.nest.tensorized and self.square else some

    @cached_property
    def vectors(self) -> int:
        """Vectors that are made."""
        results = self.forms.results(self.model)
        return self._by_text if results is None else min(self._by_text, -(-results // self.lanes))

    @cached_property
    def _others(self) -> int | None:
        return self.forms.results(self.model, anew=True)

    @cached_property
    def fresh(self) -> int:
        """Of these, those that something is done to: not those that another tensor has as they are."""
        tensors = stored_by(self.nest)
        anew = max((self.forms.made(name, self.stored, self.lanes, anew=True) for name in tensors), default=self.stored)
        fresh = min(self._by_text, -(-self.differing(part(anew, self.distinct), anew) // self.copies))
        return fresh if self._others is None else min(fresh, -(-self._others // self.lanes))

    # -- Products --------------------------------------------------------------------------------------------------------------

    @cached_property
    def _multiplied(self) -> tuple[int, int]:
        """(products, vectors that they are summed in), where sums that are alike are formed once."""
        some = part(self._left, self.distinct) if self.masked else part(self._useful, self.real * self._data)
        products = -(-some // (self.alike * self.again))
        starts = -(-self._apart // self.alike) if products else 0
        if self.nest.tensorized and self.square:
            products = -(-products // 2)
        if self.same is not None and not self.widened:
            products = min(products, -(-self.same.left // (self.lanes * self.model.config.block_in)))
            starts = min(starts, -(-self.same.results // self.lanes))
        return products, starts

    @cached_property
    def _widening(self) -> tuple[int, int]:
        """The same of an identity: what it widens comes in once."""
        products, starts = self._multiplied
        if self.passes:
            return 0, 0
        if not products:
            return products, starts
        # Sums of windows that overlap may share their parts.
        starts = starts if max(self.whole[k] for k in self.reduced) == products else 0
        products = max(part(self.used, self.share), min(self.made, max(self.kept.values(), default=self.stored)))
        return products if self.same is None else min(products, -(-self.same.results // self.lanes)), starts

    @cached_property
    def _compared(self) -> int:
        """Cycles of a reduction on the ALU: what windows connect, comparisons have to connect, one at a time."""
        nest, used = self.nest, self.used
        apart = max((groups_of(self.model, k) for k in self.reduced if self.least[k] == used), default=self.model.out_elements)
        if not nest.wides:
            cycles = joins_of_windows(self.model, used, apart, is_extremum(nest), bool(self.epilogue.named))
        else:
            steps = max(used - apart, 0)
            target = self.model.target
            # A comparison with a constant is half of a product dearer than it looks; where the ALU multiplies, that is not known.
            compared = (steps if target.multiplies else -(-3 * steps // 2)) * compares_all(nest)
            cycles = steps if self.passes or widens_sooner(target) else used + compared
        cycles = part(cycles, self.share)
        return cycles if self._others is None else min(cycles, self.fresh)

    @cached_property
    def products(self) -> int:
        """Products of the GEMM, or what the ALU takes where it reduces alone: cycles."""
        if not self.nest.tensorized:
            return self._compared
        return self._widening[0] if self.widened else self._multiplied[0]

    @cached_property
    def starts(self) -> int:
        """Vectors that are sums of products."""
        if not self.nest.tensorized:
            return 0
        return self._widening[1] if self.widened else self._multiplied[1]


def formed_products(model: Model, formed: Formed) -> int:
    """Products of the GEMM, at least, that form what masks leave of a block's."""
    if not model.origins:
        return formed.products
    lanes, results = model.config.batch * model.config.block_out, max(formed.results, default=0)
    # One adds to so many results, and as many terms to each as a vector of data has.
    return max(-(-formed.terms // (lanes * model.config.block_in)), -(-results // lanes))


def with_products(model: Model) -> int:
    """Output vectors with a product that no padding makes zero; all where padding is not known dimension by dimension."""
    return model.padding.vectors(model.out_elements) if model.padding.taps else model.out_elements


def reads(nest: Nest) -> tuple[str, ...]:
    """The blocks whose operands the anchor takes in."""
    return (*([nest.anchor] if nest.anchor else []), *(w.block for w in nest.wides))


def between(model: Model, full: Mapping[str, Filling]) -> dict[str, Filling]:
    """By name, how full the tensors are that a nest stores for another one."""
    (_, share), c = shares(model, full), model.config
    most = part(model.out_elements, share) * c.batch * c.block_out
    blocks, made = blocks_of(model.nest), {}
    for name in (model.nest.out, *model.nest.also):
        store = blocks[name].body
        assert isinstance(store, BufferStore)
        before = full.get(store.buffer.name, Filling(Fraction(0), Fraction(0), 0))  # of a tensor that several nests make parts of
        lanes = max(share, before.lanes)
        made[store.buffer.name] = Filling(lanes, lanes, most + before.most)
    return made
