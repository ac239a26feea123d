"""An average that leaves padding out: the sum of a window times a factor that depends on the place."""

from autosched import te

VERDICT = "accepted"


def main():
    x, m = te.placeholder((1, 16, 12, 12), "int8", name="x"), te.placeholder((12, 12), "int8", name="m")
    p = te.compute((1, 16, 14, 14), lambda n, c, y, v: te.if_then_else(
        te.all(y >= 1, y < 13, v >= 1, v < 13), x[n, c, y - 1, v - 1], te.const(0, "int8")), name="p")
    ky, kx = te.reduce_axis((0, 3), name="ky"), te.reduce_axis((0, 3), name="kx")
    s = te.compute((1, 16, 12, 12), lambda n, c, y, v: te.sum(p[n, c, y + ky, v + kx].astype("int32"), axis=[ky, kx]), name="s")
    o = te.compute((1, 16, 12, 12), lambda n, c, y, v: (
        (s[n, c, y, v] * m[y, v].astype("int32")) >> 9).astype("int8"), name="o")
    return te.create_prim_func([x, m, o])
