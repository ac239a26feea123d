"""Runs made short, where neither how they search nor what surrounds a check is part of what is tested."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from autosched.measure import Candidate, Result
from autosched.search import guarded, pool, proposer

# Of all such runs of a process: what is bred is the same whichever of them breeds it.
_BRED: OrderedDict[Any, Any] = OrderedDict()


@contextmanager
def brief_breeding() -> Iterator[None]:
    """A first population costs a tenth of a second instead of two or more; other runs do not meet what is bred here."""
    few = {"ELSEWHERE": 1, "LOOKS": 1, "AFRESH": 2, "OTHERS": 1}
    with mock.patch.multiple(proposer, GENERATIONS=4, ENOUGH=1, EAGER=256, _FIRST=_BRED, **few):
        yield


@contextmanager
def checks_here() -> Iterator[None]:
    """Checks in this process: a copy of one that has all tests loaded costs more than what it checks."""

    def check(candidate: Candidate, patience: float) -> Result:
        found = guarded._found(candidate)
        if isinstance(found, Result):
            return found
        raise found

    with mock.patch.object(pool, "check", check):
        yield
