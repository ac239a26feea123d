"""What a person who waits should know: told to whoever listens, e.g. that kernels are being compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LISTENERS: list[Callable[[str], None]] = []


@contextmanager
def told_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Notices of the block go to ``listener``, one line each, and to nobody else."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


def tell(text: str) -> None:
    """Tells one line to the innermost listener; nobody may be listening."""
    listener()(text)


def listener() -> Callable[[str], None]:
    """Who is told now, for a listener that passes on what it hears."""
    return _LISTENERS[-1] if _LISTENERS else _nobody


def _nobody(text: str) -> None:
    pass
