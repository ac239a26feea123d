"""Evolution in a few generations: for runs whose search is no part of what is tested."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from autosched.search import proposer

# Of all such runs of a process: what is bred is the same whichever of them breeds it.
_BRED: OrderedDict[Any, Any] = OrderedDict()


@contextmanager
def brief_breeding() -> Iterator[None]:
    """A first population costs a tenth of a second instead of two or more; other runs do not meet what is bred here."""
    with mock.patch.multiple(proposer, GENERATIONS=4, ENOUGH=1, EAGER=256, _FIRST=_BRED):
        yield
