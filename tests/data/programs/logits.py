"""Classes as int32, as the last layer of a network gives them: flattened features times weights, and a bias."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift=7):
    return te.min(te.max(s >> shift, -128), 127).astype("int8")


def main():
    x = te.placeholder((1, 16, 6, 6), "int8", name="x")
    w = te.placeholder((16, 16, 3, 3), "int8", name="w")
    wf = te.placeholder((10, 256), "int8", name="wf")
    b = te.placeholder((10,), "int32", name="b")
    c, ky, kx = te.reduce_axis((0, 16), name="c"), te.reduce_axis((0, 3), name="ky"), te.reduce_axis((0, 3), name="kx")
    s = te.compute((1, 16, 4, 4), lambda n, o, y, v: te.sum(
        x[n, c, y + ky, v + kx].astype("int32") * w[o, c, ky, kx].astype("int32"), axis=[c, ky, kx]), name="s")
    r = te.compute((1, 16, 4, 4), lambda n, o, y, v: te.max(narrowed(s[n, o, y, v]), te.const(0, "int8")), name="r")
    flat = te.compute((1, 256), lambda n, i: r[n, i // 16, i // 4 % 4, i % 4], name="flat")
    k = te.reduce_axis((0, 256), name="k")
    f = te.compute((1, 10), lambda n, o: te.sum(flat[n, k].astype("int32") * wf[o, k].astype("int32"), axis=k), name="f")
    out = te.compute((1, 10), lambda n, o: f[n, o] + b[o], name="out")
    return te.create_prim_func([x, w, wf, b, out])
