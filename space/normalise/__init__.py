"""From any program that a user writes to one that a space can take, by primitives only.

``normalise`` gives the program and the primitives that made it, so that a recorded schedule replays from the user's own text.
A rule is one file with one function ``apply(sch, target)``; it changes nothing where it finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.schedule.kit.trace import Instruction
from autosched.target import Target
from space.normalise import (
    banding,
    conditions,
    crossed,
    doubled,
    everywhere,
    filling,
    fused,
    gathering,
    groups,
    moving,
    places,
    planes,
    sliding,
    windows,
)
from space.normalise.blocks import is_packed, plain_blocks, require_whole
from space.normalise.estimate import estimate
from space.normalise.forms import (
    BANDED,
    BORDERED,
    CROSSED,
    DIFFERENCES,
    DOUBLED,
    EVERYWHERE,
    FILLED,
    FUSED,
    GATHERED,
    JOINT,
    KEPT,
    MOVED,
    ONES,
    PLACES,
    PLAIN,
    REPEATED,
    SLID,
    SLIDING,
    SQUARED,
    Trait,
    Wanted,
    trait_of,
    wanted_of,
)
from space.normalise.ways import attempt

Made = tuple[tuple[str, ...], Schedule]  # what was done that need not be, and what it has led to


class _Other(NamedTuple):
    """A form that a program may have besides the plain one.

    Args:
        done: what it is called.
        applies: to which programs, before they are in any form.
        needs: a form that there must be for this one; () is the plain one.
        sooner: whether it is one only where it takes less than the plain one does.
        chained: whether what is computed and what is moved count together then, as in nests that wait for each other.
    """

    done: tuple[str, ...]
    applies: Callable[[PrimFunc, Target], bool]
    needs: tuple[str, ...] | None = None
    sooner: bool = False
    chained: bool = False


def _windows(func: PrimFunc, target: Target) -> bool:
    return plain_blocks(func) and windows.applies(func)


def _along_rows(func: PrimFunc, target: Target) -> bool:
    return plain_blocks(func) and not is_packed(func, target) and crossed.applies(func, target)


OTHERS = (
    # Elsewhere what slides would have to be moved.
    _Other((DIFFERENCES, KEPT, SLID), lambda func, target: target.semantics == "chisel" and _windows(func, target)),
    _Other((DIFFERENCES,), _windows),
    _Other((DIFFERENCES, KEPT), _windows, (DIFFERENCES,)),
    _Other((FUSED,), lambda func, target: plain_blocks(func) and fused.applies(func)),
    _Other((GATHERED,), gathering.applies, ()),
    _Other((PLACES,), planes.applies, (), sooner=True),
    _Other((BANDED,), lambda func, target: not is_packed(func, target) and banding.applies(func, target), (), sooner=True),
    _Other((REPEATED,), lambda func, target: groups.repeats(func), ()),
    _Other((MOVED,), lambda func, target: plain_blocks(func) and moving.applies(func) and not is_packed(func, target)),
    _Other((DIFFERENCES, KEPT, SLID, BORDERED),
           lambda func, target: target.semantics == "chisel" and _windows(func, target) and windows.pads(func), ()),
    _Other((DOUBLED,), lambda func, target: plain_blocks(func) and doubled.applies(func, target), sooner=True),
    _Other((SLIDING,), lambda func, target: plain_blocks(func) and not is_packed(func, target) and sliding.applies(func),
           sooner=True),
    _Other((FILLED,), lambda func, target: plain_blocks(func) and not is_packed(func, target) and filling.applies(func), ()),
    _Other((EVERYWHERE,),
           lambda func, target: plain_blocks(func) and not is_packed(func, target) and everywhere.applies(func, target),
           sooner=True, chained=True),
    _Other((CROSSED,), _along_rows, sooner=True, chained=True),
    _Other((CROSSED, EVERYWHERE), lambda func, target: _along_rows(func, target) and everywhere.applies(func, target),
           sooner=True, chained=True),
    _Other((SQUARED,), lambda func, target: not is_packed(func, target) and banding.applies(func, target, True), (), sooner=True),
    _Other((BANDED, ONES), lambda func, target: not is_packed(func, target) and banding.applies(func, target, ones=True), (),
           sooner=True),
)


def normalise(func: PrimFunc, target: Target, wanted: Wanted = PLAIN) -> tuple[PrimFunc, tuple[Instruction, ...]]:
    """A program in schedulable form, and the primitives that bring it there.

    Args:
        func: an unscheduled program, with constant extents.
        target: the machine whose elements tensors are packed for.
        wanted: what the form is to have.

    Returns:
        The program, in which parameters are packed and results unpacked by host stages, and the instructions of a trace; the
        program itself and no instructions where it is packed already, or where no rule knows how to pack it.
    """
    sch = normalised(func, target, wanted)
    return sch.func, tuple(sch.trace.insts)


def normalised(func: PrimFunc, target: Target, wanted: Wanted = PLAIN) -> Schedule:
    """A schedule of a program that has been normalised, its trace included.

    Args:
        func: as for ``normalise``.
        target: as for ``normalise``.
        wanted: as for ``normalise``.
    """
    sch = attempt(func, target, wanted)[0] or Schedule(func, seed=0)
    sch.error_render_level = "detail"  # from here on a refusal is for somebody to read
    return sch


def why_unpacked(func: PrimFunc, target: Target) -> str:
    """Why no rule brings a program's tensors into whole elements; nothing where that is not what is in the way.

    Args:
        func: as for ``normalise``.
        target: as for ``normalise``.
    """
    return attempt(func, target, PLAIN)[1]


def normal_forms(func: PrimFunc, target: Target, base: Wanted = PLAIN) -> list[Made]:
    """Schedules of a program that has been normalised, each with what was done that need not be; the plain one first.

    Args:
        func: as for ``normalise``.
        target: as for ``normalise``.
        base: what every form is to have; where that is to be cropped, and nothing is, there is none.

    Raises:
        ProgramError: a block's loops leave out a part of an iterator's domain, or loops without blocks are none of blocks.
    """
    require_whole(func)
    begun = conditions.single(func)
    conditions.require_blocks(begun)
    if base.cropped and not (plain_blocks(begun.func) and places.crops(begun.func)):
        return []
    first = normalised(func, target, base)
    # What no rule packs is packed already, or refused: of single stores analysis says better what is in the way.
    forms: dict[tuple[str, ...], Schedule] = {(): first if first.trace.insts else begun}
    there: set[tuple[str, ...]] = {()} if first.trace.insts else set()
    for other in OTHERS:
        if (other.needs is not None and other.needs not in there) or not other.applies(begun.func, target):
            continue
        made = normalised(func, target, wanted_of(other.done, base))
        if made.trace.insts and (not other.sooner or _less(made.func, first.func, target, other.chained)):
            forms[other.done] = made
            there.add(other.done)
    if (GATHERED,) in there:
        _gathered(func, target, base, forms)
    return list(forms.items())


def _less(made: PrimFunc, first: PrimFunc, target: Target, chained: bool) -> bool:
    """Whether a form takes less than another one, what is computed and what is moved together or not."""
    one, other = estimate(made, target), estimate(first, target)
    return one.longest + one.moved < other.longest + other.moved if chained else one < other


def _gathered(func: PrimFunc, target: Target, base: Wanted, forms: dict[tuple[str, ...], Schedule]) -> None:
    """Adds the best forms whose windows the host gathers and that have something else they need not, if that takes less so.

    A convolution's windows may be gathered, and a pool's behind it compare where its sums are made.
    """
    found: dict[tuple[str, ...], Schedule] = {}
    for done in [done for done in forms if {DIFFERENCES, FUSED, DOUBLED} & {*done}]:
        made = normalised(func, target, wanted_of((*done, GATHERED), base))
        if made.trace.insts and estimate(made.func, target) < estimate(forms[done].func, target):
            found[(*done, GATHERED)] = made
    # What stays in the accumulator may turn out to be in no nest; what stands last has points of its own, whatever others are.
    rest = [done for done in found if not {BORDERED, DOUBLED} & {*done}]
    for some in ([done for done in rest if KEPT in done], [done for done in rest if KEPT not in done],
                 [done for done in found if BORDERED in done], [done for done in found if DOUBLED in done]):
        if some:
            best = min(some, key=lambda done: estimate(found[done].func, target))
            forms[best] = found[best]


__all__ = [
    "BANDED", "BORDERED", "CROSSED", "DIFFERENCES", "DOUBLED", "EVERYWHERE", "FILLED", "FUSED", "GATHERED", "JOINT", "KEPT",
    "MOVED", "ONES", "PLACES", "REPEATED", "SLID", "SLIDING", "SQUARED", "Trait", "Wanted", "normal_forms", "normalise",
    "normalised", "trait_of", "wanted_of", "why_unpacked",
]
