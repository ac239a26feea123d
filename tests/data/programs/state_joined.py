"""A recurrent step: what a layer makes of the input beside the state, which is given, for the next layer."""

from autosched import te
from autosched.script import T

VERDICT = "accepted"


def layer(x, w, name):
    k = te.reduce_axis((0, int(w.shape[1].value)), "k")
    total = te.compute((x.shape[0], w.shape[0]), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k),
                       name=f"{name}_sum")
    return te.compute(total.shape, lambda i, j: T.max(T.min(total[i, j] >> 6, 127), -128).astype("int8"), name=name)


def main():
    x, state = te.placeholder((2, 40), "int8", "x"), te.placeholder((2, 13), "int8", "state")
    w, v = te.placeholder((20, 40), "int8", "w"), te.placeholder((13, 33), "int8", "v")
    seen = layer(x, w, "seen")
    both = te.compute((2, 33), lambda i, j: T.if_then_else(j < 20, seen[i, j], state[i, j - 20]), name="both")
    return te.create_prim_func([x, state, w, v, layer(both, v, "out")])
