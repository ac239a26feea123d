"""The names a program may use: ``T``, ``I``, and the older spellings of both."""

from __future__ import annotations

from typing import Any

from autosched.errors import UnknownNameError
from autosched.script import forms
from autosched.script.ops import COMMON_TYPES, OPS, TYPE_NAME

FORMS: dict[str, Any] = {
    "serial": forms.serial, "parallel": forms.parallel, "vectorized": forms.vectorized, "unroll": forms.unroll,
    "thread_binding": forms.thread_binding, "grid": forms.grid, "sblock": forms.sblock, "block": forms.sblock,
    "axis": forms.AxisForms(), "Buffer": forms.BufferForm(), "match_buffer": forms.match_buffer,
    "alloc_buffer": forms.alloc_buffer, "sblock_alloc_buffer": forms.alloc_buffer, "decl_buffer": forms.decl_buffer,
    "buffer_decl": forms.decl_buffer, "allocate": forms.allocate, "allocate_const": forms.allocate_const,
    "reads": forms.reads, "writes": forms.writes, "where": forms.where, "sblock_attr": forms.sblock_attr,
    "block_attr": forms.sblock_attr, "func_attr": forms.func_attr, "init": forms.init, "attr": forms.attr,
    "LetStmt": forms.let_stmt, "Assert": forms.assert_stmt, "launch_thread": forms.launch_thread,
    "env_thread": forms.env_thread, "evaluate": forms.evaluate, "let": forms.LetMarker(), "Let": OPS["Let"],
}
# Spellings of the oldest dialect, accepted but never suggested.
LEGACY: dict[str, Any] = {
    "bind": forms.bind, "reduce_axis": forms.legacy_axis("reduce"), "range": forms.legacy_axis("spatial"),
    "scan_axis": forms.legacy_axis("scan"), "opaque_axis": forms.legacy_axis("opaque"),
    "block_hint": forms.sblock_attr, "ptr": forms.DType("handle"),
}


class ScriptNameError(UnknownNameError, AttributeError):  # type: ignore[misc]
    """A name that the language does not have; also an AttributeError, so that ``hasattr(T, name)`` works."""


class Namespace:
    """An object whose attributes are the names of the language; unknown ones are refused with the nearest.

    Args:
        title: how it is written, e.g. ``T``.
        names: what it holds.
        hidden: names that it holds and does not suggest.
        types: whether ``int32`` and its like are among them.
    """

    def __init__(
        self, title: str, names: dict[str, Any], hidden: dict[str, Any] | None = None, types: bool = False
    ) -> None:
        self._title = title
        self._names = names
        self._hidden = hidden or {}
        self._types = types

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._names:
            return self._names[name]
        if name in self._hidden:
            return self._hidden[name]
        if self._types and (name == "boolean" or TYPE_NAME.match(name)):
            return forms.DType("bool" if name == "boolean" else name)
        known = [*self._names, *(COMMON_TYPES if self._types else ())]
        raise ScriptNameError(f"name in {self._title}:", name, known)

    def __dir__(self) -> list[str]:
        return sorted([*self._names, *(COMMON_TYPES if self._types else ())])

    def __repr__(self) -> str:
        return f"<script namespace {self._title}>"


T = Namespace("T", {**FORMS, **OPS}, LEGACY, types=True)
I = Namespace("I", {"module_attrs": lambda attrs: forms.Note("module_attrs", attrs),  # noqa: E741
                    "module_global_infos": lambda infos: forms.Note("module_attrs", infos),
                    "meta_var": lambda value: value})
