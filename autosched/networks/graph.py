"""A quantized network as the machine sees it: int8 tensors, layers in exact integer arithmetic, and what the host keeps.

Every accelerated layer but the pool by maxima, and what moves elements, has one meaning:

    out = clip((sum of int8 products + bias) >> shift, low, high)

in int32, where ``>>`` rounds towards minus infinity. Rounding half up is a bias of ``2**(shift - 1)``; a zero point of the output
is ``zero << shift`` in the bias. Behind a LeakyRelu the shifted sum is the larger of two (``Leak``). Nothing in here needs onnx.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import ProgramError

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

KINDS = ("conv", "deconv", "dense", "add", "average", "max", "view", "pack", "concat", "slice", "resize")
MOVES = ("concat", "slice")  # these say where channels lie
SAME_VALUES = ("view", "resize", *MOVES)  # and these make no values that were not there
ROUNDINGS = ("floor", "half-up")


@dataclass(frozen=True)
class Tensor:
    """A tensor of the network.

    Args:
        name: as the file calls it.
        shape: extents; NCHW where there are four.
        dtype: of the file's tensor: ``int8``, ``uint8`` or, on the host, any other.
        exponent: an element ``q`` stands for ``(q - zero) * 2**-exponent``, or None where no scale is known; of a float
            input, the scale at which the host quantizes it.
        zero: zero point of the machine's int8 value.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "int8"
    exponent: int | None = None
    zero: int = 0

    @property
    def offset(self) -> int:
        """What is subtracted from the file's value to give the machine's int8: 128 for uint8."""
        return 128 if self.dtype == "uint8" else 0

    def covers(self) -> tuple[float, float] | None:
        """What int8 stands for from -128 to 127, or None where no scale is known."""
        if self.exponent is None:
            return None
        low, high = ((q - self.zero) * 2.0**-self.exponent for q in (-128, 127))
        return low, high

    def to_machine(self, array: Array) -> npt.NDArray[np.int8]:
        """The file's values as the machine holds them."""
        return (array.astype(np.int16) - self.offset).astype(np.int8)

    def from_machine(self, array: Array) -> Array:
        """The machine's int8 values as the file has them."""
        return (array.astype(np.int16) + self.offset).astype(self.dtype)


@dataclass(frozen=True)
class Leak:
    """A slope below zero: sums are the larger of ``sums >> s`` and ``(times * sums + offset) >> (s + shift)``.

    Args:
        times: multiplier of what is below zero.
        shift: what is below zero is shifted right by that much more.
        offset: the rounding of what is below zero, less that of the sums, which is in their bias.
    """

    times: int
    shift: int
    offset: int

    def of(self, sums: Ints, shift: int) -> Ints:
        """The results of sums, before they are clipped.

        Args:
            sums: int64, bias included.
            shift: of the sums, to the right.
        """
        made: Ints = np.maximum(sums >> shift, (self.times * sums + self.offset) >> (shift + self.shift))
        return made


@dataclass(frozen=True, eq=False)
class Requant:
    """What follows the sums of a layer.

    Args:
        bias: int64[channels], added to the sums; the rounding and the zero points are in it. int64[channels, height, width]
            where a zero point of the input counts less at the edge, for the machine pads with 0.
        shift: int64[channels] or int64[1], right shift of every channel or of all.
        low: least value of the result.
        high: greatest value of the result.
        leak: a slope below zero, or None; with one ``shift`` is one for all channels.
    """

    bias: Ints
    shift: Ints
    low: int = -128
    high: int = 127
    leak: Leak | None = None


@dataclass(frozen=True)
class Residual:
    """A sum that a convolution's result goes into without leaving the accumulator:
    ``clip(((result << own) + (other << factor) + bias) >> shift, low, high)``.

    Args:
        own: shift of the result, to the left.
        factor: shift of the other operand, to the left; at most 6.
        bias: added.
        shift: to the right.
        low: least value.
        high: greatest value.
        least: of the other operand, whatever comes in: 0 or -128; what is never negative needs fewer clips.
    """

    own: int
    factor: int
    bias: int
    shift: int
    low: int
    high: int
    least: int = -128


@dataclass(frozen=True)
class Pool:
    """A pool by maxima that a convolution's result goes into without leaving the accumulator; it pads nothing.

    Args:
        kernel: height and width of a window.
        stride: of the window, down and across.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]

    def pooled(self, h: int, w: int) -> tuple[int, int]:
        """Height and width of what it makes of an image of ``h`` x ``w``."""
        return (h - self.kernel[0]) // self.stride[0] + 1, (w - self.kernel[1]) // self.stride[1] + 1


def spanned(kernel: Sequence[int], dilation: Sequence[int]) -> tuple[int, int]:
    """Rows and columns from a window's first element to its last."""
    return (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1


@dataclass(frozen=True, eq=False)
class Layer:
    """One step on the machine.

    Args:
        name: the node of the file that it is called after.
        kind: one of ``KINDS``; ``view`` only renames a shape, ``pack`` is the host's: the
            kernel's pixels, from every stride on, become channels; ``concat`` has the channels of its inputs behind each other,
            ``slice`` those of its input from ``start`` on; ``resize`` has every row and column ``stride`` times.
        inputs: tensors, in order.
        output: tensor.
        requant: what follows the sums; None for ``max`` and what only moves elements.
        weight: conv: int8[co, ci / group, kh, kw]; deconv, a transposed convolution: int8[co, ci, kh, kw]; dense: int8[n, k];
            else None.
        factors: add: the power of two per input; average: the one multiplier of all window elements.
        kernel: height and width of a window.
        stride: of the window, down and across; of a deconv's result; how often a resize has a row and a column.
        pads: elements around the image: top, left, bottom, right; cut off the full result of a deconv.
        group: groups of channels.
        nodes: names of the file's nodes that it stands for.
        residual: conv: a sum with its second input, behind ``requant``; or None.
        dilation: conv: from one element of the window to the next, down and across.
        pool: conv: a pool behind ``requant``; or None.
        edge: pack: how often the host writes what lies at an edge once more beyond it: top, left, bottom, right.
        start: slice: the first of its channels.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    output: str
    requant: Requant | None = None
    weight: npt.NDArray[np.int8] | None = None
    factors: tuple[int, ...] = ()
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    group: int = 1
    nodes: tuple[str, ...] = ()
    residual: Residual | None = None
    dilation: tuple[int, int] = (1, 1)
    pool: Pool | None = None
    edge: tuple[int, int, int, int] = (0, 0, 0, 0)
    start: int = 0

    @property
    def span(self) -> tuple[int, int]:
        """Rows and columns from a window's first element to its last."""
        return spanned(self.kernel, self.dilation)


FEEDS = "feeds the host"


@dataclass(frozen=True)
class HostNode:
    """A node of the file that stays on the host.

    Args:
        name: of the node.
        op: operator.
        reason: why it is not on the machine; ``FEEDS`` where another node's reason is its own.
        macs: multiply-accumulates in it.
    """

    name: str
    op: str
    reason: str
    macs: int = 0


@dataclass(frozen=True, eq=False)
class HostPart:
    """A maximal part that the host computes with onnxruntime.

    Args:
        name: ``host0``, ``host1``, ...
        inputs: tensors that it reads.
        outputs: tensors that it gives.
        nodes: in order.
        model: the part as a serialised ONNX model.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[HostNode, ...]
    model: bytes = field(repr=False)

    @property
    def macs(self) -> int:
        """Multiply-accumulates in it."""
        return sum(n.macs for n in self.nodes)


Step = Layer | HostPart


@dataclass(frozen=True, eq=False)
class Graph:
    """A network in the order of execution.

    Args:
        name: the file's, without its ending.
        tensors: all that a step reads or writes, by name.
        inputs: what a call takes, in order.
        outputs: what a call gives, in order.
        steps: layers and host parts, each after what it needs.
        rounding: ``floor`` or ``half-up``.
        blank: the tensor whose data the file lacks, or None; such a network can be tuned and not run.
    """

    name: str
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    rounding: str = "floor"
    blank: str | None = None

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers on the machine."""
        return tuple(s for s in self.steps if isinstance(s, Layer))

    @property
    def host_parts(self) -> tuple[HostPart, ...]:
        """The parts on the host."""
        return tuple(s for s in self.steps if isinstance(s, HostPart))

    def macs(self, layer: Layer) -> int:
        """Multiply-accumulates that the file's operator stands for; 0 for what only adds, compares or renames."""
        if layer.weight is None:
            return 0
        if layer.kind == "deconv":
            return prod(self.tensors[layer.inputs[0]].shape) * len(layer.weight) * prod(layer.kernel)
        out = self.tensors[layer.output].shape
        return prod(out) * prod(layer.weight.shape[1:])

    def share(self) -> float:
        """Fraction of the network's multiply-accumulates that the machine does."""
        mine = sum(self.macs(x) for x in self.layers)
        total = mine + sum(h.macs for h in self.host_parts)
        return mine / total if total else 1.0

    def part(self, layers: tuple[Layer, ...]) -> Graph:
        """A graph of some layers alone: what they read from elsewhere are its inputs, what they make its outputs."""
        made = [x.output for x in layers]
        read = dict.fromkeys(t for x in layers for t in x.inputs if t not in made)
        return Graph(self.name, self.tensors, tuple(read), tuple(made), layers, self.rounding, self.blank)


def need_data(name: str, blank: str | None) -> None:
    """Refuses to run a network without data.

    Args:
        name: of the network.
        blank: the tensor whose data the file lacks, or None.

    Raises:
        ProgramError: there is such a tensor.
    """
    if blank is not None:
        raise ProgramError(
            f"{name}: {blank!r} has a shape and no data, so the network can be tuned and not run; store its data in the file"
        )
