"""A gate of a recurrent layer: two products and a bias, in te; odd extents."""

from autosched import te
from autosched.script import T

VERDICT = "accepted"


def main():
    x, h = te.placeholder((5, 40), "int8", "x"), te.placeholder((5, 24), "int8", "h")
    W, U, b = te.placeholder((24, 40), "int8", "W"), te.placeholder((24, 24), "int8", "U"), te.placeholder((24,), "int32", "b")
    k, l = te.reduce_axis((0, 40), "k"), te.reduce_axis((0, 24), "l")
    fed = te.compute((5, 24), lambda i, j: te.sum(x[i, k].astype("int32") * W[j, k].astype("int32"), axis=k), name="fed")
    back = te.compute((5, 24), lambda i, j: te.sum(h[i, l].astype("int32") * U[j, l].astype("int32"), axis=l), name="back")
    gate = te.compute((5, 24), lambda i, j: T.max(T.min((fed[i, j] + back[i, j] + b[j]) >> 7, 127), -128).astype("int8"), name="gate")
    return te.create_prim_func([x, h, W, U, b, gate])
