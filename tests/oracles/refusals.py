"""What is refused, by its code: texts may change, codes do not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def refused(kind: type[Any], code: str) -> Iterator[pytest.ExceptionInfo[Any]]:
    """A refusal of a kind and a code, and of no other.

    Args:
        kind: ``ScheduleError``, ``LoweringError`` or ``SpaceError``.
        code: one of that kind's table.
    """
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.code == code, caught.value
