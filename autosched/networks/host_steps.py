"""What the host does beside the machine, in bytes and CPU time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from autosched.networks.graph import Array


@dataclass(frozen=True)
class HostStep:
    """What the host does beside the machine; none of it is in the cycles.

    Args:
        name: tensor or host part.
        what: ``pack`` and ``unpack`` between plain and packed layout, ``deal`` of pixels to channels, ``gather``
            where it writes some several times, ``reshape``, ``join`` and ``cut`` of channels that are no whole blocks, or
            ``onnxruntime``.
        bytes: made by it, for one image.
        seconds: CPU seconds of this machine, for one image, on average.
    """

    name: str
    what: str
    bytes: int
    seconds: float


class HostClock:
    """Adds up what the host does."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], list[float]] = {}

    @contextmanager
    def step(self, name: str, what: str) -> Iterator[list[Array]]:
        """Times a step; the caller lists the arrays that it makes."""
        made: list[Array] = []
        begun = time.process_time()
        yield made
        entry = self.found.setdefault((name, what), [0, 0.0])
        entry[0] += sum(a.nbytes for a in made)
        entry[1] += time.process_time() - begun

    def steps(self, images: int) -> tuple[HostStep, ...]:
        """The steps of one image, in order."""
        return tuple(
            HostStep(name, what, int(size) // images, seconds / images) for (name, what), (size, seconds) in self.found.items()
        )
