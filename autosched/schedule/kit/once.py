"""What is made once for all programs of a search: what a step makes of the same parts again is the same object.

Steps that change several statements below the root (a copy that all parts of the output read) so leave each statement the object
that it was in another program, where nothing in it differs; steps on one statement alone are then known (``shared.py``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol, TypeVar

from autosched.ir.stmt import Stmt

T = TypeVar("T")
LIMIT = 8192  # parts remembered, the least recently used go

_MADE: OrderedDict[tuple[object, ...], tuple[object, Any]] = OrderedDict()
_LOCK = Lock()


def forget() -> None:
    """Drops all that was kept."""
    with _LOCK:
        _MADE.clear()


class Again(Protocol):
    """``once`` or ``afresh``."""

    def __call__(self, make: Callable[[], T], what: str, *about: object) -> T: ...


def afresh(make: Callable[[], T], what: str, *about: object) -> T:
    """What a function makes, made anew."""
    return make()


def once(make: Callable[[], T], what: str, *about: object) -> T:
    """What a function makes, made once for the same things.

    Args:
        make: gives something immutable, decided by these things.
        what: it makes of them.
        about: statements, which are what they are by address, and whatever can be a key.
    """
    key = (what, *[id(x) if isinstance(x, Stmt) else x for x in about])
    with _LOCK:
        known = _MADE.get(key)
        if known is not None:
            _MADE.move_to_end(key)
            return known[1]  # type: ignore[no-any-return]
    made = make()
    with _LOCK:
        _MADE[key] = about, made  # which the key names by address
        while len(_MADE) > LIMIT:
            _MADE.popitem(last=False)
    return made
