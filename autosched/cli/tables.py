"""How the command line shows tables and numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def number(value: int | None) -> str:
    """``12345`` as ``12 345``; a dash for None."""
    return "-" if value is None else f"{value:,}".replace(",", " ")


def percent(value: float | None) -> str:
    """A fraction as a percentage; a dash for None."""
    return "-" if value is None else f"{100 * value:.2f} %"


def console() -> Console:
    """A console on stdout that never wraps a table's numbers away when piped."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else 160, highlight=False, soft_wrap=False)


def print_table(columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]], footer: Sequence[str] = ()) -> None:
    """Prints a table.

    Args:
        columns: (title, whether it holds numbers).
        rows: the cells.
        footer: a last row, set apart, or nothing.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=bool(footer))
    for n, (title, right) in enumerate(columns):
        table.add_column(title, justify="right" if right else "left", no_wrap=right or n == 0, overflow="fold",
                         footer=footer[n] if footer else "")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def print_json(data: Any) -> None:
    """Prints JSON, one object or list."""
    print(json.dumps(data, indent=2))
