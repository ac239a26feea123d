"""The little HTML that notebooks and reports are made of. All text is escaped; nothing is loaded from anywhere."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from unicodedata import category


def text(value: object) -> str:
    """A text that stands for itself, also in an attribute."""
    return html.escape(plain(str(value)), quote=True)


def plain(value: str) -> str:
    """A text of somebody else's as people may see it: what steers a terminal, or is no character, stands as its escape."""
    if value.isprintable():
        return value
    return "".join(c if c in "\n\t" or category(c)[0] != "C" else c.encode("unicode_escape").decode() for c in value)


def printable(value: str) -> str:
    """A name on one line of a terminal or a table: whatever is not printed stands as its escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)


def number(value: int | None) -> str:
    """``12345`` as ``12 345``; a dash for None."""
    return "-" if value is None else f"{value:,}".replace(",", " ")


def percent(value: float | None) -> str:
    """A fraction as a percentage; a dash for None."""
    return "-" if value is None else f"{100 * value:.2f} %"


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[int] = ()) -> str:
    """A table that scrolls by itself where it is wider than the page.

    Args:
        titles: of the columns; none are shown where there are none.
        rows: the cells.
        numbers: columns that are set to the right.
    """
    right = set(numbers)

    def cells(tag: str, row: Sequence[object]) -> str:
        return "".join(f'<{tag}{" class=n" if k in right else ""}>{text(cell)}</{tag}>' for k, cell in enumerate(row))

    head = f"<thead><tr>{cells('th', titles)}</tr></thead>" if titles else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def listing(lines: str) -> str:
    """Text of fixed width, e.g. a program."""
    return f'<pre style="line-height:1.25;overflow-x:auto">{text(lines)}</pre>'
