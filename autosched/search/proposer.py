"""Which points to measure next: the draft first, then the model over all points, or over those that evolution found."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Set
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.search.cost_model import CostModel, Floats
from autosched.search.features import Features, Seen
from space import Space
from space.brood import Brood
from space.distinct import Numbers, are_new, in_order, keys, lowest_of, spread
from space.fitting import fitted
from space.rule import Ints

Point = npt.NDArray[np.int32]
Points = npt.NDArray[np.int32]

SCAN_LIMIT = 16_000_000  # combinations of all decisions up to which every point is listed: a second or two at most, once
SHORTLIST = 4096  # points, by draft, that the model judges
POPULATION = 64  # parents of a generation, without the best of every kind of loops and guests
# Of each of up to POPULATION + KINDS + GUESTS parents, 550 to 670 rows a generation in the mean: one of 200 costs hardly less,
# and three of those hardly find more.
CHILDREN = 8
GENERATIONS = 72  # few parents for long go further than many for a short time
GENERATION = 512  # points that are estimated together
FAR = 1.25  # times the lowest estimate of its form, beyond which nobody asks how far
SURE = 0.999  # times that, below which an estimate of the pool has never been a rough one
IDLE = 14  # generations without a lower draft after which breeding alone finds no better one for long
SOON = 10  # as many where little may be won: what the model is asked of later is there by then
POLISHED = 4  # points of different tiles, the lowest drafts first, whose neighbours are looked at then, together
LOOKS = 8  # such looks, at most: each goes on from the lowest drafts of the one before
AFRESH = 24  # generations bred from what is lowest by then, twice as many where much may be won
SETTLED = 6  # of these without a lower draft, after which none comes of it where little may be won
NEAR = 1.02  # times the bound of the space, up to which the lowest draft leaves too little to be won for that
OTHERS = 3  # axes that the first part is cut from, besides that of the lowest draft, of which each is bred from then
TRIED = 16  # generations of each of those, behind which it goes on with what is
CLOSE = 1.0075  # times the lowest draft, or lower: with the others it would be for nothing
EAGER = 6144  # rows of the first population that ask for all the memory they can use; most have to be given up
FEW = 0.05  # share of them that are points, below which others are made to fit
FITTED = 1536  # rows of those
ENOUGH = 24  # generations bred from one first population after another, at least
DEAR = 1.1  # times what a point's own engines need, from which the lowest draft may owe to where operands are loaded
ENDS = 1000  # cycles of first loads and last stores, which that does not count: a small program is no better elsewhere
ELSEWHERE = 3  # populations that are bred then without the loads of the best before
KNOWN = 512  # points, the lowest drafts first, that each of them begins with
ELITE = 2048  # points, by score, that a generation's parents come from
EVENLY = 0.2  # share of generations whose form is drawn evenly
OPEN = 24  # of a first population, in which that share falls from 1: what is best in the end may be worse than others for long
GUESTS = 12  # points of other forms whose decisions a generation takes in
ALIKE = 3  # survivors that share all tiles: else one good tile fills the population before others have found their places
KINDS = 24  # kinds of loops whose best joins every generation's parents
CENTRES = 2  # points of the best by score, and of the best measured, whose neighbours join each batch's population
REFINEMENTS = 1  # generations bred for the model's score, per batch
KEPT = 64  # first populations that are remembered, a few megabytes each
HASTY = 512  # points of the sample where there is no time for more
UNKNOWN = -1  # a bound that nobody has asked for
EPSILON = 0.1  # share of a batch drawn at random from the shortlist: the model's blind spots

_FIRST: OrderedDict[tuple[object, ...], tuple[object, Points, Floats, frozenset[bytes], Any]] = OrderedDict()
_LOCK = Lock()


class Proposer:
    """Proposes batches of unseen valid points.

    Args:
        space: the design space.
        seed: the same seed and the same measurements give the same proposals.
        hasty: proposes from a sample only, which costs next to nothing.
    """

    def __init__(self, space: Space, seed: int, hasty: bool = False) -> None:
        self.space = space
        self.seed = seed
        self.hasty = hasty
        self.rng = np.random.default_rng(seed)
        self.model = CostModel(seed)
        self._floor = space.floor()
        self._features = Seen(space)
        self._learned: list[tuple[Features, Floats]] = []  # features and drafts of what was measured, batch by batch
        self.learns = True  # whether the model has a say; else the draft alone
        self.seen: set[bytes] = set()
        self._measured: set[bytes] = set()
        self._points: list[Point] = []
        self._cycles: list[float] = []
        self._explored: set[bytes] = set()  # points whose neighbours are in the pool
        listed = space.sample(self.rng, HASTY) if hasty else self._list_all()
        self.scans = listed is not None and not hasty
        # What may be proposed, with what never changes: estimate, and lower bound once it is asked for. Evolution adds to it.
        self._pool = np.zeros((0, space.width), np.int32)
        self._drafts: Floats = np.zeros(0)
        self._bounds = np.zeros(0, np.int64)
        self._lowest: dict[int, float] = {}  # of every form the lowest draft of the pool
        self._pooled: dict[bytes, int] = {}  # the places of the pool's points, which are distinct, as far as anybody asked
        if listed is not None:
            self._take(listed, space.draft(listed))

    def _list_all(self) -> Points | None:
        """All valid points, or None where there are too many to list."""
        if self.space.raw() > SCAN_LIMIT:
            return None
        blocks = list(self.space.enumerate())
        return np.concatenate(blocks) if blocks else np.zeros((0, self.space.width), np.int32)

    @property
    def engine(self) -> str:
        """``scan`` (every point is known) or ``evolution``."""
        return "scan" if self.scans else "evolution"

    @property
    def size(self) -> int | None:
        """Number of points where it is known."""
        return len(self._pool) if self.scans else None

    @property
    def points(self) -> Points | None:
        """All points where they are known, in lexicographic order."""
        return self._pool if self.scans else None

    @property
    def known(self) -> int:
        """Number of points whose cycles are known."""
        return len(self._points)

    def add(self, point: Point, cycles: int | None) -> None:
        """Reports a measurement; None for a point that failed."""
        self.seen.add(point.tobytes())
        self._measured.add(point.tobytes())
        if cycles is not None:
            self._points.append(point)
            self._cycles.append(float(cycles))

    def mark(self, point: Point) -> None:
        """Excludes a point that is being measured."""
        self.seen.add(point.tobytes())

    def unseen(self, points: Points) -> Points:
        """The points that were neither measured nor excluded, in order."""
        return points[are_new(points, self.seen)]

    def floor(self) -> int:
        """Cycles that no point can beat: the space's own bound, or more where all points are known.

        Each of them is either measured, or has a bound; the least of these is a bound of the whole space.
        """
        least = self._floor
        if not self.scans or not len(self._pool):
            return least
        best = min(self._cycles, default=np.inf)
        bounds = self._bounds_of(np.arange(len(self._pool)))
        below = np.flatnonzero(bounds < best)
        # Every point at the lowest bound has to be measured before the bound can rise.
        for index in below[np.argsort(bounds[below], kind="stable")]:
            if self._pool[index].tobytes() not in self._measured:
                best = float(bounds[index])
                break
        return max(least, int(best)) if best < np.inf else least

    def batch(self, n: int) -> list[Point]:
        """Up to ``n`` unseen points that may beat the best; fewer only where no more are known."""
        if self._points and self.learns:
            self._learn()
        if not self.scans and not self.hasty:
            if not len(self._pool):
                self._begin()
            if self._points:
                self._refine()
        pool, drafts = self._shortlist(n)
        if not len(pool):
            return []
        scores = self._score(pool, drafts)
        chosen: dict[bytes, Point] = {}
        random = round(EPSILON * n) if self._points else 0
        # Neighbours tell the model little more than one of them.
        ranked = pool[np.argsort(scores, kind="stable")]
        tiles = Numbers().of(self.space.same_tiles(ranked))
        for point in ranked[spread(tiles, n - random, n if self._points else ALIKE)]:
            chosen.setdefault(point.tobytes(), point)
        for index in self.rng.permutation(len(pool)):
            if len(chosen) >= n:
                break
            chosen.setdefault(pool[index].tobytes(), pool[index])
        return list(chosen.values())

    def _learn(self) -> None:
        """Fits the model to all measurements; what it sees of points does not change, and is worked out of the new ones only."""
        new = self._points[sum(len(drafts) for _, drafts in self._learned) :]
        if new:
            points = np.stack(new)
            drafts = self._known(points)
            if len(rough := np.flatnonzero(np.isnan(drafts))):
                drafts[rough] = self.space.draft(points[rough])
            self._learned.append((self.space.features(points, drafts), drafts))
        features, drafts = (np.concatenate(known) for known in zip(*self._learned))
        self.model.fit(features, drafts, np.array(self._cycles))

    def _begin(self) -> None:
        """The first population, bred for its drafts; remembered, since tasks that take turns begin again with every turn."""
        space = self.space
        key = (*space.identity, self.seed)
        with _LOCK:
            known = _FIRST.get(key)
        if known is not None and not self._points:
            _, self._pool, self._drafts, explored, self.rng.bit_generator.state = known
            self._explored = set(explored)
            self._bounds = np.full(len(self._pool), UNKNOWN)
            _note(self._lowest, self._pool, self._drafts)
            return
        bred = 0
        while bred < ENOUGH:
            # One that settles early may have settled anywhere.
            first = [space.sample(self.rng, POPULATION), space.eager(self.rng, EAGER)]
            if len(first[1]) < FEW * EAGER:
                first.append(fitted(space, self.rng, FITTED))
            bred += self._breed(GENERATIONS, _ordered(np.concatenate(first)), opening=OPEN)
        self._elsewhere()
        self._polish()
        if not self._points:
            with _LOCK:
                held = space.func, space.rules  # which the key names by address
                _FIRST[key] = held, self._pool, self._drafts, frozenset(self._explored), self.rng.bit_generator.state
                while len(_FIRST) > KEPT:
                    _FIRST.popitem(last=False)

    def _elsewhere(self) -> None:
        """Where not even the lowest draft is near what its engines need, others are bred that load elsewhere.

        Small memories make valleys: from one place of a load to another several tiles have to change at once, and all of them fit
        exactly, or are worse than what there is.
        """
        barred, before = set[bytes](), self._drafts.min(initial=np.inf)
        for _ in range(ELSEWHERE):
            if not self._dear():
                break
            ranked = self._ranked()
            barred.update(keys(self.space.same_loads(self._apart(ranked, barred)[:1])))
            some = ranked, self.space.sample(self.rng, POPULATION)
            known, drawn = (self._apart(points, barred) for points in some)
            first = np.concatenate([known[:KNOWN], drawn])
            if len(first):
                self._breed(GENERATIONS, _ordered(first), barred)
        if self._drafts.min(initial=np.inf) < before:
            # It has had fewer generations than what it is better than.
            ranked = self._ranked()
            alike = ~are_new(self.space.same_loads(ranked), set(keys(self.space.same_loads(ranked[:1]))))
            first = np.concatenate([ranked[alike][:KNOWN], self.space.sample(self.rng, POPULATION)])
            self._breed(GENERATIONS, _ordered(first))

    def _polish(self) -> None:
        """Looks at the neighbours of the lowest drafts, as long as these lead to others; then breeds from what is lowest by then.

        Breeding decides several things at once: it comes near to what is best, and may never try the last decision alone. What is
        found so makes parents that none of its generations had.
        """
        for _ in range(LOOKS):
            ranked = self._ranked(KNOWN)
            tiles = Numbers().of(self.space.same_tiles(ranked))
            if not self._look_around(ranked[spread(tiles, POLISHED, 1)]):
                break
        if len(self._pool):
            self._breed(AFRESH * (1 + self._wanting()), _ordered(self._ranked(KNOWN)), soon=SETTLED)
            if self._wanting():
                self._begin_otherwise()

    def _wanting(self) -> bool:
        """Whether the lowest draft leaves much to be won."""
        return bool(self._drafts.min() > NEAR * self._floor)

    def _begin_otherwise(self) -> None:
        """Breeds from what is lowest of every axis that the first part is cut from, and looks around.

        With another axis all tiles are others: on the way there everything is worse, and what one generation finds of it is lost
        among what is better already.
        """
        ranked, kinds = self._beginnings()
        for kind in kinds[spread(kinds, 1 + OTHERS, 1)][1:]:
            goal = CLOSE * float(self._drafts.min())
            self._breed(2 * AFRESH, _ordered(ranked[kinds == kind][:KNOWN]), goal=goal)
        for _ in range(LOOKS):
            ranked, kinds = self._beginnings()
            if not self._look_around(ranked[spread(kinds, 1 + OTHERS, 1)]):
                break

    def _beginnings(self) -> tuple[Points, Ints]:
        """The points of the pool of the lowest draft's form, the lowest first, and a number for how each of them begins."""
        ranked = self._ranked(SHORTLIST)
        ranked = ranked[ranked[:, 0] == ranked[0, 0]]
        return ranked, Numbers().of(self.space.same_beginnings(ranked))

    def _look_around(self, centres: Points) -> bool:
        """Takes the neighbours of some points into the pool; whether any of them had not been looked at."""
        new = are_new(centres, self._explored)
        if not new.any():
            return False
        self._explored.update(keys(centres[new]))
        near = self.space.neighbours_of(centres[new])
        near = near[self._strange(near)]
        self._take(near, self._estimates(near, dict(self._lowest)))
        return True

    def _dear(self) -> bool:
        """Whether the lowest draft is far above what that point's engines need."""
        if not len(self._drafts):
            return False
        best = int(self._drafts.argmin())
        return bool(self._drafts[best] > DEAR * self.space.bound(self._pool[[best]])[0] + ENDS)

    def _ranked(self, n: int | None = None) -> Points:
        """The points of the pool, or ``n`` of them, the lowest drafts first."""
        return self._pool[lowest_of(self._drafts, n)]

    def _apart(self, points: Points, barred: Set[bytes]) -> Points:
        """Those of some points that load as nothing barred does, in order."""
        return points[are_new(self.space.same_loads(points), barred)]

    def _shortlist(self, n: int) -> tuple[Points, Floats]:
        """Unseen points that may beat the best, and their drafts: the lowest drafts, and all neighbours of the best."""
        best = min(self._cycles, default=np.inf)
        able = self._able(best, SHORTLIST + len(self.seen))
        able = able[are_new(self._pool[able], self.seen)]
        pool, drafts = self._pool[able], self._drafts[able]
        if self.scans and self._points:
            near = self.unseen(self.space.neighbours_of(self._incumbents(4)))
            near = near[self.space.bound(near) < best]
            pool = np.concatenate([pool, near])
            drafts = np.concatenate([drafts, self.space.draft(near)])
            first = in_order(pool)
            pool, drafts = pool[first], drafts[first]
        return pool, drafts

    def _able(self, best: float, n: int) -> Ints:
        """The places of up to ``n`` points that may beat the best, the lowest drafts first: others are not worth a simulation."""
        order = np.argsort(self._drafts, kind="stable")
        found = order[:n]
        if best < np.inf:
            found, since = order[:0], 0
            while len(found) < n and since < len(order):
                some = order[since : since + n]
                found, since = np.concatenate([found, some[self._bounds_of(some) < best]]), since + n
        return found[:n]

    def _incumbents(self, n: int) -> Points:
        return np.stack([self._points[i] for i in np.argsort(self._cycles, kind="stable")[:n]])

    def _score(self, points: Points, drafts: Floats) -> Floats:
        return self.model.predict(self._features.of(points, drafts), drafts) if self._points and self.learns else drafts

    def _strange(self, points: Points) -> npt.NDArray[np.bool_]:
        """Which points are not in the pool, shape (n,)."""
        return are_new(points, self._places())

    def _places(self) -> dict[bytes, int]:
        """Where every point of the pool stands there."""
        since = len(self._pooled)
        self._pooled.update(zip(keys(self._pool[since:]), range(since, len(self._pool))))
        return self._pooled

    def _known(self, points: Points) -> Floats:
        """The drafts of points that the pool has, but for rough ones, shape (n,); NaN of all others.

        Whatever estimates need not be worked out to their end is above FAR times a lowest draft that the pool has, or has less.
        """
        places = self._places()
        at = np.array([places.get(key, -1) for key in keys(points)], dtype=np.int64)
        drafts = np.where(at < 0, np.nan, self._drafts[at]) if len(self._drafts) else np.full(len(points), np.nan)
        drafts[~(drafts < SURE * _enough(self._lowest, points))] = np.nan
        return drafts

    def _take(self, points: Points, drafts: Floats) -> None:
        """Points that are new join the pool."""
        self._pool = np.concatenate([self._pool, points])
        self._drafts = np.concatenate([self._drafts, drafts])
        self._bounds = np.concatenate([self._bounds, np.full(len(points), UNKNOWN)])
        _note(self._lowest, points, drafts)

    def _bounds_of(self, places: Ints) -> Ints:
        """Cycles that points of the pool need at least, by their places; worked out when somebody asks."""
        unknown = places[self._bounds[places] == UNKNOWN]
        if len(unknown):
            self._bounds[unknown] = self.space.bound(self._pool[unknown])
        return self._bounds[places]

    def _refine(self) -> None:
        """Breeds from what was measured best and what the model thinks best."""
        lowest = lowest_of(self._drafts, SHORTLIST)
        order = np.argsort(self._score(self._pool[lowest], self._drafts[lowest]), kind="stable")[: POPULATION // 4]
        population = np.concatenate([self._pool[lowest[order]], self._incumbents(8)])
        centres = np.concatenate([self._pool[lowest[order[:CENTRES]]], self._incumbents(CENTRES)])
        new = are_new(centres, self._explored)
        if new.any():
            self._explored.update(keys(centres[new]))
            population = np.concatenate([population, self.space.neighbours_of(centres[new])])
        self._breed(REFINEMENTS, _ordered(population))

    def _breed(
        self, generations: int, population: Points, barred: Set[bytes] = frozenset(), opening: int = 0, soon: int | None = None,
        goal: float = np.inf,
    ) -> int:
        """Generation after generation of changed survivors, of one form each; all that lived joins the pool.

        Args:
            generations: at most.
            population: what the first of them comes from.
            barred: loads that no child has, as ``same_loads`` tells them.
            opening: generations in which it matters less and less how many of the best a form has.
            soon: generations without a lower draft after which it ends where little may be won, IDLE at most; SOON if not given.
            goal: a draft; what is above it behind TRIED generations ends there.

        Returns:
            How many generations that counts as: as many as there were, or IDLE, so that populations without any end as well.
        """
        near: dict[int, float] = {}
        drafts = self._estimates(population, near)
        lived, estimates = [population], [drafts]
        brood, enough = Brood(self.space, population, barred), partial(_enough, near)
        elite, scores = population, self._score(population, drafts) if len(population) else drafts
        tiles, loops = Numbers(), Numbers()

        def numbers(points: Points) -> Ints:
            return np.stack([tiles.of(self.space.same_tiles(points)), loops.of(self.space.same_loops(points))], axis=1)

        kinds = numbers(elite)
        lowest: dict[int, float] = {}
        self._lowers(lowest, population, drafts)
        idle = bred = 0
        much = NEAR * self._floor
        soon = min(SOON if soon is None else soon, IDLE)
        while bred < generations and len(elite):
            low = min(lowest.values(), default=np.inf)
            if idle >= (IDLE if low > much else soon) or (bred == TRIED and low > goal):
                break
            bred += 1
            best = np.argsort(scores, kind="stable")[:ELITE]
            elite, scores, kinds = elite[best], scores[best], kinds[best]
            parents, guests = self._parents(elite, kinds[:, 0], kinds[:, 1], max(EVENLY, 1 - bred / max(opening, 1)))
            new, found = brood.next(np.repeat(parents, CHILDREN, axis=0), guests, self.rng, enough)
            idle += 1
            if len(new):
                _note(near, new, found)
                idle = 0 if self._lowers(lowest, new, found) else idle
                lived.append(new)
                estimates.append(found)
                elite, scores = np.concatenate([elite, new]), np.concatenate([scores, self._score(new, found)])
                kinds = np.concatenate([kinds, numbers(new)])
        left, found = brood.rest(enough)
        kept, drafts = np.concatenate([*lived, left]), np.concatenate([*estimates, found])
        strange = self._strange(kept)
        self._take(kept[strange], drafts[strange])
        return max(bred, IDLE)

    def _estimates(self, points: Points, lowest: dict[int, float]) -> Floats:
        """Drafts, those of points far above the lowest of their form only roughly; the lowest of every form is noted."""
        drafts = self._known(points)
        for since in range(0, len(points), GENERATION):
            own, found = points[since : since + GENERATION], drafts[since : since + GENERATION]
            if len(new := np.flatnonzero(np.isnan(found))):
                found[new] = self.space.draft(own[new], _enough(lowest, own[new]))
            _note(lowest, own, found)
        return drafts

    def _parents(self, ranked: Points, tiles: Ints, loops: Ints, evenly: float = EVENLY) -> tuple[Points, Points]:
        """The best of one form, which is drawn by its share among the best, and the decisions of a few of the others in it.

        These come last, and once more by themselves.

        Args:
            ranked: points, the best first.
            tiles: numbers that are equal where their tiles are, shape (n,).
            loops: numbers that are equal where they are of one kind of loops, shape (n,).
            evenly: share of generations whose form is drawn evenly.
        """
        # A form of several nests has more to decide, and is worse for longer.
        nests = self.space.nests[ranked[:, 0]]
        kind = self.rng.choice(np.unique(nests))
        forms = self.space.choices[0][self.space.nests[self.space.choices[0]] == kind]
        best = np.flatnonzero(nests == kind)
        form_of = ranked[best, 0]
        counts = (form_of[spread(tiles[best], POPULATION, ALIKE)] == forms[:, None]).sum(axis=1)
        # What is better elsewhere may be better still in a form that has none among the best.
        chances = (1 - evenly) * counts / counts.sum() + evenly / len(forms)
        form = int(self.rng.choice(forms, p=chances / chances.sum()))
        mine = best[form_of == form]
        parents = mine[spread(tiles[mine], POPULATION, ALIKE)]
        # Of every kind of loops the best: what it lacks may be three decisions away.
        kinds = mine[spread(loops[mine], KINDS, 1)]
        guests = self.space.moved(ranked[best[form_of != form][:GUESTS]], form)
        return np.concatenate([ranked[parents], ranked[kinds], guests]), guests

    def _lowers(self, lowest: dict[int, float], points: Points, drafts: Floats) -> bool:
        """Whether points lower the lowest draft of some kind of form, by its number of nests; it is noted."""
        nests = self.space.nests[points[:, 0]]
        lower = False
        for kind in np.unique(nests).tolist():
            least = float(drafts[nests == kind].min())
            if least < lowest.get(kind, np.inf):
                lowest[kind], lower = least, True
        return lower


def _ordered(points: Points) -> Points:
    """The distinct points, in the order of their values."""
    return points[in_order(points)]


def _enough(lowest: dict[int, float], points: Points) -> Floats:
    """Beyond which drafts of points nobody asks how far they are, by the lowest of every form."""
    found = np.full(1 + max(lowest, default=-1), np.inf)
    found[list(lowest)] = list(lowest.values())
    forms = points[:, 0]
    there = forms < len(found)
    return FAR * np.where(there, found[np.where(there, forms, 0)], np.inf) if len(found) else np.full(len(points), np.inf)


def _note(lowest: dict[int, float], points: Points, drafts: Floats) -> None:
    """Notes the lowest drafts of points' forms, in place."""
    forms = points[:, 0]
    for form in np.unique(forms).tolist():
        lowest[form] = min(lowest.get(form, np.inf), float(drafts[forms == form].min()))
