"""Schedule primitives, traces and tensor intrinsics: programs to programs."""

from autosched.ir.index_map import AXIS_SEPARATOR, IndexMap
from autosched.schedule.kit.base import (
    AT_INLINE,
    AT_ROOT,
    BlockRV,
    ExprRV,
    LoopRV,
    NoFunctionError,
    StaleRVError,
    UnknownRVError,
)
from autosched.schedule.kit.primitive import PRIMITIVES, primitive
from autosched.schedule.kit.trace import Instruction, Trace
from autosched.schedule.primitives.tensorize.intrin import TensorIntrin
from autosched.schedule.schedule import Schedule
from autosched.schedule.tiling import tile_with_tensor_intrin

__all__ = [
    "AT_INLINE", "AT_ROOT", "AXIS_SEPARATOR", "PRIMITIVES", "BlockRV", "ExprRV", "IndexMap", "Instruction", "LoopRV",
    "NoFunctionError", "Schedule", "StaleRVError", "TensorIntrin", "Trace", "UnknownRVError", "primitive",
    "tile_with_tensor_intrin",
]
