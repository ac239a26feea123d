"""What statements below the root become in the tree, kept from program to program.

Candidates of a search share most of these statements (``schedule/kit/shared.py``), and what passes ask of loops and accesses is
remembered by their identity (``regions.box``). A part is taken out for one program, whose passes change it, and is put back as it
was built: no two programs have it at once, whatever threads there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from autosched.ir.stmt import Buffer, Stmt
from autosched.lower.affine import Loop

MOST = 1024  # parts kept, the least recently used go


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """What a statement becomes.

    Args:
        stmt: the statement.
        nodes: its loops and sites, in order.
        allocated: buffers that blocks in it allocate.
        banks: copies that buffers ask for.
        doubled: buffers that ask for two themselves.
        built: loops and sites with what passes change of them, as they were built.
    """

    stmt: Stmt
    nodes: list[Any]
    allocated: list[Buffer]
    banks: dict[Buffer, int]
    doubled: set[Buffer]
    built: list[tuple[Any, tuple[Any, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        stack = list(self.nodes)
        while stack:
            node = stack.pop()
            if isinstance(node, Loop):
                self.built.append((node, (tuple(node.body),)))
                stack += node.body
            else:
                self.built.append((node, (node.write, tuple(node.reads), node.value, tuple(node.conds), tuple(node.pads))))

    def restore(self) -> None:
        """Undoes what passes have done."""
        for node, was in self.built:
            if isinstance(node, Loop):
                node.body = list(was[0])
            else:
                node.write, node.value = was[0], was[2]
                node.reads, node.conds, node.pads = list(was[1]), list(was[3]), list(was[4])


_PARTS: OrderedDict[int, Part] = OrderedDict()  # by address; the statements are kept with their addresses
_LOCK = Lock()


def forget() -> None:
    """Drops all that was kept."""
    with _LOCK:
        _PARTS.clear()


def take(stmt: Stmt) -> Part | None:
    """What a statement is known to become, for one program, until it is put back."""
    with _LOCK:
        return _PARTS.pop(id(stmt), None)


def put_back(parts: Iterable[Part]) -> None:
    """Parts that a program is done with."""
    for part in parts:
        part.restore()
        with _LOCK:
            _PARTS[id(part.stmt)] = part
            while len(_PARTS) > MOST:
                _PARTS.popitem(last=False)
