"""Sketches: the forms of a program that structural rules make, each with a space of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from autosched.errors import ProgramError, ScheduleError, SpaceError
from autosched.ir.host import HostSplit, moves_only, split_host
from autosched.ir.scopes import ACC
from autosched.ir.stmt import Buffer, PrimFunc
from autosched.lower.capacity import Held, fits
from autosched.lower.limits import least_work, too_much
from autosched.schedule import Schedule, Trace
from autosched.schedule.kit.base import BlockRV
from autosched.target import Target
from space.model import LAID_OUT, Model
from space.nest import Nest, analyse
from space.normalise import JOINT, Wanted, normal_forms, trait_of, why_unpacked
from space.normalise.blocks import elements_of, named, written
from space.normalise.estimate import Estimate, estimate
from space.plan import Mask, Plan
from space.products import why_no_operand, why_no_operation, why_no_product, why_no_type, why_no_weight
from space.rule import Column, Ints, NumericRule, Points, StructuralRule
from space.sites import BorderError, NotPackedError, sites_of
from space.turns import Turn, turns_of
from space.words import refusal_of

# What forms have where no other has a schedule, in this order.
LAST = (
    Wanted(handed=True), Wanted(cropped=True), Wanted(handed=True, cropped=True), Wanted(loaded=True),
    Wanted(handed=True, loaded=True), Wanted(digits=True), Wanted(digits=True, ranged=True), Wanted(settled=True),
    Wanted(digits=True, settled=True), Wanted(digits=True, ranged=True, settled=True), Wanted(digits=True, shared=True),
    Wanted(digits=True, shared=True, settled=True), Wanted(beside=True), Wanted(chosen=True), Wanted(loaded=True, finer=True),
    Wanted(digits=True, shared=True, grouped=True), Wanted(handed=True, loaded=True, chosen=True), Wanted(returned=True),
    Wanted(digits=True, returned=True), Wanted(digits=True, ranged=True, returned=True), Wanted(beside=True, returned=True),
    Wanted(lone=True), Wanted(everywhere=True), Wanted(filtered=True),
)
CUT = 1 << 13  # micro-ops of a program from which on its parts are cut, whoever unpacks them


@dataclass(frozen=True, eq=False)
class Sketch:
    """One form of the program.

    Args:
        done: what structural rules did, in a few words each; nothing for the program as it is.
        prefix: the primitives that make it.
        models: geometry and columns of its nests, in program order.
        turns: when each of them runs.
        written: names of the tensors that the accelerator writes.
    """

    done: tuple[str, ...]
    prefix: Trace
    models: tuple[Model, ...]
    turns: tuple[Turn, ...]
    written: frozenset[str]

    @property
    def model(self) -> Model:
        """The only nest's, or the last one's."""
        return self.models[-1]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The decisions of all nests."""
        return tuple(c for model in self.models for c in model.columns)

    @cached_property
    def known(self) -> tuple[frozenset[int], ...]:
        """What each of them may be."""
        return tuple(frozenset(c.choices) for c in self.columns)

    @property
    def default(self) -> npt.NDArray[np.int32]:
        """The decisions of a point that decides nothing, shape (columns,)."""
        return np.array([c.default for c in self.columns], dtype=np.int32)

    @property
    def loosest(self) -> npt.NDArray[np.int32]:
        """The decisions that need the least memory, before any is repaired, shape (columns,)."""
        return np.array([c.default if c.loosest is None else c.loosest for c in self.columns], dtype=np.int32)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Their names: of several nests with that of the nest in front, which is its output block's."""
        if len(self.models) == 1:
            return tuple(c.name for c in self.columns)
        return tuple(f"{model.nest.out}.{c.name}" for model in self.models for c in model.columns)

    def split(self, rows: Points) -> Iterator[tuple[Model, Points]]:
        """Every nest with its columns of rows of shape (n, columns of the sketch); views, not copies."""
        at = 0
        for model in self.models:
            yield model, rows[:, at : at + len(model.columns)]
            at += len(model.columns)

    def capacity(self, plans: Sequence[Plan]) -> Mask:
        """Whether every memory holds all buffers, shape (n,).

        Args:
            plans: of the points, one for each nest.
        """
        return np.array(np.broadcast_to(fits(self.held(plans), self.models[0].target), len(plans[0])), dtype=np.bool_)

    def legal(self, rows: Points, plans: Sequence[Plan]) -> Mask:
        """Which rows every rule allows, whether they fit or not, shape (n,); ``plans`` says what they mean, nest by nest."""
        ok = np.ones(len(rows), dtype=np.bool_)
        for (model, own), plan in zip(self.split(rows), plans):
            for rule in model.overriding("allows"):
                ok &= rule.allows(model, own, plan)
        return ok

    def allowed(self, rows: Points) -> Mask:
        """Which rows are legal and fit the memories, shape (n,)."""
        plans = [model.plan(own) for model, own in self.split(rows)]
        # Most rows that are no points do not fit, which is seen sooner than all the rest.
        ok = self.capacity(plans)
        fitting = np.flatnonzero(ok)
        ok[fitting] = self.legal(rows[fitting], [plan.of(fitting) for plan in plans])
        return ok

    def held(self, plans: Sequence[Plan]) -> list[Held]:
        """What every buffer of all nests takes of its memory, as ``Model.held``."""
        parts = [0] * len(plans)
        for turn, plan in zip(self.turns, plans):
            parts[turn.number] = len(plan.parts)
        begins = [sum(parts[:n]) for n in range(len(parts))]
        held: list[Held] = []
        for model, plan, turn in zip(self.models, plans, self.turns):
            since = begins[turn.number]
            # What no nest writes is loaded before all of them where no loop is around it, and what is padded where that stands.
            fronts = {k: (since if o.name in self.written else 0, begins[turn.pads.get(k, turn.number)])
                      for k, o in enumerate(model.nest.operands)}
            held += model.held(plan, since, fronts)
        return held

    @cached_property
    def deciding(self) -> tuple[tuple[Model, slice, slice, NumericRule], ...]:
        """(nest, its columns, the rule's own ones, rule) of every rule that has a choice and breeds."""
        found = []
        for start, model in zip(self.starts, self.models):
            nest, at = slice(start, start + len(model.columns)), start
            for rule in model.rules:
                own = slice(at, at + len(model.owned(rule)))
                at = own.stop
                if rule.bred and any(len(c.choices) > 1 for c in model.owned(rule)):
                    found.append((model, nest, own, rule))
        return tuple(found)

    @cached_property
    def deciders(self) -> Ints:
        """By column, which of the deciding rules it is of; behind the last of them where it is of none."""
        found = np.full(len(self.columns), len(self.deciding), dtype=np.int64)
        for n, (_, _, own, _) in enumerate(self.deciding):
            found[own] = n
        return found

    @cached_property
    def tried(self) -> frozenset[int]:
        """The columns of rules that do not breed: they are tried around points, and drawn as they are by default."""
        found: set[int] = set()
        for start, model in zip(self.starts, self.models):
            own = {c.name for rule in model.rules if not rule.bred for c in model.owned(rule)}
            found |= {start + n for name, n in model.index.items() if name in own}
        return frozenset(found)

    @cached_property
    def weights(self) -> npt.NDArray[np.float64]:
        """How often each of the deciding rules is asked: as often as it has columns with a choice."""
        choices = [sum(len(c.choices) > 1 for c in model.owned(rule)) for model, _, _, rule in self.deciding]
        return np.array(choices) / max(sum(choices), 1)

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """Of numbers drawn between 0 and 1, those from which on each of the rules behind the first is asked."""
        sums = self.weights.cumsum()
        return tuple((sums / sums[-1]).tolist()[:-1]) if len(sums) else ()

    @cached_property
    def looping(self) -> tuple[Ints, Ints, Ints]:
        """The columns that say in which order loops are and what stays on chip; those of tiles, and which tiles are whole."""
        names = [column.name.rpartition(".")[2] for column in self.columns]
        kept = [n for n, name in enumerate(names) if name == "order" or name.startswith("keep_")]
        tiles = [n for n, name in enumerate(names) if name.startswith("tile_")]
        whole = [self.columns[n].default for n in tiles]
        return np.array(kept, dtype=np.int64), np.array(tiles, dtype=np.int64), np.array(whole, dtype=np.int64)

    @cached_property
    def loads(self) -> tuple[int, ...]:
        """The columns that say inside of how many loops it is loaded what products read."""
        return tuple(
            start + model.index[name] for start, model in zip(self.starts, self.models) for operand in model.nest.operands
            if operand.scope != ACC and (name := f"load_{operand.label}") in model.index
        )

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first column of every nest."""
        return tuple(int(n) for n in np.cumsum([0, *(len(m.columns) for m in self.models[:-1])]))


def _origins(host: HostSplit) -> dict[str, frozenset[str]]:
    """Of which tensors of the program the host makes each of its own, by name."""
    found: dict[str, frozenset[str]] = {}
    for stage in host.pack:
        *read, made = (buffer.name for buffer in stage.params)
        found[made] = frozenset[str]().union(*(found.get(name, {name}) for name in read))
    return found


def _unpacked(host: HostSplit) -> dict[str, int]:
    """How many elements the host takes of each tensor that the accelerator stores, at most; of what it only moves."""
    found: dict[str, int] = {}
    made = {b.name for b in written(host.device)}
    for stage in host.unpack:
        *read, result = (buffer for buffer in stage.params if isinstance(buffer, Buffer))
        for buffer in read if moves_only(stage) else ():
            found[buffer.name] = found.get(buffer.name, 0) + elements_of(result)
    whole = {b.name for stage in host.unpack if not moves_only(stage) for b in stage.buffers}
    return {name: count for name, count in found.items() if name not in whole and name in made}


def _again(sch: Schedule) -> dict[str, str]:
    """By the name of a block that makes again what another one makes, that block's: the first one's.

    Of a block that stores the diagonal of what is there already, ``LAID_OUT``.
    """
    found: dict[str, str] = {}
    for step in sch.trace.insts:
        if step.op not in ("recompute_at_consumers", "diagonal_by_gemm"):
            continue
        try:
            first, *others = [named(sch, made) for made in step.outputs if isinstance(made, BlockRV)]
        except ScheduleError:
            continue  # one of them has been inlined since: it stores nothing
        # The copies of the first block, or what is stored of the product that makes a diagonal.
        found |= dict.fromkeys(others, LAID_OUT if step.op == "diagonal_by_gemm" else found.get(first, first))
    return found


def sketches(
    func: PrimFunc, target: Target, structural: Sequence[StructuralRule], numeric: Sequence[NumericRule]
) -> tuple[Sketch, ...]:
    """All forms that nests fit, the one with the most done first.

    Raises:
        SpaceError: none fits; the reason is that of the program as it is.
    """
    forms = normal_forms(func, target)
    found, refusal = _fitting(forms, target, structural, numeric)
    if not found and any(step.op == "trim_reduction" for _, sch in forms for step in sch.trace.insts):
        # What is left of a sum may be none that a nest takes, where all of it is one. What is in the way is said of what is left.
        found = _fitting(normal_forms(func, target, Wanted(whole=True)), target, structural, numeric)[0]
    # A result that only moves what is computed may have nothing to be stored from, where the host moves it as it unpacks. What is
    # moved in between, or joined of it and of a parameter, is stored nowhere, where its readers load it from what it is made of.
    # And of a sum stages may read only what stands first; behind an offset it is made for that alone anyway. At last what blocks
    # take apart, as heads of attention, is several axes everywhere; and each range of a tensor that is read by itself, as
    # queries, keys and values that are made as one, is a tensor; or heads that share keys are two axes, of which these have one.
    # Where products are many, as in blocks behind each other, the weights among what the program makes are chosen for all of them
    # together then. And what stands behind a border, as tokens behind one of a class, is made where it goes; what is computed in
    # two ways is no stage, but two parts of a result; and what stages read of a coarser image is loaded from where it is stored,
    # or at digits of channels, where these are several axes everywhere. A result that is read besides may be moved, by the host,
    # from what is made so; and what the ALU reduces and a stage joins with something else may be stored in between. Sums that are
    # read for more lanes than they are made for are made for all of them, whatever that takes. And one filter that slides over
    # what the program makes is a matrix, by which all of that is multiplied.
    # The first of these counts; but where that makes diagonals of what is computed, a later one may do without, and take less.
    taken: list[Schedule] = []
    least: Estimate | None = None
    for base in LAST:
        if found and not (taken and all(map(_makes_diagonals, taken))):
            break
        others = normal_forms(func, target, base)
        fitting = _fitting(others, target, structural, numeric)[0]
        fits = [sch for done, sch in others if any(sketch.done == done for sketch in fitting)]
        takes = min((estimate(sch.func, target) for sch in fits), default=None)
        if takes is not None and (least is None or takes < least):
            found, taken, least = fitting, fits, takes
    if not found:
        assert refusal is not None
        raise _refused(func, target, refusal)
    return tuple(found)


def _makes_diagonals(sch: Schedule) -> bool:
    """Whether products by element have diagonals that the program makes: of every vector as many as it has lanes."""
    return any(step.op == "diagonal_by_gemm" for step in sch.trace.insts)


def _fitting(
    forms: list[tuple[tuple[str, ...], Schedule]], target: Target, structural: Sequence[StructuralRule],
    numeric: Sequence[NumericRule],
) -> tuple[list[Sketch], ProgramError | None]:
    """Those of a program's forms, and of what rules make of them, that nests fit; and why others do not."""
    for rule in structural:
        for done, sch in tuple(forms):
            forms += [((*done, text), other) for text, other in rule.apply(sch, target)]
    found: list[Sketch] = []
    refusal: ProgramError | None = None
    joint: list[Sketch] = []
    # What windows share need not stay, nor need the host gather them, nor what repeats be read once, nor what is moved be made
    # elsewhere, nor windows compare sums: no refusal is said of these forms, and they stand behind the others, which had points
    # first; behind all of them those with banded weights. Then come those of any with loads for several products, and at the very
    # end what there has been since (``Trait.last``): points say their sketch by its number.
    forms.reverse()
    of = {done: trait_of(done) for done, _ in forms}
    bordered = False  # whether what windows take in around a tensor keeps an earlier form from being one
    for done, sch in sorted(forms, key=lambda form: of[form[0]].last + (of[form[0]].later or of[form[0]].behind)):
        if of[done].later and not found and not bordered:
            continue
        try:
            host = split_host(sch.func)
            nests = analyse(host.device, target, of[done].around)
            shared = analyse(host.device, target, of[done].around, True) if any(nest.links for nest in nests) else nests
        except ProgramError as error:
            refusal = refusal if of[done].behind or bordered else error
            bordered = bordered or isinstance(error, BorderError)
            continue
        models, turns = _models(nests, sch, host, target, numeric)
        least = [least_work(m.padding.useful if m.nest.anchor else 0, m.out_elements, target.config) for m in models]
        reason = too_much(sum(least))
        if reason:
            refusal = SpaceError(reason, "machine")
            continue
        stored = frozenset(b.name for b in written(host.device))
        found.append(Sketch(done, sch.trace, models, turns, stored))
        if [nest.operands for nest in shared] != [nest.operands for nest in nests]:
            joint.append(Sketch((*done, JOINT), sch.trace, *_models(shared, sch, host, target, numeric), stored))
    return sorted([*found, *joint], key=lambda sketch: trait_of(sketch.done).last), refusal


def _models(
    nests: Sequence[Nest], sch: Schedule, host: HostSplit, target: Target, numeric: Sequence[NumericRule]
) -> tuple[tuple[Model, ...], tuple[Turn, ...]]:
    """The geometry and columns of a form's nests, and when each of them runs."""
    models, again, turns = [], _again(sch), turns_of(nests, sites_of(host.device))
    origins = _origins(host) if host.unpack else {}
    unpacked = _unpacked(host)
    for nest, turn in zip(nests, turns):
        # A stage that another nest reads cannot be cut; and of little work parts of its own, where the host unpacks what is
        # stored, or stores are several, would double what a search takes for less than it finds.
        whole = nest.between or ((host.unpack or nest.also) and prod(axis.extent for axis in nest.axes) < CUT)
        fitting = [rule for rule in numeric if not (rule.cuts and whole)]
        original = again.get(nest.out, "")
        models.append(Model(nest, target, fitting, len(nests), origins, host.pack, original, unpacked, host.unpack, turn.early))
    return tuple(models), turns


def _refused(func: PrimFunc, target: Target, refusal: ProgramError) -> ProgramError:
    """What is said of a program of which no form fits."""
    operation = why_no_operation(func)
    if operation is not None:
        # Whatever a form stumbles over, another one has it, too.
        return refusal_of(operation, func)
    unlaid = isinstance(refusal, NotPackedError) or (isinstance(refusal, SpaceError) and refusal.code == "result")
    why = why_unpacked(func, target) if unlaid else ""
    laid = SpaceError(f"{func.name} cannot be laid out for {target.name}: {why}", "layout") if why else refusal
    if isinstance(laid, SpaceError) and laid.code == "type":
        # A product that the machine lacks is why nothing widened an operand of it.
        product = None if target.multiplies else why_no_product(func)
        said = f"{target.name} cannot run {func.name}: {product}" if product else why_no_operand(func)
        laid = SpaceError(said or laid.message, laid.code)
    elif isinstance(laid, SpaceError) and laid.code in ("join", "index"):
        laid = SpaceError(why_no_weight(func, True) or laid.message, laid.code)
    elif isinstance(laid, SpaceError) and laid.code == "product":
        laid = SpaceError(why_no_product(func) or laid.message, laid.code)
    elif isinstance(laid, SpaceError) and laid.code in ("layout", "result"):
        weight = why_no_weight(func) if laid.code == "layout" else None
        typed = why_no_type(func)
        code = refusal.code if typed and isinstance(refusal, SpaceError) else laid.code
        laid = SpaceError(weight or typed or laid.message, code)
    return refusal_of(laid, func)
