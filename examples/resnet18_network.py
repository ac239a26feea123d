"""Writes ResNet-18 for 224 x 224 images by its published graph, with seeded weights, and images to calibrate it.

    python examples/resnet18_network.py [FOLDER]
    autosched quantize FOLDER/resnet18.onnx --calibrate FOLDER/resnet18_images.npz -o FOLDER/resnet18_q.onnx
    autosched tune FOLDER/resnet18_q.onnx
    autosched run FOLDER/resnet18_q.onnx --input FOLDER/resnet18_images.npz --check

Needs onnx alone. Same seed, same files. Graph after K. He et al., "Deep Residual Learning for Image Recognition" (2015): a 7x7
stem, a pool by maxima, eight blocks of two 3x3 convolutions with batch normalization, a global mean, a dense layer, softmax.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

STAGES = (64, 128, 256, 512)
SIZE, CLASSES, IMAGES = 224, 1000, 4


class Graph:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants = [], []

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def node(self, op, inputs, name, **attrs):
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attrs))
        return name

    def conv(self, x, name, co, ci, k, stride=1):
        weight = self.constant(name + ".weight", self.rng.normal(0, np.sqrt(2 / (ci * k * k)), (co, ci, k, k)))
        y = self.node("Conv", [x, weight], name, kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4)
        # Trained networks have batch statistics that bring each layer back to unit scale; a sum of two doubles the variance.
        scale, shift = self.rng.uniform(0.6, 0.9, co), self.rng.normal(0, 0.1, co)
        norm = [scale, shift, self.rng.normal(0, 0.05, co), self.rng.uniform(0.8, 1.2, co)]
        names = [self.constant(f"{name}.{s}", v) for s, v in zip(("gamma", "beta", "mean", "variance"), norm)]
        return self.node("BatchNormalization", [y, *names], name + ".norm")

    def relu(self, x):
        return self.node("Relu", [x], x + ".relu")

    def block(self, x, name, ci, co, stride):
        y = self.relu(self.conv(x, name + ".a", co, ci, 3, stride))
        y = self.conv(y, name + ".b", co, co, 3)
        short = x if ci == co and stride == 1 else self.conv(x, name + ".short", co, ci, 1, stride)
        return self.relu(self.node("Add", [y, short], name + ".sum"))


def resnet18(seed=0):
    g = Graph(seed)
    x = g.relu(g.conv("image", "stem", 64, 3, 7, 2))
    x = g.node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    ci = 64
    for s, co in enumerate(STAGES):
        for b in range(2):
            x = g.block(x, f"s{s}.{b}", ci, co, 2 if s and not b else 1)
            ci = co
    x = g.node("Flatten", [g.node("GlobalAveragePool", [x], "mean")], "flat")
    weight = g.constant("dense.weight", g.rng.normal(0, np.sqrt(1 / ci), (CLASSES, ci)))
    bias = g.constant("dense.bias", np.zeros(CLASSES))
    x = g.node("Gemm", [x, weight, bias], "logits", transB=1)
    g.node("Softmax", [x], "classes", axis=1)
    graph = helper.make_graph(
        g.nodes, "resnet18", [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("classes", TensorProto.FLOAT, [1, CLASSES])], g.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    return model


def images(seed=1):
    """Smooth random images, as natural ones are, of unit variance."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(0, 1, (IMAGES, 3, SIZE // 8, SIZE // 8))
    x = np.repeat(np.repeat(coarse, 8, axis=2), 8, axis=3) + 0.3 * rng.normal(0, 1, (IMAGES, 3, SIZE, SIZE))
    return (x / x.std()).astype(np.float32)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    save(resnet18(), folder / "resnet18.onnx")
    np.savez_compressed(folder / "resnet18_images.npz", image=images())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
