"""Networks that a test writes node by node, and what onnxruntime makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.networks import load, reference

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
X = (1, 3, 6, 6)
RNG = np.random.default_rng(7)
START = RNG.bit_generator.state
SMALL = np.random.default_rng(7).integers(-20, 20, (8, 3, 3, 3)).astype(np.int8)


class Net:
    """A network as it is written, node by node."""

    def __init__(self, opset: int = 17) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.opset = opset

    def fixed(self, value: Array | float) -> str:
        """A constant's name."""
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def op(self, name: str, *inputs: str, domain: str = "", **attrs: Any) -> str:
        """An operator; the name of its result."""
        from onnx import helper

        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(name, list(inputs), [out], domain=domain, **attrs))
        return out

    def quantized(self, x: str, exponent: int, kind: type[np.generic] = np.int8) -> str:
        """Through a quantizer and its inverse."""
        pair = (self.fixed(np.float32(2.0**-exponent)), self.fixed(kind(0)))  # type: ignore[call-arg]
        return self.op("DequantizeLinear", self.op("QuantizeLinear", x, *pair), *pair)

    def weight(self, value: Array, exponent: int) -> str:
        """A constant behind its DequantizeLinear."""
        return self.op("DequantizeLinear", self.fixed(value), self.fixed(np.float32(2.0**-exponent)))

    def save(self, path: Path, inputs: dict[str, tuple[Any, Shape]], outputs: Sequence[str], kind: Any = np.float32) -> Path:
        """The file."""
        import onnx
        from onnx import helper, numpy_helper

        def info(name: str, dtype: Any, shape: Shape | None) -> Any:
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

        graph = helper.make_graph(
            self.nodes, "net", [info(n, d, s) for n, (d, s) in inputs.items()], [info(o, kind, None) for o in outputs],
            initializer=[numpy_helper.from_array(v, k) for k, v in self.constants.items()])
        sets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=sets, ir_version=8)
        inferred = {o.name: o for o in onnx.shape_inference.infer_shapes(model).graph.output}
        for out in model.graph.output:
            out.type.CopyFrom(inferred[out.name].type)
            if not out.type.tensor_type.HasField("shape"):
                out.type.tensor_type.shape.SetInParent()
        onnx.save(model, path)
        return path


def expected(path: Path, *arrays: Array) -> list[Array]:
    """What onnxruntime makes of the file as it stands."""
    session = reference.session(path.read_bytes())
    made: list[Array] = session.run(None, dict(zip([i.name for i in session.get_inputs()], arrays)))
    return made


def images(shape: Shape = X) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def f32(n: Net, value: float) -> str:
    return n.fixed(np.float32(value))


def clip(n: Net, x: str, low: float | None, high: float | None) -> str:
    return n.op("Clip", x, *("" if end is None else f32(n, end) for end in (low, high)))


def beside(n: Net) -> str:
    """A layer whatever else there is."""
    return n.quantized(n.op("Conv", n.quantized("i", 4), n.weight(SMALL, 6)), 3)


def check(path: Path, *arrays: Array, layers: int = 1, exact: bool = True) -> Any:
    """The network of a file, which gives onnxruntime's bytes on the integer form, and the file's own where these are exact."""
    network = load(path)
    assert len([x for x in network.graph.layers if x.kind != "view"]) == layers, [
        (node.op, node.reason) for part in network.graph.host_parts for node in part.nodes]
    made = network.compile()(*arrays)
    if exact:
        np.testing.assert_array_equal(made, expected(path, *arrays)[0])
    return network
