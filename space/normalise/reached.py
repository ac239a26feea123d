"""Where ways to a form have come to: what several of them do alike is done once.

Ways differ in a rule or two, of which most change nothing of most programs. What is left to do depends on the program that a way
has come to, on the steps that led there (they are part of a form), and on what is still asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from autosched.errors import ScheduleError
from autosched.ir.remembered import remembered
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.target import Target

KEPT = 4  # programs of which is remembered where ways lead
Found = tuple[Schedule | None, str]
_FOUND: dict[int, tuple[PrimFunc, dict[Hashable, Found]]] = {}


def onwards(func: PrimFunc, sch: Schedule, target: Target, rules: Callable[..., Schedule | None], **asked: Hashable) -> Found:
    """Where a way leads, with a schedule of the caller's own; or None and why nowhere.

    Args:
        func: the program in which all ways begin.
        sch: where this one has come to, by steps of its trace; it stays as it is.
        target: the machine.
        rules: go on with the schedule that they are given, for that machine; None where there is no such form.
        asked: all else that they are given, and so all that they depend on.
    """
    known = remembered(_FOUND, func, _nothing, KEPT)
    key = (rules.__name__, target, tuple(sch.trace.as_python()), *asked.items())
    if key not in known:
        try:
            known[key] = rules(sch.copy(), target, **asked), ""
        except ScheduleError as error:
            # A primitive that refuses says that the program is of no form that these rules know.
            known[key] = None, error.reason
    found, why = known[key]
    return (None if found is None else found.copy()), why


def _nothing(func: PrimFunc) -> dict[Hashable, Found]:
    return {}
