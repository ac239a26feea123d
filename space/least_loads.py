"""What loads take at least, each by itself, in as few transfers and rows as there may be."""

from __future__ import annotations

from autosched.target import MEMORY_TYPES
from sim import timing
from sim.config import VTAConfig

ROWS = 65535  # elements of a row, at most


def latency(config: VTAConfig, scope: str) -> int:
    """What a load takes besides the words that it moves."""
    return max(0, load(config, scope, 1) - beats(config, scope, 1))


def load(config: VTAConfig, scope: str, elements: int) -> int:
    """The least cycles of loading some elements."""
    rows = max(1, -(-elements // ROWS))
    if not elements:
        return 0
    return int(timing.load_cycles_floor(MEMORY_TYPES[scope], 0, rows, -(-elements // rows), elements, config=config))


def beats(config: VTAConfig, scope: str, elements: int) -> int:
    """The least words of the bus that some elements take."""
    rows = max(1, -(-elements // ROWS))
    return int(timing.load_words(MEMORY_TYPES[scope], 0, rows, elements // rows, elements, config=config)) if elements else 0
