"""Arguments of primitives in traces: the handles in them, and how they are written as JSON and as Python text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from autosched.ir.expr import IntImm
from autosched.ir.index_map import IndexMap
from autosched.ir.print_expr import float_text, quoted
from autosched.schedule.kit.base import RV
from autosched.schedule.kit.shared import PLAIN

# How argument values that are no plain data are written: tag in JSON -> (class, to plain data, from it, to Python
# text).
CODECS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], str]]] = {}


def register_codec(
    tag: str, cls: type, to_data: Callable[[Any], Any], from_data: Callable[[Any], Any], to_text: Callable[[Any], str]
) -> None:
    """Lets traces hold arguments of a class.

    Args:
        tag: key in JSON, starting with ``$``.
        cls: the class.
        to_data: a value as plain data.
        from_data: the value of such data.
        to_text: a value as Python text, an expression that the primitive accepts.
    """
    CODECS[tag] = (cls, to_data, from_data, to_text)


def _map_text(mapping: IndexMap) -> str:
    """A map as Python; a constant result is written as an expression of an index, as TVM takes no bare numbers there."""
    if not mapping.initial or not any(isinstance(e, IntImm) for e in mapping.final):
        return str(mapping)
    from autosched.ir.printer import expr_text

    index = mapping.initial[0].name
    items: list[str] = []
    for n, e in enumerate(mapping.final):
        items += ["AXIS_SEPARATOR"] * mapping.axis_separators.count(n)
        items.append(f"{index} * 0{f' + {e.value}' if e.value else ''}" if isinstance(e, IntImm) else expr_text(e))
    names = ", ".join(v.name for v in mapping.initial)
    return f"lambda {names}: ({', '.join(items)}{',' if len(items) == 1 else ''})"


register_codec("$map", IndexMap, IndexMap.to_data, IndexMap.from_data, _map_text)


def collect_handles(values: Iterable[Any], found: list[RV]) -> None:
    """The handles among values, also inside lists and maps, in order."""
    for value in values:
        if isinstance(value, RV):
            found.append(value)
        elif type(value) in PLAIN:
            continue
        elif isinstance(value, list | tuple):
            collect_handles(value, found)
        elif isinstance(value, Mapping):
            collect_handles(value.values(), found)


def name_of(rv: RV | None, names: dict[RV, str]) -> str:
    """What a handle is called in a trace; one that has no name yet gets the next (``b0``, ``l1``, ``v2``).

    Args:
        rv: the handle, or None for a result that is none.
        names: those so far.
    """
    if rv is None:
        return "_"
    found = names.get(rv)
    if found is None:
        found = names[rv] = f"{rv.prefix}{len(names)}"
    return found


def encoded(value: Any, names: Mapping[RV, str], bare: bool) -> Any:
    """An argument as JSON has it.

    Args:
        value: it.
        names: what handles are called.
        bare: whether all strings are names of handles, which then stand by themselves.
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, RV):
        return names[value] if bare else {"$rv": names[value]}
    if isinstance(value, list | tuple):
        return [encoded(v, names, bare) for v in value]
    if isinstance(value, Mapping):
        return {k: encoded(v, names, bare) for k, v in value.items()}
    for tag, (cls, to_data, _, _) in CODECS.items():
        if isinstance(value, cls):
            return {tag: to_data(value)}
    return value


def decoded(value: Any, rvs: Mapping[str, RV], bare: bool, index: int) -> Any:
    """The argument that JSON stands for.

    Args:
        value: as it is in JSON.
        rvs: handles by name.
        bare: as for ``encoded``.
        index: of the instruction, for refusals.

    Raises:
        ValueError: a name that no handle has.
    """
    if isinstance(value, str) and bare:
        if value not in rvs:
            raise ValueError(f"instruction {index} of the trace uses {value!r}, which no earlier instruction defines")
        return rvs[value]
    if type(value) in PLAIN:
        return value
    if isinstance(value, list):
        return [decoded(v, rvs, bare, index) for v in value]
    if isinstance(value, Mapping):
        if set(value) == {"$rv"}:
            return decoded(value["$rv"], rvs, True, index)
        tag = next(iter(value), "")
        if len(value) == 1 and tag in CODECS:
            return CODECS[tag][2](value[tag])
        return {k: decoded(v, rvs, bare, index) for k, v in value.items()}
    return value


def value_text(value: Any, names: Mapping[RV, str] | None) -> str:
    """An argument as Python text.

    Args:
        value: it.
        names: what handles are called; None for ``_`` in the place of all.
    """
    if isinstance(value, RV):
        return "_" if names is None else names.get(value, "_")
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float):
        text = float_text(value)
        return f"float({text})" if text.startswith('"') else text
    if isinstance(value, list):
        return "[" + ", ".join(value_text(v, names) for v in value) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(value_text(v, names) for v in value) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{value_text(k, names)}: {value_text(v, names)}" for k, v in value.items()) + "}"
    for cls, _, _, to_text in CODECS.values():
        if isinstance(value, cls):
            return to_text(value)
    return repr(value)
