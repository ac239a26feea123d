"""What no schedule helps with is said before any is tried: a few points go through lowering, and its reason is the program's."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from autosched.errors import LoweringError, ScheduleError, SpaceError
from autosched.lower import lower_table
from space.products import why_no_product
from space.words import in_users_words

if TYPE_CHECKING:
    from space.space import Space

DRAWN = 32  # points of which the ones with the lowest drafts are asked about
ASKED = 3  # of them
KEPT = 64  # spaces of which it is remembered that nothing was found

_FINE: OrderedDict[tuple[object, ...], object] = OrderedDict()  # with what the key names by address
_LOCK = Lock()


def require_lowerable(space: Space) -> None:
    """Lowers a point; where it fails for a reason that has nothing to do with sizes, two more.

    Of a program that is tuned again, or whose turn comes again, it is remembered that there was no such reason.

    Args:
        space: of the program.

    Raises:
        SpaceError: none of the points can be lowered, and no reason is one that other sizes could change: lowering's, or that
            of the primitive that refuses.
    """
    key = space.identity
    with _LOCK:
        if key in _FINE:
            return
    _ask(space)
    with _LOCK:
        _FINE[key] = space.func, space.rules
        while len(_FINE) > KEPT:
            _FINE.popitem(last=False)


def _ask(space: Space) -> None:
    points = space.sample(np.random.default_rng(0), DRAWN)
    reason = ""
    for point in points[np.argsort(space.draft(points), kind="stable")[:ASKED]]:
        try:
            lower_table(space.schedule(point).func, space.target)
            return
        except LoweringError as error:
            if not error.of_program:
                return
            reason = reason or error.message
        except ScheduleError as error:
            # What stands in a primitive's way is a form's, and a product that the ALU would have to do is the program's.
            reason = reason or _product(space) or f"{error.primitive}: {error.reason}"
    if reason:
        reason = in_users_words(" ".join(reason.split()), space.func)
        reason = (_product(space) if " multiplies " in reason else None) or reason
        raise SpaceError(f"{space.target.name} cannot run {space.func.name}: {reason}", "machine")


def _product(space: Space) -> str | None:
    """Why the machine does not compute one of the program's products, where its ALU has none."""
    return None if space.target.multiplies else why_no_product(space.func)
