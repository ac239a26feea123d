"""What the elements of a program's tensors are for parameters that are drawn at random: those that never differ may be one.

Elements that some draw tells apart are certainly not the same function of what the program is given; others are taken for the
same one. So what counts here once, a program may have to make repeatedly, and what counts repeatedly every program makes
repeatedly: no identity has to be recognised in the text, and none is missed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from autosched.ir.constant import values as constants
from autosched.ir.expr import BufferLoad, Expr, is_int
from autosched.ir.interp import random_array, written
from autosched.ir.patterns import loads_in, update_of
from autosched.ir.stmt import Buffer, BufferStore, PrimFunc
from autosched.ir.value_bounds import ValueBounds
from autosched.lower.host_work import run_stage
from autosched.lower.regions import shape_of
from space.elements import Ints, Mask, Site, UnknownError, even, of_rank, value_at, wrapped
from space.known import Known, TooLargeError

Keys = npt.NDArray[np.uint64]

# What values of int8 are drawn up to, for of larger ones all results may be what a limit is; and whether tensors are all at one
# end of what is promised of them. Else some elements are.
KINDS = ((128, False), (12, True), (40, False), (40, True), (24, False), (4, True), (12, False), (128, True))
DRAWS = 48  # at most
FEWEST = 8  # of less than so many draws too many elements would be taken for the same
WORK = 1 << 30  # products that all draws form at most: more would cost seconds

_COMBINE = {"+": np.add, "min": np.minimum, "max": np.maximum}


@dataclass(frozen=True)
class Marks:
    """What draws have told of some values.

    Args:
        first: the values of the first draw.
        keys: numbers that differ, but for chance of one in 2^64, where the values of some draw do.
        varied: which were another value in some draw than in the first.
    """

    first: Ints
    keys: Keys
    varied: Mask


class Drawn:
    """Values of a program's tensors for draws of its parameters.

    Args:
        known: the program in blocks, and what is known of it.
        stages: of the host, which make tensors that it reads, in order.

    Attributes:
        tensors: by tensor, what draws tell of its elements once all blocks have run; a dimension of 1 where all along it are
            alike.
        sums: by name of a block that adds up products, what they tell of these sums, without what they start with, for all its
            iterators.
        given: the same of parameters of the program, by name.
    """

    def __init__(self, known: Known, stages: Sequence[PrimFunc]) -> None:
        self.tensors: dict[Buffer, Marks] = {}
        self.sums: dict[str, Marks] = {}
        self.given: dict[str, Marks] = {}
        self._known, self._stages, self._draws = known, stages, 0
        self._rng = np.random.default_rng(0)
        self._most = min(DRAWS, WORK // _work(known, stages))
        self._free = _free(known, stages)

    def draw(self) -> bool:
        """Draws once more, and runs the program; whether that tells anything."""
        if self._draws >= self._most or self._most < FEWEST:
            return False
        factor = self._rng.integers(1 << 63, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        have = self._packed(self._draws, factor)
        self._draws += 1
        run = _Run(self._known, have)
        for site in self._known.sites:
            run.of(site)
        for buffer, table in run.tables.items():
            self.tensors[buffer] = _told(self.tensors.get(buffer), table, factor)
        for name, table in run.sums.items():
            self.sums[name] = _told(self.sums.get(name), table, factor)
        return True

    def _packed(self, draw: int, factor: np.uint64) -> dict[str, Ints]:
        """Tensors by name, as they are given to the program, or as the host makes them."""
        have: dict[str, npt.NDArray[np.generic]] = {}
        for n, (b, ends) in enumerate(self._free):
            # All pairs of tensors at both ends, and between them, are there after nine draws of this kind.
            most, at_end = KINDS[draw % len(KINDS)]
            end = (draw // 2) // 3 ** (n % 2) % 3 if at_end else 2
            have[b.name] = _random(self._rng, b, ends, most, end)
        for name, array in have.items():
            self.given[name] = _told(self.given.get(name), array.astype(np.int64), factor)
        for stage in self._stages:
            have |= run_stage(stage, have)
        return {b.name: even(have[b.name].astype(np.int64)) for b in self._known.func.buffers}


class _Run:
    """One run of a program, block by block.

    Args:
        known: the program.
        have: the tensors that it is given, by name.
    """

    def __init__(self, known: Known, have: Mapping[str, Ints]) -> None:
        self._known = known
        self.sums: dict[str, Ints] = {}
        self.tables: dict[Buffer, Ints] = {b: have[b.name] for b in known.func.buffers if b not in known.unseen}
        self.tables |= {c.buffer: even(constants(c).astype(np.int64)) for c in known.func.constants}

    def of(self, site: Site) -> None:
        """Runs a block; of what is not understood nothing is known afterwards."""
        buffer = site.store.buffer
        try:
            made = self._made(site)
            before = self.tables.get(buffer)
            whole = np.zeros((), np.int64)
            (self.tables[buffer],) = self._known.placed(site, [made], None if before is None else [before], [whole])
        except (UnknownError, TooLargeError):
            self.tables.pop(buffer, None)

    def _made(self, site: Site) -> Ints:
        store, init = site.store, site.block.init
        if any(x.buffer not in self.tables for x in loads_in(store.value) if x.buffer is not store.buffer):
            raise UnknownError
        if not isinstance(init, BufferStore):
            return self._value(site, store.value)
        update = update_of(store)
        if update is None:
            raise UnknownError
        terms = self._known.terms(site)
        if terms is not None:
            found = self._known.sums(site, [self._read(site, x) for x in terms])
            self.sums[site.block.name] = found
        else:
            found = self._reduced(site, update[0], self._value(site, update[1]))
        return wrapped(_COMBINE[update[0]](found, self._value(site, init.value)), store.buffer.dtype)

    def _reduced(self, site: Site, op: str, terms: Ints) -> Ints:
        """What a window's elements are together."""
        own = [iv.var for iv in site.block.iter_vars]
        terms = of_rank(terms, len(own))
        axes = tuple(n for n, v in enumerate(own) if v in site.reduce)
        alike = prod(site.extents[own[n]] for n in axes if terms.shape[n] == 1)
        return np.asarray(_COMBINE[op].reduce(terms, axis=axes, keepdims=True) * (alike if op == "+" else 1))

    def _value(self, site: Site, e: Expr) -> Ints:
        return np.asarray(value_at(e, self._known.env(site), lambda x: self._read(site, x)))

    def _read(self, site: Site, load: BufferLoad) -> Ints:
        if load.buffer not in self.tables:
            raise UnknownError
        return self._known.at(site, self.tables[load.buffer], load)


def _work(known: Known, stages: Sequence[PrimFunc]) -> int:
    """What one run costs, in products; of a program with other numbers than integers, too much."""
    buffers = [b for stage in (*stages, known.func) for b in stage.buffers]
    if not all(is_int(b.dtype) for b in buffers):
        return WORK
    return 1 + sum(prod(site.extents.values()) for site in known.sites) + sum(prod(shape_of(b)) for b in buffers)


def _free(known: Known, stages: Sequence[PrimFunc]) -> list[tuple[Buffer, tuple[int, int]]]:
    """The tensors that nothing before the program makes, each with what is promised of its elements."""
    found: list[tuple[Buffer, tuple[int, int]]] = []
    seen: set[str] = set()
    for stage in (*stages, known.func):
        ranges, outputs = ValueBounds(stage), () if stage is known.func else written(stage)
        found += [(b, ranges.of_buffer(b)) for b in stage.buffers if b.name not in seen and b not in outputs]
        seen |= {b.name for b in stage.buffers}
    return found


def _random(
    rng: np.random.Generator, buffer: Buffer, ends: tuple[int, int], most: int, end: int
) -> npt.NDArray[np.generic]:
    """Values of a parameter, of int8 up to ``most``; all of them at one end of what is promised, 0 or 1, or 2 between."""
    shape = shape_of(buffer)
    if buffer.dtype not in ("int8", "uint8"):
        # How large an addend is meant to be nobody says: each is of some size, for large ones decide what a result is.
        found = np.asarray(rng.integers(-(1 << 16), 1 << 16, shape)) >> rng.integers(0, 17, shape)
        return found.clip(*ends).astype(buffer.dtype)
    if end < 2:
        return np.full(shape, ends[end], buffer.dtype)
    low, high = max(ends[0], -most), min(ends[1], most)
    found = random_array(rng, shape, buffer.dtype, (low, high) if low < high else ends)
    which = rng.integers(0, 16, shape)  # limits may let all through but what is at an end
    return np.where(which < 2, np.where(which, ends[0], ends[1]), found).astype(buffer.dtype)


def _told(before: Marks | None, table: Ints, factor: np.uint64) -> Marks:
    """What is told once one more draw is known."""
    keys = table.astype(np.uint64) * factor
    if before is None:
        return Marks(table, keys, np.zeros([1] * table.ndim, np.bool_))
    return Marks(before.first, before.keys + keys, even(before.varied | (table != before.first)))
