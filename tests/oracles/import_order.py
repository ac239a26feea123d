"""Which module needs which other one while it is imported: run as ``python import_order.py PACKAGES -- MODULES``.

All are imported once, in one process. Every import that a module's own code makes meanwhile is an arrow, and so are those of the
functions that it calls; a module that is imported from outside its package brings that package first. Without a circle of arrows
no module is ever met half made, whichever is asked for first; with one, who comes in at the wrong place of it would.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from types import FrameType, ModuleType
from typing import Any

Arrows = dict[str, dict[str, set[str]]]  # of an importer and what it names: the names that it takes from there


def recorded(modules: Sequence[str], roots: Sequence[str]) -> Arrows:
    """Imports all modules, and returns who imported what of the packages ``roots``."""
    found: Arrows = {}
    plain, by_name = builtins.__import__, importlib.import_module

    def note(frame: FrameType | None, whole: str, names: Sequence[str]) -> None:
        # Code of a module runs once, when it is imported; below it are the functions that it calls.
        while frame is not None and frame.f_code.co_name != "<module>":
            frame = frame.f_back
        who = frame.f_globals["__name__"] if frame is not None else ""
        if who.partition(".")[0] in roots and whole.partition(".")[0] in roots:
            found.setdefault(who, {}).setdefault(whole, set()).update(names)

    def traced(
        name: str, globals: Mapping[str, Any] | None = None, locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (), level: int = 0,
    ) -> ModuleType:
        whole = importlib.util.resolve_name("." * level + name, (globals or {})["__package__"]) if level else name
        note(sys._getframe(1), whole, fromlist or ())
        return plain(name, globals, locals, fromlist or (), level)

    def named(name: str, package: str | None = None) -> ModuleType:
        note(sys._getframe(1), importlib.util.resolve_name(name, package), ())
        return by_name(name, package)

    builtins.__import__, importlib.import_module = traced, named  # type: ignore[assignment]
    try:
        for module in modules:
            by_name(module)
    finally:
        builtins.__import__, importlib.import_module = plain, by_name
    return found


def graph(found: Arrows) -> dict[str, set[str]]:
    """What each module needs before it."""
    needs: dict[str, set[str]] = {}
    for who, asked in found.items():
        above = {who[:k] for k in range(len(who) + 1) if who[k:k + 1] in ("", ".")}
        for whole, names in asked.items():
            parts = whole.split(".")
            # The packages that a module is in are there before it, half made or not.
            outer = {".".join(parts[:k]) for k in range(1, len(parts))} - above
            inside = {f"{whole}.{name}" for name in names} & set(sys.modules)
            # Of a package that it is in, a module may take other modules, and nothing that the package's own code makes.
            itself = {whole} if whole not in above or len(inside) < len(names) or not names else set()
            needs.setdefault(who, set()).update((outer | inside | itself) - {who})
    return needs


if __name__ == "__main__":
    at = sys.argv.index("--")
    try:
        TopologicalSorter(graph(recorded(sys.argv[at + 1:], sys.argv[1:at]))).prepare()
    except CycleError as error:
        sys.exit(f"imported in a circle: {' <- '.join(error.args[1])}")
