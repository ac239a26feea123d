"""What is worked out of nodes of programs, which steps of a schedule share and rules ask about again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Node = TypeVar("Node")
Made = TypeVar("Made")

KEPT = 2048  # nodes of each kind of which is remembered what was found


def remembered(known: dict[int, tuple[Node, Made]], node: Node, work_out: Callable[[Node], Made], kept: int = KEPT) -> Made:
    """What is worked out of a node, once; it is kept with the node, so that no other one takes its id meanwhile.

    Args:
        known: by id, nodes and what was worked out of them; emptied where it has grown too large.
        node: any.
        work_out: what works it out.
        kept: of how many nodes it is remembered; of few where these are whole programs.
    """
    hit = known.get(id(node))
    if hit is None:
        if len(known) >= kept:
            known.clear()
        hit = known[id(node)] = node, work_out(node)
    return hit[1]
