"""The schedule: a program, what has been done to it, and every primitive as a method."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from autosched.errors import ProgramError, suggest
from autosched.ir.depth import shallow
from autosched.ir.stmt import Block, For, IRModule, PrimFunc
from autosched.schedule.kit.base import RV, ArgumentError, BlockRV, ExprRV, LoopRV, Special, describe
from autosched.schedule.kit.names import Lineage
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.state import State
from autosched.schedule.kit.trace import Trace
from autosched.schedule.primitives.buffers.access import Access
from autosched.schedule.primitives.buffers.cache_index import CacheIndex
from autosched.schedule.primitives.buffers.cache_reindex import ReindexCache
from autosched.schedule.primitives.buffers.copy_at import CopyAt
from autosched.schedule.primitives.buffers.expansion import Expansion
from autosched.schedule.primitives.buffers.host import HostStages
from autosched.schedule.primitives.buffers.layout import Layout
from autosched.schedule.primitives.buffers.padding import DecomposePadding
from autosched.schedule.primitives.buffers.reindex import Reindex
from autosched.schedule.primitives.buffers.repeating import Repeating
from autosched.schedule.primitives.buffers.rolling import Rolling
from autosched.schedule.primitives.lookup import Lookup
from autosched.schedule.primitives.loops.fission import Fission
from autosched.schedule.primitives.loops.kinds import Kinds
from autosched.schedule.primitives.loops.pieces import Pieces
from autosched.schedule.primitives.notes import Notes
from autosched.schedule.primitives.placement.compute_at import ComputeAt
from autosched.schedule.primitives.placement.inline import Inlining
from autosched.schedule.primitives.placement.recompute import Recomputing
from autosched.schedule.primitives.reductions.around import Surroundings
from autosched.schedule.primitives.reductions.bits import Bits
from autosched.schedule.primitives.reductions.borders import Borders
from autosched.schedule.primitives.reductions.clip_offsets import ClipOffsets
from autosched.schedule.primitives.reductions.clips import Clips
from autosched.schedule.primitives.reductions.complements import Complements
from autosched.schedule.primitives.reductions.conditions import Conditions
from autosched.schedule.primitives.reductions.crossing import Crossing
from autosched.schedule.primitives.reductions.delays import Delays
from autosched.schedule.primitives.reductions.diagonal import Diagonals
from autosched.schedule.primitives.reductions.digits import Digits
from autosched.schedule.primitives.reductions.doubling import Doubling
from autosched.schedule.primitives.reductions.extrema import Extrema
from autosched.schedule.primitives.reductions.factors import Factors
from autosched.schedule.primitives.reductions.fold import Folding
from autosched.schedule.primitives.reductions.limits import PlaceLimits
from autosched.schedule.primitives.reductions.matrices import Matrices
from autosched.schedule.primitives.reductions.minus import Minus
from autosched.schedule.primitives.reductions.negation import Negation
from autosched.schedule.primitives.reductions.neutral_terms import NeutralTerms
from autosched.schedule.primitives.reductions.offsets import Offsets
from autosched.schedule.primitives.reductions.overlaps import Overlaps
from autosched.schedule.primitives.reductions.pad_block import PadBlocks
from autosched.schedule.primitives.reductions.pad_einsum import PadEinsum
from autosched.schedule.primitives.reductions.paddings import Paddings
from autosched.schedule.primitives.reductions.parts import Parts
from autosched.schedule.primitives.reductions.places import Places
from autosched.schedule.primitives.reductions.plain import PlainForms
from autosched.schedule.primitives.reductions.planes import BytePlanes
from autosched.schedule.primitives.reductions.prefixes import Prefixes
from autosched.schedule.primitives.reductions.raising import Raising
from autosched.schedule.primitives.reductions.reclips import Reclips
from autosched.schedule.primitives.reductions.reduction import Reductions
from autosched.schedule.primitives.reductions.rfactor import Factoring
from autosched.schedule.primitives.reductions.scaling import Scaling
from autosched.schedule.primitives.reductions.sharing import Sharing
from autosched.schedule.primitives.reductions.spreading import Spreading
from autosched.schedule.primitives.reductions.stages import Stages
from autosched.schedule.primitives.reductions.starts import Starts
from autosched.schedule.primitives.reductions.stores import StoreBlocks
from autosched.schedule.primitives.reductions.switches import Switches
from autosched.schedule.primitives.reductions.terms import Terms
from autosched.schedule.primitives.reductions.toeplitz import Bands
from autosched.schedule.primitives.reductions.trimming import Trimming
from autosched.schedule.primitives.reductions.units import UnitAxes
from autosched.schedule.primitives.reductions.values import Values
from autosched.schedule.primitives.reductions.versions import Versions
from autosched.schedule.primitives.reductions.widening import Widening
from autosched.schedule.primitives.reductions.windows import Windows
from autosched.schedule.primitives.reductions.zero_terms import ZeroTerms
from autosched.schedule.primitives.sampling import Sampling
from autosched.schedule.primitives.tensorize.blockize import Blockizing
from autosched.schedule.primitives.tensorize.tensorize import Tensorizing
from sim.markup import listing


class Schedule(
    Lookup, Pieces, Kinds, ReindexCache, CacheIndex, ComputeAt, Recomputing, Inlining, Reductions, Blockizing, Tensorizing,
    Notes, Sampling, Layout, Reindex, ZeroTerms, Trimming, Folding, Clips, Reclips, Raising, ClipOffsets, Factoring, PadEinsum,
    DecomposePadding, Rolling, Access, CopyAt, HostStages, PadBlocks, Stages, Diagonals, Digits, Widening, NeutralTerms,
    PlainForms, Windows, Overlaps, Fission, Values, Offsets, Places, Negation, Minus, Doubling, Bits, Spreading, UnitAxes, Parts,
    Extrema, PlaceLimits, Switches, Prefixes, Versions, Conditions, StoreBlocks, Expansion, Borders, Sharing,
    Paddings, BytePlanes, Factors, Terms, Scaling, Bands, Repeating, Matrices, Crossing, Complements, Starts, Delays,
    Surroundings,
):
    """Rewrites a program step by step; every step is checked to be legal, and recorded.

    Args:
        mod: a function, or a module of several (``work_on`` chooses one).
        seed: seed of the sampling primitives; None takes one from the system.
        debug_mask: accepted for compatibility; it changes nothing.
        error_render_level: ``detail`` (marked excerpt and hint), ``fast`` (reason only) or ``none``.
        enable_check: False leaves out what only proves that the program keeps its meaning (that stages come in order and hold
            what is read of them, that indices stay in their type, that blocks are of a kind and bound so that they may be moved
            and reordered, that a reduction starts before it goes on): for steps that are known to be legal. What a step cannot
            do at all is refused all the same.

    Raises:
        ProgramError: not a program, or an unknown level.
    """

    def __init__(
        self, mod: PrimFunc | IRModule, seed: int | None = None, debug_mask: str | int = "none",
        error_render_level: str = "detail", enable_check: bool = True,
    ) -> None:
        if error_render_level not in ("detail", "fast", "none"):
            raise ProgramError(f"error_render_level must be detail, fast or none, not {error_render_level!r}")
        if isinstance(mod, PrimFunc):
            functions = {"main": mod}  # as TVM names a lone function, whatever its global symbol
        elif isinstance(mod, IRModule):
            functions = dict(mod.functions)
        else:
            raise ProgramError(f"a Schedule is made of a PrimFunc or an IRModule, not {type(mod).__name__}")
        self.trace = Trace()
        self.error_render_level = error_render_level
        self.enable_check = enable_check
        self.debug_mask = debug_mask
        with shallow():
            self._states = {name: State(f, not enable_check) for name, f in functions.items()}
        self._single = isinstance(mod, PrimFunc)
        self._symbols = {}
        self._working_on = next(iter(functions)) if len(functions) == 1 else "main" if "main" in functions else None
        self._op = ""
        self._depth = 0
        self._decision: Any = None
        self._affine = set()
        self._lineage = Lineage()
        self._rng_state = 1
        self.seed(seed)

    if not TYPE_CHECKING:  # a checker knows what there is

        def __getattr__(self, name: str) -> NoReturn:
            hint = "" if name.startswith("_") else suggest(name, [n for n in dir(type(self)) if not n.startswith("_")])
            raise AttributeError(f"a Schedule has no {name!r}{hint}", name=name, obj=self)

        def __getitem__(self, key: object) -> NoReturn:
            block = f'"{key}"' if isinstance(key, str) else '"name of the block"'
            raise TypeError(f"a Schedule is not indexed by stages: sch.get_sblock({block}) gives the handle of a block")

    # -- the program -------------------------------------------------------------------------------

    @property
    def func(self) -> PrimFunc:
        """The function being worked on, as it is now."""
        return self.state.func

    @property
    def mod(self) -> IRModule:
        """The whole module, as it is now."""
        return IRModule({name: s.func for name, s in self._states.items()})

    @property
    def func_working_on(self) -> str | None:
        """Name of the function being worked on, or None."""
        return self._working_on

    def work_on(self, func_name: str) -> None:
        """Chooses the function that look-ups by name search.

        Args:
            func_name: a function of the module.
        """
        with self._doing("work_on"):
            if not isinstance(func_name, str):
                self.refuse(f"argument 'func_name' cannot be {describe(func_name)}; it takes a string", error=ArgumentError,
                            code="argument")
            self._working_on = self.func_name(func_name)

    def script(self, dialect: str = "tvm") -> str:
        """The program as TVMScript text."""
        return (self.func if self._single else self.mod).script(dialect)

    def show(self, dialect: str = "tvm") -> None:
        """Print the program."""
        print(self.script(dialect))

    def _repr_html_(self) -> str:
        """The program, for notebooks."""
        return listing(self.script())

    def copy(self) -> Schedule:
        """An independent schedule of the same program; handles made so far work on both."""
        new = self._same()
        new._rng_state = self.fork_seed()
        return new

    def adopt(self, other: Schedule) -> None:
        """Takes over what a copy has become: its program, its trace, and what handles stand for.

        Args:
            other: made by ``copy`` of this schedule, or of such a copy; what is done to it from then on is its own.
        """
        before = self._symbols.keys()
        self.__dict__.update(other._same().__dict__)
        self.own(self._symbols.keys() - before)

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """Steps in this context count together: where one is refused, or anything else is raised, none has been done."""
        before = self._same()
        try:
            yield
        except BaseException:
            self.adopt(before)
            raise

    def _same(self) -> Schedule:
        """A schedule that is in all things as this one is, its seed included, and independent of it."""
        new = Schedule.__new__(Schedule)
        new.__dict__.update(self.__dict__)
        new.trace = self.trace.copy()
        new._states, new._symbols, new._affine = dict(self._states), dict(self._symbols), set(self._affine)
        new._lineage = self._lineage.copy()
        return new

    # -- handles -----------------------------------------------------------------------------------

    def get(self, rand_var: RV) -> Block | For | int | Special:
        """What a handle stands for now: a block, a loop or an integer.

        Args:
            rand_var: handle of this schedule.

        Raises:
            UnknownRVError: not a handle of this schedule.
            StaleRVError: gone from the program.
        """
        with self._doing("get"):
            if isinstance(rand_var, BlockRV):
                return self.block_at(rand_var)[1].block
            if isinstance(rand_var, LoopRV):
                value = self._value(rand_var)
                return value if isinstance(value, Special) else self.loop_at(rand_var)[1]
            if isinstance(rand_var, ExprRV):
                return int(self._value(rand_var))
            what = f"expected a handle of a block, a loop or an integer, got {describe(rand_var)}"
            return self.refuse(what, error=ArgumentError, code="argument")

    def remove_rv(self, rand_var: RV) -> None:
        """Forgets a handle."""
        with self._doing("remove_rv"):
            if not isinstance(rand_var, RV):
                self.refuse(f"expected a handle, got {describe(rand_var)}", error=ArgumentError, code="handle")
            self._value(rand_var)
            del self._symbols[rand_var]

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        """Refusals in this context name a method that is no primitive."""
        saved, self._op = self._op, what
        try:
            yield
        finally:
            self._op = saved

    # -- sampling ----------------------------------------------------------------------------------

    def seed(self, seed: int | None) -> None:
        """Seeds the sampling primitives.

        Args:
            seed: any integer; None or -1 takes one from the system.
        """
        if not (seed is None or (hasattr(seed, "__index__") and not isinstance(seed, bool | type))):
            raise ArgumentError("seed", f"argument 'seed' cannot be {describe(seed)}; it takes an integer or None")
        if seed is None or int(seed) == -1:
            seed = random.SystemRandom().randrange(1, 2**31)
        self._rng_state = int(seed) % (2**31 - 1) or 1

    def fork_seed(self) -> int:
        """A seed drawn from this schedule's, for an independent one; this schedule's own moves on."""
        self._rng_state = self._rng_state * 48271 % (2**31 - 1)
        return self._rng_state * 1999 % (2**31 - 1) or 1

    # -- search ------------------------------------------------------------------------------------

    @primitive
    def enter_postproc(self) -> None:
        """Marks the end of the part of the trace that a search may change."""
