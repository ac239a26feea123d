"""Trains a small residual network on scikit-learn's digits and writes it as float ONNX, with images to calibrate and to test.

    python examples/digits_network.py [FOLDER]

Needs scikit-learn, jax and onnx: they are dependencies of this script alone. Same seed, same network on the same machine; the
written files are kept in ``examples/``. Then:

    autosched quantize examples/digits.onnx --calibrate examples/digits_calibration.npz -o digits_q.onnx
    autosched run digits_q.onnx --input examples/digits_test.npz
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save
from sklearn.datasets import load_digits

HELD_OUT, CALIBRATION, EPOCHS, BATCH = 400, 200, 60, 64
# name: (output channels, input channels, kernel)
CONVS = {
    "stem": (16, 1, 3), "a1": (16, 16, 3), "a2": (16, 16, 3), "b1": (32, 16, 3), "b2": (32, 32, 3), "short": (32, 16, 1),
}


def conv(p, name, x, stride=1):
    w = p[name + ".w"]
    pad = w.shape[2] // 2
    y = jax.lax.conv_general_dilated(x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW"))
    return y + p[name + ".b"][:, None, None]


def forward(p, x):
    x = jax.nn.relu(conv(p, "stem", x))
    x = jax.nn.relu(conv(p, "a2", jax.nn.relu(conv(p, "a1", x))) + x)
    x = jax.nn.relu(conv(p, "b2", jax.nn.relu(conv(p, "b1", x, 2))) + conv(p, "short", x, 2))
    return x.mean((2, 3)) @ p["fc.w"].T + p["fc.b"]


def train(x, y, rng):
    p = {}
    for name, (co, ci, k) in CONVS.items():
        p[name + ".w"] = jnp.asarray(rng.normal(0, np.sqrt(2 / (ci * k * k)), (co, ci, k, k)), jnp.float32)
        p[name + ".b"] = jnp.zeros(co, jnp.float32)
    p["fc.w"] = jnp.asarray(rng.normal(0, np.sqrt(1 / 32), (10, 32)), jnp.float32)
    p["fc.b"] = jnp.zeros(10, jnp.float32)

    def loss(p, x, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(forward(p, x)), y[:, None], 1).mean() + 1e-4 * sum(
            (v**2).sum() for k, v in p.items() if k.endswith("w")
        )

    @jax.jit
    def step(p, m, v, t, rate, x, y):
        g = jax.grad(loss)(p, x, y)
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        p = jax.tree.map(lambda w, a, b: w - rate * (a / (1 - 0.9**t)) / (jnp.sqrt(b / (1 - 0.999**t)) + 1e-8), p, m, v)
        return p, m, v

    m, v = (jax.tree.map(jnp.zeros_like, p) for _ in range(2))
    t = 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(x))
        for k in range(0, len(x) - BATCH + 1, BATCH):
            t += 1
            part = x[order[k : k + BATCH]]
            shift = rng.integers(-1, 2, 2)
            part = np.roll(part, shift, (2, 3))
            p, m, v = step(p, m, v, t, 2e-3 * (1 - epoch / EPOCHS), part, y[order[k : k + BATCH]])
    return {k: np.asarray(w) for k, w in p.items()}


def as_onnx(p):
    def node(op, inputs, output, **attrs):
        return helper.make_node(op, inputs, [output], name=output, **attrs)

    def convolve(name, x, stride=1):
        k = CONVS[name][2]
        return node("Conv", [x, name + ".w", name + ".b"], name, kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4)

    nodes = [
        convolve("stem", "image"), node("Relu", ["stem"], "stem.relu"),
        convolve("a1", "stem.relu"), node("Relu", ["a1"], "a1.relu"), convolve("a2", "a1.relu"),
        node("Add", ["a2", "stem.relu"], "a.sum"), node("Relu", ["a.sum"], "a.relu"),
        convolve("b1", "a.relu", 2), node("Relu", ["b1"], "b1.relu"), convolve("b2", "b1.relu"), convolve("short", "a.relu", 2),
        node("Add", ["b2", "short"], "b.sum"), node("Relu", ["b.sum"], "b.relu"),
        node("GlobalAveragePool", ["b.relu"], "mean"), node("Flatten", ["mean"], "flat"),
        node("Gemm", ["flat", "fc.w", "fc.b"], "logits", transB=1),
    ]
    graph = helper.make_graph(
        nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(v, k) for k, v in p.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    return model


def main(folder):
    digits = load_digits()
    x = (digits.images[:, None] / 16).astype(np.float32)
    y = digits.target.astype(np.int64)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(x))
    test, rest = order[:HELD_OUT], order[HELD_OUT:]
    p = train(x[rest], y[rest], rng)
    right = (np.asarray(forward(p, x[test])).argmax(1) == y[test]).mean()
    print(f"accuracy on {HELD_OUT} held-out digits: {right:.4f}")
    save(as_onnx(p), folder / "digits.onnx")
    np.savez_compressed(folder / "digits_calibration.npz", image=x[rest[:CALIBRATION]])
    np.savez_compressed(folder / "digits_test.npz", image=x[test], labels=y[test])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "examples"))
