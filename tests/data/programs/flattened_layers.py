"""LeNet's end: the largest of windows, flattened by a block of its own, and two layers of a perceptron behind it."""

from autosched import te
from autosched.script import T

VERDICT = "accepted"


def layer(x, w, name):
    k = te.reduce_axis((0, int(w.shape[1].value)), "k")
    total = te.compute((x.shape[0], w.shape[0]), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k),
                       name=f"{name}_sum")
    return te.compute(total.shape, lambda i, j: T.max(T.min(total[i, j] >> 6, 127), 0).astype("int8"), name=name)


def main():
    x, w = te.placeholder((6, 6, 8), "int8", "x"), te.placeholder((12, 6, 3, 3), "int8", "w")
    v, u = te.placeholder((20, 72), "int8", "v"), te.placeholder((10, 20), "int8", "u")
    c, i, j = te.reduce_axis((0, 6), "c"), te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j")
    total = te.compute((12, 4, 6), lambda o, y, z: te.sum(
        x[c, y + i, z + j].astype("int32") * w[o, c, i, j].astype("int32"), axis=[c, i, j]), name="total")
    made = te.compute(total.shape, lambda *at: T.max(T.min(total[at] >> 6, 127), 0).astype("int8"), name="made")
    p, q = te.reduce_axis((0, 2), "p"), te.reduce_axis((0, 2), "q")
    pooled = te.compute((12, 2, 3), lambda k, y, z: te.max(made[k, y * 2 + p, z * 2 + q], axis=[p, q]), name="pooled")
    flat = te.compute((1, 72), lambda n, k: pooled[k // 6, k // 3 % 2, k % 3], name="flat")
    return te.create_prim_func([x, w, v, u, layer(layer(flat, v, "hidden"), u, "out")])
