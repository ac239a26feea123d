"""Evolution in a few generations: for runs whose search is no part of what is tested."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from autosched.search import proposer


@contextmanager
def brief_breeding() -> Iterator[None]:
    """A first population costs a tenth of a second instead of two or more; what is bred here is forgotten at the end."""
    with mock.patch.multiple(proposer, GENERATIONS=4, ENOUGH=1, EAGER=256, _FIRST=OrderedDict()):
        yield
