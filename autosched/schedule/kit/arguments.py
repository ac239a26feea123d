"""Arguments of primitives: what each parameter takes, read from its annotation, and the one line that refuses the rest.

An annotation is an alternation (``|``) of the names below, of ``Sequence[...]``, ``list[...]``, ``tuple[...]`` and
``Callable[...]``. A name that is not known here takes anything.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from autosched.ir.expr import Expr, FloatImm, IntImm, StringImm
from autosched.ir.index_map import IndexMap
from autosched.ir.stmt import Buffer
from autosched.schedule.kit.base import RV, BlockRV, ExprRV, LoopRV, describe

_TOKENS = re.compile(r"\w+|[\[\]|,]|\.\.\.")
_LIMIT = 1 << 63
_INTS = frozenset({"int", "ExprRV"})
_WORDS = {
    "bool": ("True or False", "booleans"), "int": ("an integer", "integers"), "float": ("a number", "numbers"),
    "str": ("a string", "strings"), "BlockRV": ("a block (its handle or name)", "blocks (handles or names)"),
    "LoopRV": ("a loop (its handle or name)", "loops (handles or names)"), "ExprRV": ("an integer", "integers"),
    "Buffer": ("a buffer", "buffers"), "IndexMap": ("an IndexMap", "index maps"), "Expr": ("an expression", "expressions"),
    "Callable": ("a function of the indices", "functions of the indices"), "None": ("None", "None"),
}
_CLASSES: dict[str, type] = {
    "BlockRV": BlockRV, "LoopRV": LoopRV, "ExprRV": ExprRV, "Buffer": Buffer, "IndexMap": IndexMap, "Expr": Expr,
}
_INSTANCES = frozenset({"Buffer", "IndexMap", "Expr"})
_KNOWN = _WORDS.keys() | {"Sequence", "tuple"}


@dataclass(frozen=True)
class Kind:
    """One alternative of an annotation.

    Args:
        name: a class, or ``Sequence``, ``tuple``, ``Callable``, ``Any``.
        items: what a sequence holds (one entry), or a tuple (one entry per position).
    """

    name: str
    items: tuple[tuple[Kind, ...], ...] = ()


class WrongArgument(Exception):
    """An argument that its parameter does not take; ``conform`` raises it.

    Args:
        what: what the argument, or a part of it, cannot be, as a message says it.
    """


@cache
def kinds_of(annotation: str) -> tuple[Kind, ...]:
    """The alternatives of an annotation."""
    tokens = _TOKENS.findall(annotation)
    found, _ = _alternatives(tokens, 0)
    return found


def _alternatives(tokens: Sequence[str], at: int) -> tuple[tuple[Kind, ...], int]:
    found: list[Kind] = []
    while at < len(tokens):
        name, at = tokens[at], at + 1
        items: list[tuple[Kind, ...]] = []
        if name == "[":  # the parameters of a Callable
            depth = 1
            while depth:
                depth += {"[": 1, "]": -1}.get(tokens[at], 0)
                at += 1
            name = "Any"
        elif at < len(tokens) and tokens[at] == "[":
            while tokens[at] != "]":
                inner, at = _alternatives(tokens, at + 1)
                items.append(inner)
            at += 1
        found.append(Kind({"list": "Sequence"}.get(name, name), tuple(items)))
        if at == len(tokens) or tokens[at] != "|":
            break
        at += 1
    return tuple(found), at


def conform(value: Any, kinds: tuple[Kind, ...]) -> Any:
    """A value as one of the alternatives takes it: what is traced is the same before and after a trip through JSON.

    Constants of the IR and NumPy numbers become Python numbers, and sequences lists.

    Args:
        value: the argument.
        kinds: what the parameter takes.

    Raises:
        WrongArgument: none takes it.
    """
    names = _names(kinds)
    return value if names is None else _conform(value, kinds, names)


@cache
def _names(kinds: tuple[Kind, ...]) -> frozenset[str] | None:
    """The names of the alternatives; None if one of them is not known, and takes anything."""
    names = frozenset(k.name for k in kinds)
    return names if names <= _KNOWN else None


@cache
def unchanged(annotation: str) -> frozenset[type]:
    """Classes all of whose own objects an annotation takes as they are: for most arguments nothing else is asked."""
    names = _names(kinds_of(annotation)) or frozenset()
    able = {type(None): "None" in names, bool: "bool" in names, float: "float" in names,
            str: bool(names & {"str", "BlockRV", "LoopRV"}), BlockRV: "BlockRV" in names, LoopRV: "LoopRV" in names}
    return frozenset(cls for cls, taken in able.items() if taken)


def _conform(value: Any, kinds: tuple[Kind, ...], names: frozenset[str]) -> Any:
    if value is None:
        if "None" in names:
            return None
        raise WrongArgument(describe(value))
    if isinstance(value, RV):
        if (isinstance(value, ExprRV) and names & _INTS) or type(value).__name__ in names:
            return value
        raise WrongArgument(describe(value))
    if names & _INSTANCES and any(isinstance(value, cls) for name, cls in _CLASSES.items() if name in names):
        return value
    plain = plain_number(value)
    if isinstance(plain, bool):
        if "bool" in names:
            return plain
    elif isinstance(plain, int):
        if not -_LIMIT <= plain < _LIMIT and names & (_INTS | {"float"}):
            raise WrongArgument("an integer beyond 64 bits")
        if names & _INTS or "float" in names:
            return plain
        if "bool" in names and plain in (0, 1):
            return bool(plain)
    elif isinstance(plain, float):
        if "float" in names:
            return plain
    elif isinstance(plain, str):
        if names & {"str", "BlockRV", "LoopRV"}:
            return plain
    elif "Callable" in names and callable(value) and not isinstance(value, type):
        return value
    else:
        items = _items(value)
        if items is not None:
            return _sequence(value, items, kinds)
    raise WrongArgument(describe(value))


def _sequence(value: Any, items: Sequence[Any], kinds: tuple[Kind, ...]) -> Any:
    for kind in kinds:
        if kind.name == "tuple" and len(items) == len(kind.items):
            return tuple(conform(v, k) for v, k in zip(items, kind.items))
        if kind.name == "Sequence":
            found: list[Any] = []
            for i, item in enumerate(items):
                try:
                    found.append(conform(item, kind.items[0]))
                except WrongArgument as error:
                    raise WrongArgument(f"{error} at position {i}") from None
            return found
    raise WrongArgument(describe(value))


def _items(value: Any) -> Sequence[Any] | None:
    """The elements of a list of some kind; None for anything else."""
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim == 1 else None
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return list(value)
    return None


def plain_number(value: Any) -> Any:
    """A constant of the IR, a NumPy number or an integer of another class as Python's; any other value as it is."""
    if isinstance(value, IntImm | FloatImm | StringImm):
        return bool(value.value) if value.dtype == "bool" else value.value
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    if isinstance(value, bool | type | np.ndarray) or type(value) in (int, float, str):
        return value
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)  # An enumeration prints as something else.
    if isinstance(value, str):
        return str.__str__(value)
    if hasattr(value, "__index__"):
        try:
            return operator.index(value)
        except TypeError:
            return value
    return value


def words(kinds: tuple[Kind, ...], plural: bool = False) -> str:
    """What some alternatives take, in words."""
    parts: list[str] = []
    names = {k.name for k in kinds}
    for kind in kinds:
        if kind.name in ("BlockRV", "LoopRV") and {"BlockRV", "LoopRV"} <= names:
            parts.append("blocks or loops" if plural else "a block or a loop (its handle, or a block's name)")
        elif kind.name == "str" and names & {"BlockRV", "LoopRV"}:
            continue
        elif kind.name == "Sequence":
            parts.append(f"a list of {words(kind.items[0], True)}")
        elif kind.name == "tuple":
            parts.append("(" + ", ".join(words(k) for k in kind.items) + ")")
        else:
            parts.append(_WORDS.get(kind.name, (f"a {kind.name}", f"{kind.name}s"))[plural])
    parts = list(dict.fromkeys(parts))
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " or " + parts[-1]


def fault(name: str, annotation: str, error: WrongArgument) -> str:
    """The line that refuses an argument.

    Args:
        name: the parameter.
        annotation: its type as written.
        error: what ``conform`` raised.
    """
    return f"argument {name!r} cannot be {error}; it takes {words(kinds_of(annotation))}"

