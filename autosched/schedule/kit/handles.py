"""Handles: what primitives return and later primitives take, and what is said where one does not fit."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from autosched.errors import AutoschedError, ScheduleError

if TYPE_CHECKING:
    from autosched.schedule.kit.base import ScheduleBase


class RV:
    """A handle that a primitive returns and later primitives take; equal only to itself.

    Printed, it is what it stands for now in the schedule that made it: ``for i in range(128)``; its ``repr`` is
    ``<LoopRV 3: i>``, where the number tells the handles of a process apart.
    """

    __slots__ = ("__weakref__",)
    prefix = "v"

    def __str__(self) -> str:
        sch = self._maker()
        return repr(self) if sch is None else sch.header(self)

    def __repr__(self) -> str:
        sch = self._maker()
        what = "of no schedule here" if sch is None else sch.label(self)
        number = f" {MAKERS[self][1]}" if self in MAKERS else ""
        return f"<{type(self).__name__}{number}: {what}>"

    def _maker(self) -> ScheduleBase | None:
        found = MAKERS.get(self)
        return None if found is None else found[0]()


# Not in the handles themselves, which are plain tokens that pickle: the schedule that made one, and a number.
MAKERS: WeakKeyDictionary[RV, tuple[ref[ScheduleBase], int]] = WeakKeyDictionary()
NUMBERS = itertools.count()


class BlockRV(RV):
    """A handle of a block."""

    __slots__ = ()
    prefix = "b"


class LoopRV(RV):
    """A handle of a loop."""

    __slots__ = ()
    prefix = "l"


class ExprRV(RV):
    """A handle of an integer that was sampled; in arithmetic (an index map, a factor) it is that integer."""

    __slots__ = ()
    prefix = "v"

    def __index__(self) -> int:
        sch = self._maker()
        if sch is None:
            raise TypeError("the schedule that sampled this integer is gone, or it was read from a trace")
        return int(sch._value(self))

    def __add__(self, other: Any) -> Any:
        return int(self) + other

    def __radd__(self, other: Any) -> Any:
        return other + int(self)

    def __sub__(self, other: Any) -> Any:
        return int(self) - other

    def __rsub__(self, other: Any) -> Any:
        return other - int(self)

    def __mul__(self, other: Any) -> Any:
        return int(self) * other

    def __rmul__(self, other: Any) -> Any:
        return other * int(self)

    def __floordiv__(self, other: Any) -> Any:
        return int(self) // other

    def __rfloordiv__(self, other: Any) -> Any:
        return other // int(self)

    def __mod__(self, other: Any) -> Any:
        return int(self) % other

    def __rmod__(self, other: Any) -> Any:
        return other % int(self)


class UnknownRVError(ScheduleError, IndexError):
    """A handle that this schedule did not make, or has forgotten."""

    usual = "handle"


class StaleRVError(ScheduleError, ValueError):
    """A handle of a loop or block that is no longer in the program."""

    usual = "handle"


class ArgumentError(ScheduleError, TypeError, ValueError):
    """An argument of a kind or value that the parameter does not take, or arguments that do not fit the signature."""

    usual = "argument"


class NoFunctionError(AutoschedError, ValueError):
    """A module of several functions, and none was chosen."""


class Special:
    """A place that is no loop, as ``sample_compute_location`` may return: the root, or inlined."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> str:
        return "AT_ROOT" if self.name == "root" else "AT_INLINE"


AT_ROOT = Special("root")
AT_INLINE = Special("inline")


def describe(value: object) -> str:
    """A value as an error message names it."""
    if isinstance(value, RV):
        return {"b": "a block", "l": "a loop", "v": "a sampled integer"}[value.prefix]
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:37] + "...")
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, list | tuple | set | frozenset | dict):
        return f"a {type(value).__name__} of {len(value)}"
    name = type(value).__name__
    return f"a{'n' if name[:1].lower() in 'aeiou' else ''} {name}"
