"""How the command line shows tables and numbers. A number is never cut, however narrow the terminal."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from sim.markup import number as number
from sim.markup import percent as percent
from sim.markup import plain

LONG = 24  # columns above which a text is rather folded than its table split
NARROWEST = 32  # columns for which numbers and their names are laid out; a terminal that has, or says, fewer breaks lines itself
LONGEST = 40  # letters of a name of a block or a buffer in a line for people

Columns = Sequence[tuple[str, bool]]
Rows = Sequence[Sequence[str]]


class Screen(Console):
    """A console with room for a number, whatever the terminal or ``COLUMNS`` say: 0 where whoever set it knew nothing."""

    @property
    def size(self) -> ConsoleDimensions:
        """Columns and lines, as they are at this moment."""
        width, height = super().size
        return ConsoleDimensions(max(width, NARROWEST), height)

    @size.setter
    def size(self, size: tuple[int, int]) -> None:
        self.width, self.height = size


def console() -> Console:
    """A console on stdout; where that is no terminal, lines are as long as they need to be."""
    return Screen(file=sys.stdout, width=None if sys.stdout.isatty() else 1 << 14, highlight=False, soft_wrap=False)


def print_table(columns: Columns, rows: Rows, footer: Sequence[str] = ()) -> None:
    """Prints a table; where the terminal is too narrow, its columns in several tables, or every row one line per field.

    Args:
        columns: (title, whether it holds numbers).
        rows: the cells, as they are to be read: no markup; what no terminal prints is shown as an escape.
        footer: a last row, set apart, or nothing.
    """
    out = console()
    rows, footer = [[_cell(text) for text in row] for row in rows], [_cell(text) for text in footer]
    groups = list(_groups(out, columns, rows, footer))
    if len(groups) > 1 and len(rows) == 1 and not footer:
        groups = []
    for k, picked in enumerate(groups):
        if k:
            out.print()
        out.print(_table(columns, rows, footer, picked))
    if not groups:
        for k, row in enumerate([*rows, *([footer] if footer else [])]):
            if k:
                out.print()
            out.print(_fields(columns, row))


def _cell(text: str) -> str:
    """A text for a cell; a line of its own would look like another row."""
    return plain(text).replace("\n", "\\n")


def _groups(out: Console, columns: Columns, rows: Rows, footer: Sequence[str]) -> Iterator[list[int]]:
    """Columns that fit side by side, the first one always among them; nothing where even two do not fit."""
    everything = list(range(len(columns)))
    if _fits(out, columns, rows, footer, everything):
        yield everything
        return
    picked = [0]
    found = []
    for k in range(1, len(columns)):
        if not _fits(out, columns, rows, footer, [*picked, k]):
            if picked == [0]:
                return
            found.append(picked)
            picked = [0]
            if not _fits(out, columns, rows, footer, [0, k]):
                return
        picked = [*picked, k]
    yield from [*found, picked]


def _fits(out: Console, columns: Columns, rows: Rows, footer: Sequence[str], picked: list[int]) -> bool:
    table = _table(columns, rows, footer, picked)
    return Measurement.get(out, out.options.update(width=1 << 14), table).minimum <= out.width


def _table(columns: Columns, rows: Rows, footer: Sequence[str], picked: list[int]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=bool(footer))
    for n in picked:
        title, right = columns[n]
        width = max(cell_len(text) for text in [title, *(row[n] for row in rows), *footer[n:n + 1]])
        # Long text may take several lines; numbers, and what the row is about, stay on one.
        folds = not right and n > 0 and width > LONG
        table.add_column(Text(title), justify="right" if right else "left", no_wrap=not folds, overflow="fold",
                         min_width=LONG if folds else width, footer=Text(footer[n]) if footer else "")
    for row in rows:
        table.add_row(*(Text(row[n]) for n in picked))
    return table


def _fields(columns: Columns, row: Sequence[str]) -> Table:
    """A row as lines of title and value."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for (title, _), cell in zip(columns, row):
        if cell:
            table.add_row(Text(title), Text(cell))
    return table


def short(text: str) -> str:
    """A text whose names of more than ``LONGEST`` letters show their beginning and their end: copies of copies add up theirs."""
    half = LONGEST // 2 - 1
    return re.sub(rf"[\w.]{{{LONGEST + 1},}}", lambda m: f"{m[0][:half]}..{m[0][-half:]}", text)


def tell(text: str) -> None:
    """Prints prose on standard output; on a terminal, lines break between words and never inside a number."""
    width = console().width
    for line in text.split("\n"):
        # Digits that belong together, and a per cent sign with them, are one word.
        line = plain(line)
        whole = re.sub(r"(?<=\d) (?=\d{3}(?!\d)|%)", "\N{NO-BREAK SPACE}", line)
        indent = " " * (len(whole) - len(whole.lstrip(" ")))
        parts = textwrap.wrap(whole, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        print("\n".join(parts or [""]).replace("\N{NO-BREAK SPACE}", " ") if len(line) > width else line)


def tell_alike(tasks: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Says which layers of a network are one workload.

    Args:
        tasks: the workloads' names, each with those of its layers.
    """
    alike = [f"  {name} x{len(layers)}: {', '.join(layers)}" for name, layers in tasks if len(layers) > 1]
    if alike:
        tell("\n".join(["", "layers alike:", *alike]))


def print_json(data: Any) -> None:
    """Prints JSON, one object or list."""
    print(json.dumps(data, indent=2))
