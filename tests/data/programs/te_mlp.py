"""Two layers of a perceptron in te, with biases and a relu between them; odd extents."""

from autosched import te
from autosched.script import T

VERDICT = "accepted"


def layer(x, weight, bias, name, relu):
    rows, columns, depth = 7, weight.shape[0], weight.shape[1]
    k = te.reduce_axis((0, depth), name=f"{name}_k")
    total = te.compute(
        (rows, columns), lambda i, j: te.sum(x[i, k].astype("int32") * weight[j, k].astype("int32"), axis=k), name=f"{name}_sum"
    )
    biased = te.compute((rows, columns), lambda i, j: total[i, j] + bias[j], name=f"{name}_bias")
    low = 0 if relu else -128
    return te.compute((rows, columns), lambda i, j: T.min(T.max(biased[i, j] >> 7, low), 127).astype("int8"), name=name)


def main():
    x = te.placeholder((7, 50), "int8", "x")
    w1, b1 = te.placeholder((33, 50), "int8", "w1"), te.placeholder((33,), "int32", "b1")
    w2, b2 = te.placeholder((10, 33), "int8", "w2"), te.placeholder((10,), "int32", "b2")
    hidden = layer(x, w1, b1, "hidden", True)
    return te.create_prim_func([x, w1, b1, w2, b2, layer(hidden, w2, b2, "logits", False)])
