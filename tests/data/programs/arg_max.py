"""Where the largest element of each row is: a value and its place in one number, of which the largest is taken."""

from autosched import te

VERDICT = "accepted"


def main():
    x, k = te.placeholder((16, 33), "int8", name="x"), te.reduce_axis((0, 33), name="k")
    return te.create_prim_func([x, te.compute((16,), lambda i: te.max((x[i, k].astype("int32") << 6) + k, axis=k), name="out")])
