"""What every form of quantized graph shares while its layers are found: values, tensors, and layers as they are made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from autosched.errors import ProgramError
from autosched.networks.graph import MOVES, Array, Ints, Layer, Leak, Requant, Tensor
from autosched.networks.lying import has_channels
from autosched.networks.onnx_nodes import File, Node
from autosched.networks.ranges import prove
from autosched.networks.scales import Value

COUNTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "QLinearConv", "QLinearMatMul", "QGemm", "ConvInteger", "MatMulInteger")


@dataclass(eq=False)
class Found:
    """Layers found so far, and the nodes that they stand for.

    Args:
        file: the file.
        rounding: ``floor`` or ``half-up``, for forms that do not say it themselves.
        values: float tensors whose int8 form is known, by name.
        padded: int8 tensors that are another one with zeros around it, by name.
        tensors: int8 tensors of the layers.
        layers: in order.
        covered: names of nodes that layers stand for.
        reasons: per node that stays on the host, why.
    """

    file: File
    rounding: str
    values: dict[str, Value] = field(default_factory=dict)
    padded: dict[str, Value] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    covered: set[str] = field(default_factory=set)
    reasons: dict[str, str] = field(default_factory=dict)

    def tensor(self, name: str, exponent: int | None, zero: int) -> Tensor:
        """Notes an int8 tensor of the file."""
        known = self.tensors.get(name)
        if known is None or known.exponent is None:
            known = Tensor(name, self.file.shapes[name], self.file.dtypes[name], exponent, zero)
            self.tensors[name] = known
        return known

    def plain(self, name: str, zero: int = 0) -> Tensor:
        """An int8 tensor of the file, whatever its scale is; of one that nothing is known of yet, the zero point."""
        return self.tensors.get(name) or self.tensor(name, None, zero)

    def rank_fault(self, name: str) -> str | None:
        """Why an int8 tensor is none that layers take element by element, or None."""
        return None if len(self.tensors[name].shape) in (2, 4) else "only images and matrices are on the machine"

    def view(self, value: Value, shape: tuple[int, ...], name: str, node: Node) -> Value:
        """A value under another shape."""
        source = self.tensors[value.tensor]
        self._same_size(node.name, source.shape, shape)
        out = self.new(f"{name}:view", replace(source, shape=shape))
        self.layers.append(Layer(node.name, "view", (value.tensor,), out, nodes=(node.name,)))
        return Value(out, value.exponent, value.zero)

    def new(self, name: str, tensor: Tensor) -> str:
        """Notes a tensor that the file has not, under a name as it is wanted where that is free."""
        while name in self.file.shapes or name in self.tensors:
            name += "'"  # a name that the file has itself
        self.tensors[name] = replace(tensor, name=name)
        return name

    def add(self, layer: Layer) -> None:
        """Notes a layer; proves that it cannot overflow.

        Raises:
            ProgramError: its accumulator can leave int32, or its shapes contradict each other.
        """
        self._fits(layer)
        prove(layer)
        self.layers.append(layer)
        self.covered.update(layer.nodes)

    def _same_size(self, name: str, shape: tuple[int, ...], out: tuple[int, ...]) -> None:
        if prod(shape) != prod(out):
            raise ProgramError(f"node {name!r}: {list(shape)} cannot become {list(out)}; export the model again")

    def _same_channels(self, layer: Layer) -> None:
        given, out = [self.tensors[t].shape for t in layer.inputs], self.tensors[layer.output].shape
        if not has_channels(layer, given, out):
            sizes = ", ".join(str(list(shape)) for shape in given)
            raise ProgramError(f"node {layer.name!r}: {sizes} cannot become {list(out)}; export the model again")

    def _fits(self, layer: Layer) -> None:
        """Shapes of the file may contradict each other without any checker's notice."""
        if layer.kind == "view":
            self._same_size(layer.name, *(self.tensors[t].shape for t in (layer.inputs[0], layer.output)))
        if layer.kind in MOVES:
            self._same_channels(layer)
        if layer.weight is None:
            return
        shape, out = self.tensors[layer.inputs[0]].shape, self.tensors[layer.output].shape
        want: tuple[int, ...] = (shape[0], len(layer.weight))
        channels = layer.weight.shape[1] * layer.group
        top, left, bottom, right = layer.pads
        if layer.kind == "conv":
            want += tuple(
                (e + p - k) // s + 1
                for e, p, k, s in zip(shape[2:], (top + bottom, left + right), layer.span, layer.stride)
            )
        elif layer.kind == "deconv":
            # What output_padding adds is the file's own word; it is less than a stride.
            want += tuple(
                o if 0 <= o - ((e - 1) * s + k - p) < s else (e - 1) * s + k - p
                for e, p, k, s, o in zip(shape[2:], (top + bottom, left + right), layer.kernel, layer.stride, out[2:])
            )
        if shape[1] != channels or len(layer.weight) % layer.group or out != want or min(layer.pads) < 0:
            raise ProgramError(
                f"node {layer.name!r}: shapes do not fit: {list(shape)} with weight {list(layer.weight.shape)} gives "
                f"{list(want)}, the file says {list(out)}; export the model again"
            )


def requant(
    node: Node, sums: int, bias: Array, weight_sums: Ints, zero_in: int, zero_out: int, shift: Ints, rounding: str,
    low: int, high: int, slope: tuple[int, int] = (1, 0),
) -> Requant:
    """The tail of a layer whose sums have a finer scale than its result by ``shift`` bits.

    Args:
        node: for refusals.
        sums: channels.
        bias: int64, one or one per channel, at the scale of the sums.
        weight_sums: int64[channels], sum of the weights: what a zero point of the input adds; or one for each place of a channel.
        zero_in: zero point of the input.
        zero_out: zero point of the output.
        shift: int64[1] or int64[channels].
        rounding: ``floor`` or ``half-up``.
        low: least value of the result.
        high: greatest value of the result.
        slope: of what is below zero, a number and how many bits it is shifted right; with one, the shift is one for all channels
            and the zero point of the output 0.

    Raises:
        ProgramError: the result's scale is finer than that of the sums, or coarser by more than 31 bits.
    """
    if int(shift.min()) < 0 or int(shift.max()) > 31:
        bad = int(shift.min()) if int(shift.min()) < 0 else int(shift.max())
        raise node.refuse(
            f"its result needs a right shift by {bad}", "the machine shifts by 0 to 31: choose a coarser or finer output scale"
        )
    whole = np.broadcast_to(shift, (sums,)).astype(np.int64)
    added = np.broadcast_to(np.asarray(bias, dtype=np.int64), (sums,)) + (np.int64(zero_out) << whole)
    if rounding == "half-up":
        added = added + np.where(whole > 0, np.int64(1) << np.maximum(whole - 1, 0), 0)
    total = added.reshape(-1, *[1] * (weight_sums.ndim - 1)) - zero_in * weight_sums
    same = bool((whole == whole[0]).all())
    leak = None
    if slope != (1, 0):
        assert same and not zero_out
        times, more = slope
        own, below = ((1 << n) >> 1 if rounding == "half-up" else 0 for n in (int(whole[0]), int(whole[0]) + more))
        leak = Leak(times, more, below - times * own)
    return Requant(total.astype(np.int64), whole[:1].copy() if same else whole, low, high, leak)
