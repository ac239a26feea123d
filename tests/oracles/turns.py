"""Cases of which every one is tried on some machine, and on all of them in the long runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

MACHINES = ("vta-de10", "vta-de10-portable", "vta-fsim")


def in_turn(cases: Iterable[Any], targets: Sequence[str] = MACHINES) -> list[Any]:
    """Every case with every target, as arguments ``case, target``; of each case all pairs but one are for the long runs.

    Args:
        cases: values of one argument, or tuples of several; their text names the test, the same in every process.
        targets: which take turns.
    """
    pairs = []
    for n, case in enumerate(cases):
        for k, target in enumerate(targets):
            marks = [] if k == n % len(targets) else [pytest.mark.slow]
            own = case if isinstance(case, tuple) else (case,)
            pairs.append(pytest.param(*own, target, marks=marks, id="-".join(str(value) for value in (*own, target))))
    return pairs
