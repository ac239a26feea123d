"""Program order as one integer per instance.

Each site owns an arithmetic progression of keys: nested loops are mixed-radix digits, and sites of one body follow each other.
Virtual threads are the last digit: their statements interleave, one statement of each thread after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from autosched.lower.affine import Loop
from autosched.lower.tree import Site, Tree


@dataclass(frozen=True, slots=True)
class Key:
    """``start + sum(strides[loop] * value)`` over the loops around a site."""

    start: int
    strides: dict[Loop, int]


def keys(tree: Tree) -> dict[int, Key]:
    """The key of every site, by its ``order``."""
    sizes: dict[int, int] = {}

    def measure(loop: Loop, threads: int) -> int:
        threads = threads * loop.extent if loop.thread else threads
        size = 0
        for node in loop.body:
            size += measure(node, threads) if isinstance(node, Loop) else threads
        sizes[id(loop)] = size
        return size if loop.thread else size * loop.extent

    measure(tree.root, 1)
    found: dict[int, Key] = {}

    def assign(loop: Loop, start: int, threads: int) -> None:
        threads = threads * loop.extent if loop.thread else threads
        for node in loop.body:
            if isinstance(node, Loop):
                assign(node, start, threads)
                start += sizes[id(node)] * (1 if node.thread else node.extent)
            else:
                found[node.order] = Key(start, _strides(node, sizes, threads))
                start += threads

    assign(tree.root, 0, 1)
    return found


def _strides(site: Site, sizes: dict[int, int], threads: int) -> dict[Loop, int]:
    strides = {}
    for loop in site.path:
        if loop.thread:
            threads //= loop.extent
            strides[loop] = threads
        else:
            strides[loop] = sizes[id(loop)]
    return strides
