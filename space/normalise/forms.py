"""What a form of a program may have that it need not: how that is asked for, what it is called, what it means for a space."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

DIFFERENCES = "extrema by differences"
KEPT = "what windows share stays"  # in the accumulator; else it is stored, and read again
SLID = "neighbours are compared in place"  # the one in the other's; else with what each has of its own
BORDERED = "what windows are padded with is added"  # by a product more; else padding leaves them, and neighbours share nothing
REPEATED = "what repeats is read once"  # else a load brings each of an element's places
MOVED = "what is read elsewhere is made there, or stored"  # else it would have to be moved
FUSED = "windows compare sums where they are made"  # else what is between them is stored, and read again
PLACES = "places as lanes"  # else channels, which leave lanes empty
BANDED = "lanes along rows by banded weights"  # and windows that overlap, which the host makes
JOINT = "what several products read is loaded once"  # for all their steps; else each loads what it reads, step by step
DOUBLED = "windows add up what they share by halves"  # which stays in the accumulator; else each adds up its elements
SLIDING = "windows that slide along laid out by the host"  # one beside the other; else the machine reads them where they lie
FILLED = "copies laid out by the host"  # which pad with a number, or repeat elements; else loads bring each element, or 0
SQUARED = "squares of places as lanes"  # beside channels, by banded weights, which the host makes
ONES = "sums of windows by ones"  # products with banded weights, too; else each element takes a product of its own
EVERYWHERE = "sums are made for every lane"  # by a matrix of ones and zeros; else what reads them has lanes that they have
CROSSED = "sums along rows picked from a product of rows with each other"  # else one factor is a diagonal
GATHERED = "windows gathered by the host"  # which is work of its own; else the machine reads them where they lie


class Wanted(NamedTuple):
    """What a form is to have; where a program has nothing of the kind there is no such form.

    Args:
        differences: whether extrema of int8 are written as differences.
        kept: whether what several windows share stays in the accumulator then.
        slid: whether what two windows share is compared in place then.
        gathered: whether the host gathers what windows read, where that fills more lanes.
        repeated: whether what stages read several times, side by side, is read once.
        moved: whether what is read elsewhere than it is made is made there, or stored.
        fused: whether windows compare sums where they are made.
        flat: whether places are lanes, where channels leave some empty.
        banded: whether neighbouring results are lanes where filters and channels fill fewer.
        weights: in how many ways to choose weights that the program makes; no program has any that has another form.
        whole: whether sums keep the terms that change nothing.
        given: whether only what the host lays out is a weight.
        handed: whether the host makes the results that only move what is computed.
        loaded: whether what is joined of parameters and of what is computed is read part by part, and what is moved where it
            comes from.
        cropped: whether sums of which stages read only what stands first are made for that alone.
        doubled: whether windows share what they add up.
        bordered: whether, of extrema, also windows of what is padded otherwise than with zeros are compared in place.
        sliding: whether the host lays out windows that slide along with what multiplies them.
        digits: whether axes that tensors in between are read or stored along by digits are several axes everywhere.
        ranged: whether then, besides, ranges of such tensors that readers read each by itself are tensors of their own.
        settled: whether weights that the program makes are chosen such that all products agree on lanes; only of programs with
            more ways to choose them than are tried else.
        shared: whether then also an axis is several of which products read one digit alone, as heads of queries that share keys;
            and ranges are tensors of their own where there are some.
        beside: whether what a choice by place has on one side of a border is made where it goes.
        grouped: whether then also an axis is several of which stages read one digit alone of what the program makes, as what is
            known of groups of channels.
        finer: whether what is loaded so may also be what a stage reads at digits, as a coarser image, of what the program makes.
        filled: whether the host makes copies that products read, where they are padded with what is no zero, or repeat elements.
        chosen: whether stages that compute in several ways, by place, are written into results, which have parts then.
        returned: whether results that blocks read, too, are moved by the host from tensors in between.
        lone: whether extrema that stages join with something else are stored as int8.
        everywhere: whether sums that stages read for more lanes than they are made for are made for each of them.
        crossed: whether sums of products along rows are picked from products of rows with each other.
        squared: whether squares of places are lanes beside channels, where each channel is computed by itself.
        filtered: whether windows over what the program makes, along which one filter alone slides, are products with all of it.
        ones: whether sums of elements over windows are products with ones, of which weights are banded.
    """

    differences: bool = False
    kept: bool = False
    slid: bool = False
    gathered: bool = False
    repeated: bool = False
    moved: bool = False
    fused: bool = False
    flat: bool = False
    banded: bool = False
    weights: int = 0
    whole: bool = False
    given: bool = False
    handed: bool = False
    loaded: bool = False
    cropped: bool = False
    doubled: bool = False
    bordered: bool = False
    sliding: bool = False
    digits: bool = False
    ranged: bool = False
    settled: bool = False
    shared: bool = False
    beside: bool = False
    grouped: bool = False
    finer: bool = False
    chosen: bool = False
    filled: bool = False
    returned: bool = False
    lone: bool = False
    everywhere: bool = False
    crossed: bool = False
    squared: bool = False
    filtered: bool = False
    ones: bool = False

    @property
    def plain(self) -> Wanted:
        """What the form has that has nothing it need not have."""
        return self.only("whole", "handed", "loaded", "cropped", "digits", "ranged", "settled", "shared", "beside",
                         "grouped", "finer", "chosen", "returned", "lone", "filtered")

    def only(self, *names: str) -> Wanted:
        """What is wanted of it, as far as some fields say: whoever is given that does not depend on others.

        Args:
            names: of the fields.
        """
        return Wanted(**{name: getattr(self, name) for name in names})

    def also(self, other: Wanted) -> Wanted:
        """What has all that either has."""
        return Wanted._make(max(a, b) for a, b in zip(self, other))


PLAIN = Wanted()
# By what a form is called, how it is asked for.
WANTED = {
    DIFFERENCES: Wanted(differences=True), KEPT: Wanted(kept=True), SLID: Wanted(slid=True), REPEATED: Wanted(repeated=True),
    MOVED: Wanted(moved=True), FUSED: Wanted(fused=True), PLACES: Wanted(flat=True), BANDED: Wanted(banded=True),
    GATHERED: Wanted(gathered=True), DOUBLED: Wanted(doubled=True), BORDERED: Wanted(bordered=True),
    SLIDING: Wanted(sliding=True), FILLED: Wanted(filled=True), EVERYWHERE: Wanted(everywhere=True),
    CROSSED: Wanted(crossed=True, fused=True),
    SQUARED: Wanted(squared=True), ONES: Wanted(ones=True),
}


def wanted_of(done: Iterable[str], base: Wanted = PLAIN) -> Wanted:
    """How a form is asked for that has all of some things.

    Args:
        done: what they are called.
        base: what it has besides.
    """
    for name in done:
        base = base.also(WANTED[name])
    return base


@dataclass(frozen=True)
class Trait:
    """What it means for a form's space that something was done.

    Args:
        later: its points come behind those of others, and only where there are others.
        behind: they come behind those of others, but may be the only ones; what is in the way of it nobody is told.
        last: they come behind all others, the higher it is, the further: a form that is new has to leave those their numbers.
        around: tiles make what is around them, too.
        apart: how much rather the machine's bound is that of a form without it: what is stored between nests, taken away and
            added again, or brought at once for several products, another program does without.
        fuller: lanes are fuller than the program's, which the bound's count of visits has to say.
    """

    later: bool = False
    behind: bool = False
    last: int = 0
    around: bool = False
    apart: int = 0
    fuller: bool = False


TRAITS = {
    DIFFERENCES: Trait(apart=1), KEPT: Trait(later=True, around=True, apart=1), FUSED: Trait(behind=True, around=True, apart=2),
    MOVED: Trait(behind=True), REPEATED: Trait(later=True), PLACES: Trait(later=True, fuller=True),
    GATHERED: Trait(later=True, fuller=True), BANDED: Trait(later=True, last=1, fuller=True), JOINT: Trait(last=2, apart=1),
    DOUBLED: Trait(later=True, last=3, around=True, apart=1), BORDERED: Trait(last=3),
    SLIDING: Trait(later=True, last=4, fuller=True), FILLED: Trait(later=True, last=5, apart=1),
    EVERYWHERE: Trait(behind=True, last=6), CROSSED: Trait(behind=True, last=7, around=True, apart=2),
    SQUARED: Trait(later=True, last=8, fuller=True), ONES: Trait(later=True, last=9),
}


def trait_of(done: Iterable[str]) -> Trait:
    """What all that was done means together.

    Args:
        done: of a form, in words; those of structural rules mean nothing here.
    """
    own = [TRAITS.get(name, Trait()) for name in done]
    return Trait(
        later=any(t.later for t in own), behind=any(t.behind for t in own), last=max((t.last for t in own), default=0),
        around=any(t.around for t in own), apart=sum(t.apart for t in own), fuller=any(t.fuller for t in own),
    )
