"""Sampling: choices that a trace records, so that a search can change them and a replay repeats them.

Of one seed, ``sample_categorical``, ``sample_perfect_tile`` and ``sample_compute_location`` choose what TVM chooses.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from math import inf
from typing import Any, cast

from autosched.errors import ScheduleError
from autosched.ir.expr import int_value
from autosched.ir.functor import walk_expr
from autosched.ir.stmt import Block, For
from autosched.schedule.analysis.ways import inner_blocks
from autosched.schedule.kit.base import AT_INLINE, AT_ROOT, BlockRV, ExprRV, LoopRV, ScheduleBase, Special
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.state import State

MOST_FACTORS = 64


def _plain_probs(sch: Any, args: dict[str, Any]) -> None:
    args["probs"] = [int(p) if float(p).is_integer() else p for p in args["probs"]]


class Sampling(ScheduleBase):
    """Primitives that choose, from the schedule's seed or by a given decision."""

    @primitive(pure=True, normalize=_plain_probs)
    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> ExprRV:
        """Chooses one of several integers.

        Args:
            candidates: the integers.
            probs: weight of each; need not sum to one.
            decision: position of the one to take; None samples.

        Raises:
            ScheduleError: lengths differ, weights that are negative, not finite or all zero, a decision out of range.
        """
        n = len(candidates)
        if n != len(probs) or n == 0:
            self.refuse(f"{n} candidates and {len(probs)} probabilities", hint="one probability per candidate", code="argument")
        wrong = next((p for p in probs if not 0 <= p < inf), None)
        if wrong is not None or not 0 < sum(probs) < inf:
            self.refuse("the probabilities are all zero" if wrong is None else f"a probability cannot be {wrong!r}",
                        hint="weights that are not negative, and not all zero", code="argument")
        if decision is None:
            ends = list(accumulate(p / sum(probs) for p in probs))[:-1]
            decision = bisect_left(ends, self._uniform())
        if not 0 <= decision < n:
            self.refuse(f"decision {decision} is out of range: there are {n} candidates", hint=f"0 to {n - 1}", code="argument")
        self.decide(decision)
        return self.expr_rv(int(candidates[decision]))

    @primitive(pure=True)
    def sample_perfect_tile(
        self, loop: LoopRV | str, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
    ) -> list[ExprRV | None]:
        """Chooses factors whose product is the extent of a loop, uniformly over the distributions of its prime factors.

        Args:
            loop: handle or name; a loop of symbolic extent gives None and ones.
            n: number of factors.
            max_innermost_factor: largest last factor, or -1 for no limit.
            decision: factors to take; where they do not divide, the rest of the extent is taken instead.

        Raises:
            ScheduleError: n below one or above 64, a limit below one, a decision of another length or below one.
        """
        assert isinstance(loop, LoopRV)
        _, node = self.loop_at(loop)
        extent = self._tiled(node, n, decision)
        if max_innermost_factor < 1 and max_innermost_factor != -1:
            self.refuse(f"max_innermost_factor is at least 1, or -1, not {max_innermost_factor}", hint="-1 is no limit",
                        code="argument")
        if extent is None:
            return self._untiled(n)
        if decision is not None:
            tile = _perfect(list(decision), extent)
        else:
            allowed = [d for d in divisors(extent) if max_innermost_factor == -1 or d <= max_innermost_factor]
            tile = self._tile(extent, n)
            while n > 1 and tile[-1] not in allowed:
                tile = self._tile(extent, n)
        self.decide(tile)
        return [self.expr_rv(t) for t in tile]

    @primitive(pure=True)
    def sample_partitioned_tile(
        self, loop: LoopRV | str, n: int, partition_pos: int = 0, innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV | None]:
        """Chooses perfect factors of which the inner part is a multiple of a number.

        Args:
            loop: handle or name; a symbolic extent, or one that is no multiple, gives None and ones.
            n: number of factors.
            partition_pos: first factor of the inner part.
            innerpart_factor: what the product of the inner part is a multiple of.
            decision: factors to take; repaired where they do not fit.

        Raises:
            ScheduleError: n below one or above 64, a position outside the factors, a required factor below one, a
                decision of another length or below one.
        """
        assert isinstance(loop, LoopRV)
        _, node = self.loop_at(loop)
        extent = self._tiled(node, n, decision)
        if not 0 <= partition_pos < n:
            self.refuse(f"partition_pos {partition_pos} is not a position among {n} factors", hint=f"0 to {n - 1}",
                        code="argument")
        if innerpart_factor < 1:
            self.refuse(f"innerpart_factor is at least 1, not {innerpart_factor}", hint="innerpart_factor=1", code="argument")
        if extent is None or extent % innerpart_factor:
            return self._untiled(n)
        if decision is not None:
            tile = list(decision)
            if _product(tile[partition_pos:]) % innerpart_factor:
                tile = [1] * n
                tile[partition_pos] = innerpart_factor
            tile = _perfect(tile, extent)
        else:
            # The required factor goes inside as a whole, the rest is distributed freely.
            tile = self._tile(extent // innerpart_factor, n)
            inner = self._tile(innerpart_factor, n - partition_pos)
            tile = [t * (inner[i - partition_pos] if i >= partition_pos else 1) for i, t in enumerate(tile)]
        self.decide(tile)
        return [self.expr_rv(t) for t in tile]

    @primitive(pure=True)
    def sample_compute_location(self, block: BlockRV | str, decision: int | None = None) -> LoopRV:
        """Chooses where a producer is computed: a loop around its consumers, the root, or inlined.

        Args:
            block: handle or name.
            decision: -2 inlined, -1 root, else the position of a loop around the first consumer; a place that is not
                (or no longer) legal falls back to the one before it.

        Raises:
            ScheduleError: the root block, a decision below -2.
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        if state.scope_of(realize.block) is None:
            self.refuse("the primitive does not operate on the root block", hint=inner_blocks(state), code="root")
        if decision is not None and decision < -2:
            self.refuse(f"there is no place {decision}", hint="-2 (inlined), -1 (the root) or the position of a loop",
                        code="argument")
        places = self._places(state, realize.block, block)
        if decision is None:
            chosen, place = places[self._below(len(places))]
        else:
            before = [(i, p) for i, p in places if i <= decision]
            chosen, place = before[-1] if before else (-1, AT_ROOT)
        self.decide(chosen)
        return self.loop_rv(place)

    # -- choosing -------------------------------------------------------------------------------------

    def _next(self) -> int:
        """A number in [1, 2**31 - 2] from the schedule's generator: minstd, multiplier 48271."""
        self._rng_state = self._rng_state * 48271 % (2**31 - 1)
        return self._rng_state

    def _uniform(self) -> float:
        """A number in [0, 1) of 53 bits: two draws."""
        low, high = self._next(), self._next()
        return (low + high * (2.0**31 - 1)) / (2.0**31 - 1) ** 2

    def _below(self, n: int) -> int:
        """An integer below ``n``, equally likely each: what falls beyond the last full bucket is drawn again."""
        if n == 1:
            return 0
        width = (2**31 - 2) // n
        while (drawn := self._next()) >= n * width:
            pass
        return drawn // width

    def _tiled(self, node: For, n: int, decision: Sequence[int] | None) -> int | None:
        """The extent of a loop to tile, None if it is symbolic; refuses what is no number, or no list, of factors."""
        if not 1 <= n <= MOST_FACTORS:
            self.refuse(f"cannot tile loop {node.var.name} into {n} factors", [node.var], hint=f"n=1 to {MOST_FACTORS}",
                        code="argument")
        if decision is not None:
            if len(decision) != n:
                self.refuse(f"the decision has {len(decision)} factors, {n} are needed", hint=f"a list of {n} factors",
                            code="argument")
            # What a symbolic loop leaves open is written -1.
            wrong = next((f for i, f in enumerate(decision) if f < 1 and not (i == 0 and f == -1)), None)
            if wrong is not None:
                self.refuse(f"the decision has a factor {wrong}", hint="factors are positive", code="argument")
        return int_value(node.extent)

    def _untiled(self, n: int) -> list[ExprRV | None]:
        self.decide([-1] + [1] * (n - 1))
        rest: list[ExprRV | None] = [self.expr_rv(1) for _ in range(n - 1)]
        return [None, *rest]

    def _tile(self, extent: int, n: int) -> list[int]:
        """Factors of ``extent``: each prime power is dealt out uniformly over all compositions."""
        tile = [1] * n
        if n == 1:
            return [extent]
        for prime, power in prime_factors(extent):
            if power == 1 and n > 2:
                tile[self._below(n)] *= prime
                continue
            bars = sorted(self._choose(power + n - 1, n - 1))
            last = -1
            for i, bar in enumerate([*bars, power + n - 1]):
                tile[i] *= prime ** (bar - last - 1)
                last = bar
        return tile

    def _choose(self, n: int, k: int) -> list[int]:
        """``k`` distinct integers below ``n``."""
        if k == 2:
            first, second = self._below(n), self._below(n - 1)
            return [first, second + (second >= first)]
        order = list(range(n))
        for i in range(k):
            j = i + self._below(n - i)
            order[i], order[j] = order[j], order[i]
        return order[:k]

    def _places(self, state: State, block: Block, rv: BlockRV) -> list[tuple[int, For | Special]]:
        """Legal places in increasing order of their number; loops that a search has no use for are left out."""
        places: list[tuple[int, For | Special]] = []
        if self._allows(lambda sch: sch.compute_inline(rv)):
            places.append((-2, AT_INLINE))
        places.append((-1, AT_ROOT))
        consumers = state.consumers(block)
        if not consumers:
            return places
        realizes = [state.realizes[c.ident] for c in consumers]
        loops = state.loops_of(consumers[0])
        boundary = state.lca([*realizes])
        if not any(x is boundary for x in loops):
            return places
        candidates = loops[: next(i for i, x in enumerate(loops) if x is boundary) + 1]
        spatial = [_drives_spatial_only(state, x) for x in candidates]
        last_spatial = max((i for i, s in enumerate(spatial) if s), default=-1)
        reduced = False
        for i, loop in enumerate(candidates):
            if int_value(loop.extent) == 1:
                continue
            if spatial[i] and reduced:
                break
            if not spatial[i]:
                reduced = True
                if i > last_spatial:
                    break
            if self._allows(lambda sch, at=loop: sch.compute_at(rv, sch.loop_rv(at), True)):
                places.append((i, loop))
        return places

    def _allows(self, attempt: Any) -> bool:
        """Whether a primitive is accepted, tried on a copy."""
        state = self._rng_state
        trial = cast(Any, self).copy()
        self._rng_state = state
        trial.error_render_level = "none"
        try:
            attempt(trial)
        except ScheduleError:
            return False
        return True


def _drives_spatial_only(state: State, loop: For) -> bool:
    """Whether the blocks below a loop use it for spatial iterators only."""
    for block in state.children_of(loop):
        for iv, value in zip(block.iter_vars, state.realizes[block.ident].iter_values):
            if iv.kind != "spatial" and any(e is loop.var for e in walk_expr(value)):
                return False
    return True


def _perfect(tile: list[int], extent: int) -> list[int]:
    """A given tile made perfect: from the inside, a factor that does not divide takes all that is left."""
    left = extent
    for i in range(len(tile) - 1, 0, -1):
        if tile[i] < 1 or left % tile[i]:
            tile[i] = left
        left //= tile[i]
    tile[0] = left
    return tile


def _product(values: Sequence[int]) -> int:
    result = 1
    for v in values:
        result *= v
    return result


def prime_factors(n: int) -> list[tuple[int, int]]:
    """The prime factors of ``n`` with their powers, increasing."""
    found = []
    p = 2
    while p * p <= n:
        power = 0
        while n % p == 0:
            n //= p
            power += 1
        if power:
            found.append((p, power))
        p += 1 if p == 2 else 2
    if n > 1:
        found.append((n, 1))
    return found


def divisors(n: int) -> list[int]:
    """The divisors of ``n``, increasing."""
    result = [1]
    for p, power in prime_factors(n):
        result = [d * p**k for d in result for k in range(power + 1)]
    return sorted(result)
