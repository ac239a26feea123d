"""The lines of a program that a refusal is about, marked, with some around them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from autosched.errors import shortened
from autosched.ir.expr import Var
from autosched.ir.printer import Printer
from autosched.ir.stmt import Block, Buffer, BufferStore, For, Ident, PrimFunc, Stmt


def excerpt(
    func: PrimFunc, marks: Sequence[Stmt | Ident | Var | Buffer], context: int = 2, max_lines: int = 10,
    dialect: str = "tvm",
) -> str:
    """The lines of a program at fault, with the culprits marked by ``>``.

    Args:
        func: the program.
        marks: statements, identities of blocks or buffers, loop variables, or buffers; unknown ones are skipped.
        context: lines shown before and after each mark, as far as there is room.
        max_lines: most lines returned, gaps (``...``) and the line that names what is left out included.
        dialect: as in ``script``.

    Returns:
        Text, or an empty string when nothing is found. Culprits that find no room are named in a last line,
        ``and 7 more: ...``.
    """
    printer = Printer(dialect)
    printer.func(func)
    ranks: dict[int, int] = {}
    for rank, mark in enumerate(marks):
        ranks.setdefault(id(mark), rank)
    hits: dict[int, tuple[int, list[str]]] = {}
    for node, at in printer.starts:
        keys = [node, *([node.ident] if isinstance(node, Block | Buffer) else [node.var] if isinstance(node, For) else [])]
        found = [ranks[id(k)] for k in keys if id(k) in ranks]
        if found:
            rank, said = hits.get(at, (min(found), []))
            hits[at] = (min(rank, *found), [*said, _mark_name(node, printer.lines[at])])
    if not hits or max_lines < 1:
        return ""
    by_rank = sorted(hits, key=lambda at: hits[at][0])
    kept = len(by_rank)
    while kept > 1 and _height(by_rank[:kept]) + (kept < len(by_rank)) > max_lines:
        kept -= 1
    shown, room = set(by_rank[:kept]), max_lines - (kept < len(by_rank))
    for distance in range(1, context + 1):
        for at in sorted(by_rank[:kept]):
            for near in (at + distance, at - distance):
                if 0 <= near < len(printer.lines) and _height(shown | {near}) <= room:
                    shown.add(near)
    depths = sorted({len(line) - len(line.lstrip()) for line in map(printer.lines.__getitem__, shown)})
    # Lines far apart in depth would stand outside the window: then only the order of their depths is kept.
    indents = {d: d - depths[0] if depths[-1] - depths[0] <= 60 else 4 * min(k, 15) for k, d in enumerate(depths)}
    out: list[str] = []
    previous = min(shown) - 1
    for i in sorted(shown):
        if i != previous + 1:
            out.append("  ...")
        text = printer.lines[i].lstrip()
        line = " " * indents[len(printer.lines[i]) - len(text)] + text
        out.append(("> " if i in hits else "  ") + shortened(line, 200))
        previous = i
    left = [name for at in sorted(hits) if at not in shown for name in hits[at][1]]
    if left and max_lines > 1:
        names = list(dict.fromkeys(left))
        out.append(f"  and {len(left)} more: {shortened(', '.join(names[:6] + ['...'] * (len(names) > 6)), 150)}")
    return "\n".join(out)


def _mark_name(node: Stmt | Buffer, line: str) -> str:
    if isinstance(node, Block | Buffer):
        return node.name
    if isinstance(node, BufferStore):
        return f"{node.buffer.name}[...] = ..."
    return f"loop {node.var.name}" if isinstance(node, For) else shortened(line.strip(), 30)


def _height(lines: Collection[int]) -> int:
    """How many lines of text show these lines of a program: one more for each gap between them."""
    ordered = sorted(lines)
    return len(ordered) + sum(b != a + 1 for a, b in pairwise(ordered))
