"""Ways from a program to a form, by primitives only: which rules are tried, in which order, and what else where none leads on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from autosched.errors import ScheduleError
from autosched.ir.host import split_host
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target
from space.normalise import (
    again,
    agree,
    apart,
    banding,
    batches,
    beside,
    choices,
    chosen,
    clips,
    conditions,
    copies,
    counted,
    crossed,
    delays,
    diagonal,
    digits,
    doubled,
    epilogue,
    everywhere,
    factors,
    filling,
    filtering,
    flat,
    fused,
    gathering,
    gathers,
    groups,
    guards,
    handed,
    initial,
    joined,
    lacking,
    lone,
    loops,
    merging,
    moves,
    moving,
    negation,
    offsets,
    packing,
    parts,
    places,
    planes,
    reached,
    reclips,
    repeats,
    results,
    reversal,
    scaled,
    sliding,
    starts,
    straight,
    sums,
    terms,
    trims,
    turned,
    units,
    values,
    versions,
    wide,
    widening,
    windows,
)
from space.normalise.axes import Names
from space.normalise.blocks import device_blocks, is_packed, plain_blocks, product_of, store_of, unfit, written
from space.normalise.forms import Wanted
from space.normalise.layouts import Way

# Ways to a form, each tried where those before it lead to none that may have a schedule: a form is part of what a point means.
AS_IT_IS = 0
OTHERWISE = 1  # with what the ALU lacks written in what it has, tensors in parts, and axes that products lack
APART = 2  # also with tensors of their own for parts of sums, what lies shifted in an element, and what is read repeatedly

# What is in the way of a schedule of a form: that a stage moves int32 elements by place, or another copy that no load makes.
MOVED, COPY = "moved", "copy"

# What lays places or windows out otherwise, by its field of ``Wanted``, ahead of elements.
LAID_OUT = ("gathered", "repeated", "banded", "ones", "squared", "sliding")

# In this order, where tensors are not packed yet.
COPYING = (loops.arranged, guards.apply, reversal.apart, copies.apply, trims.copied)
ARRANGING = (straight.apply, reversal.apply)


def attempt(func: PrimFunc, target: Target, wanted: Wanted, last: bool = True) -> tuple[Schedule | None, str]:
    """The schedule of a program in form, or None and why not.

    Args:
        func: the program.
        target: the machine.
        wanted: what the form is to have.
        last: whether also what is tried last.
    """
    begun = conditions.single(func)
    if not plain_blocks(begun.func):
        return None, ""
    trims.unread(begun)
    first = _after(begun, target, (
        (wanted.chosen, True, lambda sch: chosen.apart(sch, target)),
        (wanted.returned, True, handed.between),
        (wanted.handed, False, handed.apart),
        (wanted.digits, True, lambda sch: digits.apart(sch, target, wanted.ranged, wanted.shared, wanted.grouped)),
        (wanted.beside, True, lambda sch: beside.apart(sch, target)),
        (wanted.filtered, True, lambda sch: filtering.apart(sch, target)),
    ))
    if first is None:
        return None, ""
    begun = first
    if (wanted.settled and not turned.many(begun.func)) or (wanted.lone and not lone.joins(begun.func)):
        return None, ""
    if wanted.finer and (is_packed(begun.func, target) or not gathers.coarser(begun.func)):
        return None, ""
    if wanted.loaded:
        stages = units.single(begun)
        loaded = joined.with_given(stages or begun, target) or stages
        if loaded is None and not wanted.finer:
            return None, ""
        begun = loaded or begun
    then = _after(begun, target, (
        (wanted.moved, True, lambda sch: moving.apart(sch, target)),
        (wanted.returned, False, handed.apart),
        (wanted.crossed, True, lambda sch: crossed.apart(sch, target)),
        (wanted.everywhere, True, lambda sch: everywhere.apart(sch, target)),
    ))
    if then is None:
        return None, ""
    begun = then
    cut = None if wanted.whole else _trimmed(begun, func, target)
    if cut is not None:
        found, why = _from(cut, func, target, wanted, last)
        # What is cut may have fewer of the forms that need not be; where it has none at all, the program stays whole.
        if found is not None or (wanted != wanted.plain and _from(cut, func, target, wanted.plain, last)[0] is not None):
            return found, why
    return _from(begun, func, target, wanted, last)


def _after(
    begun: Schedule, target: Target, rules: Sequence[tuple[bool, bool, Callable[[Schedule], Schedule | None]]]
) -> Schedule | None:
    """A program after what is wanted of some rules, one after the other; None where one of these finds nothing to do.

    Args:
        begun: of the program.
        target: the machine.
        rules: of each whether it is wanted, whether it is for programs alone that are in no form yet, and what it makes of one.
    """
    for wanted, plain, rule in rules:
        if wanted:
            made = None if plain and is_packed(begun.func, target) else rule(begun)
            if made is None:
                return None
            begun = made
    return begun


def _trimmed(begun: Schedule, func: PrimFunc, target: Target) -> Schedule | None:
    """A program with less to sum up, if there is less: whatever is wanted of its form, that is looked for once."""
    found, why = reached.onwards(func, begun, target, trims.apart)
    return trims.apart(begun, target) if why else found  # which raises what is in the way


def _from(begun: Schedule, func: PrimFunc, target: Target, wanted: Wanted, last: bool) -> tuple[Schedule | None, str]:
    """As ``attempt``, of a program of plain blocks that ``func`` has been brought into."""
    found, why = _in_some_way(begun, func, target, wanted)
    if why or (found is not None and copies.unloadable(found.func)):
        # What several copies read costs the host no more, if it makes it, than the parameter itself; others had points first.
        for way in (copies.inlined, copies.hosted) if why else (copies.hosted, copies.inlined, copies.laid_out):
            read = way(begun)
            other = None if read is None else _in_some_way(read, func, target, wanted)[0]
            if other is not None and (why or not copies.unloadable(other.func)):
                found, why = other, ""
                break
    if found is None and not is_packed(begun.func, target):
        # Flat tensors are taken apart only where nothing else leads to a form: others had points first.
        split = flat.apart(begun, target)
        if split is not None:
            found, why_split = _in_some_way(split, func, target, wanted)
            why = why_split or why  # what is flat still is what is in the way
    tried = not wanted.weights and _lacks_weights(begun.func, found, target)
    if tried:
        # The first way is the one mostly, in whichever way to the form.
        for ways in (1, turned.MOST_WAYS):
            other = _from(begun, func, target, wanted._replace(weights=ways), last)[0]
            if other is not None:
                return other, ""
    lack = _lack(found, why) if last and not wanted.weights else ""
    # Of a program that has a form as it is, another one is had in no other way than before.
    if lack and (wanted == wanted.plain or _unfit(*attempt(func, target, wanted.plain, False))):
        other = _at_last(begun, func, target, wanted, tried, lack == MOVED)
        if other is not None:
            return other, ""
    return found, why


def _lack(found: Schedule | None, why: str) -> str:
    """Why no schedule is known of what ``attempt`` has found: ``MOVED`` or ``COPY`` of what it has, else its reason; or ""."""
    if found is not None and copies.chooses(found.func):
        return MOVED
    if found is not None and (copies.unloadable(found.func) or copies.guards(found.func)):
        return COPY
    return why


def _unfit(found: Schedule | None, why: str) -> bool:
    """Whether no schedule is known of what ``attempt`` has found."""
    return bool(_lack(found, why))


def _at_last(
    begun: Schedule, func: PrimFunc, target: Target, wanted: Wanted, tried: bool, chooses: bool
) -> Schedule | None:
    """A form of a program to which nothing else leads; None where this does not either. All others had points first.

    What a product lacks may show only in parts of its sum, which stages read each by itself. Windows whose lanes move are written
    out, or the host makes all of the program's own copies of parameters, or both, or what stages read of these with zeros around.

    Args:
        begun: of a program of plain blocks.
        func: the program as its user wrote it.
        target: the machine.
        wanted: what the form is to have.
        tried: whether every way to make weights of what the program makes has led nowhere.
        chooses: whether all that is in the way is what is moved by place, of which the host's copy costs less than limits do.
    """
    spelt = units.written_out(begun)
    hosted = [copies.guarded(begun), *[copies.hosted(sch, every=True) for sch in (begun, *spelt)]]
    others = [h for h in hosted if h is not None]
    for sch in (*others, begun, *spelt) if chooses else (begun, *spelt, *others):
        # Of the program as it is everything else has been tried.
        found = None if sch is begun else _in_some_way(sch, func, target, wanted)[0]
        found = found or _laid_out(sch, func, target, wanted, OTHERWISE)[0]
        if found is not None and not (_unfit(found, "") or _elsewhere(found) or copies.filled_otherwise(found.func)):
            return found
    # Beside a factor that is given, what the program makes may be the weight: tokens are mixed so, and channels then.
    for ways in (1, turned.MOST_WAYS) if not tried and turned.may(begun.func) and not is_packed(begun.func, target) else ():
        found = _in_some_way(begun, func, target, wanted._replace(weights=ways))[0]
        if not _unfit(found, "") and found is not None:
            return found
    # A few channels fill fewer lanes than images and taps would, were what the program makes a weight, which it is not here.
    products = [p for b in device_blocks(begun.func) if (p := product_of(b)) is not None]
    if wanted.given or not {f.buffer for p in products for f in p.factors} & written(begun.func):
        return None
    found = _in_some_way(begun, func, target, wanted._replace(given=True))[0]
    return None if _unfit(found, "") else found


def _lacks_weights(func: PrimFunc, found: Schedule | None, target: Target) -> bool:
    """Whether what is in the way of a form, or of its schedule, may be that no weight is made of what the program makes."""
    if found is None:
        return not is_packed(func, target) and (turned.applies(func) or terms.applies(func))
    return not target.multiplies and diagonal.remains(found.func)


def _in_some_way(begun: Schedule, func: PrimFunc, target: Target, wanted: Wanted) -> tuple[Schedule | None, str]:
    """As ``attempt``, of a program of plain blocks with the tensors that it has."""
    own = begun.func
    found, why = _laid_out(begun, func, target, wanted, AS_IT_IS)
    inside = any(rule.applies(own) for rule in (parts, joined, versions)) or factors.applies(own, target)
    inside = inside or lacking.compares(own) or (found is None and terms.applies(own))  # others had points first
    if inside or _needs(own if found is None else found.func, target, found is None):
        other = _laid_out(begun, func, target, wanted, OTHERWISE)[0]
        found, why = (found, why) if other is None else (other, "")
    if (found is None and bool(why)) or (found is not None and _elsewhere(found)):
        other = _laid_out(begun, func, target, wanted, APART)[0]
        if other is not None and not _elsewhere(other):
            return other, ""
    if wanted.ones and found is not None and lacking.lacks(found.func, target, True):
        # A factor of a sum that is read without it as well is none of its terms', and nothing else multiplies by it.
        return None, ""
    return found, why


def _elsewhere(sch: Schedule) -> bool:
    """Whether a form has no schedule because a stage reads sums elsewhere than it stores, or what lies as others want it."""
    device = split_host(sch.func).device
    return joined.elsewhere(device) or widening.lacks(device)


def _needs(func: PrimFunc, target: Target, unpacked: bool) -> bool:
    """Whether a form lacks something that another one has. Only then there is another: a form is part of what a point means."""
    away = any(b.init is None and negation.takes_away_loads(store_of(b).value) for b in device_blocks(func))
    return away or lacking.lacks(func, target, not unpacked) or starts.applies(func, target) or counted.applies(func) or (
        unpacked and (units.applies(func) or gathers.flattens(func))) or groups.applies(func) or choices.applies(func)


def _laid_out(
    begun: Schedule, func: PrimFunc, target: Target, wanted: Wanted, otherwise: int
) -> tuple[Schedule | None, str]:
    """As ``_in_some_way``, in one of the ways that there are."""
    found, why = _formed(begun, func, target, wanted, False, otherwise)
    # Of what several products read each may want another layout. Two layouts of one copy are for where copies of their own are no
    # way: these had points first.
    shared = found is not None and not otherwise and gathers.shared(found)
    shared |= found is not None and otherwise == APART and widening.lacks(split_host(found.func).device)
    if why or shared or (found is None and not is_packed(begun.func, target)):
        other = _formed(begun, func, target, wanted, True, otherwise)[0]
        return (found, why) if other is None else (other, "")
    return found, why


def _formed(
    begun: Schedule, func: PrimFunc, target: Target, wanted: Wanted, alone: bool, otherwise: int
) -> tuple[Schedule | None, str]:
    """As ``_laid_out``; where ``alone``, with copies of its own for every product."""
    turning = wanted.only("weights")._replace(weights=min(wanted.weights, 1))  # whether, not in how many ways
    asked = wanted.only("fused", "cropped", "loaded", "filled", "lone").also(turning)
    sch, why = reached.onwards(func, begun, target, _in_values, wanted=asked, otherwise=otherwise)
    # Each goes on from where others may have come to, with a part of what is wanted of the form.
    if sch is not None and is_packed(sch.func, target):
        sch, why = reached.onwards(func, sch, target, _as_packed, wanted=turning)
    elif sch is not None and wanted.weights:
        asked = wanted.only(*LAID_OUT, "flat", "given", "weights", "settled")
        sch, why = reached.onwards(func, sch, target, _with_weights, wanted=asked, alone=alone, otherwise=otherwise, program=func)
    elif sch is not None:
        asked = wanted.only(*LAID_OUT)
        sch, why = reached.onwards(func, sch, target, _arranged, wanted=asked, alone=alone, otherwise=otherwise)
        if sch is not None:
            asked = wanted.only("flat", "banded", "given")
            sch, why = reached.onwards(func, sch, target, _in_elements, wanted=asked, shifted=otherwise == APART)
    if sch is not None:
        asked = wanted.only("differences", "kept", "slid", "bordered", "doubled", "loaded", "lone").also(turning)
        sch, why = reached.onwards(func, sch, target, _ended, wanted=asked, otherwise=bool(otherwise))
    if sch is None:
        return None, why  # what is in the way of a schedule of the program as it is, analysis says
    if sch.trace.insts and not is_packed(sch.func, target):
        return None, ("what reads a tensor wants its elements in different ways: give the program a parameter twice, or let what "
                      "is made be an int8 result and read it in another program")
    return (sch if sch.trace.insts else None), ""


def _in_values(sch: Schedule, target: Target, wanted: Wanted, otherwise: int) -> Schedule | None:
    """Brings what a program stores, and where, into what the machine has; None where there is no such form.

    Raises:
        ScheduleError: a primitive refuses.
    """
    if not is_packed(sch.func, target):
        copies.require_one_value(sch.func)
    initial.plainly(sch, target)
    wide.apply(sch, target)
    if otherwise:
        versions.apply(sch, target)
        joined.apply(sch, target)
        if otherwise == APART:
            joined.read(sch, target)
        parts.apply(sch, target)
        gathers.stages(sch, target)
        groups.rows(sch, target)
        gathers.spelt(sch, target)
    conditions.apply(sch, target)
    values.apply(sch, target)
    negation.products(sch, target)
    if otherwise:
        counted.apply(sch, target)
        choices.apply(sch, target)
        starts.apply(sch, target)
        factors.apply(sch, target)
        scaled.apply(sch, target)
        lacking.apply(sch, target)
        choices.apply(sch, target)  # what is compared with its place is less it now
    moves.apply(sch, target)
    reversal.results(sch, target)
    results.apply(sch, target)
    if wanted.filled and not filling.apply(sch, target):
        return None
    offsets.apply(sch, target)
    if otherwise:
        terms.apply(sch, target)
    gathers.stages(sch, target)
    gathers.results(sch, target)
    if wanted.fused:
        made = fused.apply(sch, target)
        if made is None:
            return None
        sch = made
    else:
        sch = places.apart(sch, target, wanted.cropped)
    negation.apply(sch, target)
    if otherwise:
        starts.apply(sch, target)  # a sum made negative starts with the negative of what it started with
    diagonal.apart(sch, target, bool(wanted.weights))
    again.apply(sch, target)
    epilogue.apply(sch, target, wanted.loaded)
    if wanted.lone:
        lone.apply(sch, target)
    clips.apply(sch, target)
    sums.apply(sch, target)
    if not wanted.weights:
        diagonal.apply(sch, target)  # else when it is known what the program makes
    return sch


def _as_packed(sch: Schedule, target: Target, wanted: Wanted) -> Schedule | None:
    """Brings the loops of a program whose tensors are packed into an order; as for ``_in_values``."""
    loops.arranged(sch, target)
    if wanted.weights:
        diagonal.apply(sch, target, True)
    return sch


def _ended(sch: Schedule, target: Target, wanted: Wanted, otherwise: bool) -> Schedule | None:
    """Brings what is in whole elements into nests; as for ``_in_values``."""
    if is_packed(sch.func, target):
        if any(step.op in ("negate_factor", "split_factor") for step in sch.trace.insts):
            # Products by element are sums only now. Without differences they stay apart, as points of theirs have it.
            sums.apply(sch, target)
        if wanted.differences and not windows.apply(sch, target, wanted.kept, wanted.slid, wanted.bordered):
            return None
        if wanted.doubled and not doubled.apply(sch, target):
            return None
        delays.apply(sch, target)
        with suppress(ScheduleError), sch.all_or_none():  # where it cannot be, operands of int8 are what is in the way
            widening.apply(sch, target, wanted.loaded, wanted.lone)
        if wanted.weights:
            sums.apply(sch, target)  # products by element are sums only now, and what is added to them is widened
        if otherwise and lacking.lacks(sch.func, target, True):
            # What the program narrows itself is in the accumulator still: the GEMM makes no product of it.
            lacking.apply(sch, target, True)
            negation.apply(sch, target)
        if otherwise:
            negation.narrow_all(sch)  # what no product takes away
        if otherwise and any(step.op == "choose_by_switches" for step in sch.trace.insts):
            # What is compared is compared for every limit, and of int8 in the accumulator only now.
            negation.apply(sch, target)
            again.apply(sch, target)
        values.apply(sch, target)
        clips.apply(sch, target)
        epilogue.loaded(sch, target)
        reclips.apply(sch, target)
        again.given_once(sch)
        apart.apply(sch, target)
    return sch


def _arranged(sch: Schedule, target: Target, wanted: Wanted, alone: bool, otherwise: int) -> Schedule | None:
    """Brings what is to be laid out in elements into an order, as far as the rules know; as for ``_in_values``."""
    if alone:
        copies.apart(sch, target, otherwise == APART)
    extra = [units.apply] if otherwise else []
    heads, far = ([groups.heads, gathers.plainly], [packing.shifted]) if otherwise == APART else ([], [])
    grouped = groups.shared if otherwise == OTHERWISE else groups.apply
    for rule in (*COPYING, *heads, *extra, *ARRANGING, grouped, *far):
        rule(sch, target)
    if (wanted.gathered and not gathering.apply(sch, target)) or (wanted.repeated and not groups.repeated(sch, target)):
        return None
    if wanted.sliding and not sliding.apply(sch, target):
        return None
    if wanted.squared and not banding.apply(sch, target, True):
        return None
    return None if wanted.banded and not banding.apply(sch, target, ones=wanted.ones) else sch


def _in_elements(
    sch: Schedule, target: Target, wanted: Wanted, shifted: bool, weights: frozenset[str] = frozenset()
) -> Schedule | None:
    """Lays tensors out in whole elements, as far as the rules know; None where there is no such form.

    Args:
        sch: of the program, in an order.
        target: the machine.
        wanted: what the form has.
        shifted: whether tensors of their own are made for what lies shifted in an element.
        weights: names of blocks that copy what others make, to be read as weights.

    Raises:
        ScheduleError: a primitive refuses.
    """
    def pack(laid_out: Schedule) -> bool:
        gathers.apply(laid_out, target)
        if wanted.flat and not planes.apply(laid_out, target):
            return False

        def elements(tried: Schedule, rows: Names) -> None:
            packing.apply(tried, Way(target, shifted, weights, wanted.flat, rows, wanted.given, wanted.settled))

        batches.apply(laid_out, target, elements)
        repeats.apply(laid_out, target)
        diagonal.apply(laid_out, target, bool(wanted.weights))
        return True

    if wanted.flat or wanted.banded:  # there places fill the lanes that channels leave empty
        return sch if pack(sch) else None
    merging.apply(sch, target, pack)
    return sch


def _with_weights(
    sch: Schedule, target: Target, wanted: Wanted, alone: bool, otherwise: int, program: PrimFunc
) -> Schedule:
    """A schedule whose tensors are laid out, some of those that the program makes as weights; ``program`` is its user's.

    Raises:
        ScheduleError: as for packing, whichever these are.
    """
    refused = None
    way = Way(target, given=wanted.given)
    # What lays places or windows out otherwise has other lanes; else a choice of which surely nothing comes is left out. What is
    # in the way is said of the first one.
    asked = wanted.only(*LAID_OUT, "flat") != Wanted()

    def may(blocks: Sequence[Block], copies: Names, chosen: agree.Weights) -> bool:
        return asked or refused is None or agree.agree(blocks, replace(way, copies=copies), chosen)

    found = turned.agreed(sch, alone, wanted.weights, way) if wanted.settled else turned.ways(sch, alone, may, wanted.weights)
    wanted = wanted._replace(weights=1)  # in how many ways says what is tried, and not what comes of it
    for trial, weights in found:
        try:
            if alone:
                copies.apart(trial, target, otherwise == APART)
        except ScheduleError as error:
            refused = refused or error
            continue
        # Several choices and ways come here by the same steps: where nothing is computed again, or no parameter is copied.
        made, why = reached.onwards(program, trial, target, _as_weights, wanted=wanted, weights=weights, otherwise=otherwise)
        if made is not None:
            return made
        refused = refused or (unfit(why) if why else None)
    raise refused or unfit("no factor of a product that the program makes can be read as a weight")


def _as_weights(sch: Schedule, target: Target, wanted: Wanted, weights: Names, otherwise: int) -> Schedule | None:
    """A schedule whose tensors are laid out, those that some blocks store as weights; as for ``_in_values``."""
    if _arranged(sch, target, wanted, False, otherwise) is not None:
        _in_elements(sch, target, wanted, otherwise == APART, weights)
    if not is_packed(sch.func, target):
        return None
    if turned.cuts(sch.func):
        raise unfit("what the program makes would be read in single lanes")
    return sch
