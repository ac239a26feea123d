"""What a step changes of the statements below the root and of what it allocates, kept so that other programs can take it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched.ir.stmt import BlockRealize, Buffer, PrimFunc, Stmt, seq, with_func_body

Runs = tuple[tuple[Stmt, ...], ...]
Program = tuple[tuple[Stmt, ...], tuple[Buffer, ...]]  # what stands below the root, and what the root allocates


@dataclass(frozen=True, eq=False)
class Whole:
    """A step that the whole program decides.

    Args:
        program: what it made of it.
    """

    program: Program

    def of(self, program: Program, places: Sequence[int]) -> Program | None:
        """What the step makes of a program that it was kept for; None where it is not known."""
        return self.program


@dataclass(frozen=True, eq=False)
class Some:
    """A step that some statements decide.

    Args:
        runs: what came in their place (``replaced_runs``).
        allocs: what the root allocates besides.
    """

    runs: Runs
    allocs: tuple[Buffer, ...]

    def of(self, program: Program, places: Sequence[int]) -> Program | None:
        """See ``Whole``; ``places`` are the positions of these statements."""
        return joined(program[0], places, self.runs), program[1] + self.allocs


@dataclass(frozen=True, eq=False)
class Each:
    """A step on each statement by itself.

    Args:
        front: what it put in front of all.
        allocs: what the root then allocates.
        known: what it made of each statement that it met, by address, with that statement.
    """

    front: tuple[Stmt, ...]
    allocs: tuple[Buffer, ...]
    known: dict[int, tuple[Stmt, Stmt]]

    def of(self, program: Program, places: Sequence[int]) -> Program | None:
        """See ``Whole``."""
        found = [self.known.get(id(stmt)) for stmt in program[0]]
        made = [pair[1] for pair in found if pair is not None]
        return ((*self.front, *made), self.allocs) if len(made) == len(found) else None


def with_root(func: PrimFunc, stmts: Sequence[Stmt], allocs: tuple[Buffer, ...]) -> PrimFunc:
    """A function with other statements and allocations in its root block."""
    assert isinstance(func.body, BlockRealize)
    root = replace(func.body.block, body=seq(*stmts), alloc_buffers=allocs)
    return with_func_body(func, BlockRealize(func.body.iter_values, func.body.predicate, root))


def same_but_root(a: PrimFunc, b: PrimFunc) -> bool:
    """Whether two functions differ at most in the statements and allocations of their root blocks."""
    if a.params != b.params or a.attrs is not b.attrs or a.constants is not b.constants or a.value_ranges != b.value_ranges:
        return False
    if a.name != b.name or not isinstance(a.body, BlockRealize) or not isinstance(b.body, BlockRealize):
        return False
    one, other = a.body.block, b.body.block
    return (
        a.body.iter_values is b.body.iter_values and a.body.predicate is b.body.predicate and one.ident is other.ident
        and one.reads is other.reads and one.writes is other.writes and one.annotations is other.annotations
        and one.match_buffers is other.match_buffers and one.init is other.init and one.iter_vars is other.iter_vars
        and one.name == other.name
    )


def replaced_runs(old: Sequence[Stmt], places: Sequence[int], new: Sequence[Stmt]) -> Runs | None:
    """What came in place of some statements.

    Args:
        old: statements.
        places: positions of those that may have changed, ascending.
        new: statements.

    Returns:
        First what stands in front of all others, then what came for each run of neighbours that is not in front; None where
        others have changed, too, or something new stands between others.
    """
    runs: list[tuple[Stmt, ...]] = []
    others = [k for k in range(len(old)) if k not in places]
    at, last = 0, -1
    for k in (*others, len(old)):
        end = at
        while end < len(new) and (k == len(old) or new[end] is not old[k]):
            end += 1
        if k < len(old) and end == len(new):
            return None
        if k > last + 1 or last < 0:
            runs.append(tuple(new[at:end]))
        elif end > at:
            return None
        at, last = end + 1, k
    return tuple(runs)


def joined(old: Sequence[Stmt], places: Sequence[int], runs: Runs) -> tuple[Stmt, ...]:
    """The statements with others in place of some, as ``replaced_runs`` has them."""
    rest = iter(runs)
    found = list(next(rest))
    for k, stmt in enumerate(old):
        if k not in places:
            found.append(stmt)
        elif k and k - 1 not in places:
            found += next(rest)
    return tuple(found)
