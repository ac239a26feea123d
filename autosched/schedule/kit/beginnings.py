"""Where replays of traces begin alike: a tree of instructions, each with what a schedule knows once they are carried out.

Most candidates of a search begin with the very instructions of another one. How far that goes is seen from their JSON; nothing of
it need be decoded or asked for again.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched.ir.stmt import PrimFunc
    from autosched.schedule.kit.base import RV
    from autosched.schedule.kit.changes import Program
    from autosched.schedule.kit.shared import Step
    from autosched.schedule.kit.trace import Instruction

LIMIT = 8192  # instructions in all trees; then all are dropped
TRIED, LEAST_SHARE = 256, 64  # instructions looked for before that is given up where fewer than one in so many are known

Stamp = Callable[["Instruction"], str | None]


@dataclass(eq=False, slots=True)
class Node:
    """A program after some instructions.

    Args:
        inst: the last of them; None at the root.
        stamp: of what its arguments name.
        step: what it made.
        names: its handles, by their names in JSON.
        base: the function after it, but for the statements below the root and what the root allocates.
        program: these.
        children: by the instruction that follows, as a key.
        asked: at the root, how many instructions behind all beginnings were looked for by what decides them.
        taken: how many of them were known.
    """

    inst: Instruction | None = None
    stamp: str | None = None
    step: Step | None = None
    names: Mapping[str, RV] = field(default_factory=dict)
    base: PrimFunc | None = None
    program: Program = ((), ())
    children: dict[bytes, Node] = field(default_factory=dict)
    asked: int = 0
    taken: int = 0

    @property
    def asks(self) -> bool:
        """Whether it pays to look for more than beginnings, as it does where a program has parts that others have, too."""
        return self.asked < TRIED or self.taken * LEAST_SHARE >= self.asked


_ROOTS: dict[tuple[int, bool], tuple[PrimFunc, Node]] = {}  # by a function's address, and whether steps are trusted
_LOCK = Lock()
_held = 0


def forget() -> None:
    """Drops all that was kept."""
    global _held
    with _LOCK:
        _ROOTS.clear()
        _held = 0


def root_of(func: PrimFunc, trusted: bool) -> Node:
    """Where all replays on a function begin."""
    with _LOCK:
        known = _ROOTS.get((id(func), trusted))
        if known is None or known[0] is not func:
            known = _ROOTS[id(func), trusted] = func, Node()
        return known[1]


def key_of(obj: Any) -> bytes | None:
    """An instruction of a JSON trace as a key; None where it is no plain data."""
    try:
        return marshal.dumps(obj, 2)  # the first version without references, which depend on more than the value
    except ValueError:
        return None


def path_of(root: Node, keys: Sequence[bytes | None], stamp: Stamp) -> list[Node]:
    """The nodes of the first instructions, as far as they are known.

    Args:
        root: where the trace begins.
        keys: of its instructions.
        stamp: of what an instruction's arguments name now.
    """
    path: list[Node] = []
    node = root
    for key in keys:
        found = None if key is None else node.children.get(key)
        if found is None or found.inst is None or (found.stamp != "" and stamp(found.inst) != found.stamp):
            break
        path.append(found)
        node = found
    return path


def grown(node: Node, key: bytes, child: Node) -> Node:
    """A node behind another, which is kept."""
    global _held
    with _LOCK:
        if _held >= LIMIT:
            _ROOTS.clear()
            _held = 0
        _held += 1
    node.children[key] = child
    return child
