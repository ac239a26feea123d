"""Sketches: the forms of a program that structural rules make, each with a space of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.errors import ProgramError
from autosched.ir.host import split_host
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule, Trace
from autosched.target import Target
from space.model import Model
from space.nest import analyse
from space.normalise import normalised
from space.rule import NumericRule, StructuralRule


@dataclass(frozen=True, eq=False)
class Sketch:
    """One form of the program.

    Args:
        done: what structural rules did, in a few words each; nothing for the program as it is.
        prefix: the primitives that make it.
        model: geometry and columns of its nest.
    """

    done: tuple[str, ...]
    prefix: Trace
    model: Model


def sketches(
    func: PrimFunc, target: Target, structural: Sequence[StructuralRule], numeric: Sequence[NumericRule]
) -> tuple[Sketch, ...]:
    """All forms that a nest fits, the one with the most done first.

    Raises:
        ProgramError: none fits; the reason is that of the program as it is.
    """
    forms: list[tuple[tuple[str, ...], Schedule]] = [((), normalised(func, target))]
    for rule in structural:
        for done, sch in tuple(forms):
            forms += [((*done, text), other) for text, other in rule.apply(sch, target)]
    found: list[Sketch] = []
    refusal: ProgramError | None = None
    for done, sch in reversed(forms):
        try:
            host = split_host(sch.func)
            nest = analyse(host.device, target)
        except ProgramError as error:
            refusal = error
            continue
        # What the host unpacks is read inside the program, and a stage that is read cannot be cut.
        fitting = [rule for rule in numeric if not (rule.cuts and host.unpack)]
        found.append(Sketch(done, sch.trace, Model(nest, target, fitting)))
    if not found:
        assert refusal is not None
        raise refusal
    return tuple(found)
