"""What loads take at least, each by itself, in as few transfers and rows as there may be."""

from __future__ import annotations

from autosched.target import MEMORY_TYPES, Target
from sim import isa, timing
from sim.config import VTAConfig

ROWS = 65535  # elements of a row, at most
VECTORS = 64  # of which a load is looked at for what each takes of the bus
OTHERWISE = 2  # cycles of the other way in which an element of int8 comes in: a reset and a product


def written_in(target: Target) -> int:
    """Cycles of a vector in a long load of int32 into the accumulator, rounded down."""
    return _in_a_long_load(target, isa.MEM_ACC)


def widened_in(target: Target) -> int:
    """Cycles of a vector in a long load that widens int8, rounded down; where none does those of ``written_in``."""
    return _in_a_long_load(target, isa.MEM_ACC_8BIT) if target.loads_widen else written_in(target)


def widens_sooner(target: Target) -> bool:
    """Whether a load brings in elements of int8 sooner than a reset and a product, which take a cycle each."""
    return target.loads_widen and widened_in(target) < OTHERWISE


def _in_a_long_load(target: Target, memory: int) -> int:
    return int(timing.load_words(memory, 0, 1, VECTORS, VECTORS, config=target.config)) // VECTORS


def fills(target: Target) -> bool:
    """Whether a load that pads with zeros takes as few cycles beyond them as an instruction that writes them one by one."""
    memories = (isa.MEM_ACC, isa.MEM_ACC_8BIT) if target.loads_widen else (isa.MEM_ACC,)
    words = (int(timing.load_words(m, 0, 1, 1, 1, config=target.config)) for m in memories)
    return min(words) <= timing.PIPELINE_CYCLES


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
