"""A sum of squared differences of two tensors."""

from autosched import te

VERDICT = "accepted"


def main():
    x, y = te.placeholder((8, 24), "int8", name="x"), te.placeholder((8, 24), "int8", name="y")
    i, j = te.reduce_axis((0, 8), name="i"), te.reduce_axis((0, 24), name="j")

    def apart():
        return x[i, j].astype("int32") - y[i, j].astype("int32")

    out = te.compute((1,), lambda n: te.sum(apart() * apart(), axis=[i, j]), name="out")
    return te.create_prim_func([x, y, out])
