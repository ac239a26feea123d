"""Construction of frozen nodes, which is what a rewrite of a program spends most of its time on."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T")


def quick(cls: type[T]) -> type[T]:
    """Lets a frozen dataclass with slots fill its slots directly.

    What ``dataclass`` writes for a frozen class looks every field up by its name; here each is stored by its slot's descriptor,
    which takes a little over half as long. Parameters, defaults, order and ``__post_init__`` are those of the dataclass.

    Args:
        cls: a frozen dataclass with ``slots=True``, without fields that are ``init=False`` or for keywords alone.

    Raises:
        TypeError: another class.
    """
    known = fields(cls)  # type: ignore[arg-type]
    if any(not f.init or f.kw_only or f.name not in cls.__dict__ for f in known):
        raise TypeError(f"{cls.__name__} is no dataclass of slots that are all given by position")
    names: dict[str, Any] = {"_missing": MISSING}
    parameters, body = ["self"], []
    for f in known:
        names[f"_set_{f.name}"] = cls.__dict__[f.name].__set__
        value = f.name
        if f.default is not MISSING:
            names[f"_default_{f.name}"] = f.default
            parameters.append(f"{f.name}=_default_{f.name}")
        elif f.default_factory is not MISSING:
            names[f"_make_{f.name}"] = f.default_factory
            parameters.append(f"{f.name}=_missing")
            value = f"_make_{f.name}() if {f.name} is _missing else {f.name}"
        else:
            parameters.append(f.name)
        body.append(f"_set_{f.name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body), names)
    made = names["__init__"]
    made.__qualname__, made.__annotations__ = f"{cls.__qualname__}.__init__", cls.__init__.__annotations__
    cls.__init__ = made  # type: ignore[method-assign]
    return cls
